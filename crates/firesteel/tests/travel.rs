//! What travels comes back the same, or is refused: types with serde's attributes through every border of the engine, in
//! every mode. A type that cannot travel is refused also where nothing is sent, so that a program that runs on
//! threads runs on a cluster.

use std::collections::{BTreeMap, HashMap};
use std::fmt::Debug;

use firesteel::prelude::*;
use proptest::prelude::*;
use proptest::strategy::ValueTree;
use proptest::test_runner::{Config, RngAlgorithm, TestRng, TestRunner};
use serde::{Deserialize, Deserializer, Serialize, Serializer};

/// Made from a number, so that tasks can make them: a source that sends them would be the first border.
trait Item: Data + Clone + Debug {
    fn make(n: u64) -> Self;
}

/// What came out of a border, as texts and sorted, or why nothing did.
type Outcome = (&'static str, std::result::Result<Vec<String>, String>);

fn texts<T: Debug>(items: Result<Vec<T>>) -> std::result::Result<Vec<String>, String> {
    sorted(items.map(|items| items.iter().map(|item| format!("{item:?}")).collect()))
}

fn sorted(items: Result<Vec<String>>) -> std::result::Result<Vec<String>, String> {
    let mut texts = items.map_err(|error| error.to_string())?;
    texts.sort_unstable();
    Ok(texts)
}

/// Every border that a record passes.
fn records<T: Item>(ctx: &Context, directory: &str, count: u64) -> Vec<Outcome> {
    // Each border alone: what is read there leaves it as a text.
    let made = || ctx.range_in(2, 0..count, 1).map(T::make).boxed();
    let keyed = || ctx.range_in(2, 0..count, 1).map(|n| (n, T::make(n))).boxed();
    let shown = |rdd: Rdd<T>| sorted(rdd.map(|item| format!("{item:?}")).collect());
    let values = |rdd: Rdd<(u64, T)>| shown(rdd.map(|(_, item)| item).boxed());
    let kept = |level| {
        let rdd = made().persist(level);
        let first = rdd.count();
        let again = shown(rdd.clone().boxed());
        rdd.unpersist();
        first.map_err(|error| error.to_string()).and(again)
    };
    let path = format!("{directory}/objects");
    let saved = made().save_as_object_file(&path).map_err(|error| error.to_string());
    let object = saved
        .and_then(|()| ctx.object_file::<T>(&path).map_err(|error| error.to_string()))
        .and_then(|rdd| shown(rdd.boxed()));
    vec![
        ("collect", texts(made().collect())),
        ("take", texts(made().take(count as usize))),
        (
            "aggregate",
            texts(made().aggregate(
                Vec::new(),
                |mut all, item| {
                    all.push(item);
                    all
                },
                |mut all, more| {
                    all.extend(more);
                    all
                },
            )),
        ),
        ("repartition", shown(made().repartition(3))),
        ("sort_by", values(keyed().sort_by(|(index, _)| *index))),
        ("reduce_by_key", values(keyed().reduce_by_key(|a, _| a).boxed())),
        ("group_by_key", shown(keyed().group_by_key().flat_map(|(_, items)| items).boxed())),
        ("partition_by", values(keyed().partition_by(3))),
        ("memory", kept(StorageLevel::MEMORY_ONLY)),
        ("serialised", kept(StorageLevel::MEMORY_ONLY_SER)),
        ("disk", kept(StorageLevel::DISK_ONLY)),
        ("checkpoint", {
            let rdd = made().checkpoint();
            let first = rdd.count().map_err(|e| e.to_string());
            first.and(shown(rdd))
        }),
        ("object file", object),
    ]
}

/// Every border that values pass beside the records.
fn beside<T: Item>(ctx: &Context, count: u64) -> Vec<Outcome> {
    let items: Vec<T> = (0..count).map(T::make).collect();
    let parallelized = ctx.parallelize_in(2, items.clone()).map(|item| format!("{item:?}"));
    let environment = ctx.range(0..count).with(items.clone());
    let environment = environment.map(|items, n| format!("{:?}", items[n as usize]));
    let broadcast = ctx.range(0..count).with(ctx.broadcast(items));
    let broadcast = broadcast.map(|items, n| format!("{:?}", items[n as usize]));
    let accumulator: Accumulator<Vec<T>> = ctx.accumulator();
    let source = ctx.range_in(2, 0..count, 1).with(accumulator.clone());
    let added = source.for_each(|accumulator, n| accumulator.add(T::make(n)));
    vec![
        ("parallelize", sorted(parallelized.collect())),
        ("with", sorted(environment.collect())),
        ("broadcast", sorted(broadcast.collect())),
        ("accumulator", texts(added.map(|()| accumulator.value()))),
    ]
}

fn outcomes<T: Item>(ctx: &Context, count: u64) -> Vec<Outcome> {
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().to_str().unwrap().to_owned();
    ctx.set_checkpoint_dir(&format!("{path}/checkpoints")).unwrap();
    let mut all = records::<T>(ctx, &path, count);
    all.extend(beside::<T>(ctx, count));
    all
}

fn comes_back<T: Item>(place: &str, ctx: &Context, count: u64) {
    let expected = texts(Ok((0..count).map(T::make).collect()));
    for (border, found) in outcomes::<T>(ctx, count) {
        assert_eq!(found, expected, "{place}, {border}, {}", std::any::type_name::<T>());
    }
}

/// In all modes, at all borders, by the type's name, and never as damage.
fn is_refused<T: Item>(place: &str, ctx: &Context) {
    let name = std::any::type_name::<T>();
    for (border, found) in outcomes::<T>(ctx, 4) {
        let Err(error) = found else { panic!("{place}, {border}, {name}: {found:?}") };
        assert!(error.contains(name), "{place}, {border}: {error}");
        let is_damage =
            ["damaged", "corrupt", "panicked", "lost"].iter().any(|word| error.contains(word));
        assert!(!is_damage, "{place}, {border}: {error}");
    }
}

fn context(master: &str, transport: &str) -> Context {
    let builder = Context::builder().master(master).app_name("travel");
    let builder = builder.arguments([] as [&str; 0]).config("spark.ui.showConsoleProgress", false);
    builder.config("spark.firesteel.local.transport", transport).build().unwrap()
}

fn everywhere(test: impl Fn(&str, &Context)) {
    for transport in ["direct", "encoded", "process"] {
        let ctx = context("local[2]", transport);
        test(transport, &ctx);
        ctx.stop();
    }
    let ctx = context("local-cluster[2,1,256]", "direct");
    test("cluster", &ctx);
    ctx.stop();
}

#[derive(Serialize, Deserialize, Clone, PartialEq, Debug)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
enum Event {
    Nothing,
    #[serde(rename = "one")]
    Wrapped(i64),
    #[serde(alias = "former", alias = "before")]
    Pair(u8, String),
    Named {
        #[serde(alias = "was")]
        first: Option<Box<Event>>,
        second: char,
    },
    Last(Record),
}

#[derive(Serialize, Deserialize, Clone, PartialEq, Debug)]
#[serde(default)]
struct Record {
    #[serde(rename = "n", alias = "number")]
    number: u128,
    #[serde(skip)]
    left_out: (),
    wrapped: Wrapped,
    list: BTreeMap<String, Vec<Option<bool>>>,
    #[serde(with = "as_text")]
    shown: u32,
}

impl Default for Record {
    fn default() -> Self {
        let list = BTreeMap::new();
        Record { number: 0, left_out: (), wrapped: Wrapped(0), list, shown: 0 }
    }
}

#[derive(Serialize, Deserialize, Clone, PartialEq, Debug)]
#[serde(transparent)]
struct Wrapped(i16);

mod as_text {
    use super::*;

    pub(super) fn serialize<S: Serializer>(
        value: &u32,
        s: S,
    ) -> std::result::Result<S::Ok, S::Error> {
        s.collect_str(value)
    }

    pub(super) fn deserialize<'de, D: Deserializer<'de>>(
        d: D,
    ) -> std::result::Result<u32, D::Error> {
        String::deserialize(d)?.parse().map_err(serde::de::Error::custom)
    }
}

fn any_record() -> impl Strategy<Value = Record> {
    let list = prop::collection::btree_map(
        "[a-z]{0,3}",
        prop::collection::vec(any::<Option<bool>>(), 0..3),
        0..3,
    );
    (any::<u128>(), any::<i16>(), list, any::<u32>()).prop_map(|(number, wrapped, list, shown)| {
        Record { number, left_out: (), wrapped: Wrapped(wrapped), list, shown }
    })
}

fn any_event() -> impl Strategy<Value = Event> {
    let leaf = prop_oneof![
        Just(Event::Nothing),
        any::<i64>().prop_map(Event::Wrapped),
        (any::<u8>(), "[a-z]{0,5}").prop_map(|(a, b)| Event::Pair(a, b)),
        any_record().prop_map(Event::Last),
    ];
    leaf.prop_recursive(3, 8, 1, |inner| {
        (prop::option::of(inner), prop::char::range('a', 'z'))
            .prop_map(|(first, second)| Event::Named { first: first.map(Box::new), second })
    })
}

fn any_of<S: Strategy>(strategy: &S, n: u64) -> S::Value {
    let seed: Vec<u8> = n.to_le_bytes().into_iter().cycle().take(32).collect();
    let rng = TestRng::from_seed(RngAlgorithm::ChaCha, &seed);
    let mut runner = TestRunner::new_with_rng(Config::default(), rng);
    strategy.new_tree(&mut runner).unwrap().current()
}

impl Item for Event {
    fn make(n: u64) -> Self {
        any_of(&any_event(), n)
    }
}

type Nested = (Event, Option<Vec<Record>>, HashMap<u8, Event>);

impl Item for Nested {
    fn make(n: u64) -> Self {
        let records = prop::option::of(prop::collection::vec(any_record(), 0..3));
        let map = HashMap::from([(n as u8, Event::make(n + 1))]);
        (Event::make(n), any_of(&records, n), map)
    }
}

#[test]
fn types_whose_sides_agree_come_back_from_every_border() {
    everywhere(|place, ctx| {
        comes_back::<Event>(place, ctx, 50);
        comes_back::<Nested>(place, ctx, 50);
    });
}

/// D2: what came back as `{None, 1}, {None, 7}`.
#[derive(Serialize, Deserialize, Clone, PartialEq, Debug)]
struct SkipIf {
    #[serde(skip_serializing_if = "Option::is_none")]
    a: Option<u8>,
    b: u8,
}

#[derive(Serialize, Deserialize, Clone, PartialEq, Debug)]
struct SkipSer {
    a: u8,
    #[serde(skip_serializing)]
    b: u8,
}

#[derive(Serialize, Deserialize, Clone, PartialEq, Debug)]
struct SkipDe {
    a: u8,
    #[serde(skip_deserializing)]
    b: u8,
}

#[derive(Serialize, Deserialize, Clone, PartialEq, Debug)]
struct OneEach {
    #[serde(skip_serializing)]
    a: u8,
    #[serde(skip_deserializing)]
    b: u8,
}

#[derive(Serialize, Deserialize, Clone, PartialEq, Debug)]
struct Flat {
    a: u8,
    #[serde(flatten)]
    rest: HashMap<String, u8>,
}

#[derive(Serialize, Deserialize, Clone, PartialEq, Debug)]
#[serde(untagged)]
enum Untagged {
    Number(u64),
    Text(String),
}

#[derive(Serialize, Deserialize, Clone, PartialEq, Debug)]
#[serde(tag = "kind")]
enum Tagged {
    A { n: u8 },
}

#[derive(Serialize, Deserialize, Clone, PartialEq, Debug)]
enum SkipVariant {
    A,
    #[serde(skip)]
    #[allow(dead_code)]
    B,
    C,
    D,
}

/// Writes a text and reads a number.
#[derive(Clone, PartialEq, Debug)]
struct Liar(String);

impl Serialize for Liar {
    fn serialize<S: Serializer>(&self, serializer: S) -> std::result::Result<S::Ok, S::Error> {
        serializer.serialize_str(&self.0)
    }
}

impl<'de> Deserialize<'de> for Liar {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> std::result::Result<Self, D::Error> {
        u64::deserialize(deserializer).map(|n| Liar(n.to_string()))
    }
}

macro_rules! items {
    ($($type:ident: $make:expr;)*) => {$(
        impl Item for $type {
            fn make(n: u64) -> Self {
                let make: fn(u64) -> $type = $make;
                make(n)
            }
        }
    )*};
}

items! {
    SkipIf: |n| SkipIf { a: (n % 2 == 1).then_some(0), b: 7 * (n % 2) as u8 };
    SkipSer: |n| SkipSer { a: n as u8, b: 0 };
    SkipDe: |n| SkipDe { a: n as u8, b: 0 };
    OneEach: |_| OneEach { a: 0, b: 0 };
    Flat: |n| Flat { a: 1, rest: HashMap::from([("x".to_owned(), n as u8)]) };
    Untagged: |n| if n % 2 == 0 { Untagged::Number(n) } else { Untagged::Text("a".into()) };
    Tagged: |n| Tagged::A { n: n as u8 };
    SkipVariant: |n| if n % 2 == 0 { SkipVariant::C } else { SkipVariant::D };
    Liar: |_| Liar(String::new());
}

#[test]
fn types_whose_sides_differ_are_refused_at_every_border() {
    everywhere(|place, ctx| {
        is_refused::<SkipIf>(place, ctx);
        is_refused::<SkipSer>(place, ctx);
        is_refused::<SkipDe>(place, ctx);
        is_refused::<OneEach>(place, ctx);
        is_refused::<Flat>(place, ctx);
    });
}

#[test]
fn self_describing_types_moved_variants_and_liars_are_refused_at_every_border() {
    everywhere(|place, ctx| {
        is_refused::<Untagged>(place, ctx);
        is_refused::<Tagged>(place, ctx);
        is_refused::<SkipVariant>(place, ctx);
        is_refused::<Liar>(place, ctx);
    });
}

type Late = (SkipIf, SkipVariant, Vec<Untagged>);

impl Item for Late {
    fn make(n: u64) -> Self {
        match n {
            0..200 => (SkipIf { a: Some(1), b: n as u8 }, SkipVariant::A, Vec::new()),
            _ => (SkipIf { a: None, b: 7 }, SkipVariant::C, vec![Untagged::Number(n)]),
        }
    }
}

type LateVariant = (SkipVariant, Vec<SkipDe>);

impl Item for LateVariant {
    fn make(n: u64) -> Self {
        match n {
            0..200 => (SkipVariant::A, Vec::new()),
            _ => (SkipVariant::C, vec![SkipDe { a: 1, b: 1 }]),
        }
    }
}

/// Records that travel, then one of the same type that does not: no job may succeed with another value.
#[test]
fn what_differs_later_in_the_data_is_equal_or_refused() {
    fn check<T: Item>(place: &str, ctx: &Context) {
        let expected = texts(Ok((0..220).map(T::make).collect())).unwrap();
        let mut refused = 0;
        for (border, found) in outcomes::<T>(ctx, 220) {
            match found {
                // As values in memory they are what they were.
                Ok(found) => assert_eq!(found, expected, "{place}, {border}"),
                Err(_) => refused += 1,
            }
        }
        assert!(refused > 0, "{place}");
    }
    everywhere(|place, ctx| {
        check::<Late>(place, ctx);
        check::<LateVariant>(place, ctx);
    });
}
