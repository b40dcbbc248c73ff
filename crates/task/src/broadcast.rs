//! Broadcast values: sent once to each process, shared by all its tasks, until the last handle on the driver is
//! gone or the value is destroyed.

use std::any::Any;
use std::cell::RefCell;
use std::fmt;
use std::ops::Deref;
use std::sync::{Arc, OnceLock, Weak};
use std::time::Duration;

use serde::{Deserialize, Deserializer, Serialize, Serializer};

use firesteel_closure::{Data, check, from_bytes, heap_bytes, is_checking};
use firesteel_storage::{BlockId, Claim, HeldBytes, Outcome};
use firesteel_types::{BroadcastId, CallSite};

use crate::{TaskContext, fail, fail_for_good};

/// Between two looks at the kill switch, while another task fetches the value.
const POLL: Duration = Duration::from_millis(50);

/// A read-only value, shared by the tasks of a process. Put it into an environment:
/// `rdd.with(broadcast).map(|table, x| table.get(&x))`.
///
/// Executors free their copies when the last handle on the driver is dropped, those in RDDs included.
pub struct Broadcast<T> {
    id: BroadcastId,
    value: Arc<T>,
    /// What all handles of this process share.
    shared: Arc<Shared>,
}

/// Makes a broadcast value available to executors; they forget it when this is dropped.
pub trait BroadcastOwner: Send + Sync {
    /// Executors drop their copies.
    fn unpersist(&self);
    /// Nobody can have the value any more, for this reason.
    fn destroy(&self, reason: &str);
}

#[derive(Default)]
struct Shared {
    /// The driver's handles only.
    owner: Option<Box<dyn BroadcastOwner>>,
    /// Why the value cannot be used.
    unusable: OnceLock<String>,
}

impl<T> Clone for Broadcast<T> {
    fn clone(&self) -> Self {
        Broadcast { id: self.id, value: self.value.clone(), shared: self.shared.clone() }
    }
}

impl<T> Broadcast<T> {
    /// The driver's handle; when the last one is gone, `owner` is dropped.
    pub fn new(id: BroadcastId, value: Arc<T>, owner: Box<dyn BroadcastOwner>) -> Self {
        let shared = Shared { owner: Some(owner), unusable: OnceLock::new() };
        Broadcast { id, value, shared: Arc::new(shared) }
    }

    /// A handle of a value that cannot be used, for this reason.
    pub fn unusable(id: BroadcastId, value: Arc<T>, reason: String) -> Self {
        let shared = Shared { owner: None, unusable: OnceLock::from(reason) };
        Broadcast { id, value, shared: Arc::new(shared) }
    }

    /// Unique within the application; executors fetch and cache the value by it.
    pub fn id(&self) -> BroadcastId {
        self.id
    }

    /// The value.
    ///
    /// # Panics
    /// If it was destroyed, or made by a context that was stopped; in a task, the job fails with that reason.
    #[inline]
    pub fn value(&self) -> &T {
        if let Some(reason) = self.shared.unusable.get() {
            refuse(reason);
        }
        &self.value
    }

    /// Has executors drop their copies, to free their memory; tasks that need the value fetch it again. Does
    /// nothing in a task.
    pub fn unpersist(&self) {
        if let Some(owner) = &self.shared.owner {
            owner.unpersist();
        }
    }

    /// Ends the broadcast for good: executors drop their copies, and using any of its handles afterwards is an
    /// error that names this call. What this process holds of the value goes with the last handle. Does nothing
    /// in a task.
    #[track_caller]
    pub fn destroy(&self) {
        let Some(owner) = &self.shared.owner else { return };
        let (id, site) = (self.id, CallSite::here("destroy"));
        let reason = format!("broadcast {id} cannot be used any more: it was destroyed ({site})");
        owner.destroy(self.shared.unusable.get_or_init(|| reason));
    }
}

#[cold]
fn refuse(reason: &str) -> ! {
    match TaskContext::current() {
        Some(_) => fail_for_good(reason),
        None => panic!("{reason}"),
    }
}

impl<T> Deref for Broadcast<T> {
    type Target = T;

    #[inline]
    fn deref(&self) -> &T {
        self.value()
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
        if let Some(reason) = self.shared.unusable.get() {
            return Err(serde::ser::Error::custom(reason));
        }
        if is_checking() {
            check(&*self.value).map_err(serde::ser::Error::custom)?;
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
        Ok(Broadcast { id, value, shared: Arc::default() })
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
            Claim::Theirs(waiting) => {
                let _blocked = task.scratch().memory().blocked(task.task());
                waiting.wait(POLL)
            }
        };
        task.check_killed();
    };
    // Between the look and the claim, another task may have brought it.
    if let Some(value) = environment.blocks().get::<T>(block) {
        return Ok(value);
    }
    // As it is: whether trying again can help is not to be lost on the way through serde.
    let bytes = environment.fetch_broadcast(id).unwrap_or_else(|failure| fail(failure));
    let memory = task.scratch().memory();
    let arrived = HeldBytes::count(memory, bytes.len() as u64, "an encoded broadcast value");
    let value = Arc::new(from_bytes::<T>(&bytes).map_err(|error| error.to_string())?);
    drop((bytes, arrived));
    let size = (size_of::<T>() + heap_bytes(&*value)) as u64;
    let held = HeldBytes::count(memory, size, "a broadcast value");
    environment.blocks().put_held(block, value.clone(), held);
    claimed.end(Outcome::Cached);
    Ok(value)
}
