//! Choosing a partitioner: what the user says, or the best that is there already.

use std::hash::Hash;
use std::sync::Arc;

use firesteel_rdd::{AnyPartitioner, HashPartitioner, Partitioner, Pipe};
use firesteel_types::CallSite;

use crate::{Context, Error, Rdd};

/// What can be given where a partitioner is wanted: a number of partitions (by hash), a
/// [`HashPartitioner`], or your own [`Partitioner`] as `By(mine)`.
pub trait IntoPartitioner<K> {
    /// The partitioner, or what is wrong with it.
    fn into_partitioner(self) -> Result<AnyPartitioner<K>, String>;
}

impl<K: Hash + 'static> IntoPartitioner<K> for usize {
    fn into_partitioner(self) -> Result<AnyPartitioner<K>, String> {
        HashPartitioner::new(self).into_partitioner()
    }
}

impl<K: Hash + 'static> IntoPartitioner<K> for HashPartitioner {
    fn into_partitioner(self) -> Result<AnyPartitioner<K>, String> {
        checked(AnyPartitioner::hash(self))
    }
}

/// A partitioner of the user's own.
#[derive(Clone, Debug)]
pub struct By<P>(pub P);

impl<K: 'static, P: Partitioner<K>> IntoPartitioner<K> for By<P> {
    fn into_partitioner(self) -> Result<AnyPartitioner<K>, String> {
        checked(AnyPartitioner::custom(self.0).map_err(|error| error.to_string())?)
    }
}

fn checked<K: 'static>(partitioner: AnyPartitioner<K>) -> Result<AnyPartitioner<K>, String> {
    match partitioner.partitions() {
        0 => Err("the number of partitions must be at least 1, but is 0".to_owned()),
        _ => Ok(partitioner),
    }
}

/// The partitioner the user asked for; if that is wrong, one partition and the mistake.
pub(super) fn resolve<K: Hash + 'static>(
    site: &CallSite,
    wanted: impl IntoPartitioner<K>,
) -> (AnyPartitioner<K>, Option<Error>) {
    match wanted.into_partitioner() {
        Ok(partitioner) => (partitioner, None),
        Err(reason) => {
            let one = AnyPartitioner::hash(HashPartitioner::new(1));
            (one, Some(Error::invalid(site, reason)))
        }
    }
}

/// What is known of one side of a shuffle.
pub(super) struct Side<K> {
    partitions: u32,
    partitioner: Option<AnyPartitioner<K>>,
}

impl<K: 'static, V: 'static, P: Pipe<Item = (K, V)>> Rdd<(K, V), P> {
    /// How this RDD's keys are partitioned, if they are.
    pub(super) fn key_partitioner(&self) -> Option<AnyPartitioner<K>> {
        let kept: Arc<AnyPartitioner<K>> = self.partitioner.clone()?.downcast().ok()?;
        Some((*kept).clone())
    }

    pub(super) fn side(&self) -> Side<K> {
        Side { partitions: self.info.partitions, partitioner: self.key_partitioner() }
    }
}

/// Spark's choice: the largest partitioner that is there, unless it is far too small (by an order
/// of magnitude) for the data; else by hash into `spark.default.parallelism` partitions, or as many
/// as the largest side has.
pub(super) fn default_partitioner<K: Hash + 'static>(
    context: &Context,
    sides: Vec<Side<K>>,
) -> AnyPartitioner<K> {
    let most = sides.iter().map(|side| side.partitions).max().unwrap_or(1).max(1);
    let wanted = context.configured_parallelism().unwrap_or(most);
    let partitioners = sides.into_iter().filter_map(|side| side.partitioner);
    let existing = partitioners.max_by_key(AnyPartitioner::partitions);
    let fits = |count: u32| f64::from(most).log10() - f64::from(count).log10() < 1.0;
    existing
        .filter(|found| fits(found.partitions()) || wanted <= found.partitions())
        .unwrap_or_else(|| AnyPartitioner::hash(HashPartitioner::new(wanted as usize)))
}
