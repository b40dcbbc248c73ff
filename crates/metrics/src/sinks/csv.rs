//! A file for each metric: a head, then a line for each moment.

use std::fs::{self, OpenOptions};
use std::io::{self, Write};
use std::path::Path;

use crate::{Distribution, MILLISECOND, Metrics, Value, figures};

/// A name as the name of a file: no part of it leads elsewhere.
fn file_name(name: &str) -> String {
    let safe = |letter: char| match letter {
        '/' | '\\' | '\0' => '_',
        other => other,
    };
    let name: String = name.chars().map(safe).take(200).collect();
    format!("{}.csv", name.trim_start_matches('.'))
}

/// The heads of files of histograms and timers.
const HISTOGRAM: &str = "t,count,max,mean,min,stddev,p50,p75,p95,p98,p99,p999";
const TIMER: &str = "t,count,max,mean,min,stddev,p50,p75,p95,p98,p99,p999,mean_rate,m1_rate,m5_rate,m15_rate,rate_unit,duration_unit";

fn distribution(of: &Distribution, unit: f64) -> String {
    let figures = figures(of, unit).map(|(_, value)| format!("{value:.6}"));
    format!("{},{}", of.count, figures.join(","))
}

pub(super) fn report(directory: &Path, at: u64, metrics: &Metrics) -> io::Result<()> {
    fs::create_dir_all(directory)?;
    for metric in metrics.iter() {
        let path = directory.join(file_name(&metric.name));
        let mut file = OpenOptions::new().append(true).create(true).open(path)?;
        let (head, value) = match &metric.value {
            Value::Gauge(value) => ("t,value", value.to_string()),
            Value::Counter(value) => ("t,count", value.to_string()),
            Value::Text(text) => ("t,value", format!("\"{}\"", text.replace('"', "\"\""))),
            Value::Histogram(told) => (HISTOGRAM, distribution(told, 1.0)),
            Value::Timer(told) => {
                let [one, five, fifteen] = told.rates.minutes;
                let mean = told.rates.mean;
                let times = distribution(&told.nanoseconds, MILLISECOND);
                let rates = format!("{mean:.6},{one:.6},{five:.6},{fifteen:.6}");
                (TIMER, format!("{times},{rates},calls/second,milliseconds"))
            }
        };
        let head = if file.metadata()?.len() == 0 { format!("{head}\n") } else { String::new() };
        file.write_all(format!("{head}{at},{value}\n").as_bytes())?;
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;
    use crate::Timer;

    #[test]
    fn every_metric_has_a_file_that_grows_line_by_line() {
        let directory = tempfile::tempdir().unwrap();
        let place = directory.path().join("metrics");
        let mut metrics = Metrics::new("app");
        metrics.gauge("a/../b", 1u64);
        metrics.counter("c", 2u64);
        (10..12).for_each(|at| report(&place, at, &metrics).unwrap());
        let read = |name: &str| fs::read_to_string(place.join(name)).unwrap();
        assert_eq!(read("app.a_.._b.csv"), "t,value\n10,1\n11,1\n");
        assert_eq!(read("app.c.csv"), "t,count\n10,2\n11,2\n");
        assert_eq!(fs::read_dir(directory.path()).unwrap().count(), 1);
        let mut measured = Metrics::new("app");
        let timer = Timer::default();
        timer.update(Duration::from_micros(1500), 1);
        measured.timer("t", timer.snapshot());
        measured.histogram("h", timer.snapshot().nanoseconds);
        report(&place, 7, &measured).unwrap();
        for (name, head, line) in [
            ("app.t.csv", TIMER, "7,1,1.500000,1.500000,1.500000,0.000000,1.500000,"),
            ("app.h.csv", HISTOGRAM, "7,1,1500000.000000,1500000.000000,"),
        ] {
            let text = read(name);
            let (first, second) = text.split_once('\n').unwrap();
            assert!(first == head && second.starts_with(line), "{text}");
            assert_eq!(first.split(',').count(), second.split(',').count(), "{text}");
        }
    }
}
