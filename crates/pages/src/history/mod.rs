//! Pages of a history server that are not of one application.

pub(crate) mod compare;
pub(crate) mod list;

use crate::text::encoded;

/// To the first page of an application.
pub(crate) fn link(root: &str, id: &str, attempt: Option<&str>) -> String {
    match attempt {
        Some(attempt) => format!("{root}/history/{}/{}/", encoded(id), encoded(attempt)),
        None => format!("{root}/history/{}/", encoded(id)),
    }
}
