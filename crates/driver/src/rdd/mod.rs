//! [`Rdd`]: a pipeline with its lineage, as users hold it.
//!
//! Adapters only describe; an action runs a job. Every adapter of one partition at a time returns a
//! type that spells out the pipeline, so that the compiler fuses it; every wide one returns the boxed
//! type `Rdd<T>`, so that loops type-check.

#![allow(clippy::type_complexity)] // spelling out the pipeline is the point

mod actions;
mod background;
mod checkpoint;
mod debug;
mod future;
mod graph;
mod joins;
mod keys;
mod narrow;
mod numbers;
mod pairs;
mod partitioning;
mod persist;
mod save;
mod shuffle;
mod wide;
mod with;

use std::any::Any;
use std::marker::PhantomData;
use std::sync::Arc;

use firesteel_rdd::{Boxed, Pipe};
use firesteel_types::{CallSite, Determinism, RddId, RddInfo};

use crate::Context;

pub(crate) use checkpoint::Checkpoints;
pub(crate) use graph::Node;
pub(crate) use wide::union_at;

pub use future::JobFuture;
pub use keys::{Key, SortKey, Total};
pub use partitioning::{By, IntoPartitioner};
pub use save::SaveOptions;
pub use with::With;

/// A distributed collection of `T`s: partitions that are computed when an action asks for them, in
/// parallel, and again when one is lost.
///
/// `P` is the pipeline's own type. Where one type is wanted (a struct's field, a loop), write
/// `Rdd<T>` and call [`Rdd::boxed`].
#[must_use = "an RDD only describes: call an action, or keep what an adapter returns"]
pub struct Rdd<T, P = Boxed<T>> {
    pub(crate) context: Context,
    pub(crate) info: Arc<RddInfo>,
    pub(crate) pipe: Arc<P>,
    /// An `AnyPartitioner<K>`, if `T` is `(K, V)` and keys are known to be partitioned.
    pub(crate) partitioner: Option<Arc<dyn Any + Send + Sync>>,
    pub(crate) item: PhantomData<fn() -> T>,
}

impl<T, P> Clone for Rdd<T, P> {
    fn clone(&self) -> Self {
        Rdd {
            context: self.context.clone(),
            info: self.info.clone(),
            pipe: self.pipe.clone(),
            partitioner: self.partitioner.clone(),
            item: PhantomData,
        }
    }
}

impl<T: 'static, P: Pipe<Item = T>> Rdd<T, P> {
    /// The context it belongs to.
    pub fn context(&self) -> &Context {
        &self.context
    }

    /// Its id, unique in its context.
    pub fn id(&self) -> RddId {
        self.info.id
    }

    /// How many partitions it has.
    pub fn partition_count(&self) -> usize {
        self.info.partitions as usize
    }

    /// Hides the pipeline's type, at the price of one dynamic call per item at this point.
    pub fn boxed(&self) -> Rdd<T> {
        // Hidden already: one more call per item would hide nothing more.
        if let Some(boxed) = (self as &dyn Any).downcast_ref::<Rdd<T>>() {
            return boxed.clone();
        }
        Rdd {
            context: self.context.clone(),
            info: self.info.clone(),
            pipe: Arc::new(Boxed::new(self.pipe.clone())),
            partitioner: self.partitioner.clone(),
            item: PhantomData,
        }
    }

    /// Starts adapters whose closures take `environment` as their first argument.
    ///
    /// Closures capture nothing, so that they can travel to executors; what they need is passed in
    /// the open: a serde value, a broadcast, an accumulator, or a tuple of them.
    ///
    /// ```
    /// # fn main() -> firesteel_driver::Result<()> {
    /// # let ctx = firesteel_driver::Context::builder().master("local[2]").build()?;
    /// let names = ctx.broadcast(["zero", "one", "two"].map(String::from));
    /// let named = ctx.range(0..3usize).with(names).map(|names, id| names[id].clone());
    /// assert_eq!(named.collect()?, ["zero", "one", "two"]);
    /// # Ok(())
    /// # }
    /// ```
    pub fn with<E: firesteel_closure::Data>(&self, environment: E) -> With<T, P, E> {
        With { rdd: self.clone(), environment: Arc::new(environment) }
    }

    /// What computing a partition a second time may give, as far as the engine knows.
    pub fn determinism(&self) -> Determinism {
        self.info.determinism()
    }

    /// Says that a partition may hold other records when it is computed again: they depend on chance, on the
    /// time or on something outside. When map outputs of it are lost and come out different, everything
    /// that read the old ones is computed again, or the job fails if results were delivered already.
    ///
    /// Where an order that may change makes the difference (`zip`, `sample` after `reduce_by_key`), the engine
    /// knows by itself.
    #[track_caller]
    pub fn indeterminate(&self) -> Rdd<T> {
        let site = CallSite::here("indeterminate");
        let node = self.derive("MapPartitionsRDD", site).partitioned_as(self).indeterminate();
        node.into_boxed(self.pipe.clone())
    }

    /// A node that reads this RDD partition by partition.
    fn derive(&self, kind: &'static str, site: CallSite) -> Node {
        Node::new(&self.context, kind, site).one_to_one(&self.info)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn boxing_twice_is_boxing_once_also_behind_wide_operations() {
        let builder = Context::builder().master("local[1]").arguments([""; 0]);
        let ctx = builder.config("spark.firesteel.handleInterrupt", false).build().unwrap();
        let numbers = ctx.range(0..4u32);
        let boxed = numbers.boxed();
        assert!(Arc::ptr_eq(&boxed.pipe, &boxed.boxed().boxed().pipe));
        let wide = numbers.repartition(2);
        assert!(Arc::ptr_eq(&wide.pipe, &wide.boxed().pipe));
        assert_eq!(boxed.boxed().id(), numbers.id());
    }
}
