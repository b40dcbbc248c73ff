//! The pipeline trait, and its erased form.

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
/// consumes all of it: what is inside runs as one loop, and only its items cross the border.
trait Items<T> {
    fn next(&mut self) -> Option<T>;
    fn size_hint(&self) -> (usize, Option<usize>);
    fn each(self: Box<Self>, f: &mut dyn FnMut(T));
}

impl<T, I: Iterator<Item = T>> Items<T> for I {
    #[inline]
    fn next(&mut self) -> Option<T> {
        Iterator::next(self)
    }

    fn size_hint(&self) -> (usize, Option<usize>) {
        Iterator::size_hint(self)
    }

    fn each(self: Box<Self>, f: &mut dyn FnMut(T)) {
        (*self).for_each(f);
    }
}

impl<T> Partition<T> {
    /// Wraps an iterator.
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

    fn size_hint(&self) -> (usize, Option<usize>) {
        self.0.size_hint()
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
        Boxed(Arc::new(Eraser(pipe)))
    }
}

trait Erased<T>: Send + Sync {
    fn compute(&self, partition: u32, task: &TaskContext) -> Partition<T>;
    fn encode(&self, out: &mut Encoder) -> Result<(), WireError>;
}

struct Eraser<P>(P);

impl<P: Pipe> Erased<P::Item> for Eraser<P> {
    fn compute(&self, partition: u32, task: &TaskContext) -> Partition<P::Item> {
        Partition::new(self.0.compute(partition, task))
    }

    fn encode(&self, out: &mut Encoder) -> Result<(), WireError> {
        code::encode(rebuild::<P>, out)?;
        self.0.encode(out)
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
