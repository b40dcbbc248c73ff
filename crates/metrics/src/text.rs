//! Metrics as text: for Prometheus, with the names that Spark's `PrometheusServlet` gives them, and as Spark's `MetricsServlet`
//! has them in JSON.

use std::fmt::Write;

use crate::{Metric, Metrics, Value};

/// A name with what Prometheus does not allow replaced, as Spark replaces it.
fn key(name: &str) -> String {
    let safe = |letter: char| if letter.is_ascii_alphanumeric() { letter } else { '_' };
    format!("metrics_{}_", name.chars().map(safe).collect::<String>())
}

/// The text format of Prometheus. Words have no place in it.
pub fn prometheus(metrics: &Metrics) -> String {
    let (gauges, counters) = metrics.sorted();
    let mut out = String::new();
    for metric in gauges.into_iter().chain(counters) {
        let key = key(&metric.name);
        let written = match &metric.value {
            Value::Gauge(value) => write!(
                out,
                "{key}Number{{type=\"gauges\"}} {value}\n{key}Value{{type=\"gauges\"}} {value}\n"
            ),
            Value::Counter(value) => writeln!(out, "{key}Count{{type=\"counters\"}} {value}"),
            Value::Text(_) => Ok(()),
        };
        written.expect("a string grows");
    }
    out
}

fn object(metrics: &[&Metric], field: &str) -> String {
    let one = |metric: &&Metric| {
        let value = match &metric.value {
            Value::Gauge(number) | Value::Counter(number) => number.to_string(),
            Value::Text(text) => serde_json::Value::from(text.as_str()).to_string(),
        };
        let name = serde_json::Value::from(metric.name.as_str());
        format!("{name}:{{\"{field}\":{value}}}")
    };
    metrics.iter().map(one).collect::<Vec<_>>().join(",")
}

/// The JSON that Spark's servlet has at `/metrics/json`.
pub fn json(metrics: &Metrics) -> String {
    let (gauges, counters) = metrics.sorted();
    format!(
        "{{\"version\":\"4.0.0\",\"gauges\":{{{}}},\"counters\":{{{}}},\"histograms\":{{}},\"meters\":{{}},\"timers\":{{}}}}",
        object(&gauges, "value"),
        object(&counters, "count")
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    fn metrics() -> Metrics {
        let mut metrics = Metrics::new("app-1.driver");
        metrics.gauge("BlockManager.memory.maxMem_MB", 487u64);
        metrics.counter("appStatus.jobs.failedJobs", 2u64);
        metrics.text("status", "RUN\"NING");
        metrics
    }

    #[test]
    fn prometheus_gets_sparks_names_and_no_words() {
        let text = "metrics_app_1_driver_BlockManager_memory_maxMem_MB_Number{type=\"gauges\"} 487\n\
                    metrics_app_1_driver_BlockManager_memory_maxMem_MB_Value{type=\"gauges\"} 487\n\
                    metrics_app_1_driver_appStatus_jobs_failedJobs_Count{type=\"counters\"} 2\n";
        assert_eq!(prometheus(&metrics()), text);
    }

    #[test]
    fn json_is_that_of_sparks_servlet() {
        let text = json(&metrics());
        let read: serde_json::Value = serde_json::from_str(&text).unwrap();
        assert_eq!(read["version"], "4.0.0");
        assert_eq!(read["gauges"]["app-1.driver.BlockManager.memory.maxMem_MB"]["value"], 487);
        assert_eq!(read["gauges"]["app-1.driver.status"]["value"], "RUN\"NING");
        assert_eq!(read["counters"]["app-1.driver.appStatus.jobs.failedJobs"]["count"], 2);
        let names: Vec<_> = ["histograms", "meters", "timers"].map(|name| &read[name]).into();
        assert!(names.iter().all(|it| it.as_object().unwrap().is_empty()), "{text}");
    }
}
