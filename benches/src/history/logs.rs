//! Logs as Spark 4 writes them, generated.

use std::fs::File;
use std::io::{BufWriter, Write};
use std::path::Path;

use anyhow::Result;

/// The id of the application with the large log.
pub(crate) const LARGE: &str = "app-large";

/// Tasks of one stage: as many as both servers remember.
const TASKS_OF_A_STAGE: u64 = 100_000;
const START: u64 = 1_790_000_000_000;

fn head(out: &mut impl Write, id: &str) -> Result<()> {
    writeln!(out, r#"{{"Event":"SparkListenerLogStart","Spark Version":"4.3.0"}}"#)?;
    writeln!(
        out,
        r#"{{"Event":"SparkListenerApplicationStart","App Name":"generated","App ID":"{id}","Timestamp":{START},"User":"u"}}"#
    )?;
    for executor in 1..=4 {
        writeln!(
            out,
            r#"{{"Event":"SparkListenerExecutorAdded","Timestamp":{START},"Executor ID":"{executor}","Executor Info":{{"Host":"127.0.0.1","Total Cores":2,"Log Urls":{{}},"Attributes":{{}},"Resources":{{}},"Resource Profile Id":0,"Registration Time":{START}}}}}"#
        )?;
    }
    Ok(())
}

fn end(out: &mut impl Write, at: u64) -> Result<()> {
    writeln!(out, r#"{{"Event":"SparkListenerApplicationEnd","Timestamp":{at}}}"#)?;
    Ok(())
}

/// What is said of a stage; `times` are further fields.
fn stage(id: u64, tasks: u64, times: &str) -> String {
    format!(
        r#"{{"Stage ID":{id},"Stage Attempt ID":0,"Stage Name":"count at Main.scala:{id}","Number of Tasks":{tasks},"RDD Info":[{{"RDD ID":{id},"Name":"MapPartitionsRDD","Scope":"{{\"id\":\"{id}\",\"name\":\"map\"}}","Callsite":"map at Main.scala:{id}","Parent IDs":[],"Storage Level":{{"Use Disk":false,"Use Memory":false,"Use Off Heap":false,"Deserialized":false,"Replication":1}},"Barrier":false,"DeterministicLevel":"DETERMINATE","Number of Partitions":{tasks},"Number of Cached Partitions":0,"Memory Size":0,"Disk Size":0}}],"Parent IDs":[],"Details":"count at Main.scala:{id}",{times}"Accumulables":[],"Resource Profile Id":0,"Shuffle Push Enabled":false,"Shuffle Push Mergers Count":0}}"#
    )
}

/// Start and end of a task.
fn task(out: &mut impl Write, stage: u64, id: u64, index: u64) -> Result<()> {
    let launched = START + id / 8;
    let (finished, executor) = (launched + 40 + id % 30, 1 + id % 4);
    let info = |finished: u64| {
        format!(
            r#""Task Info":{{"Task ID":{id},"Index":{index},"Attempt":0,"Partition ID":{index},"Launch Time":{launched},"Executor ID":"{executor}","Host":"127.0.0.1","Locality":"PROCESS_LOCAL","Speculative":false,"Getting Result Time":0,"Finish Time":{finished},"Failed":false,"Killed":false,"Accumulables":[]}}"#
        )
    };
    let of = format!(r#""Stage ID":{stage},"Stage Attempt ID":0"#);
    writeln!(out, r#"{{"Event":"SparkListenerTaskStart",{of},{}}}"#, info(0))?;
    let (run, cpu, bytes) = (30 + id % 30, 20_000_000 + id % 9_999_999, 4096 + id % 65_536);
    writeln!(
        out,
        r#"{{"Event":"SparkListenerTaskEnd",{of},"Task Type":"ResultTask","Task End Reason":{{"Reason":"Success"}},{},"Task Metrics":{{"Executor Deserialize Time":3,"Executor Deserialize CPU Time":2867289,"Executor Run Time":{run},"Executor CPU Time":{cpu},"Peak Execution Memory":0,"Result Size":1188,"JVM GC Time":0,"Result Serialization Time":0,"Memory Bytes Spilled":0,"Disk Bytes Spilled":0,"Shuffle Read Metrics":{{"Remote Blocks Fetched":0,"Local Blocks Fetched":2,"Fetch Wait Time":0,"Remote Bytes Read":0,"Remote Bytes Read To Disk":0,"Local Bytes Read":{bytes},"Total Records Read":100,"Remote Requests Duration":0}},"Shuffle Write Metrics":{{"Shuffle Bytes Written":0,"Shuffle Write Time":0,"Shuffle Records Written":0}},"Input Metrics":{{"Bytes Read":{bytes},"Records Read":100}},"Output Metrics":{{"Bytes Written":0,"Records Written":0}},"Updated Blocks":[]}}}}"#,
        info(finished)
    )?;
    Ok(())
}

/// A job of one stage.
fn job(out: &mut impl Write, number: u64, first_task: u64, tasks: u64) -> Result<()> {
    let (begin, finish) = (START + first_task / 8, START + (first_task + tasks) / 8 + 100);
    let pending = stage(number, tasks, "");
    writeln!(
        out,
        r#"{{"Event":"SparkListenerJobStart","Job ID":{number},"Submission Time":{begin},"Stage Infos":[{pending}],"Stage IDs":[{number}],"Properties":{{}}}}"#
    )?;
    let submitted = stage(number, tasks, &format!(r#""Submission Time":{begin},"#));
    writeln!(
        out,
        r#"{{"Event":"SparkListenerStageSubmitted","Stage Info":{submitted},"Properties":{{}}}}"#
    )?;
    (0..tasks).try_for_each(|index| task(out, number, first_task + index, index))?;
    let times = format!(r#""Submission Time":{begin},"Completion Time":{finish},"#);
    let completed = stage(number, tasks, &times);
    writeln!(out, r#"{{"Event":"SparkListenerStageCompleted","Stage Info":{completed}}}"#)?;
    writeln!(
        out,
        r#"{{"Event":"SparkListenerJobEnd","Job ID":{number},"Completion Time":{finish},"Job Result":{{"Result":"JobSucceeded"}}}}"#
    )?;
    Ok(())
}

/// One log of so many tasks, about a gigabyte for a million.
pub(crate) fn large(directory: &Path, tasks: u64) -> Result<()> {
    let mut out = BufWriter::with_capacity(1 << 20, File::create(directory.join(LARGE))?);
    head(&mut out, LARGE)?;
    let mut done = 0;
    while done < tasks {
        let count = TASKS_OF_A_STAGE.min(tasks - done);
        job(&mut out, done / TASKS_OF_A_STAGE, done, count)?;
        done += count;
    }
    end(&mut out, START + tasks / 8 + 1000)?;
    Ok(out.flush()?)
}

/// So many logs of a job with ten tasks each.
pub(crate) fn many(directory: &Path, count: u64) -> Result<()> {
    for number in 0..count {
        let id = format!("app-{number:06}");
        let mut out = BufWriter::new(File::create(directory.join(&id))?);
        head(&mut out, &id)?;
        job(&mut out, 0, 0, 10)?;
        end(&mut out, START + 10_000 + number)?;
        out.flush()?;
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_line_is_json_and_says_what_it_is() {
        let mut out = Vec::new();
        head(&mut out, "x").unwrap();
        job(&mut out, 1, 0, 3).unwrap();
        end(&mut out, 9).unwrap();
        let text = String::from_utf8(out).unwrap();
        let lines: Vec<serde_json::Value> =
            text.lines().map(|line| serde_json::from_str(line).unwrap()).collect();
        assert_eq!(lines.len(), 6 + 2 + 6 + 2 + 1);
        assert!(
            lines.iter().all(|line| line["Event"].as_str().unwrap().starts_with("SparkListener"))
        );
    }
}
