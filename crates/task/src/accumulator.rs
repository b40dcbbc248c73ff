//! Accumulators: tasks add, the driver reads. A task's additions are kept with the task and applied
//! by the driver only when the task is the one that counts for its partition.

use std::any::Any;
use std::fmt;
use std::sync::{Arc, Mutex, MutexGuard};

use serde::{Deserialize, Deserializer, Serialize, Serializer};

use firesteel_closure::{Data, WireError, check, to_readable_bytes};
use firesteel_types::AccumulatorId;

use crate::{Payload, TaskContext};

/// A value that grows by additions in any order: implement it for a serde type to bring your own.
pub trait Accumulate: Data + Default {
    /// The type of one addition.
    type Input;
    /// Adds one input. Tasks call it in any order.
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
    value: Option<Arc<Value<A>>>,
}

struct Value<A> {
    value: Mutex<A>,
    /// How updates are told of, if they are.
    named: Option<Named<A>>,
}

struct Named<A> {
    name: String,
    show: fn(&A) -> String,
}

impl<A> Value<A> {
    fn lock(&self) -> MutexGuard<'_, A> {
        self.value.lock().unwrap_or_else(|poisoned| poisoned.into_inner())
    }
}

impl<A> Clone for Accumulator<A> {
    fn clone(&self) -> Self {
        Accumulator { id: self.id, value: self.value.clone() }
    }
}

impl<A: Accumulate> Accumulator<A> {
    /// The driver's handle. It and its clones have the value; one that was decoded elsewhere has the id only.
    pub fn new(id: AccumulatorId) -> Self {
        let value = Value { value: Mutex::default(), named: None };
        Accumulator { id, value: Some(Arc::new(value)) }
    }

    /// The driver's handle on one whose updates are told of under this name.
    pub fn named(id: AccumulatorId, name: &str) -> Self
    where
        A: fmt::Display,
    {
        let named = Some(Named { name: name.to_owned(), show: shown::<A> });
        Accumulator { id, value: Some(Arc::new(Value { value: Mutex::default(), named })) }
    }

    /// Unique within the application; the only part that travels.
    pub fn id(&self) -> AccumulatorId {
        self.id
    }

    /// Adds. In a task, the addition counts once the task has succeeded; on the driver, at once.
    pub fn add(&self, input: A::Input) {
        match (TaskContext::current(), &self.value) {
            (Some(task), _) => self.add_in_task(&task, input),
            (None, Some(value)) => value.lock().add(input),
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
        value.lock().clone()
    }

    /// Starts again from the default.
    pub fn reset(&self) {
        if let Some(value) = &self.value {
            *value.lock() = A::default();
        }
    }

    /// What the driver applies updates through.
    pub fn target(&self) -> Option<Arc<dyn UpdateTarget>> {
        self.value.clone().map(|value| value as Arc<dyn UpdateTarget>)
    }
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
    /// For a downcast to the type of the accumulator's value.
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
    /// Adds what a task added; what to tell of it.
    fn apply(&self, update: Payload) -> Result<Option<Shown>, WireError>;
}

/// An update of an accumulator that has a name, for people.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Shown {
    /// The name that the program gave the accumulator.
    pub name: String,
    /// What the task added, cut after 256 characters.
    pub update: String,
    /// What it has come to.
    pub value: String,
}

/// Longer values are cut: they are for people.
const SHOWN_AT_MOST: usize = 256;

fn shown<A: fmt::Display>(value: &A) -> String {
    let mut text = value.to_string();
    if let Some((end, _)) = text.char_indices().nth(SHOWN_AT_MOST) {
        text.truncate(end);
        text.push('…');
    }
    text
}

impl<A: Accumulate> UpdateTarget for Value<A> {
    fn apply(&self, update: Payload) -> Result<Option<Shown>, WireError> {
        let update: A = update.into_value()?;
        let added = self.named.as_ref().map(|named| (named, (named.show)(&update)));
        let mut value = self.lock();
        value.merge(update);
        let shown = added.map(|(named, update)| {
            let (name, value) = (named.name.clone(), (named.show)(&value));
            Shown { name, update, value }
        });
        Ok(shown)
    }
}
