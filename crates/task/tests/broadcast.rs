//! What a broadcast value takes of an executor's memory while it arrives.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use serde::{Deserialize, Deserializer, Serialize, Serializer};

use firesteel_closure::{from_bytes, to_bytes};
use firesteel_shuffle::{Codec, MapOutput, Scratch, Slice};
use firesteel_storage::{LocalDirs, MemoryManager, MemoryStore};
use firesteel_task::{Broadcast, Environment, KillSwitch, TaskContext, TaskIdentity};
use firesteel_types::{BroadcastId, ShuffleId, StageId, StageRef, TaskFailure, TaskId};

const BYTES: usize = 10_000;

/// An executor to which one value was sent.
struct Receiver {
    blocks: MemoryStore,
    scratch: Scratch,
}

fn nothing<T>() -> Result<T, TaskFailure> {
    Err(TaskFailure::Error { message: "there is nothing to fetch here".to_owned() })
}

impl Environment for Receiver {
    fn blocks(&self) -> &MemoryStore {
        &self.blocks
    }

    fn scratch(&self) -> &Scratch {
        &self.scratch
    }

    fn put_map_output(
        &self,
        _: ShuffleId,
        _: u32,
        _: TaskId,
        _: MapOutput,
    ) -> Result<(), TaskFailure> {
        nothing()
    }

    fn fetch_map_output(&self, _: ShuffleId, _: u32, _: u32) -> Result<Slice, TaskFailure> {
        nothing()
    }

    fn fetch_broadcast(&self, _: BroadcastId) -> Result<Vec<u8>, TaskFailure> {
        Ok(to_bytes(&Value(vec![1; BYTES])).expect("plain bytes"))
    }
}

/// What was on the books when the value was decoded.
static COUNTED: AtomicU64 = AtomicU64::new(0);

#[derive(Serialize)]
struct Value(Vec<u8>);

impl<'de> Deserialize<'de> for Value {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let task = TaskContext::current().expect("it is read in a task");
        COUNTED.store(task.scratch().memory().used().0, Ordering::Relaxed);
        let name = "Value";
        struct Inner;
        impl<'de> serde::de::Visitor<'de> for Inner {
            type Value = Vec<u8>;

            fn expecting(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
                f.write_str("bytes")
            }

            fn visit_newtype_struct<D: Deserializer<'de>>(
                self,
                deserializer: D,
            ) -> Result<Vec<u8>, D::Error> {
                Vec::deserialize(deserializer)
            }
        }
        deserializer.deserialize_newtype_struct(name, Inner).map(Value)
    }
}

/// A handle as the driver sends it.
struct Sent(BroadcastId);

impl Serialize for Sent {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        self.0.serialize(serializer)
    }
}

#[test]
fn the_bytes_of_a_broadcast_value_count_while_it_is_decoded_and_then_the_value_alone() {
    let directory = tempfile::tempdir().unwrap();
    let memory = Arc::new(MemoryManager::new(1 << 20, 0.5));
    let dirs = Arc::new(LocalDirs::new(vec![directory.path().to_owned()]));
    let scratch = Scratch::new(memory.clone(), dirs, Codec::None);
    let environment = Arc::new(Receiver { blocks: MemoryStore::new(memory.clone()), scratch });
    let stage = StageRef { stage: StageId(0), attempt: 0 };
    let identity = TaskIdentity { task: TaskId(1), stage, partition: 0, attempt: 0, epoch: 0 };
    let task = TaskContext::new(identity, Arc::new(KillSwitch::default()), environment);
    let sent = to_bytes(&Sent(BroadcastId(7))).unwrap();
    let value = task.enter(|| from_bytes::<Broadcast<Value>>(&sent).unwrap());
    assert_eq!(value.0.len(), BYTES);
    let encoded = COUNTED.load(Ordering::Relaxed);
    assert!((BYTES as u64..2 * BYTES as u64).contains(&encoded), "{encoded} were counted");
    let (kept, _) = memory.used();
    assert!((BYTES as u64..2 * BYTES as u64).contains(&kept), "{kept} are counted");
}
