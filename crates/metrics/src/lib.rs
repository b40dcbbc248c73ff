//! Metrics by Spark's names, and where they go.
//!
//! | file | owns |
//! |---|---|
//! | `text` | metrics as Prometheus and as Spark's JSON servlet has them |
//! | `timer`, `reservoir` | how long things take, how large they are, how often they happen |
//! | `process` | processor time, memory and file handles of this process |
//! | `properties` | `metrics.properties`: which sinks a process has |
//! | `sinks` | CSV files, the console, Graphite, StatsD |
//! | `reporter` | the thread that tells sinks how things stand, every so often |
//!
//! There is no registry: a [`Source`] tells numbers that somebody counts or measures anyway, when they are asked for. A sink that does not
//! answer costs its own thread some time, and nobody else any.

mod process;
mod properties;
mod reporter;
mod reservoir;
mod sinks;
mod text;
mod timer;

use std::sync::Arc;

pub use process::process;
pub use properties::{MetricsError, SinkKind, SinkOptions};
pub use reporter::Reporter;
pub use reservoir::Distribution;
pub use text::{json, prometheus};
pub use timer::{Histogram, Rates, Timer, TimerSnapshot};

/// What a metric says now.
#[derive(Clone, Debug, PartialEq)]
pub enum Value {
    /// A number that rises and falls.
    Gauge(u64),
    Text(String),
    /// A number that only rises.
    Counter(u64),
    /// How values are distributed.
    Histogram(Distribution),
    /// How long something takes, and how often it happens.
    Timer(TimerSnapshot),
}

/// A metric and what it says now.
#[derive(Clone, Debug, PartialEq)]
pub struct Metric {
    /// Parts with dots between them, as Spark has it: `master.aliveWorkers`.
    pub name: String,
    pub value: Value,
}

/// All metrics of a process at one moment.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Metrics {
    /// Before every name, with a dot.
    prefix: String,
    all: Vec<Metric>,
}

impl Metrics {
    /// Whose names begin with `prefix`, if that is not empty.
    pub fn new(prefix: &str) -> Self {
        Metrics { prefix: prefix.to_owned(), all: Vec::new() }
    }

    fn add(&mut self, name: &str, value: Value) {
        let name = match self.prefix.is_empty() {
            true => name.to_owned(),
            false => format!("{}.{name}", self.prefix),
        };
        self.all.push(Metric { name, value });
    }

    /// Adds a number that rises and falls.
    pub fn gauge(&mut self, name: &str, value: impl Into<u64>) {
        self.add(name, Value::Gauge(value.into()));
    }

    pub fn text(&mut self, name: &str, value: &str) {
        self.add(name, Value::Text(value.to_owned()));
    }

    /// Adds a number that only rises.
    pub fn counter(&mut self, name: &str, value: impl Into<u64>) {
        self.add(name, Value::Counter(value.into()));
    }

    /// Adds how values lie.
    pub fn histogram(&mut self, name: &str, value: Distribution) {
        self.add(name, Value::Histogram(value));
    }

    /// Adds how long something takes.
    pub fn timer(&mut self, name: &str, value: TimerSnapshot) {
        self.add(name, Value::Timer(value));
    }

    /// In the order they were added.
    pub fn iter(&self) -> impl Iterator<Item = &Metric> {
        self.all.iter()
    }

    /// By kind, each by name.
    pub(crate) fn sorted(&self) -> Sorted<'_> {
        let mut all: Vec<&Metric> = self.all.iter().collect();
        all.sort_by(|a, b| a.name.cmp(&b.name));
        let mut sorted = Sorted::default();
        for metric in all {
            match metric.value {
                Value::Gauge(_) | Value::Text(_) => sorted.gauges.push(metric),
                Value::Counter(_) => sorted.counters.push(metric),
                Value::Histogram(_) => sorted.histograms.push(metric),
                Value::Timer(_) => sorted.timers.push(metric),
            }
        }
        sorted
    }
}

/// Metrics by kind, in Spark's order.
#[derive(Default)]
pub(crate) struct Sorted<'a> {
    /// Has [`Value::Text`], too.
    pub(crate) gauges: Vec<&'a Metric>,
    pub(crate) counters: Vec<&'a Metric>,
    pub(crate) histograms: Vec<&'a Metric>,
    pub(crate) timers: Vec<&'a Metric>,
}

/// What sinks call the numbers of a distribution, in a unit: so many of what was measured.
pub(crate) fn figures(of: &Distribution, unit: f64) -> [(&'static str, f64); 10] {
    let [p50, p75, p95, p98, p99, p999] = of.quantiles;
    let all = [
        ("max", of.max as f64),
        ("mean", of.mean),
        ("min", of.min as f64),
        ("stddev", of.stddev),
        ("p50", p50),
        ("p75", p75),
        ("p95", p95),
        ("p98", p98),
        ("p99", p99),
        ("p999", p999),
    ];
    all.map(|(name, value)| (name, value / unit))
}

/// Nanoseconds in a millisecond, in which timers are told.
pub(crate) const MILLISECOND: f64 = 1e6;

/// Tells all metrics of a process as they are now.
pub type Source = Arc<dyn Fn() -> Metrics + Send + Sync>;
