//! How values of one key become a combiner: the functions of the user, and how inputs of an aggregation are folded with them.

use std::marker::PhantomData;

use firesteel_closure::{Call, Data, Decoder, Encoder, Value, Wire, WireError, wire};

use crate::growth::{Groups, Growth, More, Steady};
use crate::memory::Meter;

/// How values of one key become a combiner.
pub trait Combine<V, C>: Wire + Clone {
    /// The first value of a key.
    fn create(&self, value: V) -> C;
    /// One more value of a key that has a combiner.
    fn merge_value(&self, combiner: C, value: V) -> C;
    /// Two combiners of one key.
    fn merge_combiners(&self, left: C, right: C) -> C;
}

wire! {
    /// Three functions (`combine_by_key`).
    #[derive(Clone)]
    pub struct CombineWith[A: Wire, B: Wire, D: Wire] {
        create: A,
        merge_value: B,
        merge_combiners: D,
    }

    /// The three functions of [`Combine`], in its order.
    pub fn new;
}

impl<V, C, A, B, D> Combine<V, C> for CombineWith<A, B, D>
where
    A: Call<(V,), C>,
    B: Call<(C, V), C>,
    D: Call<(C, C), C>,
{
    #[inline(always)]
    fn create(&self, value: V) -> C {
        self.create.call((value,))
    }

    #[inline(always)]
    fn merge_value(&self, combiner: C, value: V) -> C {
        self.merge_value.call((combiner, value))
    }

    #[inline(always)]
    fn merge_combiners(&self, left: C, right: C) -> C {
        self.merge_combiners.call((left, right))
    }
}

/// One function of two values (`reduce_by_key`).
#[derive(Clone)]
pub struct ReduceWith<F>(pub F);

impl<F: Wire> Wire for ReduceWith<F> {
    fn encode(&self, out: &mut Encoder) -> Result<(), WireError> {
        self.0.encode(out)
    }

    fn decode(input: &mut Decoder<'_>) -> Result<Self, WireError> {
        F::decode(input).map(ReduceWith)
    }
}

impl<V, F: Call<(V, V), V>> Combine<V, V> for ReduceWith<F> {
    #[inline(always)]
    fn create(&self, value: V) -> V {
        value
    }

    #[inline(always)]
    fn merge_value(&self, combiner: V, value: V) -> V {
        self.0.call((combiner, value))
    }

    #[inline(always)]
    fn merge_combiners(&self, left: V, right: V) -> V {
        self.0.call((left, right))
    }
}

wire! {
    /// A zero and two functions (`aggregate_by_key`, `fold_by_key`).
    #[derive(Clone)]
    pub struct AggregateWith[Z: Data, B: Wire, D: Wire] {
        zero: Value<Z>,
        merge_value: B,
        merge_combiners: D,
    }
}

impl<Z, B, D> AggregateWith<Z, B, D> {
    /// From its zero and functions.
    pub fn new(zero: Z, merge_value: B, merge_combiners: D) -> Self {
        AggregateWith { zero: Value(zero), merge_value, merge_combiners }
    }
}

impl<V, C, B, D> Combine<V, C> for AggregateWith<C, B, D>
where
    C: Data + Clone,
    B: Call<(C, V), C>,
    D: Call<(C, C), C>,
{
    #[inline(always)]
    fn create(&self, value: V) -> C {
        self.merge_value.call((self.zero.0.clone(), value))
    }

    #[inline(always)]
    fn merge_value(&self, combiner: C, value: V) -> C {
        self.merge_value.call((combiner, value))
    }

    #[inline(always)]
    fn merge_combiners(&self, left: C, right: C) -> C {
        self.merge_combiners.call((left, right))
    }
}

/// How inputs of one key become a combiner, and how combiners of one key become one.
pub(crate) trait Fold<I, C>: Clone + 'static {
    /// How spilled combiners are folded when they come back.
    type Again: Fold<C, C, Again = Self::Again>;
    fn again(&self) -> Self::Again;
    fn create(&self, input: I) -> C;
    fn merge(&self, combiner: C, input: I) -> C;
    fn merge_combiners(&self, left: C, right: C) -> C;
    /// What combiners do as inputs come. Those below are for combiners that grow.
    type Growth: Growth<C>;
    /// What the values in an input own on the heap, about.
    fn weigh(&self, _input: &I, _meter: &mut Meter) -> f64 {
        0.0
    }
    /// Bytes of memory for the values in an input themselves.
    fn slots(&self, _input: &I) -> u64 {
        size_of::<I>() as u64
    }
    /// How many values an input has.
    fn values(&self, _input: &I) -> More {
        More(0, 0)
    }
}

/// Values into combiners.
#[derive(Clone)]
pub(crate) struct Values<M>(pub(crate) M);

impl<V: 'static, C: Data, M: Combine<V, C>> Fold<V, C> for Values<M> {
    type Again = Combiners<Values<M>, V>;
    type Growth = Steady;

    fn again(&self) -> Self::Again {
        Combiners(self.clone(), PhantomData)
    }

    #[inline(always)]
    fn create(&self, value: V) -> C {
        self.0.create(value)
    }

    #[inline(always)]
    fn merge(&self, combiner: C, value: V) -> C {
        self.0.merge_value(combiner, value)
    }

    #[inline(always)]
    fn merge_combiners(&self, left: C, right: C) -> C {
        self.0.merge_combiners(left, right)
    }
}

/// Combiners into combiners.
pub(crate) struct Combiners<F, I>(pub(crate) F, pub(crate) PhantomData<fn() -> I>);

impl<F: Clone, I> Clone for Combiners<F, I> {
    fn clone(&self) -> Self {
        Combiners(self.0.clone(), PhantomData)
    }
}

impl<I: 'static, C: Data, F: Fold<I, C>> Fold<C, C> for Combiners<F, I> {
    type Again = Self;
    type Growth = F::Growth;

    fn again(&self) -> Self {
        self.clone()
    }

    #[inline]
    fn weigh(&self, combiner: &C, meter: &mut Meter) -> f64 {
        F::Growth::weigh(combiner, meter)
    }

    #[inline]
    fn slots(&self, combiner: &C) -> u64 {
        F::Growth::slots(combiner)
    }

    #[inline]
    fn values(&self, combiner: &C) -> More {
        F::Growth::len(combiner)
    }

    #[inline(always)]
    fn create(&self, combiner: C) -> C {
        combiner
    }

    #[inline(always)]
    fn merge(&self, left: C, right: C) -> C {
        self.0.merge_combiners(left, right)
    }

    #[inline(always)]
    fn merge_combiners(&self, left: C, right: C) -> C {
        self.0.merge_combiners(left, right)
    }
}

/// Values into groups.
#[derive(Clone)]
pub(crate) struct Grouping;

impl<V: Data> Fold<V, Vec<V>> for Grouping {
    type Again = Combiners<Grouping, V>;
    type Growth = Groups;

    fn again(&self) -> Self::Again {
        Combiners(Grouping, PhantomData)
    }

    #[inline]
    fn weigh(&self, value: &V, meter: &mut Meter) -> f64 {
        meter.see(value)
    }

    #[inline(always)]
    fn values(&self, _: &V) -> More {
        More(1, 0)
    }

    #[inline(always)]
    fn create(&self, value: V) -> Vec<V> {
        vec![value]
    }

    #[inline(always)]
    fn merge(&self, mut group: Vec<V>, value: V) -> Vec<V> {
        group.push(value);
        group
    }

    fn merge_combiners(&self, mut left: Vec<V>, mut right: Vec<V>) -> Vec<V> {
        left.append(&mut right);
        left
    }
}
