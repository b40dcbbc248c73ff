//! Metrics as text: for Prometheus, with the names that Spark's `PrometheusServlet` gives them, and as Spark's `MetricsServlet`
//! has them in JSON.

use std::fmt::Write;

use crate::{Distribution, MILLISECOND, Metric, Metrics, Sorted, Value};

/// A name with what Prometheus does not allow replaced, as Spark replaces it.
fn key(name: &str) -> String {
    let safe = |letter: char| if letter.is_ascii_alphanumeric() { letter } else { '_' };
    format!("metrics_{}_", name.chars().map(safe).collect::<String>())
}

/// The text format of Prometheus. Words have no place in it.
pub fn prometheus(metrics: &Metrics) -> String {
    let Sorted { gauges, counters, histograms, timers } = metrics.sorted();
    let mut out = String::new();
    for metric in gauges.into_iter().chain(counters).chain(histograms).chain(timers) {
        let key = key(&metric.name);
        let written = match &metric.value {
            Value::Gauge(value) => write!(
                out,
                "{key}Number{{type=\"gauges\"}} {value}\n{key}Value{{type=\"gauges\"}} {value}\n"
            ),
            Value::Counter(value) => writeln!(out, "{key}Count{{type=\"counters\"}} {value}"),
            Value::Text(_) => Ok(()),
            Value::Histogram(told) => distribution(&mut out, &key, "histograms", told),
            // In nanoseconds.
            Value::Timer(told) => {
                let [one, five, fifteen] = told.rates.minutes;
                let rates = [
                    ("FifteenMinuteRate", fifteen),
                    ("FiveMinuteRate", five),
                    ("OneMinuteRate", one),
                    ("MeanRate", told.rates.mean),
                ];
                distribution(&mut out, &key, "timers", &told.nanoseconds).and_then(|()| {
                    rates.iter().try_for_each(|(name, rate)| {
                        writeln!(out, "{key}{name}{{type=\"timers\"}} {rate:?}")
                    })
                })
            }
        };
        written.expect("a string grows");
    }
    out
}

/// With the names of Spark's, in its order.
fn distribution(out: &mut String, key: &str, kind: &str, told: &Distribution) -> std::fmt::Result {
    let Distribution { count, max, mean, min, stddev, quantiles } = told;
    let label = format!("{{type=\"{kind}\"}}");
    writeln!(out, "{key}Count{label} {count}\n{key}Max{label} {max}\n{key}Mean{label} {mean:?}")?;
    writeln!(out, "{key}Min{label} {min}")?;
    for (name, value) in ["50", "75", "95", "98", "99", "999"].iter().zip(quantiles) {
        writeln!(out, "{key}{name}thPercentile{label} {value:?}")?;
    }
    writeln!(out, "{key}StdDev{label} {stddev:?}")
}

fn object(metrics: &[&Metric]) -> String {
    let one = |metric: &&Metric| {
        let value = match &metric.value {
            Value::Gauge(number) => format!("\"value\":{number}"),
            Value::Counter(number) => format!("\"count\":{number}"),
            Value::Text(text) => format!("\"value\":{}", serde_json::Value::from(text.as_str())),
            Value::Histogram(told) => {
                fields(told, [told.max, told.min].map(|it| it.to_string()), 1.0)
            }
            Value::Timer(told) => {
                let of = &told.nanoseconds;
                let ends = [of.max, of.min].map(|it| format!("{:?}", it as f64 / MILLISECOND));
                let times = fields(of, ends, MILLISECOND);
                let [one, five, fifteen] = told.rates.minutes;
                let mean = told.rates.mean;
                format!(
                    "{times},\"m15_rate\":{fifteen:?},\"m1_rate\":{one:?},\"m5_rate\":{five:?},\"mean_rate\":{mean:?},\
                     \"duration_units\":\"milliseconds\",\"rate_units\":\"calls/second\""
                )
            }
        };
        let name = serde_json::Value::from(metric.name.as_str());
        format!("{name}:{{{value}}}")
    };
    metrics.iter().map(one).collect::<Vec<_>>().join(",")
}

/// The fields of a distribution with its largest and smallest value, in units.
fn fields(of: &Distribution, [max, min]: [String; 2], unit: f64) -> String {
    let (count, mean, stddev) = (of.count, of.mean / unit, of.stddev / unit);
    let [p50, p75, p95, p98, p99, p999] = of.quantiles.map(|value| value / unit);
    format!(
        "\"count\":{count},\"max\":{max},\"mean\":{mean:?},\"min\":{min},\"p50\":{p50:?},\"p75\":{p75:?},\"p95\":{p95:?},\
         \"p98\":{p98:?},\"p99\":{p99:?},\"p999\":{p999:?},\"stddev\":{stddev:?}"
    )
}

/// The JSON that Spark's servlet has at `/metrics/json`.
pub fn json(metrics: &Metrics) -> String {
    let Sorted { gauges, counters, histograms, timers } = metrics.sorted();
    let [gauges, counters] = [gauges, counters].map(|list| object(&list));
    let [histograms, timers] = [histograms, timers].map(|list| object(&list));
    format!(
        "{{\"version\":\"4.0.0\",\"gauges\":{{{gauges}}},\"counters\":{{{counters}}},\"histograms\":{{{histograms}}},\
         \"meters\":{{}},\"timers\":{{{timers}}}}}"
    )
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{Rates, TimerSnapshot};

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

    fn measured() -> Metrics {
        let quantiles = [1e6, 2e6, 3e6, 4e6, 5e6, 6.5e6];
        let (max, mean, min, stddev) = (6_500_000, 2_400_000.5, 9143, 1e5);
        let of = Distribution { count: 21, max, mean, min, stddev, quantiles };
        let rates = Rates { mean: 1.5, minutes: [0.25, 0.5, 0.75] };
        let mut metrics = Metrics::new("app-1.driver");
        metrics.histogram("cache.load.bytes", of.clone());
        let timer = TimerSnapshot { nanoseconds: of, rates };
        metrics.timer("DAGScheduler.messageProcessingTime", timer);
        metrics
    }

    #[test]
    fn prometheus_gets_timers_and_histograms_as_spark_prints_them() {
        let text = prometheus(&measured());
        let names: Vec<&str> = text.lines().filter_map(|line| line.split('{').next()).collect();
        let figures = "Count Max Mean Min 50thPercentile 75thPercentile 95thPercentile 98thPercentile 99thPercentile \
                       999thPercentile StdDev";
        let rates = "FifteenMinuteRate FiveMinuteRate OneMinuteRate MeanRate";
        let of = |name: &str, all: &str| {
            let full = |it: &str| format!("metrics_app_1_driver_{name}_{it}");
            all.split(' ').map(full).collect::<Vec<_>>()
        };
        let timer = of("DAGScheduler_messageProcessingTime", &format!("{figures} {rates}"));
        assert_eq!(names, [of("cache_load_bytes", figures), timer].concat());
        for line in [
            "_cache_load_bytes_Count{type=\"histograms\"} 21\n",
            "_messageProcessingTime_Max{type=\"timers\"} 6500000\n",
            "_messageProcessingTime_Mean{type=\"timers\"} 2400000.5\n",
            "_messageProcessingTime_50thPercentile{type=\"timers\"} 1000000.0\n",
            "_messageProcessingTime_OneMinuteRate{type=\"timers\"} 0.25\n",
        ] {
            assert!(text.contains(line), "{line} in {text}");
        }
    }

    #[test]
    fn json_has_timers_in_milliseconds_with_sparks_fields() {
        let text = json(&measured());
        let read: serde_json::Value = serde_json::from_str(&text).unwrap();
        let timer = &read["timers"]["app-1.driver.DAGScheduler.messageProcessingTime"];
        let expected = serde_json::json!({
            "count": 21, "max": 6.5, "mean": 2.4000005, "min": 0.009143, "p50": 1.0, "p75": 2.0, "p95": 3.0, "p98": 4.0,
            "p99": 5.0, "p999": 6.5, "stddev": 0.1, "m15_rate": 0.75, "m1_rate": 0.25, "m5_rate": 0.5, "mean_rate": 1.5,
            "duration_units": "milliseconds", "rate_units": "calls/second"
        });
        assert_eq!(*timer, expected);
        let histogram = &read["histograms"]["app-1.driver.cache.load.bytes"];
        assert_eq!(histogram["max"], serde_json::json!(6_500_000));
        assert_eq!(histogram["p999"], serde_json::json!(6.5e6));
        assert_eq!(histogram.as_object().unwrap().len(), 11);
    }
}
