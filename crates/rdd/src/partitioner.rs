//! Which partition a key belongs to: by hash, by sampled ranges, or as the user says.

use std::any::TypeId;
use std::hash::{BuildHasher, Hash};
use std::sync::{Arc, OnceLock};

use foldhash::fast::FixedState;
use serde::{Deserialize, Serialize};

use firesteel_closure::{Data, Decoder, Encoder, Wire, WireError, code, to_bytes};
use firesteel_task::fail_for_good;
use firesteel_types::PartitionerId;

/// Assigns keys to partitions. Implement it for a serde type to bring your own.
///
/// Equal values of one type promise equal assignments, so that RDDs partitioned by equal
/// partitioners are joined without a shuffle.
pub trait Partitioner<K>: Data {
    /// How many partitions there are.
    fn partitions(&self) -> usize;
    /// The partition of `key`, below [`Partitioner::partitions`]; anything else aborts the job.
    fn partition(&self, key: &K) -> usize;
}

/// By hash of the key; what is used when nothing else is asked for.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct HashPartitioner {
    partitions: u32,
}

impl HashPartitioner {
    /// Into this many partitions.
    pub fn new(partitions: usize) -> Self {
        HashPartitioner { partitions: u32::try_from(partitions).unwrap_or(u32::MAX) }
    }

    /// The partition of a key.
    #[inline]
    pub fn index<K: Hash + ?Sized>(self, key: &K) -> u32 {
        // Another seed than the hash maps': keys that meet in one partition must not meet in a bucket.
        let hash = FixedState::with_seed(0x66_6972_6573_7465).hash_one(key);
        ((u128::from(hash) * u128::from(self.partitions)) >> 64) as u32
    }
}

/// By ranges of the key, with bounds from a sample that is taken when the first job needs them.
pub struct RangePartitioner<K> {
    bounds: Arc<OnceLock<Vec<K>>>,
    descending: bool,
}

impl<K> Clone for RangePartitioner<K> {
    fn clone(&self) -> Self {
        RangePartitioner { bounds: self.bounds.clone(), descending: self.descending }
    }
}

impl<K: Data + Ord> RangePartitioner<K> {
    /// One without bounds yet.
    pub fn deferred(descending: bool) -> Self {
        RangePartitioner { bounds: Arc::default(), descending }
    }

    /// Whether the bounds are known.
    pub fn is_ready(&self) -> bool {
        self.bounds.get().is_some()
    }

    /// Sets the bounds, ascending; the first call counts.
    pub fn set_bounds(&self, bounds: Vec<K>) {
        let _ = self.bounds.set(bounds);
    }

    fn bounds(&self) -> &[K] {
        self.bounds.get().expect("the driver samples bounds before it submits the job")
    }

    /// The partition of a key among `partitions`.
    fn index(&self, key: &K, partitions: u32) -> u32 {
        let index = self.bounds().partition_point(|bound| bound < key) as u32;
        if self.descending { partitions - 1 - index } else { index }
    }
}

/// Picks the bounds of `partitions` ranges from weighted samples: at equal steps of the weight.
pub fn choose_bounds<K: Ord + Clone>(mut samples: Vec<(K, f64)>, partitions: u32) -> Vec<K> {
    samples.sort_by(|a, b| a.0.cmp(&b.0));
    let step = samples.iter().map(|(_, weight)| weight).sum::<f64>() / f64::from(partitions.max(1));
    let mut bounds: Vec<K> = Vec::new();
    let (mut reached, mut target) = (0.0, step);
    for (key, weight) in samples {
        reached += weight;
        let room = bounds.len() + 1 < partitions as usize;
        if room && reached >= target && bounds.last().is_none_or(|last| *last < key) {
            bounds.push(key);
            target += step;
        }
    }
    bounds
}

/// Any partitioner of `K`s, in the form that shuffles use.
pub struct AnyPartitioner<K> {
    kind: Kind<K>,
    id: PartitionerId,
}

enum Kind<K> {
    /// Apart from the others, because it is the common one and then needs no virtual call.
    Hash {
        hash: fn(HashPartitioner, &K) -> u32,
        by: HashPartitioner,
        rebuild: Rebuild<K>,
    },
    Other(Arc<dyn Other<K>>),
}

type Rebuild<K> = code::Builder<AnyPartitioner<K>>;

impl<K> Clone for AnyPartitioner<K> {
    fn clone(&self) -> Self {
        let kind = match &self.kind {
            Kind::Hash { hash, by, rebuild } => {
                Kind::Hash { hash: *hash, by: *by, rebuild: *rebuild }
            }
            Kind::Other(other) => Kind::Other(other.clone()),
        };
        AnyPartitioner { kind, id: self.id.clone() }
    }
}

impl<K: 'static> AnyPartitioner<K> {
    /// By the key's hash; equal to every other of the same key type and number of partitions.
    pub fn hash(by: HashPartitioner) -> Self
    where
        K: Hash,
    {
        let type_id = TypeId::of::<(HashPartitioner, K)>();
        let kind = std::any::type_name::<(HashPartitioner, K)>();
        let id = PartitionerId { type_id, kind, detail: Arc::new([]), partitions: by.partitions };
        let hash = HashPartitioner::index::<K>;
        AnyPartitioner { kind: Kind::Hash { hash, by, rebuild: rebuild_hash::<K> }, id }
    }

    /// By range. `unique` tells this partitioner from all others: bounds are sampled anew each time.
    pub fn range(ranges: RangePartitioner<K>, partitions: u32, unique: u64) -> Self
    where
        K: Data + Ord,
    {
        let type_id = TypeId::of::<RangePartitioner<K>>();
        let kind = std::any::type_name::<RangePartitioner<K>>();
        let detail = unique.to_le_bytes().to_vec().into();
        let id = PartitionerId { type_id, kind, detail, partitions };
        AnyPartitioner { kind: Kind::Other(Arc::new(Ranges { ranges, partitions, unique })), id }
    }

    /// As the user says.
    pub fn custom<P: Partitioner<K>>(partitioner: P) -> Result<Self, WireError> {
        let id = PartitionerId {
            type_id: TypeId::of::<(P, K)>(),
            kind: std::any::type_name::<(P, K)>(),
            detail: to_bytes(&partitioner)?.into(),
            partitions: u32::try_from(partitioner.partitions()).unwrap_or(u32::MAX),
        };
        Ok(AnyPartitioner { kind: Kind::Other(Arc::new(Custom(partitioner))), id })
    }

    /// What makes it equal to others.
    pub fn id(&self) -> &PartitionerId {
        &self.id
    }

    /// How many partitions it makes.
    pub fn partitions(&self) -> u32 {
        self.id.partitions
    }

    /// The partition of a key. Aborts the job if a user's partitioner names one that does not exist.
    #[inline]
    pub fn index(&self, key: &K) -> u32 {
        match &self.kind {
            Kind::Hash { hash, by, .. } => hash(*by, key),
            Kind::Other(other) => {
                self.checked(other.index(key)).unwrap_or_else(|message| fail_for_good(message))
            }
        }
    }

    /// The partition of a key, outside of tasks; what is wrong if there is no such partition.
    pub fn find(&self, key: &K) -> Result<u32, String> {
        match &self.kind {
            Kind::Hash { hash, by, .. } => Ok(hash(*by, key)),
            Kind::Other(other) => self.checked(other.index(key)),
        }
    }

    fn checked(&self, index: usize) -> Result<u32, String> {
        if index < self.id.partitions as usize {
            return Ok(index as u32);
        }
        Err(format!(
            "partitioner {} returned partition {index}, but it has {} partition(s), numbered from 0; \
             correct its `partition` method",
            self.id.kind, self.id.partitions
        ))
    }
}

/// A partitioner that knows how to name the code which rebuilds it: only where `K`'s bounds are
/// known can that code be made.
trait Other<K>: Send + Sync {
    fn index(&self, key: &K) -> usize;
    fn encode(&self, out: &mut Encoder) -> Result<(), WireError>;
}

struct Custom<P>(P);

impl<K: 'static, P: Partitioner<K>> Other<K> for Custom<P> {
    fn index(&self, key: &K) -> usize {
        self.0.partition(key)
    }

    fn encode(&self, out: &mut Encoder) -> Result<(), WireError> {
        code::encode(rebuild_custom::<K, P>, out)?;
        out.put(&self.0)
    }
}

struct Ranges<K> {
    ranges: RangePartitioner<K>,
    partitions: u32,
    unique: u64,
}

impl<K: Data + Ord> Other<K> for Ranges<K> {
    fn index(&self, key: &K) -> usize {
        self.ranges.index(key, self.partitions) as usize
    }

    fn encode(&self, out: &mut Encoder) -> Result<(), WireError> {
        code::encode(rebuild_range::<K>, out)?;
        self.partitions.encode(out)?;
        self.unique.encode(out)?;
        self.ranges.descending.encode(out)?;
        out.put(self.ranges.bounds.get().expect("bounds are sampled before a task is encoded"))
    }
}

/// Compiled here, not for every key.
impl Wire for HashPartitioner {
    fn encode(&self, out: &mut Encoder) -> Result<(), WireError> {
        out.put(self)
    }

    fn decode(input: &mut Decoder<'_>) -> Result<Self, WireError> {
        input.take()
    }
}

fn rebuild_hash<K: Hash + 'static>(
    input: &mut Decoder<'_>,
) -> Result<AnyPartitioner<K>, WireError> {
    HashPartitioner::decode(input).map(AnyPartitioner::hash)
}

fn rebuild_custom<K: 'static, P: Partitioner<K>>(
    input: &mut Decoder<'_>,
) -> Result<AnyPartitioner<K>, WireError> {
    AnyPartitioner::custom(input.take::<P>()?)
}

fn rebuild_range<K: Data + Ord>(input: &mut Decoder<'_>) -> Result<AnyPartitioner<K>, WireError> {
    let (partitions, unique) = (u32::decode(input)?, u64::decode(input)?);
    let descending = bool::decode(input)?;
    let ranges = RangePartitioner::deferred(descending);
    ranges.set_bounds(input.take()?);
    Ok(AnyPartitioner::range(ranges, partitions, unique))
}

impl<K: 'static> Wire for AnyPartitioner<K> {
    fn encode(&self, out: &mut Encoder) -> Result<(), WireError> {
        match &self.kind {
            Kind::Hash { by, rebuild, .. } => {
                code::encode(*rebuild, out)?;
                by.encode(out)
            }
            Kind::Other(other) => other.encode(out),
        }
    }

    fn decode(input: &mut Decoder<'_>) -> Result<Self, WireError> {
        code::decode::<AnyPartitioner<K>>(input)?(input)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use firesteel_closure::SameExecutable;
    use std::panic::AssertUnwindSafe;

    fn through_the_wire<K: 'static>(partitioner: &AnyPartitioner<K>) -> AnyPartitioner<K> {
        let mut out = Encoder::new();
        partitioner.encode(&mut out).unwrap();
        let bytes = out.into_bytes();
        AnyPartitioner::decode(&mut Decoder::new(&bytes, SameExecutable::this_process())).unwrap()
    }

    #[test]
    fn hash_partitions_are_all_used_and_survive_the_wire() {
        let partitioner = AnyPartitioner::<u64>::hash(HashPartitioner::new(7));
        let copy = through_the_wire(&partitioner);
        assert_eq!(partitioner.id(), copy.id());
        let mut seen = [0u32; 7];
        for key in 0..7000u64 {
            assert_eq!(partitioner.index(&key), copy.index(&key));
            seen[partitioner.index(&key) as usize] += 1;
        }
        assert!(seen.iter().all(|count| (800..1200).contains(count)), "{seen:?}");
    }

    #[test]
    fn ranges_keep_order_in_both_directions() {
        let samples = (0..1000u32).map(|key| (key, 1.0)).collect();
        let bounds = choose_bounds(samples, 4);
        assert_eq!(bounds, [249, 499, 749]);
        for descending in [false, true] {
            let ranges = RangePartitioner::deferred(descending);
            ranges.set_bounds(bounds.clone());
            let partitioner = through_the_wire(&AnyPartitioner::range(ranges, 4, 1));
            let order: Vec<_> = (0..1000u32).map(|key| partitioner.index(&key)).collect();
            let mut sorted = order.clone();
            sorted.sort();
            if descending {
                sorted.reverse();
            }
            assert_eq!(order, sorted);
            assert_eq!(partitioner.index(&u32::MAX), if descending { 0 } else { 3 });
        }
    }

    #[test]
    fn few_distinct_keys_make_few_ranges_but_never_equal_bounds() {
        let bounds = choose_bounds(vec![(1, 1.0), (1, 1.0), (2, 1.0), (2, 9.0)], 10);
        assert!(bounds.windows(2).all(|pair| pair[0] < pair[1]), "{bounds:?}");
        assert!(choose_bounds(Vec::<(u8, f64)>::new(), 5).is_empty());
    }

    #[derive(Serialize, Deserialize)]
    struct Modulo(usize);

    impl Partitioner<u64> for Modulo {
        fn partitions(&self) -> usize {
            self.0
        }
        fn partition(&self, key: &u64) -> usize {
            *key as usize % (self.0 + 1) // one too many
        }
    }

    #[test]
    fn equal_custom_partitioners_have_equal_ids_and_a_wrong_index_ends_the_job() {
        let three = AnyPartitioner::custom(Modulo(3)).unwrap();
        assert_eq!(three.id(), through_the_wire(&three).id());
        assert_ne!(three.id(), AnyPartitioner::custom(Modulo(4)).unwrap().id());
        assert_eq!(three.index(&2), 2);
        let panic = std::panic::catch_unwind(AssertUnwindSafe(|| three.index(&3))).unwrap_err();
        let failure = panic.downcast_ref::<firesteel_types::TaskFailure>().unwrap();
        assert!(failure.to_string().contains("returned partition 3"), "{failure}");
    }
}
