//! Two sides brought together by key, in partitions that hold all of a key's pairs of both sides.
//!
//! A join builds a hash table of one side and streams the other past it; cogroup builds one of both. When the
//! build side does not fit into the task's memory, both sides are hash-partitioned on disk,
//! and the parts are joined one by one.

use std::hash::Hash;
use std::marker::PhantomData;
use std::rc::Rc;
use std::slice::from_ref;

use firesteel_closure::{Data, Wire, wire};
use firesteel_shuffle::MapOutput;
use firesteel_task::{OrFail, TaskContext};

use crate::Pipe;
use crate::aggregate::{
    Combiners, Filled, Fold, Grouping, PARTS, fill, fold_by_key, part_of_key, records,
};
use crate::growth::{More, TwoGroups, weigh};
use crate::memory::{Account, Meter};
use crate::table::KeyMap;

macro_rules! two_sided {
    ($(#[$doc:meta])* $name:ident) => {
        $(#[$doc])*
        pub struct $name<P, Q> {
            left: P,
            right: Q,
        }

        impl<P, Q> $name<P, Q> {
            /// Of these two sides.
            pub fn new(left: P, right: Q) -> Self {
                $name { left, right }
            }
        }

        wire!([P: Wire, Q: Wire] $name<P, Q> { left, right });
    };
}

two_sided!(
    /// `join`: streams the left side past a table of the right.
    InnerJoin
);
two_sided!(
    /// `left_outer_join`: streams the left side past a table of the right.
    LeftOuterJoin
);
two_sided!(
    /// `right_outer_join`: streams the right side past a table of the left.
    RightOuterJoin
);
two_sided!(
    /// `cogroup`: all values of both sides for each key.
    CoGroup
);
two_sided!(
    /// `subtract_by_key`: the left pairs whose key the right side does not have.
    SubtractByKey
);

/// What becomes of a streamed value: with each value of its key on the build side, and if there is none.
struct Plan<S, B, U> {
    operation: &'static str,
    matched: Option<fn(S, B) -> U>,
    unmatched: Option<fn(S) -> U>,
}

impl<S, B, U> Clone for Plan<S, B, U> {
    fn clone(&self) -> Self {
        *self
    }
}

impl<S, B, U> Copy for Plan<S, B, U> {}

impl<S: Clone, B: Clone, U> Plan<S, B, U> {
    fn apply<K: Clone + Hash + Eq>(
        self,
        key: K,
        value: S,
        group: Option<Group<K, B>>,
    ) -> impl Iterator<Item = (K, U)> {
        let unmatched = match (&group, self.unmatched) {
            (None, Some(unmatched)) => Some((key.clone(), unmatched(value.clone()))),
            _ => None,
        };
        let pairs = group.zip(self.matched).into_iter().flat_map(move |(group, matched)| {
            let (key, value) = (key.clone(), value.clone());
            (0..group.values().len())
                .map(move |i| (key.clone(), matched(value.clone(), group.values()[i].clone())))
        });
        unmatched.into_iter().chain(pairs)
    }
}

/// A table, with the memory it holds.
struct BuildTable<K, B> {
    map: KeyMap<K, Vec<B>>,
    _account: Account,
}

/// The values of one key of a table.
struct Group<K, B> {
    table: Rc<BuildTable<K, B>>,
    number: usize,
}

impl<K: Hash + Eq, B> Group<K, B> {
    fn find(table: &Rc<BuildTable<K, B>>, key: &K) -> Option<Self> {
        table.map.find(key).map(|number| Group { table: table.clone(), number })
    }

    #[inline]
    fn values(&self) -> &[B] {
        self.table.map.get(self.number)
    }
}

/// Streams `streamed` past a table of `built`.
fn hash_join<K, S, B, U, L, R>(
    streamed: L,
    built: R,
    plan: Plan<S, B, U>,
    depth: u32,
    task: &TaskContext,
) -> Joined<impl Iterator<Item = (K, U)> + use<K, S, B, U, L, R> + 'static, (K, U)>
where
    L: Iterator<Item = (K, S)> + 'static,
    R: Iterator<Item = (K, B)> + 'static,
    K: Data + Hash + Eq + Clone,
    S: Data + Clone,
    B: Data + Clone,
    U: 'static,
{
    match fill(built, &Grouping, plan.operation, depth, task) {
        Filled::Held(map, _account) => {
            let table = Rc::new(BuildTable { map, _account });
            Joined::Held(streamed.flat_map(move |(key, value)| {
                let group = Group::find(&table, &key);
                plan.apply(key, value, group)
            }))
        }
        Filled::Parts(kept) => {
            let mut parts = task.buckets(PARTS);
            streamed.for_each(|pair| {
                parts.push(part_of_key(&pair.0, depth), &pair).or_fail();
            });
            let streamed = parts.finish().or_fail();
            Joined::Spilled(join_parts(streamed, kept, plan, depth + 1, task.clone()))
        }
    }
}

fn join_parts<K, S, B, U>(
    streamed: MapOutput,
    kept: MapOutput,
    plan: Plan<S, B, U>,
    depth: u32,
    task: TaskContext,
) -> Box<dyn Iterator<Item = (K, U)>>
where
    K: Data + Hash + Eq + Clone,
    S: Data + Clone,
    B: Data + Clone,
    U: 'static,
{
    Box::new((0..PARTS).flat_map(move |part| {
        let streamed = records::<(K, S)>(&streamed, part, &task);
        let groups = records::<(K, Vec<B>)>(&kept, part, &task);
        let built = groups
            .flat_map(|(key, values)| values.into_iter().map(move |value| (key.clone(), value)));
        Box::new(hash_join(streamed, built, plan, depth, &task)) as Box<dyn Iterator<Item = (K, U)>>
    }))
}

enum Joined<H, T> {
    Held(H),
    Spilled(Box<dyn Iterator<Item = T>>),
}

impl<T, H: Iterator<Item = T>> Iterator for Joined<H, T> {
    type Item = T;

    #[inline]
    fn next(&mut self) -> Option<T> {
        match self {
            Joined::Held(items) => items.next(),
            Joined::Spilled(items) => items.next(),
        }
    }

    fn fold<A, F: FnMut(A, T) -> A>(self, init: A, f: F) -> A {
        match self {
            Joined::Held(items) => items.fold(init, f),
            Joined::Spilled(items) => items.fold(init, f),
        }
    }
}

impl<K, V, W, P, Q> Pipe for InnerJoin<P, Q>
where
    K: Data + Hash + Eq + Clone,
    V: Data + Clone,
    W: Data + Clone,
    P: Pipe<Item = (K, V)>,
    Q: Pipe<Item = (K, W)>,
{
    type Item = (K, (V, W));

    fn compute(
        &self,
        partition: u32,
        task: &TaskContext,
    ) -> impl Iterator<Item = Self::Item> + use<K, V, W, P, Q> + 'static {
        let plan = Plan { operation: "join", matched: Some(|v, w| (v, w)), unmatched: None };
        let right = self.right.compute(partition, task);
        hash_join(self.left.compute(partition, task), right, plan, 0, task)
    }
}

impl<K, V, W, P, Q> Pipe for LeftOuterJoin<P, Q>
where
    K: Data + Hash + Eq + Clone,
    V: Data + Clone,
    W: Data + Clone,
    P: Pipe<Item = (K, V)>,
    Q: Pipe<Item = (K, W)>,
{
    type Item = (K, (V, Option<W>));

    fn compute(
        &self,
        partition: u32,
        task: &TaskContext,
    ) -> impl Iterator<Item = Self::Item> + use<K, V, W, P, Q> + 'static {
        let plan = Plan {
            operation: "left_outer_join",
            matched: Some(|v, w| (v, Some(w))),
            unmatched: Some(|v| (v, None)),
        };
        let right = self.right.compute(partition, task);
        hash_join(self.left.compute(partition, task), right, plan, 0, task)
    }
}

impl<K, V, W, P, Q> Pipe for RightOuterJoin<P, Q>
where
    K: Data + Hash + Eq + Clone,
    V: Data + Clone,
    W: Data + Clone,
    P: Pipe<Item = (K, V)>,
    Q: Pipe<Item = (K, W)>,
{
    type Item = (K, (Option<V>, W));

    fn compute(
        &self,
        partition: u32,
        task: &TaskContext,
    ) -> impl Iterator<Item = Self::Item> + use<K, V, W, P, Q> + 'static {
        let plan = Plan {
            operation: "right_outer_join",
            matched: Some(|w, v| (Some(v), w)),
            unmatched: Some(|w| (None, w)),
        };
        let left = self.left.compute(partition, task);
        hash_join(self.right.compute(partition, task), left, plan, 0, task)
    }
}

impl<K, V, W, P, Q> Pipe for SubtractByKey<P, Q>
where
    K: Data + Hash + Eq + Clone,
    V: Data + Clone,
    W: 'static,
    P: Pipe<Item = (K, V)>,
    Q: Pipe<Item = (K, W)>,
{
    type Item = (K, V);

    fn compute(
        &self,
        partition: u32,
        task: &TaskContext,
    ) -> impl Iterator<Item = Self::Item> + use<K, V, W, P, Q> + 'static {
        let plan = Plan { operation: "subtract_by_key", matched: None, unmatched: Some(|v| v) };
        let keys = self.right.compute(partition, task).map(|(key, _)| (key, ()));
        hash_join(self.left.compute(partition, task), keys, plan, 0, task)
    }
}

/// A value of one of two sides.
pub(crate) enum Side<V, W> {
    Left(V),
    Right(W),
}

/// Values of both sides into groups of both.
#[derive(Clone)]
pub(crate) struct CoGrouping;

impl<V: Data, W: Data> Fold<Side<V, W>, (Vec<V>, Vec<W>)> for CoGrouping {
    type Again = Combiners<CoGrouping, Side<V, W>>;
    type Growth = TwoGroups;

    fn again(&self) -> Self::Again {
        Combiners(CoGrouping, PhantomData)
    }

    fn weigh(&self, input: &Side<V, W>, meter: &mut Meter) -> f64 {
        match input {
            Side::Left(value) => weigh(from_ref(value), meter),
            Side::Right(value) => weigh(from_ref(value), meter),
        }
    }

    fn values(&self, input: &Side<V, W>) -> More {
        match input {
            Side::Left(_) => More(1, 0),
            Side::Right(_) => More(0, 1),
        }
    }

    fn create(&self, input: Side<V, W>) -> (Vec<V>, Vec<W>) {
        self.merge((Vec::new(), Vec::new()), input)
    }

    fn merge(&self, mut groups: (Vec<V>, Vec<W>), input: Side<V, W>) -> (Vec<V>, Vec<W>) {
        match input {
            Side::Left(value) => groups.0.push(value),
            Side::Right(value) => groups.1.push(value),
        }
        groups
    }

    fn merge_combiners(
        &self,
        mut left: (Vec<V>, Vec<W>),
        mut right: (Vec<V>, Vec<W>),
    ) -> (Vec<V>, Vec<W>) {
        left.0.append(&mut right.0);
        left.1.append(&mut right.1);
        left
    }
}

impl<K, V, W, P, Q> Pipe for CoGroup<P, Q>
where
    K: Data + Hash + Eq,
    V: Data,
    W: Data,
    P: Pipe<Item = (K, V)>,
    Q: Pipe<Item = (K, W)>,
{
    type Item = (K, (Vec<V>, Vec<W>));

    fn compute(
        &self,
        partition: u32,
        task: &TaskContext,
    ) -> impl Iterator<Item = Self::Item> + use<K, V, W, P, Q> + 'static {
        let left = self.left.compute(partition, task).map(|(k, v)| (k, Side::Left(v)));
        let right = self.right.compute(partition, task).map(|(k, w)| (k, Side::Right(w)));
        task.interruptible(fold_by_key(left.chain(right), CoGrouping, "cogroup", 0, task))
    }
}
