//! Where metrics go. Every wait for another machine has an end.

mod csv;
mod lines;

use std::io::{self, Write};

use crate::properties::SinkKind;
use crate::{Distribution, MILLISECOND, Metric, Metrics, Rates, Sorted, Value};

/// A place that takes metrics.
#[derive(Debug)]
pub(crate) struct Sink(SinkKind);

impl Sink {
    pub(crate) fn new(kind: SinkKind) -> Self {
        Sink(kind)
    }

    /// Tells all metrics as they were at a moment, in seconds since 1970.
    pub(crate) fn report(&mut self, at: u64, metrics: &Metrics) -> io::Result<()> {
        match &self.0 {
            SinkKind::Csv { directory } => csv::report(directory, at, metrics),
            SinkKind::Console => console(at, metrics, &mut io::stdout().lock()),
            SinkKind::Graphite { host, port, prefix, udp } => {
                lines::graphite((host, *port), prefix, *udp, at, metrics)
            }
            SinkKind::Statsd { host, port, prefix } => {
                lines::statsd((host, *port), prefix, metrics)
            }
        }
    }
}

/// As a `ConsoleReporter` prints them.
fn console(at: u64, metrics: &Metrics, out: &mut dyn Write) -> io::Result<()> {
    let Sorted { gauges, counters, histograms, timers } = metrics.sorted();
    writeln!(out, "{at} {}", "=".repeat(69))?;
    let mut section = |title: &str, list: Vec<&Metric>| -> io::Result<()> {
        if list.is_empty() {
            return Ok(());
        }
        writeln!(out, "\n-- {title} {}", "-".repeat(76 - title.len()))?;
        for metric in list {
            match &metric.value {
                Value::Gauge(value) => {
                    writeln!(out, "{}\n             value = {value}", metric.name)?
                }
                Value::Text(value) => {
                    writeln!(out, "{}\n             value = {value}", metric.name)?
                }
                Value::Counter(value) => {
                    writeln!(out, "{}\n             count = {value}", metric.name)?
                }
                Value::Histogram(told) => {
                    writeln!(out, "{}\n             count = {}", metric.name, told.count)?;
                    distribution(out, told, 1.0, "")?;
                }
                Value::Timer(told) => {
                    let of = &told.nanoseconds;
                    writeln!(out, "{}\n             count = {}", metric.name, of.count)?;
                    rates(out, &told.rates)?;
                    distribution(out, of, MILLISECOND, " milliseconds")?;
                }
            }
        }
        Ok(())
    };
    section("Gauges", gauges)?;
    section("Counters", counters)?;
    section("Histograms", histograms)?;
    section("Timers", timers)?;
    writeln!(out, "\n")?;
    out.flush()
}

fn rates(out: &mut dyn Write, rates: &Rates) -> io::Result<()> {
    let [one, five, fifteen] = rates.minutes;
    writeln!(out, "         mean rate = {:.2} calls/second", rates.mean)?;
    writeln!(out, "     1-minute rate = {one:.2} calls/second")?;
    writeln!(out, "     5-minute rate = {five:.2} calls/second")?;
    writeln!(out, "    15-minute rate = {fifteen:.2} calls/second")
}

fn distribution(out: &mut dyn Write, of: &Distribution, unit: f64, word: &str) -> io::Result<()> {
    let ends = [("min", of.min as f64), ("max", of.max as f64), ("mean", of.mean)];
    for (name, value) in
        ends.into_iter().chain([("stddev", of.stddev), ("median", of.quantiles[0])])
    {
        writeln!(out, "{name:>18} = {:.2}{word}", value / unit)?;
    }
    for (name, value) in ["75%", "95%", "98%", "99%", "99.9%"].iter().zip(&of.quantiles[1..]) {
        writeln!(out, "{name:>18} <= {:.2}{word}", value / unit)?;
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;
    use crate::Timer;

    #[test]
    fn the_console_tells_timers_and_histograms() {
        let timer = Timer::default();
        timer.update(Duration::from_micros(1500), 2);
        let mut metrics = Metrics::new("");
        metrics.timer("t", timer.snapshot());
        metrics.histogram("h", timer.snapshot().nanoseconds);
        let mut out = Vec::new();
        console(1, &metrics, &mut out).unwrap();
        let text = String::from_utf8(out).unwrap();
        let (histograms, timers) = text.split_once("-- Timers").unwrap();
        assert!(histograms.contains("h\n             count = 2\n"), "{text}");
        assert!(histograms.contains("            median = 1500000.00\n"), "{text}");
        assert!(timers.contains("     1-minute rate = 0.00 calls/second\n"), "{text}");
        assert!(timers.contains("             99.9% <= 1.50 milliseconds\n"), "{text}");
    }

    #[test]
    fn the_console_has_gauges_and_counters_apart() {
        let mut metrics = Metrics::new("");
        metrics.counter("jobs", 3u64);
        metrics.gauge("memory", 7u64);
        let mut out = Vec::new();
        console(1, &metrics, &mut out).unwrap();
        let text = String::from_utf8(out).unwrap();
        let (gauges, counters) =
            (text.find("-- Gauges").unwrap(), text.find("-- Counters").unwrap());
        assert!(
            gauges < text.find("value = 7").unwrap() && text.find("value = 7").unwrap() < counters
        );
        assert!(text.contains("jobs\n             count = 3"), "{text}");
    }
}
