//! Stages as listeners see them.

use std::sync::Arc;

use serde::{Deserialize, Deserializer, Serialize, Serializer};

use crate::{Determinism, RddId, StageId, StageRef, StorageLevel, Tick};

/// A stage attempt as listeners see it.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct StageInfo {
    pub stage: StageRef,
    /// Operation and place: of the action, or of the RDD whose map outputs it writes.
    pub name: Arc<str>,
    /// Tasks of this attempt.
    pub tasks: u32,
    /// The stages it reads.
    pub parents: Vec<StageId>,
    /// The RDDs it computes, its own first.
    pub rdds: Arc<[StageRdd]>,
    /// Whether it writes map outputs (as against results).
    pub shuffle_map: bool,
    /// When this attempt began, if it has.
    pub submitted: Option<Tick>,
    /// When it ended, of a stage that a new job finds complete.
    pub completed: Option<Tick>,
    /// The calls that led to it, a line each; `None`: the name says it all.
    pub details: Option<Arc<str>>,
    /// The profile that its executors were asked for with.
    pub resource_profile: u32,
}

/// An RDD of a stage, and how it was cached when the stage was made.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct StageRdd {
    pub rdd: Arc<RddDescription>,
    /// [`StorageLevel::NONE`]: not at all.
    pub level: StorageLevel,
}

/// In a text, the fields of an RDD lie beside its level; bytes without names have both one after the other.
#[derive(Serialize, Deserialize)]
struct Flat<R> {
    #[serde(flatten)]
    rdd: R,
    level: StorageLevel,
}

impl Serialize for StageRdd {
    fn serialize<S: Serializer>(&self, to: S) -> Result<S::Ok, S::Error> {
        match to.is_human_readable() {
            true => Flat { rdd: &self.rdd, level: self.level }.serialize(to),
            false => (&self.rdd, self.level).serialize(to),
        }
    }
}

impl<'de> Deserialize<'de> for StageRdd {
    fn deserialize<D: Deserializer<'de>>(from: D) -> Result<Self, D::Error> {
        let (rdd, level) = match from.is_human_readable() {
            true => Flat::deserialize(from).map(|Flat { rdd, level }| (rdd, level))?,
            false => Deserialize::deserialize(from)?,
        };
        Ok(StageRdd { rdd, level })
    }
}

/// One call of an operation: all RDDs that it makes are of its scope.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct RddScope {
    /// Another one for each call.
    pub id: u64,
    /// The operation, e.g. `reduce_by_key`, or what a front door calls it.
    pub name: String,
    /// The scope that it is part of, if it is.
    pub parent: Option<Arc<RddScope>>,
}

/// What listeners are told of an RDD. It never changes.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct RddDescription {
    pub id: RddId,
    /// What the user calls it, or its kind.
    pub name: String,
    /// The call of an operation that made it.
    pub scope: RddScope,
    /// The operation that made it and where the program called it.
    pub call_site: String,
    /// The RDDs it reads.
    pub parents: Vec<RddId>,
    /// How many partitions it has.
    pub partitions: u32,
    /// What computing it again may give.
    pub determinism: Determinism,
}
