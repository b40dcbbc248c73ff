//! Jobs that make the map outputs of a shuffle and read none of them.

use firesteel_types::MapOutputSizes;

use super::*;
use crate::messages::MapStageSpec;

/// Wants the map outputs of shuffle 0, of `rdd`, which has three readers.
fn want(bench: &mut Bench, job: u32, rdd: &Rdd) -> Vec<String> {
    bench.send(DagEvent::MapStageSubmitted(MapStageSpec {
        job: JobId(job),
        shuffle: ShuffleId(0),
        rdd: Arc::clone(rdd),
        readers: 3,
        properties: Properties::default(),
    }))
}

fn write(bench: &mut Bench, partition: u32, executor: u32, sizes: [u64; 3]) -> Vec<String> {
    let task = bench.task((0, 0), partition, executor);
    let written = Some(MapStatus { checksum: 0, sizes: MapOutputSizes::new(&sizes) });
    bench.send(DagEvent::TaskEnded { task, outcome: TaskOutcome::Success, written })
}

/// A map side of two partitions, and an RDD that reads its shuffle.
fn sides() -> (Rdd, Rdd) {
    let mut graph = Graph::default();
    let map_side = graph.source(2);
    let reader = graph.shuffled(&[&map_side], 3);
    (map_side, reader)
}

#[test]
fn it_ends_when_the_outputs_are_there_with_what_they_have_for_each_reader() {
    let (mut bench, (map_side, reader)) = (Bench::new(), sides());
    assert_eq!(
        want(&mut bench, 0, &map_side),
        ["job 0 starts [0.0]", "stage 0.0 starts", "run 0.0 [0 1]"]
    );
    write(&mut bench, 1, 1, [1, 0, 2]);
    assert_eq!(
        write(&mut bench, 0, 2, [2, 0, 3])[2..],
        ["stage 0.0 ok", "publish s0 [2 1]", "sizes 0 [3 0 5]", "job 0 ends", "end 0 ok"]
    );
    assert!(bench.dag.is_idle());
    // A later job finds them there, whether it reads them or not.
    assert_eq!(
        want(&mut bench, 1, &map_side),
        ["job 1 starts [1.0]", "sizes 1 [3 0 5]", "job 1 ends", "end 1 ok"]
    );
    let lines = bench.submit(2, &reader);
    assert_eq!(lines.last().unwrap(), "run 3.0 [0 1 2]", "only the reading stage");
}

#[test]
fn it_shares_the_stage_with_a_job_that_reads_it_and_leaves_it_when_it_is_cancelled() {
    let (mut bench, (map_side, reader)) = (Bench::new(), sides());
    bench.submit(0, &reader);
    for job in [1, 2] {
        assert_eq!(want(&mut bench, job, &map_side), [format!("job {job} starts [0.0]")]);
    }
    let reason = "enough".to_owned();
    let lines = bench.send(DagEvent::JobCancelled { job: JobId(1), reason });
    assert_eq!(lines, ["job 1 ends", "end job 1 cancelled: enough"]);
    write(&mut bench, 0, 1, [1, 1, 1]);
    let lines = write(&mut bench, 1, 1, [1, 1, 1]);
    assert!(lines.contains(&"sizes 2 [2 2 2]".to_owned()), "{lines:?}");
    assert!(!lines.iter().any(|line| line.starts_with("sizes 1")), "{lines:?}");
    assert_eq!(lines.last().unwrap(), "run 1.0 [0 1 2]");
}

#[test]
fn outputs_that_are_lost_are_recomputed_before_it_ends() {
    let (mut bench, (map_side, _)) = (Bench::new(), sides());
    want(&mut bench, 0, &map_side);
    write(&mut bench, 0, 1, [4, 0, 0]);
    bench.lose(1, true);
    let lines = write(&mut bench, 1, 2, [1, 0, 0]);
    assert_eq!(lines.last().unwrap(), "run 0.1 [0]", "{lines:?}");
    let task = bench.task((0, 1), 0, 2);
    let written = Some(MapStatus { checksum: 0, sizes: MapOutputSizes::new(&[2, 0, 0]) });
    let lines = bench.send(DagEvent::TaskEnded { task, outcome: TaskOutcome::Success, written });
    assert!(lines.contains(&"sizes 0 [3 0 0]".to_owned()), "{lines:?}");
    assert!(bench.dag.is_idle());
}
