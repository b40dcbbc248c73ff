//! Actions on numbers and on ordered items.

use firesteel_closure::{Data, Pure, Value};
use firesteel_rdd::Pipe;
use firesteel_rdd::action::{Histogram, Reduce, Statistics, Sum};
use firesteel_rdd::stats::{Number, Stats, Summable};
use firesteel_types::CallSite;

use crate::user_code::on_driver;
use crate::{Error, Rdd, Result};

impl<T: 'static, P: Pipe<Item = T>> Rdd<T, P> {
    /// The sum of all items; of none, zero. A sum that the items' type cannot hold is an error. Partitions are
    /// added in their order, so that a sum of floating-point numbers is the same every time.
    #[track_caller]
    pub fn sum(&self) -> Result<T>
    where
        T: Summable,
    {
        let site = CallSite::here("sum");
        let mut sum = T::ZERO;
        for part in self.run_all(site, Sum)? {
            sum = T::merge(sum, part?);
        }
        T::total(sum).ok_or_else(|| {
            let name = std::any::type_name::<T>();
            let reason = format!(
                "the sum does not fit {name}: map the items to a wider type first, as in \
                 rdd.map(|x| x as f64).sum()"
            );
            Error::invalid(&site, reason)
        })
    }

    /// The smallest item; [`Error::Empty`] if there is none.
    #[track_caller]
    pub fn min(&self) -> Result<T>
    where
        T: Data + Ord,
    {
        let site = CallSite::here("min");
        let smallest = Reduce::new(Pure::new(|a: T, b: T| a.min(b)));
        let found = on_driver(&site, || self.reduce_call(site, smallest, Ord::min))?;
        found.ok_or_else(|| Error::empty(&site))
    }

    /// The largest item; [`Error::Empty`] if there is none.
    #[track_caller]
    pub fn max(&self) -> Result<T>
    where
        T: Data + Ord,
    {
        let site = CallSite::here("max");
        let largest = Reduce::new(Pure::new(|a: T, b: T| a.max(b)));
        let found = on_driver(&site, || self.reduce_call(site, largest, Ord::max))?;
        found.ok_or_else(|| Error::empty(&site))
    }

    /// Count, mean, variance and extremes in one pass.
    #[track_caller]
    pub fn stats(&self) -> Result<Stats>
    where
        T: Number,
    {
        self.stats_at(CallSite::here("stats"))
    }

    fn stats_at(&self, site: CallSite) -> Result<Stats>
    where
        T: Number,
    {
        let mut all = Stats::default();
        for part in self.run_all(site, Statistics)? {
            all = all.merge(part?);
        }
        Ok(all)
    }

    /// The mean; NaN if there are no items.
    #[track_caller]
    pub fn mean(&self) -> Result<f64>
    where
        T: Number,
    {
        Ok(self.stats_at(CallSite::here("mean"))?.mean())
    }

    /// The variance of the whole population.
    #[track_caller]
    pub fn variance(&self) -> Result<f64>
    where
        T: Number,
    {
        Ok(self.stats_at(CallSite::here("variance"))?.variance())
    }

    /// The standard deviation of the whole population.
    #[track_caller]
    pub fn stdev(&self) -> Result<f64>
    where
        T: Number,
    {
        Ok(self.stats_at(CallSite::here("stdev"))?.stdev())
    }

    /// How many items fall between each two neighbouring bounds. Intervals contain their lower bound,
    /// the last one also its upper; items outside are not counted.
    #[track_caller]
    pub fn histogram(&self, bounds: &[f64]) -> Result<Vec<u64>>
    where
        T: Number,
    {
        let site = CallSite::here("histogram");
        if bounds.len() < 2 || !bounds.windows(2).all(|pair| pair[0] < pair[1]) {
            let reason = "at least two bounds are needed, strictly ascending";
            return Err(Error::invalid(&site, reason));
        }
        let mut counts = vec![0; bounds.len() - 1];
        let action = Histogram { bounds: Value(bounds.to_vec()) };
        for part in self.run_all(site, action)? {
            counts.iter_mut().zip(part?).for_each(|(count, more)| *count += more);
        }
        Ok(counts)
    }

    /// A histogram of `buckets` equal intervals between the smallest and the largest item: the bounds
    /// and the counts. Fewer intervals where doubles are too coarse for so many. Runs two jobs.
    #[track_caller]
    pub fn histogram_of(&self, buckets: usize) -> Result<(Vec<f64>, Vec<u64>)>
    where
        T: Number,
    {
        let site = CallSite::here("histogram_of");
        if buckets == 0 {
            return Err(Error::invalid(
                &site,
                "the number of buckets must be at least 1, but is 0",
            ));
        }
        let stats = self.stats_at(site)?;
        let (low, high) = (stats.min(), stats.max());
        if stats.count() == 0 {
            return Err(Error::empty(&site));
        }
        // The extremes leave NaN out; the mean does not.
        if !(low.is_finite() && high.is_finite()) || stats.mean().is_nan() {
            return Err(Error::invalid(&site, "the RDD holds an infinity or NaN"));
        }
        if low == high {
            return Ok((vec![low, high], vec![stats.count()]));
        }
        let step = (high - low) / buckets as f64;
        let inner = (0..buckets).map(|i| low + step * i as f64);
        let mut bounds: Vec<f64> = inner.chain(std::iter::once(high)).collect();
        bounds.dedup();
        let counts = self.histogram(&bounds)?;
        Ok((bounds, counts))
    }
}
