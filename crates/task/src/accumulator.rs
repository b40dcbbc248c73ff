//! Accumulators: tasks add, the driver reads. A task's additions are kept with the task and applied
//! by the driver only when the task is the one that counts for its partition.

use std::any::Any;
use std::fmt;
use std::sync::{Arc, Mutex};

use serde::{Deserialize, Deserializer, Serialize, Serializer};

use firesteel_closure::{Data, WireError, check, to_readable_bytes};
use firesteel_types::AccumulatorId;

use crate::{Payload, TaskContext};

/// A value that grows by additions in any order: implement it for a serde type to bring your own.
pub trait Accumulate: Data + Default {
    /// What is added.
    type Input;
    /// Adds one.
    fn add(&mut self, input: Self::Input);
    /// Adds all that another has.
    fn merge(&mut self, other: Self);
}

macro_rules! sum_accumulator {
    ($($t:ty),*) => {$(
        impl Accumulate for $t {
            type Input = $t;
            #[inline]
            fn add(&mut self, input: $t) {
                *self += input;
            }
            fn merge(&mut self, other: $t) {
                *self += other;
            }
        }
    )*};
}
sum_accumulator!(u32, i32, u64, i64, usize, f64);

impl<T: Data> Accumulate for Vec<T> {
    type Input = T;

    fn add(&mut self, input: T) {
        self.push(input);
    }

    fn merge(&mut self, mut other: Vec<T>) {
        self.append(&mut other);
    }
}

/// A handle on an accumulator: clone it into environments, add in tasks, read on the driver.
pub struct Accumulator<A> {
    id: AccumulatorId,
    value: Option<Arc<Mutex<A>>>,
}

impl<A> Clone for Accumulator<A> {
    fn clone(&self) -> Self {
        Accumulator { id: self.id, value: self.value.clone() }
    }
}

impl<A: Accumulate> Accumulator<A> {
    /// The driver's handle.
    pub fn new(id: AccumulatorId) -> Self {
        Accumulator { id, value: Some(Arc::default()) }
    }

    /// Its id.
    pub fn id(&self) -> AccumulatorId {
        self.id
    }

    /// Adds. In a task, the addition counts once the task has succeeded; on the driver, at once.
    pub fn add(&self, input: A::Input) {
        match (TaskContext::current(), &self.value) {
            (Some(task), _) => self.add_in_task(&task, input),
            (None, Some(value)) => lock(value).add(input),
            (None, None) => panic!("accumulator {} is used outside of a task", self.id),
        }
    }

    fn add_in_task(&self, task: &TaskContext, input: A::Input) {
        // Taken out meanwhile: a user's `add` may use other accumulators.
        let mut taken = task.take_update(self.id).unwrap_or_else(|| Box::new(A::default()));
        let update: &mut dyn Any = taken.as_any();
        update.downcast_mut::<A>().expect("an id belongs to one type").add(input);
        task.put_update(self.id, taken);
    }

    /// The value, with all that successful tasks added.
    ///
    /// # Panics
    /// In a task of another process: only the driver knows the value.
    pub fn value(&self) -> A
    where
        A: Clone,
    {
        let value = self.value.as_ref().expect("an accumulator can be read on the driver only");
        lock(value).clone()
    }

    /// Starts again from the default.
    pub fn reset(&self) {
        if let Some(value) = &self.value {
            *lock(value) = A::default();
        }
    }

    /// What the driver applies updates through.
    pub fn target(&self) -> Option<Arc<dyn UpdateTarget>> {
        self.value.clone().map(|value| value as Arc<dyn UpdateTarget>)
    }
}

fn lock<A>(value: &Mutex<A>) -> std::sync::MutexGuard<'_, A> {
    value.lock().unwrap_or_else(|poisoned| poisoned.into_inner())
}

impl<A: Accumulate + fmt::Debug> fmt::Debug for Accumulator<A> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Accumulator").field("id", &self.id).finish_non_exhaustive()
    }
}

impl<A> Serialize for Accumulator<A> {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        self.id.serialize(serializer)
    }
}

impl<'de, A> Deserialize<'de> for Accumulator<A> {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        Ok(Accumulator { id: AccumulatorId::deserialize(deserializer)?, value: None })
    }
}

/// What one task added to one accumulator.
pub trait Update {
    /// For downcasts.
    fn as_any(&mut self) -> &mut dyn Any;
    /// To send within the process.
    fn into_payload(self: Box<Self>) -> Payload;
    /// Whether it could be sent to another.
    fn check(&self) -> Result<(), WireError>;
    /// To send to another.
    fn encode(&self) -> Result<Vec<u8>, WireError>;
}

impl<A: Accumulate> Update for A {
    fn as_any(&mut self) -> &mut dyn Any {
        self
    }

    fn into_payload(self: Box<Self>) -> Payload {
        Payload::Typed(self)
    }

    fn check(&self) -> Result<(), WireError> {
        check(self)
    }

    fn encode(&self) -> Result<Vec<u8>, WireError> {
        // When the driver reads it, the task has counted as successful.
        to_readable_bytes(self)
    }
}

/// Where the driver applies updates.
pub trait UpdateTarget: Send + Sync {
    /// Adds what a task added.
    fn apply(&self, update: Payload) -> Result<(), WireError>;
}

impl<A: Accumulate> UpdateTarget for Mutex<A> {
    fn apply(&self, update: Payload) -> Result<(), WireError> {
        let update: A = update.into_value()?;
        lock(self).merge(update);
        Ok(())
    }
}
