//! A line of an event log as events: the reader's half of Spark's `JsonProtocol`.
//!
//! A line that cannot be read is an error of this line and of no other. Events that nobody here needs are
//! [`Event::Unknown`].

use std::collections::{BTreeMap, HashMap};

use firesteel_types::event::Locality;
use firesteel_types::{
    Accumulable, AccumulatorId, BlockManagerId, DeviceRequest, Event, ExecutorId, ExecutorInfo,
    ExecutorMetrics, Host, JobError, JobId, ProcessInfo, Properties, RddId, ResourceProfile,
    StageId, StagePeak, StageRef, TaskId, TaskInfo, Tick,
};
use serde::Deserialize;

use super::NO_PORT;
use super::failure::{self, End};
use super::model::{self, Named};
use super::stages;
use super::text::{Int, Pairs, Str};

/// Why a line says nothing.
#[derive(Debug, thiserror::Error)]
#[error("a line of the log cannot be read: {0}")]
pub struct LineError(#[from] serde_json::Error);

/// Every line of Spark's begins with it.
const START: &[u8] = b"{\"Event\":\"";

/// So many hosts share their names, and so many executors whose names are not numbers are told apart.
const HOSTS: usize = 10_000;
const EXECUTORS: usize = 20_000;
/// No name of either is longer, in bytes; what is behind it is left out.
const LONGEST_NAME: usize = 255;
/// So many stages of a job are read: a line of numbers would stand for a hundred times its bytes.
const STAGES: usize = 10_000;

/// In a long line there is no more than one object in so many bytes: Spark's have names and numbers in them. What is read of `{}` would
/// take a hundred times as much memory.
const LONG: usize = 1 << 20;
const DENSE: usize = 30;

/// Reads the lines of one log.
#[derive(Debug, Default)]
pub struct Decoder {
    hosts: HashMap<Box<str>, Host>,
    executors: BTreeMap<String, ExecutorId>,
    /// Executors whose names are not numbers, as they came up since they were asked for last.
    named: Vec<(ExecutorId, String)>,
}

impl Decoder {
    /// Adds the events of one line to `out`.
    pub fn decode(&mut self, line: &[u8], out: &mut Vec<Event>) -> Result<(), LineError> {
        if line.len() > LONG && memchr::memchr_iter(b'{', line).count() > line.len() / DENSE {
            return Err(LineError(serde::de::Error::custom(
                "a long line of objects with nothing in them",
            )));
        }
        let name = name_of(line)?;
        let short = name.strip_prefix("org.apache.spark.scheduler.").unwrap_or(&name);
        match short {
            "SparkListenerTaskStart" => {
                let read: model::TaskEvent<'_> = read(line)?;
                let task = self.task(&read);
                out.push(Event::TaskStart { at: task.launched, task });
            }
            "SparkListenerTaskEnd" => self.task_end(read(line)?, out),
            "SparkListenerTaskGettingResult" => {
                let read: model::TaskEvent<'_> = read(line)?;
                let at = tick(read.task.getting_result);
                out.push(Event::TaskGettingResult { task: self.task(&read), at });
            }
            "SparkListenerJobStart" => out.push(job_start(read(line)?)),
            "SparkListenerJobEnd" => out.push(job_end(read(line)?)),
            "SparkListenerStageSubmitted" => out.push(stage_submitted(read(line)?)),
            "SparkListenerStageCompleted" => stage_completed(read(line)?, out),
            _ => out.push(self.other(short, line)?),
        }
        Ok(())
    }

    fn other(&mut self, name: &str, line: &[u8]) -> Result<Event, LineError> {
        Ok(match name {
            "SparkListenerLogStart" => {
                let read: model::LogStart<'_> = read(line)?;
                Event::LogStart { version: read.version.into_owned() }
            }
            "SparkListenerApplicationStart" => application_start(read(line)?),
            "SparkListenerApplicationEnd" => {
                let read: model::ApplicationEnd = read(line)?;
                let exit_code = read.exit_code.map(|code| i32::try_from(code.0).unwrap_or(-1));
                Event::ApplicationEnd { exit_code, at: tick(read.at) }
            }
            "SparkListenerEnvironmentUpdate" => environment(read(line)?),
            "SparkListenerResourceProfileAdded" => profile(read(line)?),
            "SparkListenerExecutorAdded" => self.executor_added(read(line)?),
            "SparkListenerExecutorRemoved" => {
                let read: model::ExecutorRemoved<'_> = read(line)?;
                Event::ExecutorRemoved {
                    executor: self.executor(&read.executor),
                    reason: read.reason.into_owned(),
                    at: tick(read.at),
                }
            }
            "SparkListenerBlockManagerAdded" => self.manager_added(read(line)?),
            "SparkListenerBlockManagerRemoved" => {
                let read: model::ManagerRemoved<'_> = read(line)?;
                Event::BlockManagerRemoved { id: self.manager(&read.id), at: tick(read.at) }
            }
            "SparkListenerUnpersistRDD" => {
                let read: model::Unpersist = read(line)?;
                Event::UnpersistRdd { rdd: RddId(read.rdd.u32()) }
            }
            "SparkListenerBlockUpdated" => self.block_updated(read(line)?),
            "SparkListenerExecutorMetricsUpdate" => self.metrics_update(read(line)?),
            "SparkListenerStageExecutorMetrics" => {
                let read: model::StageExecutorMetrics<'_> = read(line)?;
                Event::StageExecutorMetrics {
                    stage: stage_ref(read.stage, read.attempt),
                    executor: self.executor(&read.executor),
                    metrics: read.metrics.into(),
                }
            }
            name => return self.by_class(name, line),
        })
    }

    /// Events that Spark writes by the names of their classes, and ours.
    fn by_class(&mut self, name: &str, line: &[u8]) -> Result<Event, LineError> {
        Ok(match name {
            "SparkListenerSpeculativeTaskSubmitted" => {
                let read: model::Speculated = read(line)?;
                let stage = stage_ref(read.stage, read.attempt);
                let (index, partition) = (read.index.u32(), read.partition.u32());
                Event::SpeculativeTaskSubmitted { stage, index, partition }
            }
            ACCUMULATED => {
                let read: model::LateAccumulated<'_> = read(line)?;
                let stage = stage_ref(read.stage, read.attempt);
                let task = Some(TaskId(read.task.u64()));
                match accumulable(read.accumulable) {
                    None => Event::Unknown,
                    Some(accumulable) => {
                        Event::AccumulableUpdated { stage, task, accumulable, at: tick(read.at) }
                    }
                }
            }
            RESUBMITTED => {
                let read: model::Resubmitted<'_> = read(line)?;
                Event::TaskResubmitted {
                    stage: stage_ref(read.stage, read.attempt),
                    index: read.index.u32(),
                    partition: read.partition.u32(),
                    executor: self.executor(&read.executor),
                    at: tick(read.at),
                }
            }
            MISSING => {
                let read: model::Missing<'_> = read(line)?;
                let shortage = read.shortage.map(|words| words.to_string());
                Event::ExecutorsMissing { shortage, at: tick(read.at) }
            }
            "SparkListenerMiscellaneousProcessAdded" => process(read(line)?),
            LOST => {
                let read: model::Lost = read(line)?;
                Event::EventsLost { events: read.events.u64() }
            }
            name => return self.exclusion(name, line),
        })
    }

    /// Spark 2 and 3.0 say `Blacklisted`; later ones write both.
    fn exclusion(&mut self, name: &str, line: &[u8]) -> Result<Event, LineError> {
        let kind = name.strip_prefix("SparkListener").unwrap_or_default();
        let kind = kind.replace("Unblacklisted", "Unexcluded").replace("Blacklisted", "Excluded");
        let of_stage = match kind.as_str() {
            "ExecutorExcludedForStage" | "NodeExcludedForStage" => true,
            "ExecutorExcluded" | "NodeExcluded" | "ExecutorUnexcluded" | "NodeUnexcluded" => false,
            _ => return Ok(Event::Unknown),
        };
        let read: model::Excluded<'_> = read(line)?;
        let at = tick(read.at);
        let stage = of_stage
            .then(|| stage_ref(read.stage.unwrap_or_default(), read.attempt.unwrap_or_default()));
        let failures = read.task_failures.or(read.executor_failures).unwrap_or_default().u32();
        if kind.starts_with("Executor") {
            let executor = self.executor(&read.executor.unwrap_or_default());
            return Ok(match kind.ends_with("Unexcluded") {
                true => Event::ExecutorUnexcluded { executor, at },
                false => Event::ExecutorExcluded { executor, stage, failures, at },
            });
        }
        let host = self.host(&read.host.unwrap_or_default());
        Ok(match kind.ends_with("Unexcluded") {
            true => Event::NodeUnexcluded { host, at },
            false => Event::NodeExcluded { host, stage, failures, at },
        })
    }

    /// Executors whose names are not numbers and that came up since the last call.
    pub fn take_names(&mut self) -> Vec<(ExecutorId, String)> {
        std::mem::take(&mut self.named)
    }

    fn host(&mut self, name: &str) -> Host {
        let name = &name[..name.floor_char_boundary(LONGEST_NAME)];
        if let Some(host) = self.hosts.get(name) {
            return host.clone();
        }
        let host = Host::new(name);
        if self.hosts.len() < HOSTS {
            self.hosts.insert(name.into(), host.clone());
        }
        host
    }

    fn executor(&mut self, name: &str) -> ExecutorId {
        if name == "driver" || name == "<driver>" {
            return ExecutorId::DRIVER;
        }
        if let Some(number) = number(name) {
            return ExecutorId(number);
        }
        let name = &name[..name.floor_char_boundary(LONGEST_NAME)];
        if let Some(known) = self.executors.get(name) {
            return *known;
        }
        // Below the driver's: no executor has so large a number. All that are too many are one.
        let next = u32::MAX - 1 - self.executors.len() as u32;
        if self.executors.len() >= EXECUTORS {
            return ExecutorId(next);
        }
        self.executors.insert(name.to_owned(), ExecutorId(next));
        self.named.push((ExecutorId(next), name.to_owned()));
        ExecutorId(next)
    }

    fn task(&mut self, read: &model::TaskEvent<'_>) -> TaskInfo {
        let task = &read.task;
        let partition = task.partition.filter(|partition| partition.0 >= 0);
        TaskInfo {
            task: TaskId(task.id.u64()),
            stage: stage_ref(read.stage, read.attempt),
            partition: partition.map_or(TaskInfo::NO_PARTITION, Int::u32),
            index: task.index.u32(),
            attempt: task.attempt.u32(),
            executor: self.executor(&task.executor),
            host: self.host(&task.host),
            speculative: task.speculative,
            locality: locality(&task.locality),
            launched: tick(task.launched),
        }
    }

    fn task_end(&mut self, read: model::TaskEvent<'_>, out: &mut Vec<Event>) {
        let (task, at) = (self.task(&read), tick(read.task.finished));
        let failure = match failure::end(read.reason, read.task.failed) {
            End::Success => None,
            End::Failed(failure) => Some(failure),
            End::Resubmitted => {
                let (stage, index, executor) = (task.stage, task.index, task.executor);
                let partition = task.partition_or_index();
                out.push(Event::TaskResubmitted { stage, index, partition, executor, at });
                return;
            }
        };
        let metrics = read.cost.map(|cost| {
            let mut metrics = cost.into_metrics();
            if read.task.getting_result.0 > 0 {
                metrics.getting_result_time_ms = at.since_ms(tick(read.task.getting_result));
            }
            let peaks = read.peaks.map(ExecutorMetrics::from);
            metrics.executor =
                peaks.filter(|peaks| *peaks != ExecutorMetrics::default()).map(Box::new);
            Box::new(metrics)
        });
        let (stage, id) = (task.stage, task.task);
        out.push(Event::TaskEnd { task, failure, metrics, at });
        let named = read.task.accumulables.into_iter().filter_map(accumulable);
        out.extend(named.map(|accumulable| Event::AccumulableUpdated {
            stage,
            task: Some(id),
            accumulable,
            at,
        }));
    }

    fn executor_added(&mut self, read: model::ExecutorAdded<'_>) -> Event {
        let info = read.info;
        let resources = info.resources.into_iter().map(|(name, of)| {
            (name.into_owned(), of.addresses.into_iter().map(Str::into_owned).collect())
        });
        Event::ExecutorAdded {
            executor: self.executor(&read.executor),
            info: ExecutorInfo {
                host: self.host(&info.host),
                cores: info.cores.u32(),
                log_urls: info.logs.into_owned(),
                attributes: info.attributes.into_owned(),
                resource_profile: info.profile.u32(),
                resources: resources.collect(),
            },
            at: tick(read.at),
        }
    }

    fn manager(&mut self, id: &model::ManagerId<'_>) -> BlockManagerId {
        BlockManagerId {
            executor: self.executor(&id.executor),
            host: self.host(&id.host),
            port: u16::try_from(id.port.0).ok().filter(|port| *port != NO_PORT).unwrap_or(0),
        }
    }

    fn manager_added(&mut self, read: model::ManagerAdded<'_>) -> Event {
        Event::BlockManagerAdded {
            id: self.manager(&read.id),
            max_memory: read.memory.u64(),
            max_off_heap_memory: read.off_heap.or(read.on_heap.map(|_| Int(0))).map(Int::u64),
            at: tick(read.at),
        }
    }

    fn block_updated(&mut self, read: model::BlockUpdated<'_>) -> Event {
        let info = read.info;
        Event::BlockUpdated {
            block: info.block.into_owned(),
            executor: self.executor(&info.manager.executor),
            memory_bytes: info.memory.u64(),
            disk_bytes: info.disk.u64(),
            level: info.level.into(),
        }
    }

    fn metrics_update(&mut self, read: model::MetricsUpdate<'_>) -> Event {
        let of_all = read.peaks.iter().find(|peak| peak.stage.0 < 0);
        let metrics = match of_all {
            Some(of_all) => of_all.metrics.into(),
            None => read
                .peaks
                .iter()
                .fold(ExecutorMetrics::default(), |most, peak| most.max(peak.metrics.into())),
        };
        let of_stages = read.peaks.iter().filter(|peak| peak.stage.0 >= 0);
        let stages = of_stages.map(|peak| StagePeak {
            stage: stage_ref(peak.stage, peak.attempt),
            metrics: peak.metrics.into(),
        });
        Event::ExecutorMetricsUpdate {
            executor: self.executor(&read.executor),
            metrics,
            stages: stages.collect(),
            tasks: read.running,
            at: read.at,
        }
    }
}

/// The names of our own events, after the prefix that Spark looks up a class by, in vain.
pub(super) const ACCUMULATED: &str = "FiresteelAccumulableUpdated";
pub(super) const RESUBMITTED: &str = "FiresteelTaskResubmitted";
pub(super) const MISSING: &str = "FiresteelExecutorsMissing";
pub(super) const LOST: &str = "FiresteelEventsLost";

fn read<'a, T: Deserialize<'a>>(line: &'a [u8]) -> Result<T, LineError> {
    Ok(serde_json::from_slice(line)?)
}

/// The event's name: at the beginning of the line, or found with more effort.
fn name_of(line: &[u8]) -> Result<Str<'_>, LineError> {
    let quick = line.strip_prefix(START).and_then(|rest| {
        let end = memchr::memchr2(b'"', b'\\', rest)?;
        (rest[end] == b'"').then(|| std::str::from_utf8(&rest[..end]).ok())?
    });
    match quick {
        Some(name) => Ok(Str::new(name)),
        None => Ok(read::<Named<'_>>(line)?.event),
    }
}

/// The name of the event in a line, if that begins as all lines of Spark's do.
pub(crate) fn quick_name(line: &[u8]) -> Option<&str> {
    let rest = line.strip_prefix(START)?;
    let end = memchr::memchr(b'"', rest)?;
    std::str::from_utf8(&rest[..end]).ok()
}

/// The number that a name is, written as we would write it, and no executor of ours has another meaning for.
fn number(name: &str) -> Option<u32> {
    let digits = name.bytes().all(|byte| byte.is_ascii_digit());
    let canonical = digits && (name == "0" || !name.starts_with('0'));
    // Large ones are names as well: they stand for executors that have one.
    name.parse().ok().filter(|number| canonical && *number < u32::MAX / 2)
}

pub(super) fn tick(at: Int) -> Tick {
    Tick(at.u64())
}

pub(super) fn stage_ref(stage: Int, attempt: Int) -> StageRef {
    StageRef { stage: StageId(stage.u32()), attempt: attempt.u32() }
}

fn locality(name: &str) -> Locality {
    let all = [
        Locality::ProcessLocal,
        Locality::NodeLocal,
        Locality::NoPref,
        Locality::RackLocal,
        Locality::Any,
    ];
    all.into_iter().find(|locality| locality.as_str() == name).unwrap_or(Locality::Any)
}

/// One that pages show: neither Spark's own nor those of SQL.
pub(super) fn accumulable(read: model::Accumulated<'_>) -> Option<Accumulable> {
    let hidden = read.internal || read.metadata.as_deref() == Some("sql");
    (!hidden).then(|| Accumulable {
        id: AccumulatorId(read.id.u64()),
        name: read.name.unwrap_or_default().into_owned(),
        update: read.update.unwrap_or_default().into_owned(),
        value: read.value.unwrap_or_default().into_owned(),
    })
}

fn application_start(read: model::ApplicationStart<'_>) -> Event {
    Event::ApplicationStart {
        name: read.name.into_owned(),
        app_id: read.id.unwrap_or_default().into_owned(),
        attempt_id: read.attempt.map(Str::into_owned),
        user: read.user.into_owned(),
        driver_log_urls: read.logs.unwrap_or_default().into_owned(),
        driver_attributes: read.attributes.unwrap_or_default().into_owned(),
        at: tick(read.at),
    }
}

/// Whether it is there tells a log of ours.
pub(super) const OWN_VERSION: &str = "Firesteel Version";
/// What Spark's readers look for of a JVM, and what of ours says as much.
pub(super) const JVM_NAMES: [(&str, &str); 3] =
    [("Java Version", OWN_VERSION), ("Java Home", "Executable"), ("Scala Version", "")];

fn environment(read: model::Environment<'_>) -> Event {
    let lists = [
        ("Hadoop Properties", read.hadoop),
        ("System Properties", read.system),
        ("Metrics Properties", read.metrics),
    ];
    let told = lists.into_iter().filter(|(_, list)| !list.0.is_empty());
    let mut runtime: BTreeMap<String, String> = read.runtime.into_owned();
    // A log of ours, which tells Spark's readers what is theirs by their names.
    if runtime.contains_key(OWN_VERSION) {
        JVM_NAMES.iter().for_each(|(name, _)| drop(runtime.remove(*name)));
    }
    Event::EnvironmentUpdate {
        properties: read.properties.into_owned(),
        runtime,
        resources: read.resources.into_owned(),
        others: told.map(|(name, list)| (name.to_owned(), list.into_owned())).collect(),
    }
}

fn profile(read: model::ProfileAdded<'_>) -> Event {
    let (mut executor, mut devices) = (BTreeMap::new(), BTreeMap::new());
    for (name, of) in read.executor {
        let (discovery_script, vendor) = (of.script.into_owned(), of.vendor.into_owned());
        if !discovery_script.is_empty() || !vendor.is_empty() {
            devices.insert(name.clone().into_owned(), DeviceRequest { discovery_script, vendor });
        }
        executor.insert(name.into_owned(), of.amount.u64());
    }
    let task = read.task.into_iter().map(|(name, of)| (name.into_owned(), of.amount)).collect();
    let profile = ResourceProfile { id: read.id.u32(), executor, task, devices };
    Event::ResourceProfileAdded { profile }
}

fn process(read: model::ProcessAdded<'_>) -> Event {
    let info = ProcessInfo {
        address: read.info.address.into_owned(),
        cores: read.info.cores.u32(),
        log_urls: read.info.logs.into_owned(),
    };
    Event::MiscellaneousProcessAdded { id: read.id.into_owned(), info, at: tick(read.at) }
}

fn properties(read: Pairs<'_>) -> Properties {
    let mut properties = Properties::default();
    for (name, value) in &read.0 {
        match &**name {
            Properties::TAGS => {
                let tags = value.split(',').filter(|tag| !tag.is_empty());
                properties.tags_mut().extend(tags.map(str::to_owned));
            }
            name => properties.set(name, Some(value)),
        }
    }
    properties
}

fn job_start(read: model::JobStart<'_>) -> Event {
    let (known, ids) = (!read.stages.is_empty(), read.ids);
    let stages = match known {
        true => read.stages.iter().take(STAGES).map(|stage| stages::info(stage, true)).collect(),
        // Spark 1.0 and 1.1 have only their numbers.
        false => ids.into_iter().take(STAGES).map(stages::unknown).collect(),
    };
    Event::JobStart {
        job: JobId(read.job.u32()),
        properties: properties(read.properties).into(),
        stages,
        at: tick(read.at),
    }
}

fn job_end(read: model::JobEnd<'_>) -> Event {
    let result = match &*read.result.result {
        "JobSucceeded" => Ok(()),
        _ => Err(read.result.error.unwrap_or_else(|| {
            let message = read.result.exception.unwrap_or_default().message.into_owned();
            JobError::Told { message }
        })),
    };
    Event::JobEnd { job: JobId(read.job.u32()), result, at: tick(read.at) }
}

fn stage_submitted(read: model::StageEvent<'_>) -> Event {
    let stage = stages::info(&read.stage, false);
    let at = stage.submitted.unwrap_or_default();
    let properties = properties(read.properties.unwrap_or_default()).into();
    Event::StageSubmitted { stage, properties, at }
}

fn stage_completed(mut read: model::StageEvent<'_>, out: &mut Vec<Event>) {
    let (stage, at) =
        (stages::info(&read.stage, false), tick(read.stage.completed.unwrap_or_default()));
    let named = std::mem::take(&mut read.stage.accumulables).into_iter().filter_map(accumulable);
    out.extend(named.map(|accumulable| Event::AccumulableUpdated {
        stage: stage.stage,
        task: None,
        accumulable,
        at,
    }));
    let failure = read.stage.failure.map(Str::into_owned);
    out.push(Event::StageCompleted { stage, failure, at });
}
