//! The pipeline trait, and its erased form.

use std::any::Any;
use std::cell::RefCell;
use std::sync::Arc;

use firesteel_closure::{Decoder, Encoder, Wire, WireError, code};
use firesteel_task::TaskContext;

/// A narrow pipeline: everything between two stage borders, as one type.
pub trait Pipe: Wire {
    /// Its items need not be encodable: they never leave the task.
    type Item: 'static;

    /// The items of one partition. The iterator owns what it needs, so that it can be handed to
    /// user code.
    fn compute(
        &self,
        partition: u32,
        task: &TaskContext,
    ) -> impl Iterator<Item = Self::Item> + use<Self> + 'static;
}

impl<P: Pipe> Pipe for Arc<P> {
    type Item = P::Item;

    #[inline]
    fn compute(
        &self,
        partition: u32,
        task: &TaskContext,
    ) -> impl Iterator<Item = P::Item> + use<P> + 'static {
        P::compute(self, partition, task)
    }
}

/// The items of one partition, as user code gets them.
pub struct Partition<T>(Box<dyn Items<T>>);

/// An iterator whose type is hidden. Unlike a boxed `Iterator`, it keeps the loop of the one who
/// consumes all of it: what is inside runs as one loop, and only its items cross the border. How many they are is not
/// known on this side: each method here is compiled for every pipeline.
trait Items<T> {
    fn next(&mut self) -> Option<T>;
    fn each(self: Box<Self>, f: &mut dyn FnMut(T));
}

impl<T, I: Iterator<Item = T>> Items<T> for I {
    #[inline]
    fn next(&mut self) -> Option<T> {
        Iterator::next(self)
    }

    fn each(self: Box<Self>, f: &mut dyn FnMut(T)) {
        (*self).for_each(f);
    }
}

impl<T> Partition<T> {
    /// Has the items of an iterator, computed as they are asked for.
    pub fn new(items: impl Iterator<Item = T> + 'static) -> Self {
        Partition(Box::new(items))
    }
}

impl<T> Iterator for Partition<T> {
    type Item = T;

    #[inline]
    fn next(&mut self) -> Option<T> {
        self.0.next()
    }

    fn fold<B, F: FnMut(B, T) -> B>(self, init: B, mut f: F) -> B {
        let mut state = Some(init);
        self.0.each(&mut |item| state = state.take().map(|state| f(state, item)));
        state.expect("a panic of `f` goes further than this")
    }
}

/// A pipeline whose type is hidden: dynamic dispatch once per item at this border.
pub struct Boxed<T>(Arc<dyn Erased<T>>);

impl<T> Clone for Boxed<T> {
    fn clone(&self) -> Self {
        Boxed(self.0.clone())
    }
}

impl<T: 'static> Boxed<T> {
    /// Hides the type of `pipe`.
    pub fn new<P: Pipe<Item = T>>(pipe: P) -> Self {
        Boxed(Arc::new(Eraser(Some(pipe))))
    }
}

trait Erased<T>: Send + Sync {
    fn compute(&self, partition: u32, task: &TaskContext) -> Partition<T>;
    fn encode(&self, out: &mut Encoder) -> Result<(), WireError>;
}

/// There until it is dropped.
struct Eraser<P: 'static>(Option<P>);

impl<P: Pipe> Eraser<P> {
    fn pipe(&self) -> &P {
        self.0.as_ref().expect("it is taken when it is dropped")
    }
}

impl<P: 'static> Drop for Eraser<P> {
    fn drop(&mut self) {
        if let Some(pipe) = self.0.take() {
            drop_flat(Box::new(pipe));
        }
    }
}

thread_local! {
    /// Pipelines that wait until those are dropped which held them; `None`: no pipeline is being dropped.
    static DROPPING: RefCell<Option<Vec<Box<dyn Any>>>> = const { RefCell::new(None) };
}

/// Drops a pipeline, and after it those that it alone held: thousands of steps, each in the one before, would be as many calls
/// deep on whatever stack the caller has.
fn drop_flat(pipe: Box<dyn Any>) {
    if DROPPING.try_with(|_| ()).is_err() {
        return; // The thread ends; what was not taken goes with `pipe`.
    }
    let first = DROPPING.with_borrow_mut(|dropping| match dropping {
        Some(waiting) => {
            waiting.push(pipe);
            None
        }
        None => {
            *dropping = Some(Vec::new());
            Some(pipe)
        }
    });
    if first.is_none() {
        return;
    }
    let _done = Dropped;
    drop(first);
    while let Some(next) = DROPPING.with_borrow_mut(|dropping| dropping.as_mut()?.pop()) {
        drop(next);
    }
}

/// Nothing waits any more, also after a panic in the `Drop` of a user's value.
struct Dropped;

impl Drop for Dropped {
    fn drop(&mut self) {
        let rest = DROPPING.take();
        drop(rest);
    }
}

impl<P: Pipe> Erased<P::Item> for Eraser<P> {
    fn compute(&self, partition: u32, task: &TaskContext) -> Partition<P::Item> {
        Partition::new(self.pipe().compute(partition, task))
    }

    fn encode(&self, out: &mut Encoder) -> Result<(), WireError> {
        code::encode(rebuild::<P>, out)?;
        self.pipe().encode(out)
    }
}

fn rebuild<P: Pipe>(input: &mut Decoder<'_>) -> Result<Boxed<P::Item>, WireError> {
    P::decode(input).map(Boxed::new)
}

impl<T: 'static> Wire for Boxed<T> {
    fn encode(&self, out: &mut Encoder) -> Result<(), WireError> {
        self.0.encode(out)
    }

    fn decode(input: &mut Decoder<'_>) -> Result<Self, WireError> {
        code::decode::<Boxed<T>>(input)?(input)
    }
}

impl<T: 'static> Pipe for Boxed<T> {
    type Item = T;

    fn compute(
        &self,
        partition: u32,
        task: &TaskContext,
    ) -> impl Iterator<Item = T> + use<T> + 'static {
        self.0.compute(partition, task)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::sample::RandomPart;
    use crate::source::Empty;

    #[test]
    fn a_deep_pipeline_is_dropped_on_any_stack() {
        let deep = || {
            let mut pipe = Boxed::new(Empty::<u64>::default());
            for _ in 0..100_000 {
                pipe = Boxed::new(RandomPart::new(pipe, 0.0..1.0, 0));
            }
            drop(pipe);
        };
        let small = std::thread::Builder::new().stack_size(128 << 10);
        small.spawn(deep).unwrap().join().unwrap();
    }
}
