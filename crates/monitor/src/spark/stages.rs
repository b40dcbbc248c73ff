//! Stages and RDDs of a log, read.

use std::sync::Arc;

use firesteel_types::event::{RddDescription, RddScope, StageRdd};
use firesteel_types::{Determinism, RddId, StageId, StageInfo, StageRef};
use serde::Deserialize;

use super::decode::{stage_ref, tick};
use super::model;
use super::text::{Int, Str};

/// A stage. Whether it was complete before matters to a job that begins.
pub(super) fn info(read: &model::Stage<'_>, before: bool) -> StageInfo {
    let details = (*read.details != *read.name).then(|| (&*read.details).into());
    StageInfo {
        stage: stage_ref(read.id, read.attempt),
        name: (&*read.name).into(),
        tasks: read.tasks.u32(),
        parents: read.parents.iter().map(|id| StageId(id.u32())).collect(),
        rdds: read.rdds.iter().map(rdd).collect(),
        shuffle_map: read.shuffle_map,
        submitted: read.submitted.map(tick),
        completed: read.completed.filter(|_| before).map(tick),
        details,
        resource_profile: read.profile.u32(),
    }
}

/// A stage of which only the number is told.
pub(super) fn unknown(id: Int) -> StageInfo {
    StageInfo {
        stage: StageRef { stage: StageId(id.u32()), attempt: 0 },
        name: "unknown".into(),
        tasks: 0,
        parents: Vec::new(),
        rdds: Arc::from([]),
        shuffle_map: false,
        submitted: None,
        completed: None,
        details: None,
        resource_profile: 0,
    }
}

fn rdd(read: &model::Rdd<'_>) -> StageRdd {
    let description = RddDescription {
        id: RddId(read.id.u32()),
        name: read.name.to_string(),
        scope: scope(read.scope.as_deref()),
        call_site: read.call_site.to_string(),
        parents: read.parents.iter().map(|id| RddId(id.u32())).collect(),
        partitions: read.partitions.u32(),
        determinism: match &*read.determinism {
            "UNORDERED" => Determinism::Unordered,
            "INDETERMINATE" => Determinism::Indeterminate,
            _ => Determinism::Determinate,
        },
    };
    StageRdd { rdd: Arc::new(description), level: read.level.into() }
}

#[derive(Deserialize)]
struct Scope<'a> {
    #[serde(borrow, default)]
    id: Str<'a>,
    #[serde(borrow, default)]
    name: Str<'a>,
    #[serde(borrow)]
    parent: Option<Box<Scope<'a>>>,
}

impl Scope<'_> {
    /// The innermost first in memory, the outermost first here: as deep as the reader of JSON goes.
    fn into_scope(self) -> RddScope {
        RddScope {
            id: self.id.parse().unwrap_or(0),
            name: self.name.into_owned(),
            parent: self.parent.map(|parent| Arc::new(parent.into_scope())),
        }
    }
}

/// The scope is JSON within a text of JSON.
fn scope(text: Option<&str>) -> RddScope {
    let read = text.and_then(|text| serde_json::from_str::<Scope<'_>>(text).ok());
    read.map_or_else(|| RddScope { id: 0, name: String::new(), parent: None }, Scope::into_scope)
}
