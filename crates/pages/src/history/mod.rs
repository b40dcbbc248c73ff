//! Pages of a history server that are not of one application.

pub(crate) mod compare;
pub(crate) mod list;

use firesteel_monitor::rest::Query;
use firesteel_monitor::site::Asked;

use crate::frame::{Drawn, Frame, Place};
use crate::known::Known;
use crate::text::encoded;

/// Of a page of this server, at `path`.
fn frame<'a>(asked: &Asked<'a>, root: &str, path: &str, known: &'a Known) -> Frame<'a> {
    Frame {
        place: Place::History,
        root: root.to_owned(),
        home: root.to_owned(),
        path: path.to_owned(),
        query: Query::parse(asked.query),
        now: asked.now,
        end: asked.now,
        known,
        secrets: asked.secrets,
        token: None,
        drawn: Drawn::default(),
    }
}

/// To the first page of an application.
pub(crate) fn link(root: &str, id: &str, attempt: Option<&str>) -> String {
    match attempt {
        Some(attempt) => format!("{root}/history/{}/{}/", encoded(id), encoded(attempt)),
        None => format!("{root}/history/{}/", encoded(id)),
    }
}
