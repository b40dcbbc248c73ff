//! Panics in code of the user's that is not the closure itself: `Serialize`, `Drop`, `Ord`, `Hash`, an accumulator's
//! merge. Each ends its job with its message, over every transport, and the context stays usable (L06).

use std::time::Duration;

use firesteel::Accumulate;
use firesteel::prelude::*;
use serde::{Deserialize, Serialize, Serializer};

const DEADLINE: Duration = Duration::from_secs(60);

const PLACES: [(&str, &str); 4] = [
    ("local[2]", "direct"),
    ("local[2]", "encoded"),
    ("local[2]", "process"),
    ("local-cluster[2,1,256]", "direct"),
];

/// Runs a job over every transport; each time it must end with this message, and the context with none.
fn assert_ends(text: &str, places: &[(&str, &str)], job: fn(&Context) -> firesteel::Result<()>) {
    for (master, transport) in places {
        let builder = Context::builder().master(master).app_name("panics");
        let builder =
            builder.arguments([] as [&str; 0]).config("spark.ui.showConsoleProgress", false);
        let ctx = builder.config("spark.firesteel.local.transport", transport).build().unwrap();
        let (sender, result) = std::sync::mpsc::channel();
        let shared = ctx.clone();
        std::thread::spawn(move || sender.send(job(&shared)));
        let place = format!("{master} {transport}");
        match result.recv_timeout(DEADLINE) {
            Ok(Err(error)) => assert!(error.to_string().contains(text), "{place}: {error}"),
            Ok(Ok(())) => panic!("{place}: the job succeeds"),
            Err(_) => panic!("{place}: the job does not end"),
        }
        assert_eq!(ctx.range_in(4, 0..100u64, 1).sum().unwrap(), 4950, "{place}");
        ctx.stop();
    }
}

#[derive(Clone, Default, Deserialize)]
struct Unwritable(u64);

impl Serialize for Unwritable {
    fn serialize<S: Serializer>(&self, _: S) -> Result<S::Ok, S::Error> {
        panic!("it does not want to travel")
    }
}

impl Accumulate for Unwritable {
    type Input = u64;

    fn add(&mut self, input: u64) {
        self.0 += input;
    }

    fn merge(&mut self, other: Self) {
        self.0 += other.0;
    }
}

#[test]
fn in_the_serialize_of_a_result() {
    assert_ends("it does not want to travel", &PLACES[1..], |ctx| {
        ctx.range_in(2, 0..2u64, 1).map(Unwritable).collect().map(drop)
    });
}

#[test]
fn in_the_serialize_of_an_accumulator() {
    assert_ends("it does not want to travel", &PLACES[1..], |ctx| {
        let sum = ctx.accumulator::<Unwritable>();
        ctx.range_in(2, 0..2u64, 1).with(sum).for_each(|sum, i| sum.add(i))
    });
}

#[test]
fn in_the_serialize_of_shuffled_records() {
    assert_ends("it does not want to travel", &PLACES, |ctx| {
        let pairs = ctx.range_in(2, 0..100u64, 1).map(|i| (i % 3, Unwritable(i)));
        pairs.group_by_key().count().map(drop)
    });
}

#[derive(Clone, Serialize, Deserialize)]
struct Grenade(u64);

impl Drop for Grenade {
    fn drop(&mut self) {
        if !std::thread::panicking() && self.0 == 7 {
            panic!("it does not want to go");
        }
    }
}

#[test]
fn in_the_drop_of_items_and_of_the_rest_of_a_partition() {
    assert_ends("it does not want to go", &PLACES, |ctx| {
        ctx.range_in(2, 0..20u64, 1).map(Grenade).count().map(drop)
    });
    assert_ends("it does not want to go", &PLACES, |ctx| {
        let kept = ctx.range_in(2, 0..20u64, 1).map_partitions(|items| {
            let state: Vec<Grenade> = items.map(Grenade).collect();
            let mut given = 0..state.len() as u64;
            std::iter::from_fn(move || given.next().filter(|_| !state.is_empty()))
        });
        kept.count().map(drop)
    });
}

#[derive(Clone, PartialEq, Eq, Serialize, Deserialize)]
struct Unordered(u64);

impl PartialOrd for Unordered {
    fn partial_cmp(&self, other: &Self) -> Option<std::cmp::Ordering> {
        Some(self.cmp(other))
    }
}

impl Ord for Unordered {
    fn cmp(&self, other: &Self) -> std::cmp::Ordering {
        if firesteel::TaskContext::current().is_some() && self.0 != other.0 {
            panic!("it has no order");
        }
        self.0.cmp(&other.0)
    }
}

impl std::hash::Hash for Unordered {
    fn hash<H: std::hash::Hasher>(&self, _: &mut H) {
        panic!("it has no hash")
    }
}

#[test]
fn in_the_order_and_in_the_hash_of_keys() {
    assert_ends("it has no order", &PLACES, |ctx| {
        ctx.range_in(2, 0..200u64, 1).map(Unordered).max().map(drop)
    });
    assert_ends("it has no hash", &PLACES, |ctx| {
        let pairs = ctx.range_in(2, 0..200u64, 1).map(|i| (Unordered(i), 1u64));
        pairs.reduce_by_key(|a, b| a + b).count().map(drop)
    });
}

#[derive(Clone, Default, Serialize, Deserialize)]
struct Unmergeable(u64);

impl Accumulate for Unmergeable {
    type Input = u64;

    fn add(&mut self, input: u64) {
        self.0 += input;
    }

    fn merge(&mut self, _: Self) {
        panic!("it does not add up");
    }
}

#[test]
fn in_the_merge_of_an_accumulator_on_the_driver() {
    assert_ends("it does not add up", &PLACES, |ctx| {
        let sum = ctx.accumulator::<Unmergeable>();
        ctx.range_in(4, 0..100u64, 1).with(sum).for_each(|sum, i| sum.add(i))
    });
    assert_ends("it does not add up", &PLACES, |ctx| {
        let sum = ctx.accumulator::<Unmergeable>();
        let pairs = ctx.range_in(4, 0..100u64, 1).with(sum).map(|sum, i| {
            sum.add(i);
            (i % 3, i)
        });
        pairs.reduce_by_key(|a, b| a + b).count().map(drop)
    });
}

/// Well-behaved in tasks, and nowhere else.
#[derive(Clone, PartialEq, Eq, Serialize)]
struct OnlyInTasks(u64);

fn panic_on_the_driver(what: &str) {
    if firesteel::TaskContext::current().is_none() && !std::thread::panicking() {
        panic!("no {what} on the driver");
    }
}

impl PartialOrd for OnlyInTasks {
    fn partial_cmp(&self, other: &Self) -> Option<std::cmp::Ordering> {
        Some(self.cmp(other))
    }
}

impl Ord for OnlyInTasks {
    fn cmp(&self, other: &Self) -> std::cmp::Ordering {
        panic_on_the_driver("order");
        self.0.cmp(&other.0)
    }
}

impl std::hash::Hash for OnlyInTasks {
    fn hash<H: std::hash::Hasher>(&self, state: &mut H) {
        panic_on_the_driver("hash");
        self.0.hash(state);
    }
}

impl<'de> Deserialize<'de> for OnlyInTasks {
    fn deserialize<D: serde::Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let number = u64::deserialize(deserializer)?;
        if number == 3 {
            panic_on_the_driver("value");
        }
        Ok(OnlyInTasks(number))
    }
}

fn only_in_tasks(ctx: &Context) -> Rdd<OnlyInTasks> {
    ctx.range_in(2, 10..200u64, 1).map(OnlyInTasks).boxed()
}

#[test]
fn on_the_driver_in_order_hash_and_merge() {
    let here = &PLACES[..2];
    assert_ends("no order on the driver", here, |ctx| only_in_tasks(ctx).max().map(drop));
    assert_ends("no order on the driver", here, |ctx| only_in_tasks(ctx).top(3).map(drop));
    assert_ends("no order on the driver", here, |ctx| only_in_tasks(ctx).sort().count().map(drop));
    assert_ends("no hash on the driver", here, |ctx| only_in_tasks(ctx).count_by_value().map(drop));
    assert_ends("no hash on the driver", here, |ctx| {
        only_in_tasks(ctx).map(|n| (n, 1u8)).collect_as_map().map(drop)
    });
    assert_ends("no hash on the driver", here, |ctx| {
        let placed = only_in_tasks(ctx).map(|n| (n, 1u8)).partition_by(3);
        placed.lookup(&OnlyInTasks(10)).map(drop)
    });
    assert_ends("no merge on the driver", here, |ctx| {
        let reduced = ctx.range_in(2, 0..20u64, 1).reduce(|a, b| {
            panic_on_the_driver("merge");
            a + b
        });
        reduced.map(drop)
    });
    assert_ends("no background on the driver", here, |ctx| {
        let job = ctx.range_in(2, 0..20u64, 1).in_background(|rdd| {
            panic_on_the_driver("background");
            rdd.count()
        });
        job.wait().map(drop)
    });
}

#[test]
fn on_the_driver_in_the_deserialize_of_a_result() {
    assert_ends("no value on the driver", &PLACES[2..], |ctx| {
        ctx.range_in(2, 0..20u64, 1).map(OnlyInTasks).collect().map(drop)
    });
}

#[test]
fn on_the_driver_the_error_says_what_panicked_where_and_in_which_action() {
    let ctx = Context::builder().master("local[2]").arguments([] as [&str; 0]).build().unwrap();
    let error = only_in_tasks(&ctx).max().err().unwrap();
    let Error::UserCode { operation, place, message, location } = &error else { panic!("{error}") };
    assert_eq!((*operation, message.as_str()), ("max", "no order on the driver"));
    assert!(
        place.contains("poison_panics.rs:") && location.contains("poison_panics.rs:"),
        "{error}"
    );
}

#[derive(Clone, Serialize, Deserialize)]
struct Clinging(u64);

impl Drop for Clinging {
    fn drop(&mut self) {
        if self.0 == 7 {
            panic_on_the_driver("end");
        }
    }
}

#[test]
fn on_the_driver_in_the_drop_of_cached_items_nobody_is_stopped() {
    let ctx = Context::builder().master("local[2]").arguments([] as [&str; 0]).build().unwrap();
    let cached = ctx.range_in(2, 0..20u64, 1).map(Clinging).cache();
    assert_eq!(cached.count().unwrap(), 20);
    cached.unpersist();
    assert_eq!(cached.count().unwrap(), 20, "it can still be used");
    let forgotten = ctx.range_in(2, 0..20u64, 1).map(Clinging).cache();
    assert_eq!(forgotten.count().unwrap(), 20);
    drop(forgotten);
    assert_eq!(ctx.range_in(4, 0..100u64, 1).sum().unwrap(), 4950);
}
