//! The master's metrics and those of its applications, by Spark's names.

use std::sync::Arc;
use std::time::Duration;

use firesteel_conf::Conf;
use firesteel_metrics::{Metrics, MetricsError, Reporter, SinkOptions, json, process, prometheus};
use firesteel_standalone_core::master::{
    ApplicationState, ApplicationView, MasterView, WorkerStatus,
};
use firesteel_types::Tick;

use super::shell::Shell;
use crate::web::Page;

/// The page of a path below `/metrics`.
pub(super) fn page(
    path: &str,
    view: &MasterView,
    now: Tick,
    longest_round: Duration,
) -> Option<Page> {
    match path.strip_suffix('/').unwrap_or(path) {
        "/metrics/master/json" => Some(Page::json(json(&master(view, longest_round)))),
        "/metrics/master/prometheus" => Some(Page::plain(prometheus(&master(view, longest_round)))),
        "/metrics/applications/json" => Some(Page::json(json(&applications(view, now)))),
        "/metrics/applications/prometheus" => {
            Some(Page::plain(prometheus(&applications(view, now))))
        }
        _ => None,
    }
}

/// Tells the sinks of the settings.
pub(super) fn reporter(conf: &Conf, shell: &Arc<Shell>) -> Result<Option<Reporter>, MetricsError> {
    let sinks = SinkOptions::from_conf(conf, "master")?;
    let shell = shell.clone();
    let source = move || master(&shell.view().0, shell.longest_round());
    Ok(Reporter::start(sinks, Arc::new(source)))
}

/// Spark's gauges, what the longest decision took, and the process.
fn master(view: &MasterView, longest_round: Duration) -> Metrics {
    let alive = view.workers.iter().filter(|worker| worker.status == WorkerStatus::Alive).count();
    let waiting = |app: &&ApplicationView| app.state == ApplicationState::Waiting;
    let mut metrics = Metrics::new("master");
    metrics.gauge("aliveWorkers", alive as u64);
    metrics.gauge("apps", view.active_apps.len() as u64);
    let micros = u64::try_from(longest_round.as_micros()).unwrap_or(u64::MAX);
    metrics.gauge("longestRoundMicros", micros);
    metrics.gauge("waitingApps", view.active_apps.iter().filter(waiting).count() as u64);
    metrics.gauge("workers", view.workers.len() as u64);
    process(&mut metrics);
    metrics
}

/// State, age and cores of each application that runs or waits.
fn applications(view: &MasterView, now: Tick) -> Metrics {
    let mut metrics = Metrics::new("application");
    for app in &view.active_apps {
        let name = format!("{}.{}", app.description.name, app.submitted.0);
        metrics.gauge(&format!("{name}.cores"), app.cores);
        metrics.gauge(&format!("{name}.runtime_ms"), now.since_ms(app.submitted));
        metrics.text(&format!("{name}.status"), app.state.name());
    }
    metrics
}

#[cfg(test)]
mod tests {
    use firesteel_standalone_core::master::{Master, MasterOptions};

    use super::*;

    #[test]
    fn gauges_are_told_as_spark_tells_them_and_the_longest_decision_with_them() {
        let view = Master::new(MasterOptions::default()).view();
        let longest = Duration::from_micros(1234);
        let text = |path: &str| page(path, &view, Tick(0), longest).unwrap().text;
        let master = text("/metrics/master/json/");
        assert!(master.starts_with(r#"{"version":"4.0.0","gauges":{"#), "{master}");
        for gauge in ["master.aliveWorkers", "master.apps", "master.waitingApps", "master.workers"]
        {
            assert!(master.contains(&format!(r#""{gauge}":{{"value":0}}"#)), "{gauge}: {master}");
        }
        assert!(master.contains(r#""master.longestRoundMicros":{"value":1234}"#), "{master}");
        let lines = text("/metrics/master/prometheus");
        assert!(lines.contains("metrics_master_workers_Value{type=\"gauges\"} 0\n"), "{lines}");
        assert_eq!(text("/metrics/applications/prometheus"), "");
        assert!(page("/metrics/else", &view, Tick(0), longest).is_none());
    }
}
