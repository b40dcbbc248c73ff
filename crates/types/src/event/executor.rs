//! Executors as listeners see them.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

use crate::{ExecutorId, Host, StageRef};

/// Where an executor runs, and with what.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct ExecutorInfo {
    pub host: Host,
    /// How many tasks at once, if each takes one core.
    pub cores: u32,
    /// Where its output can be read, by name (`stdout`, `stderr`).
    pub log_urls: BTreeMap<String, String>,
    /// What its cluster manager tells of it.
    pub attributes: BTreeMap<String, String>,
    /// The profile it was asked for with.
    pub resource_profile: u32,
    /// Devices that Spark gave it: addresses by the name of the resource.
    pub resources: BTreeMap<String, Vec<String>>,
}

impl ExecutorInfo {
    /// One of the default profile; nothing else is known of it.
    pub fn new(host: Host, cores: u32) -> Self {
        ExecutorInfo {
            host,
            cores,
            log_urls: BTreeMap::new(),
            attributes: BTreeMap::new(),
            resource_profile: ResourceProfile::DEFAULT,
            resources: BTreeMap::new(),
        }
    }
}

/// What executors and tasks of one kind ask for, by the name of the resource (`cores`, `memory`; `cpus`).
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct ResourceProfile {
    pub id: u32,
    /// What each executor gets; memory in MiB.
    pub executor: BTreeMap<String, u64>,
    /// What each task takes of it.
    pub task: BTreeMap<String, f64>,
    /// How executors of Spark find their devices, by the name of the resource; what says nothing is left out.
    pub devices: BTreeMap<String, DeviceRequest>,
}

/// How a device is found, and whose it is.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct DeviceRequest {
    pub discovery_script: String,
    pub vendor: String,
}

/// A process of the application that is neither its driver nor an executor, such as an application master of YARN.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct ProcessInfo {
    /// `host:port`
    pub address: String,
    pub cores: u32,
    /// Where its output can be read, by name.
    pub log_urls: BTreeMap<String, String>,
}

impl ResourceProfile {
    /// The profile of everything that names none.
    pub const DEFAULT: u32 = 0;
}

/// A process that holds blocks, and where it serves them.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
pub struct BlockManagerId {
    pub executor: ExecutorId,
    pub host: Host,
    /// Its port; 0: it serves nobody else.
    pub port: u16,
}

/// What an executor uses, or the most that it used over a while, in bytes. What the system does not tell is 0.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct ExecutorMetrics {
    /// Memory that running tasks hold.
    pub execution_memory: u64,
    /// Memory of blocks.
    pub storage_memory: u64,
    /// Both at one moment.
    pub unified_memory: u64,
    /// Resident memory of the process.
    pub resident_memory: u64,
    /// The most that was ever resident of the process, as the system counts it.
    pub peak_resident_memory: u64,
    /// Address space of the process.
    pub virtual_memory: u64,
    /// Resident memory of the processes that it started.
    pub child_resident_memory: u64,
    /// Address space of the processes that it started.
    pub child_virtual_memory: u64,
    /// What a JVM manages, and its processes of Python: of Spark's executors only.
    pub managed: ManagedMemory,
}

/// Memory and garbage collections of a JVM, in bytes and milliseconds, and of its processes of Python.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct ManagedMemory {
    pub heap: u64,
    pub off_heap: u64,
    pub off_heap_execution: u64,
    pub off_heap_storage: u64,
    pub off_heap_unified: u64,
    pub direct_pool: u64,
    pub mapped_pool: u64,
    pub python_virtual: u64,
    pub python_resident: u64,
    pub minor_gc_count: u64,
    pub minor_gc_time_ms: u64,
    pub major_gc_count: u64,
    pub major_gc_time_ms: u64,
    pub total_gc_time_ms: u64,
    pub concurrent_gc_count: u64,
    pub concurrent_gc_time_ms: u64,
}

impl ManagedMemory {
    /// The larger of both, number by number.
    #[must_use]
    pub fn max(self, other: Self) -> Self {
        macro_rules! larger {
            ($($name:ident)*) => { ManagedMemory { $($name: self.$name.max(other.$name),)* } };
        }
        larger!(heap off_heap off_heap_execution off_heap_storage off_heap_unified direct_pool mapped_pool
            python_virtual python_resident minor_gc_count minor_gc_time_ms major_gc_count
            major_gc_time_ms total_gc_time_ms concurrent_gc_count concurrent_gc_time_ms)
    }
}

impl ExecutorMetrics {
    /// The larger of both, number by number.
    #[must_use]
    pub fn max(self, other: Self) -> Self {
        ExecutorMetrics {
            execution_memory: self.execution_memory.max(other.execution_memory),
            storage_memory: self.storage_memory.max(other.storage_memory),
            unified_memory: self.unified_memory.max(other.unified_memory),
            resident_memory: self.resident_memory.max(other.resident_memory),
            peak_resident_memory: self.peak_resident_memory.max(other.peak_resident_memory),
            virtual_memory: self.virtual_memory.max(other.virtual_memory),
            child_resident_memory: self.child_resident_memory.max(other.child_resident_memory),
            child_virtual_memory: self.child_virtual_memory.max(other.child_virtual_memory),
            managed: self.managed.max(other.managed),
        }
    }
}

/// The most that an executor used while tasks of a stage attempt ran on it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct StagePeak {
    pub stage: StageRef,
    /// The highest values while it ran tasks of the stage.
    pub metrics: ExecutorMetrics,
}
