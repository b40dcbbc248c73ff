//! Broadcast values: sent once to each process, shared by all its tasks.

use std::any::Any;
use std::cell::RefCell;
use std::fmt;
use std::ops::Deref;
use std::sync::{Arc, Weak};
use std::time::Duration;

use serde::{Deserialize, Deserializer, Serialize, Serializer};

use firesteel_closure::{Data, check, from_bytes, is_checking};
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

thread_local! {
    /// Values of handles that this thread wrote to check whether an environment can be sent.
    static CHECKED: RefCell<Vec<(BroadcastId, Weak<dyn Any + Send + Sync>)>> =
        const { RefCell::new(Vec::new()) };
}

/// Sent as its id. When an environment is checked, so is the value.
impl<T: Data> Serialize for Broadcast<T> {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        if is_checking() {
            check(self.value()).map_err(serde::ser::Error::custom)?;
            let value: Arc<dyn Any + Send + Sync> = self.value.clone();
            CHECKED.with_borrow_mut(|checked| {
                checked.retain(|(id, value)| *id != self.id && value.strong_count() > 0);
                checked.push((self.id, Arc::downgrade(&value)));
            });
        }
        self.id.serialize(serializer)
    }
}

/// Read inside a task only: the value is this process's, fetched when the first task wants it.
impl<'de, T: Data> Deserialize<'de> for Broadcast<T> {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let id = BroadcastId::deserialize(deserializer)?;
        let value = match checked_value(id) {
            Some(value) => value,
            None => local_value(id).map_err(serde::de::Error::custom)?,
        };
        Ok(Broadcast { id, value, kept: None })
    }
}

/// The value of a handle that is read back where it was written, to check it.
fn checked_value<T: Data>(id: BroadcastId) -> Option<Arc<T>> {
    if !is_checking() {
        return None;
    }
    let found = CHECKED.with_borrow(|checked| {
        checked.iter().find(|(other, _)| *other == id).and_then(|(_, value)| value.upgrade())
    });
    found?.downcast().ok()
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
