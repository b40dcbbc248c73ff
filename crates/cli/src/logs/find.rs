//! Which streams an application has, as its REST API or its history says, or a driver, as its master says.

use firesteel_rpc::RpcAddress;
use firesteel_standalone::gateway;
use serde_json::Value;

use crate::Failure;
use crate::proof::Proof;

/// The longest answer that is read: a few kilobytes for each executor.
const ANSWER: usize = 256 << 20;
/// Where an application or a history server of this machine is looked for.
const PLACES: [&str; 5] = [
    "http://127.0.0.1:4040",
    "http://127.0.0.1:4041",
    "http://127.0.0.1:4042",
    "http://127.0.0.1:4043",
    "http://127.0.0.1:18080",
];
/// So many pods are told of at most.
const PODS: usize = 20;
/// Where the page of a master of this machine is.
const MASTER: &str = "http://127.0.0.1:8080";

/// What one process prints.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Stream {
    /// `executor 3`
    pub(super) name: String,
    /// Where it can be read.
    pub(super) url: String,
    /// Whether its URL was a path below the pages of a master.
    pub(super) is_below_a_master: bool,
}

impl Stream {
    pub(super) fn new(name: String, url: String) -> Self {
        Stream { name, url, is_below_a_master: false }
    }

    /// A URL without a host is of a master that shows its workers' pages, and those of the server that told of it.
    fn seen_from(mut self, place: &str) -> Self {
        if self.url.starts_with('/') && !self.url.starts_with("//") {
            let begin = place.find("://").map_or(0, |at| at + 3);
            let end = place[begin..].find('/').map_or(place.len(), |at| begin + at);
            self.url.insert_str(0, &place[..end]);
            self.is_below_a_master = true;
        }
        self
    }
}

/// A URL as an address and what follows it, with a slash in front.
pub(super) fn taken_apart(url: &str) -> Result<(RpcAddress, String), Failure> {
    let rest = url
        .strip_prefix("http://")
        .ok_or_else(|| format!("{url} cannot be read from here: only http:// can"))?;
    let (place, path) = rest.find('/').map_or((rest, "/"), |at| rest.split_at(at));
    let (host, port) = match place.rsplit_once(':') {
        Some((host, port)) if !host.ends_with(':') && !port.contains(']') => {
            (host, port.parse().map_err(|_| format!("{url} has no port that could be one"))?)
        }
        _ => (place, 80),
    };
    let host = host.strip_prefix('[').and_then(|host| host.strip_suffix(']')).unwrap_or(host);
    if host.is_empty() || host.contains('@') {
        return Err(format!("{url} has no host: write http://host:4040").into());
    }
    Ok((RpcAddress::new(host, port), path.to_owned()))
}

/// What a server shows; `None`: it knows nothing of that.
async fn ask(base: &str, path: &str, proof: &Proof) -> Result<Option<Value>, Failure> {
    let (address, prefix) = taken_apart(base)?;
    let path = format!("{}{path}", prefix.trim_end_matches('/'));
    let (status, body) = gateway::get(&address, &path, proof.token().as_deref(), ANSWER)
        .await
        .map_err(|error| format!("{base} does not answer: {error}"))?;
    match status {
        200 => Ok(Some(serde_json::from_slice(&body).map_err(|error| {
            format!("{base} answers something else than JSON ({error}): is it an application or a history server?")
        })?)),
        404 => Ok(None),
        401 | 403 => Err(format!(
            "{base}{path}: HTTP {status}: {}: name its address with --url, and set spark.ui.filters and its key as they are set there, or \
             give a token with --token-file",
            String::from_utf8_lossy(&body).trim()
        )
        .into()),
        other => Err(format!("{base}{path}: HTTP {other}: {}", String::from_utf8_lossy(&body)).into()),
    }
}

/// The streams of an application's executors, or of a driver that a cluster runs.
pub(super) async fn streams(
    (url, proof): (Option<&str>, &Proof),
    application: &str,
    executor: Option<&str>,
    stream: &str,
) -> Result<Vec<Stream>, Failure> {
    // Whatever may answer where nobody named an address is told nothing.
    let proof = if url.is_some() { proof } else { &Proof::None };
    let is_plain = |text: &str| {
        !text.is_empty()
            && text.bytes().all(|it| it.is_ascii_alphanumeric() || b"-_.".contains(&it))
    };
    if !is_plain(application) {
        return Err(format!("{application:?} is no id of an application or a driver").into());
    }
    if application.starts_with("driver-") {
        return of_driver((url.unwrap_or(MASTER), proof), application, stream).await;
    }
    let path = format!("/api/v1/applications/{application}/allexecutors");
    let (places, is_told) = match &url {
        Some(url) => (std::slice::from_ref(url), true),
        None => (&PLACES[..], false),
    };
    for place in places {
        match ask(place, &path, proof).await {
            Ok(Some(executors)) => {
                let found = of_executors(&executors, application, executor, stream)?;
                return Ok(found.into_iter().map(|it| it.seen_from(place)).collect());
            }
            Err(error) if is_told => return Err(error),
            _ => {}
        }
    }
    let text = format!(
        "nobody at {} knows the application {application}: say with --url where its pages are, or those of its history server",
        places.join(", ")
    );
    Err(text.into())
}

fn of_executors(
    executors: &Value,
    application: &str,
    wanted: Option<&str>,
    stream: &str,
) -> Result<Vec<Stream>, Failure> {
    let (mut found, mut without, mut pods) = (Vec::new(), Vec::new(), Vec::new());
    for executor in executors.as_array().into_iter().flatten() {
        let id = executor["id"].as_str().unwrap_or_default();
        if wanted.is_some_and(|wanted| wanted != id) {
            continue;
        }
        let name = if id == "driver" { id.to_owned() } else { format!("executor {id}") };
        // A pattern of the user's without the names of files has one for all.
        let logs = &executor["executorLogs"];
        match logs[stream].as_str().or(logs["log"].as_str()) {
            Some(url) => found.push(Stream::new(name, url.to_owned())),
            None => {
                pods.extend(of_pod(executor).map(|command| format!("\n  {command}")));
                without.push(name);
            }
        }
    }
    if !found.is_empty() {
        return Ok(found);
    }
    let text = match (wanted, without.is_empty()) {
        (Some(wanted), true) => format!("{application} has no executor {wanted}"),
        _ if !pods.is_empty() => {
            let more = pods.len().saturating_sub(PODS);
            let more = if more > 0 { format!("\n  and {more} more") } else { String::new() };
            pods.truncate(PODS);
            format!("Kubernetes keeps what pods print:{}{more}", pods.concat())
        }
        _ => format!(
            "nobody keeps what the executors of {application} print: they print where the driver does, or their cluster \
             manager tells no URL of it"
        ),
    };
    Err(text.into())
}

/// What prints the output of an executor that is a pod. Its names are what the application says they are.
fn of_pod(executor: &Value) -> Option<String> {
    let name = |attribute: &str| {
        let name = executor["attributes"][attribute].as_str()?;
        let plain = |it: u8| it.is_ascii_lowercase() || it.is_ascii_digit() || b"-.".contains(&it);
        let is_name = !name.is_empty() && !name.starts_with('-') && name.bytes().all(plain);
        is_name.then_some(name)
    };
    let (namespace, pod) = (name("KUBERNETES_NAMESPACE")?, name("KUBERNETES_POD_NAME")?);
    Some(format!("kubectl logs --namespace {namespace} {pod}"))
}

async fn of_driver(
    (master, proof): (&str, &Proof),
    driver: &str,
    stream: &str,
) -> Result<Vec<Stream>, Failure> {
    let state =
        ask(master, "/json/", proof).await?.ok_or_else(|| format!("{master} is no master"))?;
    Ok(vec![driver_in(&state, driver, stream)?])
}

/// The stream of a driver on the worker that a master names.
fn driver_in(state: &Value, driver: &str, stream: &str) -> Result<Stream, Failure> {
    let listed = |name: &str| state[name].as_array().into_iter().flatten();
    let mut drivers = listed("activedrivers").chain(listed("completeddrivers"));
    let found = drivers.find(|it| it["id"] == driver);
    let found = found.ok_or_else(|| format!("the master knows no driver {driver}"))?;
    let worker = listed("workers").find(|worker| worker["id"] == found["worker"]);
    let web = worker.and_then(|worker| worker["webuiaddress"].as_str()).filter(|it| !it.is_empty());
    let state = found["state"].as_str().unwrap_or("unknown");
    let web =
        web.ok_or_else(|| format!("no worker that is there has run {driver} (state: {state})"))?;
    let url = format!("{web}/logPage/?driverId={driver}&logType={stream}");
    Ok(Stream::new(driver.to_owned(), url))
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn urls_are_taken_apart_and_what_is_none_is_refused() {
        let apart =
            |url: &str| taken_apart(url).map(|(at, path)| (at.host.to_string(), at.port, path));
        let table = [
            ("http://h:1/logPage/?a=b", ("h", 1, "/logPage/?a=b")),
            ("http://h:1", ("h", 1, "/")),
            ("http://h/x", ("h", 80, "/x")),
            ("http://[::1]:9/", ("::1", 9, "/")),
        ];
        for (url, (host, port, path)) in table {
            assert_eq!(apart(url).unwrap(), (host.to_owned(), port, path.to_owned()), "{url}");
        }
        for url in ["https://h:1/", "file://h/x", "http://", "http://h:x/", "http://u@h:1/", "h:1"]
        {
            assert!(apart(url).is_err(), "{url}");
        }
    }

    #[test]
    fn a_url_without_a_host_is_of_the_server_that_told_of_it() {
        let seen = |url: &str, place: &str| {
            Stream::new("executor 0".to_owned(), url.to_owned()).seen_from(place).url
        };
        for place in ["http://m:8080", "http://m:8080/", "http://m:8080/proxy/app-1"] {
            assert_eq!(seen("/proxy/w-1/logPage/?a", place), "http://m:8080/proxy/w-1/logPage/?a");
        }
        for url in ["http://w:8081/logPage/?a", "//other/logPage"] {
            assert_eq!(seen(url, "http://m:8080"), url);
        }
    }

    #[test]
    fn executors_are_found_by_their_ids_and_those_without_logs_are_told() {
        let executors = json!([
            {"id": "driver", "executorLogs": {}},
            {"id": "0", "executorLogs": {"stdout": "u", "stderr": "v"}},
            {"id": "1", "executorLogs": {"log": "w"}},
        ]);
        let of = |wanted: Option<&str>, stream| of_executors(&executors, "app-1", wanted, stream);
        let stream = |name: &str, url: &str| Stream::new(name.to_owned(), url.to_owned());
        let (first, second) = (stream("executor 0", "v"), stream("executor 1", "w"));
        assert_eq!(of(None, "stderr").unwrap(), [first.clone(), second]);
        assert_eq!(of(Some("0"), "stderr").unwrap(), [first]);
        assert!(of(Some("7"), "stderr").unwrap_err().to_string().contains("no executor 7"));
        assert!(of(Some("driver"), "stderr").unwrap_err().to_string().contains("nobody keeps"));
    }

    #[test]
    fn of_pods_is_told_how_their_output_is_read_and_names_that_are_none_are_not() {
        let pod = |id: &str, namespace: &str, name: &str| {
            let attributes =
                json!({"KUBERNETES_NAMESPACE": namespace, "KUBERNETES_POD_NAME": name});
            json!({"id": id, "executorLogs": {}, "attributes": attributes})
        };
        let told = |executors: &[Value], wanted: Option<&str>| {
            of_executors(&json!(executors), "spark-1", wanted, "stderr").unwrap_err().to_string()
        };
        let mut executors = vec![
            json!({"id": "driver", "executorLogs": {}, "attributes": {}}),
            pod("1", "jobs", "pi-1-exec-1"),
            pod("2", "jobs", "$(reboot)"),
            pod("3", "--all", "pi-1-exec-3"),
        ];
        assert_eq!(
            told(&executors, None),
            "Kubernetes keeps what pods print:\n  kubectl logs --namespace jobs pi-1-exec-1"
        );
        for other in ["driver", "2", "3"] {
            assert!(told(&executors, Some(other)).contains("nobody keeps"), "{other}");
        }
        executors.extend((10..40).map(|id| pod(&id.to_string(), "jobs", &format!("e-{id}"))));
        let many = told(&executors, None);
        assert!(many.ends_with("e-28\n  and 11 more") && many.lines().count() == 22, "{many}");
    }

    #[test]
    fn a_driver_is_found_on_its_worker() {
        let state = json!({
            "workers": [{"id": "w-1", "webuiaddress": "http://h:8081"}],
            "activedrivers": [{"id": "driver-1", "worker": "w-1", "state": "RUNNING"}],
            "completeddrivers": [{"id": "driver-2", "worker": "w-2", "state": "FINISHED"}],
        });
        let url = driver_in(&state, "driver-1", "stdout").unwrap().url;
        assert_eq!(url, "http://h:8081/logPage/?driverId=driver-1&logType=stdout");
        let refused = |driver| driver_in(&state, driver, "stdout").unwrap_err().to_string();
        assert!(refused("driver-2").contains("state: FINISHED"));
        assert!(refused("driver-3").contains("knows no driver"));
    }
}
