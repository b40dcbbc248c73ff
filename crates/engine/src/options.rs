//! Settings turned into the schedulers' rules.

use std::collections::BTreeMap;
use std::path::PathBuf;
use std::sync::Arc;

use firesteel_conf::{ByteSize, Conf, Master, allocation, entries};
use firesteel_executor::codec_if;
use firesteel_scheduler::messages::{
    DagOptions, ExclusionOptions, PoolSpec, SchedulingMode, SpeculationOptions, TaskOptions,
};
use firesteel_shuffle::Scratch;
use firesteel_storage::{LocalDirs, MemoryManager};
use firesteel_types::ResourceProfile;

use crate::{Error, Result};

/// The DAG scheduler's rules.
pub(crate) fn dag_options(conf: &Conf) -> Result<DagOptions> {
    let max_consecutive_attempts = conf.get(&entries::STAGE_MAX_CONSECUTIVE_ATTEMPTS)?;
    let proactive_replication = conf.get(&entries::STORAGE_REPLICATION_PROACTIVE)?;
    Ok(DagOptions { max_consecutive_attempts, proactive_replication, ..DagOptions::default() })
}

/// The task scheduler's rules.
pub(crate) fn task_options(conf: &Conf, master: &Master) -> Result<TaskOptions> {
    let configured = conf.get(&entries::TASK_MAX_FAILURES)?;
    Ok(TaskOptions {
        mode: scheduling_mode(conf.get(&entries::SCHEDULER_MODE)?),
        pools: pools(conf)?,
        max_failures: master.local_max_failures().unwrap_or(configured),
        cpus_per_task: conf.get(&entries::TASK_CPUS)?,
        wait_process_ms: millis(conf.get(&entries::LOCALITY_WAIT_PROCESS)?),
        wait_node_ms: millis(conf.get(&entries::LOCALITY_WAIT_NODE)?),
        speculation: speculation(conf)?,
        exclusion: exclusion(conf)?,
        pipeline_us: pipeline_us(conf, master)?,
        ..TaskOptions::default()
    })
}

/// What executors and tasks ask for.
pub(crate) fn resource_profile(conf: &Conf) -> Result<ResourceProfile> {
    let ByteSize(memory) = conf.get(&entries::EXECUTOR_MEMORY)?;
    let cores = conf.get(&entries::EXECUTOR_CORES)?.map(|cores| ("cores".to_owned(), cores.into()));
    let mut executor = BTreeMap::from([("memory".to_owned(), memory >> 20)]);
    executor.extend(cores);
    let cpus = f64::from(conf.get(&entries::TASK_CPUS)?);
    let task = BTreeMap::from([("cpus".to_owned(), cpus)]);
    let (id, devices) = (ResourceProfile::DEFAULT, Default::default());
    Ok(ResourceProfile { id, executor, task, devices })
}

/// An executor gives back what waits for longer than twice this.
const MOST_PIPELINED_US: u64 = 50_000;

/// Threads of this process pipeline nothing: they take their next task with the report of the last.
fn pipeline_us(conf: &Conf, master: &Master) -> Result<u64> {
    let is_local = matches!(master, Master::Local { .. });
    let pipelined = conf.get(&entries::TASK_PIPELINED)?.as_micros();
    Ok(if is_local {
        0
    } else {
        u64::try_from(pipelined).unwrap_or(u64::MAX).min(MOST_PIPELINED_US)
    })
}

/// The memory that tasks and cached data share, and where temporary files go.
pub(crate) fn scratch(conf: &Conf) -> Result<Scratch> {
    let memory = conf.get(&entries::DRIVER_MEMORY)?.map_or_else(machine_memory, |size| size.0);
    let budget = (memory as f64 * conf.get(&entries::MEMORY_FRACTION)?) as u64;
    let manager = MemoryManager::new(budget, conf.get(&entries::MEMORY_STORAGE_FRACTION)?);
    let dirs = conf.get(&entries::LOCAL_DIR)?.into_iter().map(PathBuf::from).collect();
    let codec = codec_if(conf, conf.get(&entries::SHUFFLE_COMPRESS)?)?;
    let cache_codec = codec_if(conf, conf.get(&entries::RDD_COMPRESS)?)?;
    let scratch = Scratch::new(Arc::new(manager), Arc::new(LocalDirs::new(dirs)), codec);
    Ok(scratch.with_cache_codec(cache_codec))
}

/// What the control group allows, or what the machine has; a gigabyte where neither can be read.
fn machine_memory() -> u64 {
    let groups = ["/sys/fs/cgroup/memory.max", "/sys/fs/cgroup/memory/memory.limit_in_bytes"];
    let number = |path: &&str| std::fs::read_to_string(path).ok()?.trim().parse::<u64>().ok();
    let limit = groups.iter().find_map(number);
    let machine = std::fs::read_to_string("/proc/meminfo").ok().and_then(|text| {
        let line = text.lines().find_map(|line| line.strip_prefix("MemTotal:"))?;
        Some(line.trim().strip_suffix("kB")?.trim().parse::<u64>().ok()? * 1024)
    });
    match (limit, machine) {
        (Some(limit), Some(machine)) => limit.min(machine),
        (limit, machine) => limit.or(machine).unwrap_or(1 << 30),
    }
}

fn scheduling_mode(mode: firesteel_conf::SchedulingMode) -> SchedulingMode {
    match mode {
        firesteel_conf::SchedulingMode::Fifo => SchedulingMode::Fifo,
        firesteel_conf::SchedulingMode::Fair => SchedulingMode::Fair,
    }
}

fn millis(duration: std::time::Duration) -> u64 {
    u64::try_from(duration.as_millis()).unwrap_or(u64::MAX)
}

fn pools(conf: &Conf) -> Result<BTreeMap<String, PoolSpec>> {
    let Some(path) = conf.get(&entries::SCHEDULER_ALLOCATION_FILE)? else {
        return Ok(Default::default());
    };
    let path = PathBuf::from(path);
    let refused = |reason: String| Error::AllocationFile { path: path.clone(), reason };
    let text = std::fs::read_to_string(&path).map_err(|error| refused(error.to_string()))?;
    let pools = allocation::parse(&text).map_err(|error| refused(error.to_string()))?;
    Ok(pools.into_iter().map(|(name, settings)| (name, pool(&settings))).collect())
}

fn pool(settings: &allocation::PoolSettings) -> PoolSpec {
    PoolSpec {
        mode: if settings.fair { SchedulingMode::Fair } else { SchedulingMode::Fifo },
        weight: settings.weight,
        min_share: settings.min_share,
    }
}

fn speculation(conf: &Conf) -> Result<Option<SpeculationOptions>> {
    if !conf.get(&entries::SPECULATION)? {
        return Ok(None);
    }
    let milli = |value: f64| (value * 1000.0) as u64;
    Ok(Some(SpeculationOptions {
        interval_ms: millis(conf.get(&entries::SPECULATION_INTERVAL)?),
        multiplier_milli: milli(conf.get(&entries::SPECULATION_MULTIPLIER)?),
        quantile_milli: milli(conf.get(&entries::SPECULATION_QUANTILE)?),
        min_task_runtime_ms: millis(conf.get(&entries::SPECULATION_MIN_TASK_RUNTIME)?),
    }))
}

fn exclusion(conf: &Conf) -> Result<Option<ExclusionOptions>> {
    if !conf.get(&entries::EXCLUDE_ENABLED)? {
        return Ok(None);
    }
    Ok(Some(ExclusionOptions {
        max_task_attempts_per_executor: conf.get(&entries::EXCLUDE_TASK_ATTEMPTS_PER_EXECUTOR)?,
        max_task_attempts_per_node: conf.get(&entries::EXCLUDE_TASK_ATTEMPTS_PER_NODE)?,
        max_failed_tasks_per_executor_stage: conf
            .get(&entries::EXCLUDE_STAGE_FAILED_TASKS_PER_EXECUTOR)?,
        max_failed_executors_per_node_stage: conf
            .get(&entries::EXCLUDE_STAGE_FAILED_EXECUTORS_PER_NODE)?,
        max_failed_tasks_per_executor: conf
            .get(&entries::EXCLUDE_APPLICATION_FAILED_TASKS_PER_EXECUTOR)?,
        max_failed_executors_per_node: conf
            .get(&entries::EXCLUDE_APPLICATION_FAILED_EXECUTORS_PER_NODE)?,
        timeout_ms: millis(conf.get(&entries::EXCLUDE_TIMEOUT)?),
    }))
}
