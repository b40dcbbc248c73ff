//! Executors, cached RDDs and settings in answers of the REST API.

use std::collections::{BTreeMap, BTreeSet};

use firesteel_conf::Redaction;
use firesteel_status::{AppStatus, ExecutorStatus, RddStatus};
use firesteel_types::{BlockManagerId, ExecutorId, ResourceProfile, Tick};
use serde::Serialize;

use super::json::Date;
use super::stages::{Peaks, peaks};
use crate::spark::NO_PORT;

/// `ExecutorSummary`
#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
pub(crate) struct ExecutorData<'a> {
    pub(crate) id: String,
    host_port: String,
    is_active: bool,
    rdd_blocks: u32,
    memory_used: u64,
    disk_used: u64,
    total_cores: u32,
    max_tasks: u32,
    active_tasks: u32,
    failed_tasks: u32,
    completed_tasks: u32,
    total_tasks: u32,
    total_duration: u64,
    #[serde(rename = "totalGCTime")]
    total_gc_time: u64,
    total_input_bytes: u64,
    total_shuffle_read: u64,
    total_shuffle_write: u64,
    is_blacklisted: bool,
    max_memory: u64,
    add_time: Date,
    #[serde(skip_serializing_if = "Option::is_none")]
    remove_time: Option<Date>,
    #[serde(skip_serializing_if = "Option::is_none")]
    remove_reason: Option<&'a str>,
    executor_logs: &'a BTreeMap<String, String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    memory_metrics: Option<MemoryData>,
    blacklisted_in_stages: BTreeSet<u32>,
    #[serde(skip_serializing_if = "Option::is_none")]
    peak_memory_metrics: Option<Peaks>,
    attributes: &'a BTreeMap<String, String>,
    resources: BTreeMap<&'a str, DeviceData<'a>>,
    resource_profile_id: u32,
    is_excluded: bool,
    excluded_in_stages: BTreeSet<u32>,
}

/// `MemoryMetrics`
#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
struct MemoryData {
    used_on_heap_storage_memory: u64,
    used_off_heap_storage_memory: u64,
    total_on_heap_storage_memory: u64,
    total_off_heap_storage_memory: u64,
}

#[derive(Serialize)]
struct DeviceData<'a> {
    name: &'a str,
    addresses: &'a [String],
}

/// How many tasks fit on so many cores.
pub(crate) fn max_tasks(status: &AppStatus, executor: &ExecutorStatus) -> u32 {
    let application = status.application();
    let profile = application.profiles.get(&executor.info.resource_profile);
    let asked = profile.and_then(|profile| profile.task.get("cpus")).map(|cpus| *cpus as u32);
    let set = || {
        let set = application.properties.iter().find(|(key, _)| key == "spark.task.cpus");
        set.and_then(|(_, value)| value.parse().ok())
    };
    let each: u32 = asked.or_else(set).unwrap_or(1);
    executor.info.cores.checked_div(each).unwrap_or(executor.info.cores)
}

impl<'a> ExecutorData<'a> {
    pub(crate) fn of(status: &'a AppStatus, executor: &'a ExecutorStatus, now: Tick) -> Self {
        let manager = executor.block_manager.as_ref();
        let host_port = manager.map(host_port);
        let tasks = executor.tasks;
        let excluded: BTreeSet<u32> =
            executor.excluded_in.iter().map(|stage| stage.stage.0).collect();
        let memory_metrics = executor.max_off_heap_memory.map(|off_heap| MemoryData {
            used_on_heap_storage_memory: executor.memory_used,
            used_off_heap_storage_memory: 0,
            total_on_heap_storage_memory: executor.max_memory.saturating_sub(off_heap),
            total_off_heap_storage_memory: off_heap,
        });
        let devices = executor.info.resources.iter();
        let (total_duration, total_gc_time) = times(status, executor, now);
        ExecutorData {
            id: status.executor_name(executor.executor),
            host_port: host_port.unwrap_or_else(|| executor.info.host.to_string()),
            is_active: executor.is_active(),
            rdd_blocks: executor.rdd_blocks,
            memory_used: executor.memory_used,
            disk_used: executor.disk_used,
            total_cores: executor.info.cores,
            max_tasks: max_tasks(status, executor),
            active_tasks: tasks.active,
            failed_tasks: tasks.failed,
            completed_tasks: tasks.completed,
            total_tasks: tasks.active + tasks.failed + tasks.completed + tasks.killed,
            total_duration,
            total_gc_time,
            total_input_bytes: executor.metrics.input_bytes,
            total_shuffle_read: executor.metrics.shuffle_read_bytes(),
            total_shuffle_write: executor.metrics.shuffle_write_bytes,
            is_blacklisted: executor.is_excluded,
            max_memory: executor.max_memory,
            add_time: Date::of(executor.added),
            remove_time: executor.removed.as_ref().map(|(at, _)| Date::of(*at)),
            remove_reason: executor.removed.as_ref().map(|(_, reason)| reason.as_str()),
            executor_logs: &executor.info.log_urls,
            memory_metrics,
            blacklisted_in_stages: excluded.clone(),
            peak_memory_metrics: executor.peak.as_ref().map(peaks),
            attributes: &executor.info.attributes,
            resources: devices
                .map(|(name, addresses)| (name.as_str(), DeviceData { name, addresses }))
                .collect(),
            resource_profile_id: executor.info.resource_profile,
            is_excluded: executor.is_excluded,
            excluded_in_stages: excluded,
        }
    }
}

/// As Spark's log has to say it of one that nobody reaches, too.
fn host_port(manager: &BlockManagerId) -> String {
    format!("{}:{}", manager.host, manager.port.max(NO_PORT))
}

/// How long its tasks ran, and the garbage collector; of the driver: how long the application runs, and its own collector.
pub(crate) fn times(status: &AppStatus, executor: &ExecutorStatus, now: Tick) -> (u64, u64) {
    let of_tasks = (executor.task_time_ms, executor.metrics.gc_time_ms);
    if executor.executor != ExecutorId::DRIVER {
        return of_tasks;
    }
    let application = status.application();
    let gc_time = executor.peak.map_or(of_tasks.1, |peak| peak.managed.total_gc_time_ms);
    (application.ended.unwrap_or(now).since_ms(application.started), gc_time)
}

/// `RDDStorageInfo`
#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
pub(crate) struct RddData<'a> {
    id: u32,
    name: &'a str,
    num_partitions: u32,
    num_cached_partitions: usize,
    storage_level: String,
    memory_used: u64,
    disk_used: u64,
    #[serde(skip_serializing_if = "Vec::is_empty")]
    data_distribution: Vec<HolderData>,
    partitions: Vec<PartitionData>,
}

/// `RDDDataDistribution`
#[derive(Default, Serialize)]
#[serde(rename_all = "camelCase")]
struct HolderData {
    address: String,
    memory_used: u64,
    memory_remaining: u64,
    disk_used: u64,
    on_heap_memory_used: u64,
    off_heap_memory_used: u64,
    on_heap_memory_remaining: u64,
    off_heap_memory_remaining: u64,
}

/// `RDDPartitionInfo`
#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
struct PartitionData {
    block_name: String,
    storage_level: String,
    memory_used: u64,
    disk_used: u64,
    executors: Vec<String>,
}

impl<'a> RddData<'a> {
    pub(crate) fn of(status: &AppStatus, rdd: &'a RddStatus) -> Self {
        RddData {
            id: rdd.rdd.id.0,
            name: &rdd.rdd.name,
            num_partitions: rdd.rdd.partitions,
            num_cached_partitions: rdd.partitions.len(),
            storage_level: rdd.level.description(),
            memory_used: rdd.memory_bytes(),
            disk_used: rdd.disk_bytes(),
            data_distribution: holders(status, rdd),
            partitions: partitions(status, rdd),
        }
    }
}

fn holders(status: &AppStatus, rdd: &RddStatus) -> Vec<HolderData> {
    let mut holders: BTreeMap<ExecutorId, HolderData> = BTreeMap::new();
    for (executor, block) in rdd.partitions.values().flatten() {
        let holder = holders.entry(*executor).or_default();
        holder.memory_used = holder.memory_used.saturating_add(block.memory_bytes);
        holder.on_heap_memory_used = holder.memory_used;
        holder.disk_used = holder.disk_used.saturating_add(block.disk_bytes);
    }
    for (executor, holder) in &mut holders {
        let Some(executor) = status.executor(*executor) else { continue };
        let manager = executor.block_manager.as_ref();
        let address = manager.map(host_port);
        holder.address = address.unwrap_or_default();
        holder.memory_remaining = executor.max_memory.saturating_sub(executor.memory_used);
        holder.on_heap_memory_remaining = holder.memory_remaining;
    }
    holders.into_values().collect()
}

fn partitions(status: &AppStatus, rdd: &RddStatus) -> Vec<PartitionData> {
    let storage_level = rdd.level.description();
    let data = rdd.partitions.iter().map(|(partition, blocks)| PartitionData {
        block_name: format!("rdd_{}_{partition}", rdd.rdd.id),
        storage_level: storage_level.clone(),
        memory_used: blocks.values().fold(0, |sum, block| sum.saturating_add(block.memory_bytes)),
        disk_used: blocks.values().fold(0, |sum, block| sum.saturating_add(block.disk_bytes)),
        executors: blocks.keys().map(|executor| status.executor_name(*executor)).collect(),
    });
    data.collect()
}

/// `ProcessSummary`
#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
pub(crate) struct ProcessData<'a> {
    id: &'a str,
    host_port: &'a str,
    is_active: bool,
    total_cores: u32,
    add_time: Date,
    process_logs: &'a BTreeMap<String, String>,
}

impl<'a> ProcessData<'a> {
    /// All of an application. Spark tells of none that it ended.
    pub(crate) fn all(status: &'a AppStatus) -> Vec<Self> {
        let processes = status.application().processes.iter();
        let data = processes.map(|(id, (info, added))| ProcessData {
            id,
            host_port: &info.address,
            is_active: true,
            total_cores: info.cores,
            add_time: Date::of(*added),
            process_logs: &info.log_urls,
        });
        data.collect()
    }
}

type Setting<'a> = (&'a str, &'a str);

/// `ApplicationEnvironmentInfo`
#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
pub(crate) struct EnvironmentData<'a> {
    runtime: RuntimeData<'a>,
    spark_properties: Vec<Setting<'a>>,
    hadoop_properties: Vec<Setting<'a>>,
    system_properties: Vec<Setting<'a>>,
    metrics_properties: Vec<Setting<'a>>,
    classpath_entries: Vec<Setting<'a>>,
    resource_profiles: Vec<ProfileData<'a>>,
}

/// `RuntimeInfo`. Of an application of ours, the version of Firesteel is where Java's would be.
#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
struct RuntimeData<'a> {
    java_version: &'a str,
    java_home: &'a str,
    scala_version: &'a str,
}

/// `ResourceProfileInfo`
#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
struct ProfileData<'a> {
    id: u32,
    executor_resources: BTreeMap<&'a str, ExecutorResource<'a>>,
    task_resources: BTreeMap<&'a str, TaskResource<'a>>,
}

#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
struct ExecutorResource<'a> {
    resource_name: &'a str,
    amount: u64,
    discovery_script: &'a str,
    vendor: &'a str,
}

#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
struct TaskResource<'a> {
    resource_name: &'a str,
    amount: f64,
}

fn sorted<'a>(list: impl Iterator<Item = Setting<'a>>, secrets: &'a Redaction) -> Vec<Setting<'a>> {
    let mut list: Vec<_> = list.map(|(key, value)| (key, secrets.apply(key, value))).collect();
    list.sort_unstable();
    list
}

impl<'a> EnvironmentData<'a> {
    pub(crate) fn of(status: &'a AppStatus, secrets: &'a Redaction) -> Self {
        let application = status.application();
        let pair = |(key, value): &'a (String, String)| (key.as_str(), value.as_str());
        let list = |name: &str| {
            let list = application.others.get(name).into_iter().flatten();
            sorted(list.map(pair), secrets)
        };
        let told = |name: &str| application.runtime.get(name).map(String::as_str);
        let resources = application.resources.iter();
        EnvironmentData {
            runtime: RuntimeData {
                java_version: told("Java Version").or(told("Firesteel Version")).unwrap_or(""),
                java_home: told("Java Home").or(told("Executable")).unwrap_or(""),
                scala_version: told("Scala Version").unwrap_or(""),
            },
            spark_properties: sorted(application.properties.iter().map(pair), secrets),
            hadoop_properties: list("Hadoop Properties"),
            system_properties: list("System Properties"),
            metrics_properties: list("Metrics Properties"),
            classpath_entries: resources
                .map(|(key, value)| (key.as_str(), value.as_str()))
                .collect(),
            resource_profiles: application.profiles.values().map(ProfileData::of).collect(),
        }
    }
}

impl<'a> ProfileData<'a> {
    fn of(profile: &'a ResourceProfile) -> Self {
        let executor = profile.executor.iter().map(|(name, amount)| {
            let (resource_name, amount) = (name.as_str(), *amount);
            let device = profile.devices.get(name);
            let discovery_script = device.map_or("", |device| &device.discovery_script);
            let vendor = device.map_or("", |device| &device.vendor);
            let of = ExecutorResource { resource_name, amount, discovery_script, vendor };
            (resource_name, of)
        });
        let task = profile.task.iter().map(|(name, amount)| {
            (name.as_str(), TaskResource { resource_name: name, amount: *amount })
        });
        ProfileData {
            id: profile.id,
            executor_resources: executor.collect(),
            task_resources: task.collect(),
        }
    }
}
