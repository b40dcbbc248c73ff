//! Metrics by Spark's names, and where they go.
//!
//! | file | owns |
//! |---|---|
//! | `text` | metrics as Prometheus and as Spark's JSON servlet has them |
//! | `process` | processor time, memory and file handles of this process |
//! | `properties` | `metrics.properties`: which sinks a process has |
//! | `sinks` | CSV files, the console, Graphite, StatsD |
//! | `reporter` | the thread that tells sinks how things stand, every so often |
//!
//! There is no registry: a [`Source`] tells numbers that somebody counts anyway, when they are asked for. A sink that does not
//! answer costs its own thread some time, and nobody else any.

mod process;
mod properties;
mod reporter;
mod sinks;
mod text;

use std::sync::Arc;

pub use process::process;
pub use properties::{MetricsError, SinkKind, SinkOptions};
pub use reporter::Reporter;
pub use text::{json, prometheus};

/// What a metric says now.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Value {
    /// A number that rises and falls.
    Gauge(u64),
    /// A word.
    Text(String),
    /// A number that only rises.
    Counter(u64),
}

/// A metric and what it says now.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Metric {
    /// Parts with dots between them, as Spark has it: `master.aliveWorkers`.
    pub name: String,
    pub value: Value,
}

/// All metrics of a process at one moment.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
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

    /// Adds a word.
    pub fn text(&mut self, name: &str, value: &str) {
        self.add(name, Value::Text(value.to_owned()));
    }

    /// Adds a number that only rises.
    pub fn counter(&mut self, name: &str, value: impl Into<u64>) {
        self.add(name, Value::Counter(value.into()));
    }

    /// In the order they were added.
    pub fn iter(&self) -> impl Iterator<Item = &Metric> {
        self.all.iter()
    }

    /// Gauges and texts, then counters, each by name.
    pub(crate) fn sorted(&self) -> (Vec<&Metric>, Vec<&Metric>) {
        let mut all: Vec<&Metric> = self.all.iter().collect();
        all.sort_by(|a, b| a.name.cmp(&b.name));
        all.into_iter().partition(|metric| !matches!(metric.value, Value::Counter(_)))
    }
}

/// Tells all metrics of a process as they are now.
pub type Source = Arc<dyn Fn() -> Metrics + Send + Sync>;
