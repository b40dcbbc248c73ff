//! A file for each metric: a head, then a line for each moment.

use std::fs::{self, OpenOptions};
use std::io::{self, Write};
use std::path::Path;

use crate::{Metrics, Value};

/// A name as the name of a file: no part of it leads elsewhere.
fn file_name(name: &str) -> String {
    let safe = |letter: char| match letter {
        '/' | '\\' | '\0' => '_',
        other => other,
    };
    let name: String = name.chars().map(safe).take(200).collect();
    format!("{}.csv", name.trim_start_matches('.'))
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
        };
        let head = if file.metadata()?.len() == 0 { format!("{head}\n") } else { String::new() };
        file.write_all(format!("{head}{at},{value}\n").as_bytes())?;
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

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
    }
}
