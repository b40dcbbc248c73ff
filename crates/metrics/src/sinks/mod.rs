//! Where metrics go. Every wait for another machine has an end.

mod csv;
mod lines;

use std::io::{self, Write};

use crate::properties::SinkKind;
use crate::{Metric, Metrics, Value};

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
    let (gauges, counters) = metrics.sorted();
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
            }
        }
        Ok(())
    };
    section("Gauges", gauges)?;
    section("Counters", counters)?;
    writeln!(out, "\n")?;
    out.flush()
}

#[cfg(test)]
mod tests {
    use super::*;

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
