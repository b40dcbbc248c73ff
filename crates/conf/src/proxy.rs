//! Where a proxy shows pages: a URL, or only its path.

use std::fmt;

use crate::value::{Refusal, Rules, Value};

/// `https://spark.example.org/cluster`, or `/cluster`. What it is made of cannot be mistaken for anything else in a page or a header.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ProxyUrl {
    /// Scheme, host and port; empty if it is a path only.
    origin: String,
    /// In front of every link. No slash at its end.
    path: String,
}

impl ProxyUrl {
    /// What stands in front of every link: empty, or a path without a slash at its end.
    pub fn path(&self) -> &str {
        &self.path
    }

    /// The name by which browsers ask for it, without the port; `None` if it is a path only.
    pub fn host(&self) -> Option<&str> {
        let (_, authority) = self.origin.split_once("://")?;
        let port = authority.rfind(':').filter(|at| !authority[*at..].contains(']'));
        Some(port.map_or(authority, |at| &authority[..at]))
    }
}

impl fmt::Display for ProxyUrl {
    /// Without a slash at its end.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}{}", self.origin, self.path)
    }
}

fn is_path(text: &str) -> bool {
    let is_plain = |byte: u8| byte.is_ascii_alphanumeric() || b"/-_.".contains(&byte);
    let is_step = |part: &str| matches!(part, "." | "..");
    text.len() < 100
        && text.bytes().all(is_plain)
        && !text.contains("//")
        && !text.split('/').any(is_step)
}

fn is_authority(text: &str) -> bool {
    let is_plain = |byte: u8| byte.is_ascii_alphanumeric() || b"-_.:[]".contains(&byte);
    !text.is_empty() && !text.starts_with(':') && text.len() < 300 && text.bytes().all(is_plain)
}

impl Value for ProxyUrl {
    fn parse(text: &str, rules: &Rules) -> Result<Self, Refusal> {
        let rest = ["http://", "https://"].iter().find_map(|scheme| text.strip_prefix(scheme));
        let (origin, path) = match rest {
            Some(rest) => {
                text.split_at(text.len() - rest.len() + rest.find('/').unwrap_or(rest.len()))
            }
            None => ("", text),
        };
        let authority = origin.split_once("://").map(|(_, authority)| authority);
        let is_told = authority.map_or_else(|| path.starts_with('/'), is_authority);
        match is_told && is_path(path) {
            true => Ok(Self {
                origin: origin.to_owned(),
                path: path.strip_suffix('/').unwrap_or(path).to_owned(),
            }),
            false => Err(Refusal::of_kind::<Self>(rules)),
        }
    }

    fn kind(_: &Rules) -> String {
        "a URL such as https://spark.example.org/cluster, or its path, of letters, digits, `-`, `_` and `.`".to_owned()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_url_or_its_path_is_taken_apart_and_anything_else_is_refused() {
        let read = |text: &str| ProxyUrl::parse(text, &Rules::NONE).ok();
        for (text, whole, host, path) in [
            ("https://a.org/cluster/", "https://a.org/cluster", Some("a.org"), "/cluster"),
            ("http://a.org:8080", "http://a.org:8080", Some("a.org"), ""),
            ("https://[::1]:8443/x/y", "https://[::1]:8443/x/y", Some("[::1]"), "/x/y"),
            ("https://[::1]", "https://[::1]", Some("[::1]"), ""),
            ("/cluster", "/cluster", None, "/cluster"),
            ("/", "", None, ""),
        ] {
            let url = read(text).unwrap_or_else(|| panic!("{text}"));
            assert_eq!((&*url.to_string(), url.host(), url.path()), (whole, host, path), "{text}");
        }
        for text in [
            "",
            "cluster",
            "//evil.org",
            "https://",
            "https:///x",
            "ftp://a.org/",
            "javascript:x",
            "https://a.org/?q",
            "https://u@a.org/",
            "/a//b",
            "/a/../b",
            "/a b",
            "/\"><script>",
            "https://:80/",
            "/..",
        ] {
            assert!(read(text).is_none(), "{text}");
        }
    }
}
