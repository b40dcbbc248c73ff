//! By which names a server may be asked for. A request for another name comes from a web page whose name was made to stand for
//! this machine, to have the browser of somebody here read what the page's owner cannot.

use std::net::IpAddr;

use hyper::HeaderMap;
use hyper::header::{HOST, ORIGIN};

/// The names of this machine; addresses are nobody's name, and always count.
#[derive(Clone, Debug)]
pub(crate) struct HostNames(Vec<String>);

impl HostNames {
    /// `localhost`, the name of the machine, the name that is bound, and those of `spark.firesteel.http.allowedHosts`; `*`: any.
    pub(crate) fn new(bound: &str, allowed: Vec<String>) -> Self {
        let node = rustix::system::uname().nodename().to_string_lossy().into_owned();
        let mut names = vec!["localhost".to_owned(), node, bound.to_owned()];
        names.extend(allowed);
        Self(names)
    }

    /// Whether a request is for this machine, and of no page of another one.
    pub(crate) fn admit(&self, headers: &HeaderMap) -> bool {
        let text = |name| headers.get(name).map(|value| value.to_str().unwrap_or("?"));
        let origin = text(ORIGIN).map(|it| it.split_once("://").map_or(it, |(_, host)| host));
        [text(HOST), origin].into_iter().flatten().all(|authority| self.is_ours(authority))
    }

    fn is_ours(&self, authority: &str) -> bool {
        let host = match authority.strip_prefix('[').and_then(|rest| rest.split_once(']')) {
            Some((host, _)) => host,
            None => authority.rsplit_once(':').map_or(authority, |(host, _)| host),
        };
        let is_it = |name: &String| name == "*" || name.eq_ignore_ascii_case(host);
        host.parse::<IpAddr>().is_ok() || self.0.iter().any(is_it)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn admits(names: &HostNames, host: &str, origin: Option<&str>) -> bool {
        let mut headers = HeaderMap::new();
        headers.insert(HOST, host.parse().unwrap());
        origin.map(|origin| headers.insert(ORIGIN, origin.parse().unwrap()));
        names.admit(&headers)
    }

    #[test]
    fn a_name_of_another_machine_is_refused_as_host_and_as_origin() {
        let names = HostNames::new("history.local", vec!["proxy.example.org".to_owned()]);
        for host in [
            "localhost:4040",
            "LOCALHOST",
            "127.0.0.1:4040",
            "[::1]:4040",
            "history.local",
            "proxy.example.org:443",
        ] {
            assert!(admits(&names, host, None), "{host}");
        }
        for host in [
            "evil.example.org",
            "evil.example.org:4040",
            "localhost.evil.org",
            "",
            "127.0.0.1.evil.org",
        ] {
            assert!(!admits(&names, host, None), "{host}");
        }
        assert!(admits(&names, "localhost:4040", Some("http://localhost:4040")));
        assert!(!admits(&names, "localhost:4040", Some("http://evil.example.org")));
        assert!(!admits(&names, "localhost:4040", Some("null")));
        assert!(names.admit(&HeaderMap::new()), "HTTP/1.0 names none");
        assert!(admits(&HostNames::new("a", vec!["*".to_owned()]), "any.example.org", None));
    }
}
