//! By which names a server may be asked for.
//!
//! A request for another name comes from a web page whose name was made to stand for this machine, to have the browser of somebody
//! here read or do what the page's owner cannot.

use std::net::IpAddr;

/// The names of a machine. Addresses are nobody's name, and always count.
#[derive(Clone, Debug)]
pub struct HostNames {
    own: Vec<String>,
    /// Those of the settings, such as that of a proxy in front.
    others: Vec<String>,
}

impl HostNames {
    /// `localhost`, and these; among them those of `spark.firesteel.http.allowedHosts`. `*`: any.
    pub fn new(names: impl IntoIterator<Item = String>) -> Self {
        let own = ["localhost".to_owned()].into_iter().chain(names).collect();
        Self { own, others: Vec::new() }
    }

    /// And these, by which a proxy in front shows it.
    #[must_use]
    pub fn and_by(mut self, names: impl IntoIterator<Item = String>) -> Self {
        self.others.extend(names);
        self
    }

    /// Whether a request with these headers is for this machine, and of no page of another one.
    pub fn admit(&self, host: Option<&str>, origin: Option<&str>) -> bool {
        let origin = origin.map(|it| it.split_once("://").map_or(it, |(_, host)| host));
        [host, origin].into_iter().flatten().all(|authority| self.is_ours(authority))
    }

    /// Whether a form with these headers may be of a page of this very server: another program of the machine has another port, and may
    /// be another user's. `forwarded` is where a proxy in front was asked (`X-Forwarded-Host`), which no page can make up. A proxy
    /// that does not tell has a name of the settings, at any port.
    pub fn admit_form(
        &self,
        host: Option<&str>,
        origin: Option<&str>,
        forwarded: Option<&str>,
    ) -> bool {
        let Some((scheme, from)) = origin.map(|it| it.split_once("://").unwrap_or(("", it))) else {
            return true;
        };
        let (name, port) = parts(from, scheme);
        // A proxy may tell its name only.
        let is_same = |authority: &str, may_lack_port: bool| {
            let (host, own) = parts(authority, scheme);
            let lacks_port = may_lack_port && parts(authority, "").1.is_none();
            host.eq_ignore_ascii_case(name) && (own == port || lacks_port)
        };
        let is_told = |all: &str| all.split(',').any(|it| is_same(it.trim(), true));
        host.is_some_and(|host| is_same(host, false))
            || forwarded.is_some_and(is_told)
            || is_among(&self.others, name)
    }

    fn is_ours(&self, authority: &str) -> bool {
        let (host, _) = parts(authority, "");
        host.parse::<IpAddr>().is_ok() || is_among(&self.own, host) || is_among(&self.others, host)
    }
}

fn is_among(names: &[String], host: &str) -> bool {
    names.iter().any(|name| name == "*" || name.eq_ignore_ascii_case(host))
}

/// The host and the port; no port if it is the usual one.
fn parts<'a>(authority: &'a str, scheme: &str) -> (&'a str, Option<&'a str>) {
    let (host, port) = match authority.strip_prefix('[').and_then(|rest| rest.split_once(']')) {
        Some((host, rest)) => (host, rest.strip_prefix(':')),
        None => {
            authority.rsplit_once(':').map_or((authority, None), |(host, port)| (host, Some(port)))
        }
    };
    let is_usual =
        |port: &&str| matches!((scheme, *port), ("http", "80") | ("https", "443") | (_, ""));
    (host, port.filter(|port| !is_usual(port)))
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
        let proxied = HostNames::new([]).and_by(["proxy.example.org".to_owned()]);
        assert!(proxied.admit(Some("PROXY.example.org"), Some("https://proxy.example.org:8443")));
        assert!(!proxied.admit(Some("evil.org"), None));
        assert!(
            HostNames::new(["*".to_owned()]).admit(Some("evil.org"), None),
            "the settings say so"
        );
    }

    #[test]
    fn a_form_is_of_the_page_of_this_port_or_of_a_proxy_in_front() {
        let names = HostNames::new(["node.local".to_owned()]).and_by(["proxy.org".to_owned()]);
        let no = None;
        for (host, origin, forwarded, is_admitted) in [
            ("127.0.0.1:4040", "http://127.0.0.1:4040", no, true),
            ("127.0.0.1:4040", "http://127.0.0.1:9999", no, false),
            ("127.0.0.1:4040", "http://127.0.0.1", no, false),
            ("127.0.0.1:4040", "http://127.0.0.2:4040", no, false),
            ("127.0.0.1:4040", "http://localhost:4040", no, false),
            ("NODE.local:4040", "http://node.LOCAL:4040", no, true),
            ("node.local:4040", "http://node.local:4041", no, false),
            ("localhost:4040", "null", no, false),
            ("[::1]:4040", "http://[::1]:4040", no, true),
            ("[::1]:4040", "http://[::1]:4041", no, false),
            // Usual ports are left out by some.
            ("node.local", "https://node.local", no, true),
            ("node.local:443", "https://node.local", no, true),
            ("node.local", "http://node.local:80", no, true),
            ("node.local:443", "http://node.local", no, false),
            // A proxy asks by the address.
            ("127.0.0.1:4040", "https://spark.org", no, false),
            ("127.0.0.1:4040", "https://spark.org", Some("spark.org"), true),
            ("127.0.0.1:4040", "https://spark.org:8443", Some("spark.org:8443"), true),
            ("127.0.0.1:4040", "https://spark.org:8443", Some("spark.org, inner.org"), true),
            ("127.0.0.1:4040", "https://spark.org:8443", Some("spark.org:8444"), false),
            ("127.0.0.1:4040", "https://evil.org", Some("spark.org"), false),
            ("127.0.0.1:4040", "https://proxy.org:8443", no, true),
        ] {
            let (from, admitted) =
                (Some(origin), names.admit_form(Some(host), Some(origin), forwarded));
            assert_eq!(admitted, is_admitted, "{host} {from:?} {forwarded:?}");
        }
        assert!(names.admit_form(Some("localhost"), None, None), "no browser leaves it out");
        let any = HostNames::new([]).and_by(["*".to_owned()]);
        assert!(
            any.admit_form(Some("localhost"), Some("http://x.org"), None),
            "the settings say so"
        );
    }
}
