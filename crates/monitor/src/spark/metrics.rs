//! What tasks cost and executors used, with the names of Spark's event log.

use firesteel_types::event::{ManagedMemory, PushedShuffleMetrics};
use firesteel_types::{ExecutorMetrics, TaskMetrics};
use serde::{Deserialize, Serialize};

use super::text::Int;

/// Declares [`Peaks`] with Spark's names, and both ways between it and [`ExecutorMetrics`].
macro_rules! peaks {
    ($($spark:literal $field:ident = $($path:ident).+;)*) => {
        /// `Executor Metrics` of an event.
        #[derive(Clone, Copy, Default, Serialize, Deserialize)]
        #[serde(default)]
        pub(crate) struct Peaks {
            $(#[serde(rename = $spark)] $field: Int,)*
            /// Ours: Spark does not know it, and reads over it.
            #[serde(rename = "PeakRSSMemory", skip_serializing_if = "is_zero")]
            peak_resident: Int,
        }

        impl From<&ExecutorMetrics> for Peaks {
            fn from(metrics: &ExecutorMetrics) -> Self {
                Peaks {
                    $($field: Int::of(metrics.$($path).+),)*
                    peak_resident: Int::of(metrics.peak_resident_memory),
                }
            }
        }

        impl From<Peaks> for ExecutorMetrics {
            fn from(peaks: Peaks) -> Self {
                let mut metrics =
                    ExecutorMetrics { managed: ManagedMemory::default(), ..Default::default() };
                $(metrics.$($path).+ = peaks.$field.u64();)*
                metrics.peak_resident_memory = peaks.peak_resident.u64();
                metrics
            }
        }

        /// Spark's names and what goes by them, in Spark's order.
        pub(crate) const PEAKS: &[(&str, fn(&ExecutorMetrics) -> u64)] =
            &[$(($spark, |metrics| metrics.$($path).+),)*];
    };
}

peaks! {
    "JVMHeapMemory" heap = managed.heap;
    "JVMOffHeapMemory" off_heap = managed.off_heap;
    "OnHeapExecutionMemory" execution = execution_memory;
    "OffHeapExecutionMemory" off_heap_execution = managed.off_heap_execution;
    "OnHeapStorageMemory" storage = storage_memory;
    "OffHeapStorageMemory" off_heap_storage = managed.off_heap_storage;
    "OnHeapUnifiedMemory" unified = unified_memory;
    "OffHeapUnifiedMemory" off_heap_unified = managed.off_heap_unified;
    "DirectPoolMemory" direct = managed.direct_pool;
    "MappedPoolMemory" mapped = managed.mapped_pool;
    "ProcessTreeJVMVMemory" virtual_memory = virtual_memory;
    "ProcessTreeJVMRSSMemory" resident = resident_memory;
    "ProcessTreePythonVMemory" python_virtual = managed.python_virtual;
    "ProcessTreePythonRSSMemory" python_resident = managed.python_resident;
    "ProcessTreeOtherVMemory" other_virtual = child_virtual_memory;
    "ProcessTreeOtherRSSMemory" other_resident = child_resident_memory;
    "MinorGCCount" minor_count = managed.minor_gc_count;
    "MinorGCTime" minor_time = managed.minor_gc_time_ms;
    "MajorGCCount" major_count = managed.major_gc_count;
    "MajorGCTime" major_time = managed.major_gc_time_ms;
    "TotalGCTime" total_time = managed.total_gc_time_ms;
    "ConcurrentGCCount" concurrent_count = managed.concurrent_gc_count;
    "ConcurrentGCTime" concurrent_time = managed.concurrent_gc_time_ms;
}

fn is_zero(number: &Int) -> bool {
    number.0 == 0
}

/// `Task Metrics` of an event. Times are milliseconds, but for processor time and `Shuffle Write Time`: nanoseconds.
#[derive(Clone, Default, Serialize, Deserialize)]
#[serde(default)]
pub(crate) struct Cost {
    #[serde(rename = "Executor Deserialize Time")]
    deserialize_ms: Int,
    #[serde(rename = "Executor Deserialize CPU Time")]
    deserialize_cpu_ns: Int,
    #[serde(rename = "Executor Run Time")]
    run_ms: Int,
    #[serde(rename = "Executor CPU Time")]
    cpu_ns: Int,
    #[serde(rename = "Peak Execution Memory")]
    peak_memory: Int,
    #[serde(rename = "Peak On Heap Execution Memory")]
    peak_on_heap: Int,
    #[serde(rename = "Peak Off Heap Execution Memory")]
    peak_off_heap: Int,
    #[serde(rename = "Result Size")]
    result_bytes: Int,
    #[serde(rename = "JVM GC Time")]
    gc_ms: Int,
    #[serde(rename = "Result Serialization Time")]
    serialize_ms: Int,
    #[serde(rename = "Memory Bytes Spilled")]
    memory_spilled: Int,
    #[serde(rename = "Disk Bytes Spilled")]
    disk_spilled: Int,
    #[serde(rename = "Shuffle Read Metrics")]
    read: Option<ShuffleRead>,
    #[serde(rename = "Shuffle Write Metrics")]
    write: Option<ShuffleWrite>,
    #[serde(rename = "Input Metrics")]
    input: Option<Input>,
    #[serde(rename = "Output Metrics")]
    output: Option<Output>,
    /// Spark wants it there.
    #[serde(rename = "Updated Blocks", skip_deserializing)]
    updated_blocks: [(); 0],
    /// Ours: what is finer than a millisecond. Spark reads over it.
    #[serde(rename = "Firesteel", skip_serializing_if = "Option::is_none")]
    fine: Option<FineTimes>,
}

/// Times in microseconds where Spark's log has milliseconds.
#[derive(Clone, Copy, Default, Serialize, Deserialize)]
#[serde(default)]
struct FineTimes {
    run: Int,
    deserialize: Int,
    serialize: Int,
    fetch_wait: Int,
    remote_requests: Int,
}

#[derive(Clone, Default, Serialize, Deserialize)]
#[serde(default)]
struct ShuffleRead {
    #[serde(rename = "Remote Blocks Fetched")]
    remote_blocks: Int,
    #[serde(rename = "Local Blocks Fetched")]
    local_blocks: Int,
    #[serde(rename = "Fetch Wait Time")]
    fetch_wait_ms: Int,
    #[serde(rename = "Remote Bytes Read")]
    remote_bytes: Int,
    #[serde(rename = "Remote Bytes Read To Disk")]
    remote_to_disk: Int,
    #[serde(rename = "Local Bytes Read")]
    local_bytes: Int,
    #[serde(rename = "Total Records Read")]
    records: Int,
    #[serde(rename = "Remote Requests Duration")]
    requests_ms: Int,
    #[serde(rename = "Push Based Shuffle")]
    pushed: Option<Pushed>,
}

#[derive(Clone, Copy, Default, Serialize, Deserialize)]
#[serde(default)]
struct Pushed {
    #[serde(rename = "Corrupt Merged Block Chunks")]
    corrupt_chunks: Int,
    #[serde(rename = "Merged Fetch Fallback Count")]
    fallbacks: Int,
    #[serde(rename = "Merged Remote Blocks Fetched")]
    remote_blocks: Int,
    #[serde(rename = "Merged Local Blocks Fetched")]
    local_blocks: Int,
    #[serde(rename = "Merged Remote Chunks Fetched")]
    remote_chunks: Int,
    #[serde(rename = "Merged Local Chunks Fetched")]
    local_chunks: Int,
    #[serde(rename = "Merged Remote Bytes Read")]
    remote_bytes: Int,
    #[serde(rename = "Merged Local Bytes Read")]
    local_bytes: Int,
    #[serde(rename = "Merged Remote Requests Duration")]
    remote_requests: Int,
}

#[derive(Clone, Copy, Default, Serialize, Deserialize)]
#[serde(default)]
struct ShuffleWrite {
    #[serde(rename = "Shuffle Bytes Written")]
    bytes: Int,
    #[serde(rename = "Shuffle Write Time")]
    time_ns: Int,
    #[serde(rename = "Shuffle Records Written")]
    records: Int,
}

#[derive(Clone, Copy, Default, Serialize, Deserialize)]
#[serde(default)]
struct Input {
    #[serde(rename = "Bytes Read")]
    bytes: Int,
    #[serde(rename = "Records Read")]
    records: Int,
}

#[derive(Clone, Copy, Default, Serialize, Deserialize)]
#[serde(default)]
struct Output {
    #[serde(rename = "Bytes Written")]
    bytes: Int,
    #[serde(rename = "Records Written")]
    records: Int,
}

/// Calls `$with!` with the numbers of pushed map outputs, ours and [`Pushed`]'s.
macro_rules! pushed {
    ($with:ident) => {
        $with! { corrupt_chunks corrupt_chunks, fallbacks fallbacks, remote_blocks remote_blocks,
        local_blocks local_blocks, remote_chunks remote_chunks, local_chunks local_chunks,
        remote_bytes remote_bytes, local_bytes local_bytes, remote_requests_ms remote_requests }
    };
}

impl From<&TaskMetrics> for ShuffleRead {
    fn from(metrics: &TaskMetrics) -> Self {
        let of = metrics.pushed.as_deref().copied().unwrap_or_default();
        macro_rules! copy {
            ($($ours:ident $theirs:ident),*) => { Pushed { $($theirs: Int::of(of.$ours)),* } };
        }
        ShuffleRead {
            remote_blocks: Int::of(metrics.shuffle_remote_blocks),
            local_blocks: Int::of(metrics.shuffle_local_blocks),
            fetch_wait_ms: Int::of(metrics.shuffle_fetch_wait_us / 1000),
            remote_bytes: Int::of(metrics.shuffle_remote_bytes),
            remote_to_disk: Int::of(metrics.shuffle_remote_bytes_to_disk),
            local_bytes: Int::of(metrics.shuffle_local_bytes),
            records: Int::of(metrics.shuffle_read_records),
            requests_ms: Int::of(metrics.shuffle_remote_requests_us / 1000),
            pushed: Some(pushed!(copy)),
        }
    }
}

impl From<&TaskMetrics> for Cost {
    fn from(metrics: &TaskMetrics) -> Self {
        let peak = Int::of(metrics.peak_memory_bytes);
        Cost {
            deserialize_ms: Int::of(metrics.deserialize_time_us / 1000),
            deserialize_cpu_ns: Int::of(metrics.deserialize_cpu_time_ns),
            run_ms: Int::of(metrics.run_time_us / 1000),
            cpu_ns: Int::of(metrics.cpu_time_ns),
            peak_memory: peak,
            peak_on_heap: peak,
            peak_off_heap: Int(0),
            result_bytes: Int::of(metrics.result_bytes),
            gc_ms: Int::of(metrics.gc_time_ms),
            serialize_ms: Int::of(metrics.result_serialize_time_us / 1000),
            memory_spilled: Int::of(metrics.memory_bytes_spilled),
            disk_spilled: Int::of(metrics.disk_bytes_spilled),
            read: Some(metrics.into()),
            write: Some(ShuffleWrite {
                bytes: Int::of(metrics.shuffle_write_bytes),
                time_ns: Int::of(metrics.shuffle_write_time_ns),
                records: Int::of(metrics.shuffle_write_records),
            }),
            input: Some(Input {
                bytes: Int::of(metrics.input_bytes),
                records: Int::of(metrics.input_records),
            }),
            output: Some(Output {
                bytes: Int::of(metrics.output_bytes),
                records: Int::of(metrics.output_records),
            }),
            updated_blocks: [],
            fine: Some(FineTimes {
                run: Int::of(metrics.run_time_us),
                deserialize: Int::of(metrics.deserialize_time_us),
                serialize: Int::of(metrics.result_serialize_time_us),
                fetch_wait: Int::of(metrics.shuffle_fetch_wait_us),
                remote_requests: Int::of(metrics.shuffle_remote_requests_us),
            }),
        }
    }
}

fn us(ms: Int) -> u64 {
    ms.u64().saturating_mul(1000)
}

impl Cost {
    /// The same without what only tells zeros, as [`TaskMetrics`] are.
    pub(crate) fn into_metrics(self) -> TaskMetrics {
        let read = self.read.unwrap_or_default();
        let write = self.write.unwrap_or_default();
        let (input, output) = (self.input.unwrap_or_default(), self.output.unwrap_or_default());
        let fine = self.fine.unwrap_or(FineTimes {
            run: Int::of(us(self.run_ms)),
            deserialize: Int::of(us(self.deserialize_ms)),
            serialize: Int::of(us(self.serialize_ms)),
            fetch_wait: Int::of(us(read.fetch_wait_ms)),
            remote_requests: Int::of(us(read.requests_ms)),
        });
        TaskMetrics {
            run_time_us: fine.run.u64(),
            cpu_time_ns: self.cpu_ns.u64(),
            deserialize_time_us: fine.deserialize.u64(),
            deserialize_cpu_time_ns: self.deserialize_cpu_ns.u64(),
            result_serialize_time_us: fine.serialize.u64(),
            result_bytes: self.result_bytes.u64(),
            getting_result_time_ms: 0,
            peak_memory_bytes: self.peak_memory.u64(),
            input_records: input.records.u64(),
            input_bytes: input.bytes.u64(),
            output_records: output.records.u64(),
            output_bytes: output.bytes.u64(),
            shuffle_read_records: read.records.u64(),
            shuffle_local_bytes: read.local_bytes.u64(),
            shuffle_local_blocks: read.local_blocks.u64(),
            shuffle_remote_bytes: read.remote_bytes.u64(),
            shuffle_remote_blocks: read.remote_blocks.u64(),
            shuffle_remote_bytes_to_disk: read.remote_to_disk.u64(),
            shuffle_fetch_wait_us: fine.fetch_wait.u64(),
            shuffle_remote_requests_us: fine.remote_requests.u64(),
            shuffle_write_records: write.records.u64(),
            shuffle_write_bytes: write.bytes.u64(),
            shuffle_write_time_ns: write.time_ns.u64(),
            memory_bytes_spilled: self.memory_spilled.u64(),
            disk_bytes_spilled: self.disk_spilled.u64(),
            gc_time_ms: self.gc_ms.u64(),
            pushed: read.pushed.and_then(pushed_metrics),
            executor: None,
        }
    }
}

fn pushed_metrics(pushed: Pushed) -> Option<Box<PushedShuffleMetrics>> {
    macro_rules! copy {
        ($($ours:ident $theirs:ident),*) => {
            PushedShuffleMetrics { $($ours: pushed.$theirs.u64()),* }
        };
    }
    let metrics = pushed!(copy);
    (metrics != PushedShuffleMetrics::default()).then(|| Box::new(metrics))
}
