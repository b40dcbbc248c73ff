//! By which names a server of this machine may be asked for, as its headers have them.

use firesteel_conf::HostNames;
use hyper::HeaderMap;
use hyper::header::{HOST, ORIGIN};

/// The names of this machine, the name that is bound, and those of `spark.firesteel.http.allowedHosts`.
pub(crate) fn names(bound: &str, allowed: Vec<String>) -> HostNames {
    let node = rustix::system::uname().nodename().to_string_lossy().into_owned();
    HostNames::new([node, bound.to_owned()]).and_by(allowed)
}

/// Whether a request is for this machine, and of no page of another one; if it is a form, of no page of another port either.
pub(crate) fn admit(names: &HostNames, headers: &HeaderMap, is_form: bool) -> bool {
    let text = |name: &str| headers.get(name).map(|value| value.to_str().unwrap_or("?"));
    let (host, origin) = (text(HOST.as_str()), text(ORIGIN.as_str()));
    names.admit(host, origin)
        && (!is_form || names.admit_form(host, origin, text("x-forwarded-host")))
}

/// Whether a proxy asks for somebody else: then its connection tells nothing of who asks.
pub(crate) fn is_forwarded(headers: &HeaderMap) -> bool {
    let tells = |name: &str| {
        ["forwarded", "via", "x-real-ip"].contains(&name) || name.starts_with("x-forwarded-")
    };
    headers.keys().any(|name| tells(name.as_str()))
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
        for is_form in [false, true] {
            let admitted = |host, origin| admit(&names, &headers(host, origin), is_form);
            assert!(admitted("history.local:1", "https://proxy.example.org"));
            assert!(!admitted("evil.example.org", "https://proxy.example.org"));
            assert!(!admitted("history.local:1", "https://evil.example.org"));
            assert!(admitted("127.0.0.1:1", "http://127.0.0.1:1"));
            assert_eq!(admitted("127.0.0.1:1", "http://127.0.0.1:2"), !is_form);
            assert!(admit(&names, &HeaderMap::new(), is_form));
        }
    }

    #[test]
    fn what_a_proxy_tells_is_known_by_its_headers() {
        let has = |name: &'static str| {
            is_forwarded(&HeaderMap::from_iter([(
                hyper::header::HeaderName::from_static(name),
                "x".parse().unwrap(),
            )]))
        };
        for name in ["forwarded", "x-forwarded-for", "x-forwarded-context", "x-real-ip", "via"] {
            assert!(has(name), "{name}");
        }
        assert!(!has("host") && !has("referer") && !is_forwarded(&HeaderMap::new()));
    }
}
