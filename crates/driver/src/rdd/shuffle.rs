//! The driver's half of a shuffle: registers the map side, samples range bounds.

use std::sync::Arc;

use firesteel_closure::Data;
use firesteel_rdd::action::SampleKeys;
use firesteel_rdd::body::ShuffleMapBody;
use firesteel_rdd::key::KeyOf;
use firesteel_rdd::partitioner::choose_bounds;
use firesteel_rdd::wide::{ByKeyOf, ShuffleRecords, Writer};
use firesteel_rdd::{AnyPartitioner, Pipe, RangePartitioner};
use firesteel_types::{CallSite, Determinism};

use super::graph::{Node, Prepare};
use super::keys::SortKey;
use crate::user_code::on_driver;
use crate::{Rdd, Result};

/// Samples per partition of the result, and at most in all, as in Spark.
const SAMPLES_PER_PARTITION: u64 = 20;
const MOST_SAMPLES: u64 = 1_000_000;

impl<T: 'static, P: Pipe<Item = T>> Rdd<T, P> {
    /// A node that reads this RDD through a shuffle, and the pipe of the records in it.
    pub(super) fn shuffled<R: Data>(
        &self,
        kind: &'static str,
        site: CallSite,
        writer: impl Writer<T>,
        readers: u32,
    ) -> (Node, ShuffleRecords<R>) {
        let node = Node::new(&self.context, kind, site).with_partitions(readers);
        self.read_through_shuffle(node, writer, readers)
    }

    /// Adds this RDD, read through a shuffle, to a node.
    pub(super) fn read_through_shuffle<R: Data>(
        &self,
        node: Node,
        writer: impl Writer<T>,
        readers: u32,
    ) -> (Node, ShuffleRecords<R>) {
        let checksummed = self.info.determinism() == Determinism::Indeterminate;
        self.read_through_checked(node, writer, readers, checksummed)
    }

    /// The same; `checksummed` if a map output that is computed again may differ from the one before.
    pub(super) fn read_through_checked<R: Data>(
        &self,
        node: Node,
        writer: impl Writer<T>,
        readers: u32,
        checksummed: bool,
    ) -> (Node, ShuffleRecords<R>) {
        let shuffle = self.context.0.engine.next_shuffle();
        let body = ShuffleMapBody::new(self.pipe.clone(), writer, shuffle, readers, checksummed);
        let handle = self.context.0.engine.register_shuffle(shuffle, Arc::new(body));
        let records = ShuffleRecords::new(shuffle, self.info.partitions);
        (node.reads(handle, &self.info), records)
    }

    /// A node that reads this RDD in ranges of a key, its records, and the partitioner. The bounds
    /// are sampled by a job of their own when the first job needs them.
    pub(super) fn range_shuffled<K, C>(
        &self,
        site: CallSite,
        key: C,
        partitions: usize,
        descending: bool,
    ) -> (Node, ShuffleRecords<T>, AnyPartitioner<K>)
    where
        T: Data,
        K: SortKey,
        C: KeyOf<T, K>,
    {
        let node = Node::new(&self.context, "ShuffledRDD", site).partition_count(partitions);
        let readers = node.partitions;
        let ranges = RangePartitioner::deferred(descending);
        let unique = self.context.next_unique();
        let partitioner = AnyPartitioner::range(ranges.clone(), readers, unique);
        let writer = ByKeyOf::new(partitioner.clone(), key.clone());
        let sampling = SampleBounds { rdd: self.clone(), key, ranges, partitions: readers, site };
        let node = node.prepared_by(Arc::new(sampling));
        let (node, records) = self.read_through_shuffle(node, writer, readers);
        (node, records, partitioner)
    }
}

/// Finds the bounds of ranges that hold about equally many items.
struct SampleBounds<T, P, C, K> {
    rdd: Rdd<T, P>,
    key: C,
    ranges: RangePartitioner<K>,
    partitions: u32,
    site: CallSite,
}

impl<T, P, C, K> Prepare for SampleBounds<T, P, C, K>
where
    T: 'static,
    P: Pipe<Item = T>,
    K: SortKey,
    C: KeyOf<T, K>,
{
    fn prepare(&self) -> Result<()> {
        if self.ranges.is_ready() {
            return Ok(());
        }
        let sources = self.rdd.info.partitions;
        if self.partitions == 1 || sources == 0 {
            self.ranges.set_bounds(Vec::new());
            return Ok(());
        }
        let wanted = (SAMPLES_PER_PARTITION * u64::from(self.partitions)).min(MOST_SAMPLES);
        let each = (3 * wanted).div_ceil(u64::from(sources));
        let action = SampleKeys::new(each, u64::from(self.rdd.info.id.0), self.key.clone());
        on_driver(&self.site, || {
            let mut samples = Vec::new();
            for sampled in self.rdd.run(self.site, (0..sources).collect(), action)? {
                let (keys, count): (Vec<K>, u64) = sampled?;
                let weight = count as f64 / keys.len().max(1) as f64;
                samples.extend(keys.into_iter().map(|key| (key, weight)));
            }
            self.ranges.set_bounds(choose_bounds(samples, self.partitions));
            Ok(())
        })
    }
}
