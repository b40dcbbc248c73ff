//! By which names a server may be asked for.
//!
//! A request for another name comes from a web page whose name was made to stand for this machine, to have the browser of somebody
//! here read or do what the page's owner cannot.

use std::net::IpAddr;

/// The names of a machine. Addresses are nobody's name, and always count.
#[derive(Clone, Debug)]
pub struct HostNames(Vec<String>);

impl HostNames {
    /// `localhost`, and these; among them those of `spark.firesteel.http.allowedHosts`. `*`: any.
    pub fn new(names: impl IntoIterator<Item = String>) -> Self {
        Self(["localhost".to_owned()].into_iter().chain(names).collect())
    }

    /// Whether a request with these headers is for this machine, and of no page of another one.
    pub fn admit(&self, host: Option<&str>, origin: Option<&str>) -> bool {
        let origin = origin.map(|it| it.split_once("://").map_or(it, |(_, host)| host));
        [host, origin].into_iter().flatten().all(|authority| self.is_ours(authority))
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

    #[test]
    fn a_name_of_another_machine_is_refused_as_host_and_as_origin() {
        let names = HostNames::new(["node.local", "proxy.example.org"].map(str::to_owned));
        for host in [
            "localhost:4040",
            "LOCALHOST",
            "127.0.0.1",
            "127.0.0.1:4040",
            "[::1]:4040",
            "10.1.2.3:8080",
            "NODE.local:8080",
            "proxy.example.org:443",
        ] {
            assert!(names.admit(Some(host), None), "{host}");
        }
        for host in [
            "",
            "?",
            "evil.org",
            "evil.org:8080",
            "127.0.0.1.evil.org",
            "localhost.evil.org",
            "[evil.org]",
        ] {
            assert!(!names.admit(Some(host), None), "{host}");
        }
        assert!(names.admit(Some("localhost"), Some("http://localhost:8080")));
        for origin in ["http://evil.org", "null", "https://evil.org:80"] {
            assert!(!names.admit(Some("localhost"), Some(origin)), "{origin}");
        }
        assert!(names.admit(None, None), "HTTP/1.0 names none, and no browser leaves it out");
        assert!(
            HostNames::new(["*".to_owned()]).admit(Some("evil.org"), None),
            "the settings say so"
        );
    }
}
