//! A front door of its own: no RDD, no pipeline, records in a form that only its bodies know. Counts the letters of
//! texts in two stages, in threads, in a child process and on a cluster.

use std::any::Any;
use std::collections::BTreeMap;
use std::sync::Arc;

use firesteel_closure::{Decoder, Encoder, Value, Wire, WireError, code, to_bytes, wire};
use firesteel_conf::Conf;
use firesteel_engine::{Engine, Error, JobWaiter};
use firesteel_status::{Order, Paging};
use firesteel_task::{
    OrFail, ShuffleReader, TaskBody, TaskContext, fail_for_good, fail_unreadable,
};
use firesteel_types::{
    CallSite, Dependency, JobError, Properties, RddInfo, ShuffleId, TaskFailure,
};

const READERS: u32 = 3;

/// Writes a line `LETTER COUNT` per letter of its partition's text, for the letter's reader.
struct CountLetters {
    texts: Value<Vec<String>>,
    shuffle: u32,
}

wire!([] CountLetters { texts, shuffle });

/// Adds up the lines of all map outputs.
struct AddCounts {
    shuffle: u32,
    maps: u32,
}

wire!([] AddCounts { shuffle, maps });

type Counts = Vec<(char, u64)>;

fn rebuild<B: Wire + TaskBody>(input: &mut Decoder<'_>) -> Result<Box<dyn TaskBody>, WireError> {
    Ok(Box::new(B::decode(input)?))
}

impl TaskBody for CountLetters {
    fn run(&self, task: &TaskContext) -> Box<dyn Any + Send> {
        let mut counts = BTreeMap::new();
        let text = &self.texts.0[task.partition() as usize];
        text.chars().for_each(|letter| *counts.entry(letter).or_insert(0u64) += 1);
        let mut buckets = task.buckets(READERS);
        for (letter, count) in counts {
            let line = format!("{letter} {count}\n");
            buckets.push_encoded(letter as u32 % READERS, line.as_bytes(), 1).or_fail();
        }
        task.put_map_output(ShuffleId(self.shuffle), buckets);
        Box::new(())
    }

    fn encode_output(&self, _: Box<dyn Any + Send>) -> Result<Vec<u8>, WireError> {
        Ok(Vec::new())
    }

    fn encode(&self, out: &mut Encoder) -> Result<(), WireError> {
        code::encode(rebuild::<Self>, out)?;
        Wire::encode(self, out)
    }
}

impl TaskBody for AddCounts {
    fn run(&self, task: &TaskContext) -> Box<dyn Any + Send> {
        let (shuffle, reduce) = (ShuffleId(self.shuffle), task.partition());
        let mut sums: BTreeMap<char, u64> = BTreeMap::new();
        for (map, slice) in ShuffleReader::new(task, shuffle, self.maps, reduce) {
            for run in slice.runs() {
                let run = run.unwrap_or_else(|e| fail_unreadable(task, shuffle, map, reduce, e));
                let text = std::str::from_utf8(run.bytes()).unwrap();
                for line in text.lines() {
                    let (letter, count) = line.rsplit_once(' ').unwrap();
                    let letter = letter.chars().next().unwrap();
                    *sums.entry(letter).or_default() += count.parse::<u64>().unwrap();
                }
            }
        }
        if sums.contains_key(&'!') {
            fail_for_good("no shouting");
        }
        Box::new(sums.into_iter().collect::<Counts>())
    }

    fn encode_output(&self, output: Box<dyn Any + Send>) -> Result<Vec<u8>, WireError> {
        to_bytes(output.downcast_ref::<Counts>().unwrap())
    }

    fn encode(&self, out: &mut Encoder) -> Result<(), WireError> {
        code::encode(rebuild::<Self>, out)?;
        Wire::encode(self, out)
    }
}

fn engine(master: &str, settings: &[(&str, &str)]) -> Arc<Engine> {
    let mut conf = Conf::new();
    conf.set("spark.master", master);
    for (key, value) in settings {
        conf.set(*key, *value);
    }
    Engine::start(conf, Vec::new()).unwrap()
}

fn submit(engine: &Arc<Engine>, texts: &[&str], properties: Properties) -> Arc<JobWaiter> {
    let (shuffle, maps) = (engine.next_shuffle(), texts.len() as u32);
    let texts = texts.iter().map(|text| (*text).to_owned()).collect();
    let map_side = Arc::new(CountLetters { texts: Value(texts), shuffle: shuffle.0 });
    let handle = engine.register_shuffle(shuffle, map_side);
    let site = CallSite::here("letters");
    let texts = RddInfo::new(engine.next_rdd(), "Texts", site, maps, Vec::new());
    let reads = vec![Dependency::Shuffle { shuffle, rdd: Arc::new(texts) }];
    let mut counts = RddInfo::new(engine.next_rdd(), "Letters", site, READERS, reads);
    // Map outputs live as long as an RDD that may read them.
    counts.attachment.0 = Some(handle);
    let body = Arc::new(AddCounts { shuffle: shuffle.0, maps });
    engine.submit(Arc::new(counts), (0..READERS).collect(), body, properties).unwrap()
}

#[test]
fn a_job_may_make_map_outputs_only_and_is_told_how_much_each_reader_will_find() {
    for (master, transport) in
        [("local[2]", "direct"), ("local[2]", "process"), ("local-cluster[2,1,256]", "direct")]
    {
        let engine = engine(master, &[("spark.firesteel.local.transport", transport)]);
        let (shuffle, maps) = (engine.next_shuffle(), 4);
        // 'a' is for reader 1, 'b' for 2, '0' for 0: a line each.
        let texts = ["ab", "a", "aaa0", ""].map(str::to_owned).to_vec();
        let map_side = CountLetters { texts: Value(texts), shuffle: shuffle.0 };
        let handle = engine.register_shuffle(shuffle, Arc::new(map_side));
        let site = CallSite::here("letters");
        let texts = Arc::new(RddInfo::new(engine.next_rdd(), "Texts", site, maps, Vec::new()));
        for _ in 0..2 {
            let stage =
                engine.submit_map_stage(&handle, texts.clone(), READERS, Properties::default());
            let told = stage.unwrap().wait().unwrap();
            assert_eq!((told.shuffle, &*told.bytes_by_reader), (shuffle, &[4, 12, 4][..]));
        }
        let stages = engine.with_status(|status| {
            status.stages(|stage| stage.tasks.completed > 0, Order::Ascending, Paging::ALL).total
        });
        assert_eq!(stages, 1, "the second one found them there ({master} {transport})");
        let reads = vec![Dependency::Shuffle { shuffle, rdd: texts }];
        let counts = RddInfo::new(engine.next_rdd(), "Letters", site, READERS, reads);
        let body = Arc::new(AddCounts { shuffle: shuffle.0, maps });
        let job = engine.submit(Arc::new(counts), vec![1], body, Properties::default()).unwrap();
        let counts: Counts = job.wait().unwrap().pop().unwrap().into_value().unwrap();
        assert_eq!(counts, [('a', 5)]);
        engine.stop();
    }
}

fn letters(engine: &Arc<Engine>, texts: &[&str]) -> BTreeMap<char, u64> {
    let results = submit(engine, texts, Properties::default()).wait().unwrap();
    results.into_iter().flat_map(|counts| counts.into_value::<Counts>().unwrap()).collect()
}

#[test]
fn two_stages_of_foreign_bodies_run_in_threads_in_a_child_process_and_on_a_cluster() {
    for (master, transport) in [
        ("local[2]", "direct"),
        ("local[2]", "encoded"),
        ("local[2]", "process"),
        ("local-cluster[2,1,256]", "direct"),
    ] {
        let engine = engine(master, &[("spark.firesteel.local.transport", transport)]);
        let counts = letters(&engine, &["abracadabra", "", "bar", "rab"]);
        let wanted = [('a', 7), ('b', 4), ('c', 1), ('d', 1), ('r', 4)];
        assert_eq!(counts, BTreeMap::from(wanted), "{master} {transport}");
        engine.stop();
        let again = engine
            .register_shuffle(engine.next_shuffle(), Arc::new(AddCounts { shuffle: 0, maps: 0 }));
        let site = CallSite::here("again");
        let lineage = RddInfo::new(engine.next_rdd(), "Nothing", site, 1, Vec::new());
        let body = Arc::new(AddCounts { shuffle: again.shuffle().0, maps: 0 });
        let refused = engine.submit(Arc::new(lineage), vec![0], body, Properties::default());
        assert!(matches!(refused.map(drop), Err(Error::Stopped)));
    }
}

#[test]
fn a_foreign_body_that_fails_ends_its_job_with_its_words() {
    let engine = engine("local[2]", &[]);
    let failed = submit(&engine, &["hey", "hey!"], Properties::default()).wait().map(drop);
    let Err(Error::Job(JobError::TaskFailed { failure, .. })) = failed else {
        panic!("{failed:?}")
    };
    assert_eq!(failure, TaskFailure::Fatal { message: "no shouting".to_owned() });
    assert_eq!(letters(&engine, &["a"]), BTreeMap::from([('a', 1)]));
}
