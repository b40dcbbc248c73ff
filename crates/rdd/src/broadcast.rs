//! Broadcast values: sent once to each process, shared by all its tasks.

use std::fmt;
use std::ops::Deref;
use std::sync::Arc;
use std::time::Duration;

use serde::{Deserialize, Deserializer, Serialize, Serializer};

use firesteel_closure::{Data, from_bytes};
use firesteel_storage::{BlockId, Claim, Outcome};
use firesteel_types::BroadcastId;

use crate::TaskContext;

/// Between two looks at the kill switch, while another task fetches the value.
const POLL: Duration = Duration::from_millis(50);

/// A read-only value, shared by the tasks of a process. Put it into an environment:
/// `rdd.with(broadcast).map(|table, x| table.get(&x))`.
pub struct Broadcast<T> {
    id: BroadcastId,
    value: Arc<T>,
    /// The driver's handles keep the value available to executors.
    kept: Option<Arc<dyn Send + Sync>>,
}

impl<T> Clone for Broadcast<T> {
    fn clone(&self) -> Self {
        Broadcast { id: self.id, value: self.value.clone(), kept: self.kept.clone() }
    }
}

impl<T> Broadcast<T> {
    /// The driver's handle; when the last one is gone, `kept` is dropped.
    pub fn new(id: BroadcastId, value: Arc<T>, kept: Arc<dyn Send + Sync>) -> Self {
        Broadcast { id, value, kept: Some(kept) }
    }

    /// Its id.
    pub fn id(&self) -> BroadcastId {
        self.id
    }

    /// The value.
    pub fn value(&self) -> &T {
        &self.value
    }
}

impl<T> Deref for Broadcast<T> {
    type Target = T;

    fn deref(&self) -> &T {
        &self.value
    }
}

impl<T> fmt::Debug for Broadcast<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Broadcast({})", self.id)
    }
}

impl<T> Serialize for Broadcast<T> {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        self.id.serialize(serializer)
    }
}

/// Read inside a task only: the value is this process's, fetched when the first task wants it.
impl<'de, T: Data> Deserialize<'de> for Broadcast<T> {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let id = BroadcastId::deserialize(deserializer)?;
        let value = local_value(id).map_err(serde::de::Error::custom)?;
        Ok(Broadcast { id, value, kept: None })
    }
}

fn local_value<T: Data>(id: BroadcastId) -> Result<Arc<T>, String> {
    let task = TaskContext::current().ok_or("a broadcast can only be read inside a task")?;
    let environment = task.environment();
    let block = BlockId::Broadcast(id);
    let claimed = loop {
        if let Some(value) = environment.blocks().get::<T>(block) {
            return Ok(value);
        }
        match environment.blocks().claim(block) {
            Claim::Mine(claimed) => break claimed,
            Claim::Theirs(waiting) => waiting.wait(POLL),
        };
        task.check_killed();
    };
    // Between the look and the claim, another task may have brought it.
    if let Some(value) = environment.blocks().get::<T>(block) {
        return Ok(value);
    }
    let bytes = environment.fetch_broadcast(id).map_err(|failure| failure.to_string())?;
    let value = Arc::new(from_bytes::<T>(&bytes).map_err(|error| error.to_string())?);
    environment.blocks().put(block, value.clone());
    claimed.end(Outcome::Kept);
    Ok(value)
}
