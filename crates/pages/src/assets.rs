//! The style sheet, the script and the mark: a part of the program, with the hash of their text in their paths, so that
//! browsers ask for each of them once.

use std::hash::{DefaultHasher, Hasher};
use std::sync::LazyLock;

use maud::{Markup, html};

pub(crate) const STYLE: &str = include_str!("../assets/pages.css");
pub(crate) const SCRIPT: &str = include_str!("../assets/pages.js");

/// A spark, in a place that every browser asks for.
pub(crate) const ICON: &str = "data:image/svg+xml,%3Csvg xmlns='http://www.w3.org/2000/svg' viewBox='0 0 16 16'%3E%3Cpath \
    fill='%23d55e00' d='M8 0l2 6 6 2-6 2-2 6-2-6-6-2 6-2z'/%3E%3C/svg%3E";

static STYLE_PATH: LazyLock<String> = LazyLock::new(|| format!("/static/{}.css", hash(STYLE)));
static SCRIPT_PATH: LazyLock<String> = LazyLock::new(|| format!("/static/{}.js", hash(SCRIPT)));

fn hash(text: &str) -> String {
    let mut hasher = DefaultHasher::new();
    hasher.write(text.as_bytes());
    format!("{:016x}", hasher.finish())
}

/// Another one for other bytes.
pub(crate) fn etag(bytes: &[u8]) -> String {
    let mut hasher = DefaultHasher::new();
    hasher.write(bytes);
    format!("\"{:016x}\"", hasher.finish())
}

pub(crate) fn style_path() -> &'static str {
    &STYLE_PATH
}

pub(crate) fn script_path() -> &'static str {
    &SCRIPT_PATH
}

/// The text of a path and its type.
pub(crate) fn find(path: &str) -> Option<(&'static str, &'static str)> {
    match path {
        path if path == style_path() => Some(("text/css;charset=utf-8", STYLE)),
        path if path == script_path() => Some(("text/javascript;charset=utf-8", SCRIPT)),
        _ => None,
    }
}

pub(crate) fn mark() -> Markup {
    html! {
        svg.mark viewBox="0 0 16 16" width="16" height="16" aria-hidden="true" {
            path d="M8 0l2 6 6 2-6 2-2 6-2-6-6-2 6-2z" {}
        }
    }
}
