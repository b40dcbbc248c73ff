//! By which names a server of this machine may be asked for, as its headers have them.

use firesteel_conf::HostNames;
use hyper::HeaderMap;
use hyper::header::{HOST, ORIGIN};

/// The names of this machine, the name that is bound, and those of `spark.firesteel.http.allowedHosts`.
pub(crate) fn names(bound: &str, allowed: Vec<String>) -> HostNames {
    let node = rustix::system::uname().nodename().to_string_lossy().into_owned();
    HostNames::new([node, bound.to_owned()].into_iter().chain(allowed))
}

/// Whether a request is for this machine, and of no page of another one.
pub(crate) fn admit(names: &HostNames, headers: &HeaderMap) -> bool {
    let text = |name| headers.get(name).map(|value| value.to_str().unwrap_or("?"));
    names.admit(text(HOST), text(ORIGIN))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn host_and_origin_are_both_looked_at() {
        let names = names("history.local", vec!["proxy.example.org".to_owned()]);
        let headers = |host: &str, origin: &str| {
            HeaderMap::from_iter([(HOST, host.parse().unwrap()), (ORIGIN, origin.parse().unwrap())])
        };
        assert!(admit(&names, &headers("history.local:1", "https://proxy.example.org")));
        assert!(!admit(&names, &headers("evil.example.org", "https://proxy.example.org")));
        assert!(!admit(&names, &headers("history.local:1", "https://evil.example.org")));
        assert!(admit(&names, &HeaderMap::new()));
    }
}
