//! The driver's half of a shuffle: registers the map side, samples range bounds.

use std::collections::BTreeMap;
use std::sync::Arc;

use firesteel_closure::Data;
use firesteel_rdd::action::SampleKeys;
use firesteel_rdd::body::ShuffleMapBody;
use firesteel_rdd::key::KeyOf;
use firesteel_rdd::partitioner::choose_bounds;
use firesteel_rdd::wide::{ByKeyOf, ShuffleRecords, Writer};
use firesteel_rdd::{AnyPartitioner, Pipe, RangePartitioner};
use firesteel_shuffle::Compared;
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
        let compared = match self.info.determinism() {
            Determinism::Determinate => Compared::Nothing,
            Determinism::Unordered => Compared::Placement,
            Determinism::Indeterminate => Compared::Records,
        };
        self.read_through_compared(node, writer, readers, compared)
    }

    /// The same; `compared`: what of a map output that is computed again may differ from the one before.
    pub(super) fn read_through_compared<R: Data>(
        &self,
        node: Node,
        writer: impl Writer<T>,
        readers: u32,
        compared: Compared,
    ) -> (Node, ShuffleRecords<R>) {
        let shuffle = self.context.0.engine.next_shuffle();
        let body = ShuffleMapBody::new(self.pipe.clone(), writer, shuffle, readers, compared);
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
        on_driver(&self.site, || {
            let mut sampled = self.sample((0..sources).collect(), each)?;
            let counts = sampled.iter().map(|(partition, (_, count))| (*partition, *count));
            for (size, partitions) in undersampled(counts.collect(), wanted, each) {
                sampled.extend(self.sample(partitions, size)?);
            }
            let weighted = sampled.into_values().flat_map(|(keys, count)| {
                let weight = count as f64 / keys.len().max(1) as f64;
                keys.into_iter().map(move |key| (key, weight))
            });
            self.ranges.set_bounds(choose_bounds(weighted.collect(), self.partitions));
            Ok(())
        })
    }
}

impl<T, P, C, K> SampleBounds<T, P, C, K>
where
    T: 'static,
    P: Pipe<Item = T>,
    K: SortKey,
    C: KeyOf<T, K>,
{
    /// At most `size` keys of each of these partitions, and how many items it has.
    fn sample(&self, partitions: Vec<u32>, size: u64) -> Result<BTreeMap<u32, (Vec<K>, u64)>> {
        let action = SampleKeys::new(size, u64::from(self.rdd.info.id.0), self.key.clone());
        let sampled = self.rdd.run(self.site, partitions.clone(), action)?;
        partitions.into_iter().zip(sampled).map(|(at, sampled)| Ok((at, sampled?))).collect()
    }
}

/// Partitions with so many items that `each` samples of them are less than their part of the `wanted` ones, by how many
/// they are to be sampled for, in classes: a few keys would stand for most of the data.
fn undersampled(counts: Vec<(u32, u64)>, wanted: u64, each: u64) -> BTreeMap<u64, Vec<u32>> {
    let total = counts.iter().map(|(_, count)| *count as f64).sum::<f64>().max(1.0);
    let fraction = (wanted as f64 / total).min(1.0);
    let mut classes = BTreeMap::<u64, Vec<u32>>::new();
    for (partition, count) in counts {
        let fair = (fraction * count as f64).ceil() as u64;
        if fair > each {
            classes.entry(fair.next_power_of_two()).or_default().push(partition);
        }
    }
    classes
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_partitions_far_above_the_mean_are_sampled_again_and_each_for_its_part() {
        // 1,000 samples wanted of 10 partitions: 300 of each.
        let even: Vec<(u32, u64)> = (0..10).map(|partition| (partition, 1000)).collect();
        assert!(undersampled(even, 1000, 300).is_empty());
        let mut skewed: Vec<(u32, u64)> = (0..8).map(|partition| (partition, 100)).collect();
        skewed.extend([(8, 4000), (9, 5200)]);
        let again = undersampled(skewed, 1000, 300);
        assert_eq!(again.into_iter().collect::<Vec<_>>(), [(512, vec![8]), (1024, vec![9])]);
        assert!(undersampled(vec![(0, 5), (1, 0)], 40, 60).is_empty(), "all of it was sampled");
    }
}
