//! Messages survive the wire's encoding, and bytes that are none are refused.

use std::sync::Arc;

use firesteel_backend::AppId;
use firesteel_backend::blame::ExitStatus;
use firesteel_backend::protocol::{Refusal, ToDriver, ToExecutor};
use firesteel_backend::provider::Preparing;
use firesteel_standalone_core::description::{
    DriverReport, DriverState, ExecutorReport, ExecutorState, ProcessEnd, WorkerState,
};
use firesteel_standalone_core::messages::{Stamped, ToMaster, ToWorker};
use firesteel_standalone_core::{DriverId, ExecutorKey, Registration, Term, WorkerId};
use firesteel_types::{ExecutorId, TaskFailure, TaskId, TaskOutcome};

#[track_caller]
fn travels<T>(message: &T)
where
    T: serde::Serialize + serde::de::DeserializeOwned + PartialEq + std::fmt::Debug,
{
    let bytes = postcard::to_stdvec(message).expect("it can be written");
    assert_eq!(&postcard::from_bytes::<T>(&bytes).expect("it can be read"), message);
    for cut in 0..bytes.len() {
        assert!(postcard::from_bytes::<T>(&bytes[..cut]).is_err(), "cut at {cut}");
    }
}

#[test]
fn messages_arrive_as_they_were_sent_and_a_part_of_one_is_none() {
    let key = ExecutorKey { app: AppId::new("app-1"), executor: ExecutorId(3) };
    let end = Some(ProcessEnd { message: "gone".into(), status: Some(ExitStatus::Signal(9)) });
    let state = ExecutorState::Exited;
    let preparing = Some(Preparing { bytes: 5, of: 700, waits: 1 });
    let executor =
        ExecutorReport { key: key.clone(), cores: 1, memory_mb: 2, state, preparing, end };
    let (driver, state) = (DriverId::new("driver-1"), DriverState::Running);
    let (cores, memory_mb, description, end) = (1, 2, None, None);
    let driver = DriverReport { driver, cores, memory_mb, state, description, end };
    travels(&ToMaster::Heartbeat {
        worker: WorkerId::new("worker-1"),
        registration: Registration(7),
        state: WorkerState {
            number: 9,
            executors: vec![executor],
            drivers: vec![driver],
            apps: vec![key.app.clone()],
            decommissioned: true,
        },
    });
    let registration = Registration(u64::MAX);
    let message = ToWorker::KillExecutor { registration, key };
    travels(&Stamped { term: Term(1_794_765_220_344), message });
    let lost = TaskFailure::ExecutorLost {
        executor: ExecutorId(3),
        caused_by_app: true,
        reason: "exit code 1".into(),
    };
    travels(&ToDriver::StatusUpdate {
        executor: ExecutorId(3),
        task: TaskId(5),
        outcome: TaskOutcome::Failed(lost),
        data: Arc::from([1, 2, 3]),
    });
    let refusal = Refusal::OtherExecutable;
    travels(&ToExecutor::RegisterExecutorFailed { refusal, message: "no".into() });
}
