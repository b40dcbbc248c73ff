//! 500 executors' pods against a real API server. No node takes them, so that it is the server and the driver that are measured. The
//! server writes down what the driver asks for.

use std::{
    collections::BTreeMap,
    fs,
    process::{Command, Stdio},
    thread,
    time::{Duration, Instant},
};

use anyhow::{Context, Result};
use rustix::process::Signal;
use serde_json::Value;

use super::{
    Bench,
    site::{COUNTED, IMAGE, Site, URL},
};
use crate::{
    bars::Target,
    cluster::{processes::signal, wait::until},
    spark::remove_settings,
};

const PODS: u64 = 500;
/// `spark.kubernetes.allocation.batch.size`: so many pods are asked for in a second at most.
const BATCH: &str = "100";
const NAMESPACE: &str = "scale";
const LIMIT: Duration = Duration::from_secs(300);
/// Longer than a driver pauses between two requests to a server that was just away.
const SETTLES: Duration = Duration::from_secs(10);

/// What came out of it.
struct Scale {
    pods_per_second: f64,
    /// By verb and resource.
    requests: BTreeMap<String, u64>,
    /// Lists and watches of pods that followed when the API server was started again.
    again: [u64; 2],
}

pub(super) fn measure(bench: &mut Bench, site: &Site) {
    let scale = bench.tried("500 pods", many(site));
    bench.tried("the end of 500 pods", site.clear(NAMESPACE));
    let rate = scale.as_ref().map(|scale| scale.pods_per_second);
    bench.bar("k8s_pods_per_second", rate, Target::AtLeast(20.0));
    let requests = scale.as_ref().map(|scale| scale.requests.values().sum::<u64>());
    let per_pod = requests.map(|all| all as f64 / PODS as f64);
    bench.bar("k8s_requests_per_pod", per_pod, Target::AtMost(1.1));
    let lists = scale.as_ref().map(|scale| observed(&scale.requests).iter().sum::<u64>() as f64);
    // One of each, since no further list is due as long as this takes, and one where the machine lets the driver stand still.
    bench.bar("k8s_lists_and_watches", lists, Target::AtMost(3.0));
    // A list, the watch that the server does not go on with, and the one after the list.
    let again = scale.as_ref().map(|scale| scale.again.iter().sum::<u64>() as f64);
    bench.bar("k8s_lists_and_watches_after_restart", again, Target::AtMost(3.0));
    if let Some(scale) = scale {
        println!(
            "500 pods in batches of {BATCH} (the default: 20): {:.1} pods/s; requests: {:?}",
            scale.pods_per_second, scale.requests
        );
        let [lists, watches] = scale.again;
        println!("API server started again: {lists} lists and {watches} watches of pods");
    }
}

fn many(site: &Site) -> Result<Scale> {
    site.namespace(NAMESPACE)?;
    let mut command = Command::new(&site.firesteel);
    remove_settings(&mut command);
    command.args(["submit", "--master", &format!("k8s://{URL}")]).stdin(Stdio::null());
    let (authority, pods) = (site.file("pki/ca.crt"), PODS.to_string());
    for (key, value) in [
        ("spark.kubernetes.container.image", IMAGE),
        ("spark.kubernetes.namespace", NAMESPACE),
        ("spark.kubernetes.authenticate.caCertFile", authority.as_str()),
        ("spark.kubernetes.authenticate.oauthToken", COUNTED),
        ("spark.kubernetes.allocation.batch.size", BATCH),
        ("spark.kubernetes.executor.apiPollingInterval", "1h"),
        ("spark.kubernetes.executor.node.selector.bench", "nowhere"),
        ("spark.kubernetes.executor.terminationGracePeriodSeconds", "1s"),
        ("spark.executor.instances", pods.as_str()),
        ("spark.executor.memory", "128m"),
        ("spark.ui.enabled", "false"),
    ] {
        command.args(["--conf", &format!("{key}={value}")]);
    }
    command.arg(&site.app).arg("idle").stdout(Stdio::null()).stderr(Stdio::null());
    let mut driver = command.spawn().context("cannot start a driver")?;
    let measured = created(site).and_then(|pods_per_second| {
        let audit = site.file("audit.log");
        let requests = requests(&audit)?;
        let again = restarted(site, &audit)?;
        Ok(Scale { pods_per_second, requests, again })
    });
    signal(i32::try_from(driver.id())?, Signal::TERM)?;
    let ended = until("the end of the driver", LIMIT, || driver.try_wait().ok().flatten());
    if ended.is_err() {
        let _ = driver.kill();
    }
    measured
}

/// Pods per second, from the first look that sees some to the one that sees all.
fn created(site: &Site) -> Result<f64> {
    let (first, start) = until("the first pods", LIMIT, || {
        let seen = count(site).filter(|seen| *seen > 0)?;
        Some((seen, Instant::now()))
    })?;
    until("all pods", LIMIT, || count(site).filter(|seen| *seen >= PODS))?;
    Ok((PODS - first.min(PODS)) as f64 / start.elapsed().as_secs_f64())
}

/// Lists and watches of pods, in this order.
fn observed(requests: &BTreeMap<String, u64>) -> [u64; 2] {
    ["list pods", "watch pods"].map(|request| requests.get(request).copied().unwrap_or(0))
}

/// Kills the API server, which comes back, and waits until the driver watches again: how many more lists and watches that took.
fn restarted(site: &Site, audit: &str) -> Result<[u64; 2]> {
    let [lists, watches] = observed(&requests(audit)?);
    let pid = fs::read_to_string(site.file("apiserver.pid")).context("the API server's process")?;
    signal(pid.trim().parse()?, Signal::KILL)?;
    until("another watch", LIMIT, || {
        (observed(&requests(audit).ok()?)[1] > watches).then_some(())
    })?;
    // A watch that cannot go on is followed by a list, and that by another watch.
    thread::sleep(SETTLES);
    let [lists_now, watches_now] = observed(&requests(audit)?);
    Ok([lists_now - lists, watches_now - watches])
}

/// A list of one pod says how many more there are.
fn count(site: &Site) -> Option<u64> {
    let list =
        site.ask("GET", &format!("/api/v1/namespaces/{NAMESPACE}/pods?limit=1"), None).ok()?;
    let shown = list["items"].as_array()?.len() as u64;
    Some(shown + list["metadata"]["remainingItemCount"].as_u64().unwrap_or(0))
}

/// What the API server wrote down, by verb and resource. A watch is written down when it begins and when it ends.
fn requests(path: &str) -> Result<BTreeMap<String, u64>> {
    let text = fs::read_to_string(path).with_context(|| format!("cannot read {path}"))?;
    Ok(tally(&text))
}

fn tally(text: &str) -> BTreeMap<String, u64> {
    let mut seen = BTreeMap::new();
    for line in text.lines() {
        let Ok(entry) = serde_json::from_str::<Value>(line) else { continue };
        let (id, verb) = (entry["auditID"].as_str(), entry["verb"].as_str());
        let resource = entry["objectRef"]["resource"].as_str().unwrap_or("nothing");
        if let (Some(id), Some(verb)) = (id, verb) {
            seen.insert(id.to_owned(), format!("{verb} {resource}"));
        }
    }
    let mut tally = BTreeMap::new();
    seen.into_values().for_each(|request| *tally.entry(request).or_default() += 1);
    tally
}

#[cfg(test)]
mod tests {
    use super::tally;

    #[test]
    fn a_watch_that_is_written_down_twice_is_one_request() {
        let text = r#"{"auditID":"1","verb":"list","objectRef":{"resource":"pods"}}
{"auditID":"2","verb":"watch","objectRef":{"resource":"pods"},"stage":"ResponseStarted"}
{"auditID":"2","verb":"watch","objectRef":{"resource":"pods"},"stage":"ResponseComplete"}
half a li"#;
        let found: Vec<_> = tally(text).into_iter().collect();
        assert_eq!(found, [("list pods".to_owned(), 1), ("watch pods".to_owned(), 1)]);
    }
}
