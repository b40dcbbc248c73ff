//! Applications that never ran: events with everything that pages show, and text that wants to be more than text.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex};

use firesteel_monitor::Archive;
use firesteel_monitor::rest::{ApplicationEntry, Applications, Control};
use firesteel_status::{AppStatus, Retention};
use firesteel_types::event::{Locality, RddDescription, RddScope, StageRdd};
use firesteel_types::{
    BlockManagerId, Determinism, Event, ExecutorId, ExecutorInfo, ExecutorMetrics, Host, JobError,
    JobId, Properties, RddId, RunningTask, StageId, StageInfo, StageRef, StorageLevel, TaskFailure,
    TaskId, TaskInfo, TaskMetrics, ThreadInfo, Tick,
};

/// Runs where it is not escaped: in text, in an attribute, in a script.
pub(crate) const EVIL: &str =
    "<script>window.evil=1</script>\"'><img src=x onerror=\"window.evil=1\">${7*7}";
pub(crate) const START: u64 = 1_790_000_000_000;

#[derive(Clone, Copy)]
pub(crate) struct Made {
    pub tasks: u32,
    pub jobs: u32,
    pub is_over: bool,
    /// In front of its names.
    pub name: &'static str,
    /// Milliseconds that every task takes more.
    pub slower_ms: u64,
    /// Milliseconds since 1970.
    pub start: u64,
    /// Behind all its texts.
    pub tail: &'static str,
}

impl Made {
    pub(crate) const SMALL: Made = Made {
        tasks: 200,
        jobs: 12,
        is_over: false,
        name: "skewed join",
        slower_ms: 0,
        start: START,
        tail: EVIL,
    };

    pub(crate) fn status(self) -> AppStatus {
        let limit = self.tasks as usize * 2 + 100_000;
        let mut status = AppStatus::new(Retention {
            jobs: limit,
            stages: limit,
            tasks: limit,
            dead_executors: 100,
        });
        self.events(&mut |event| status.take(event));
        status
    }

    pub(crate) fn events(self, tell: &mut dyn FnMut(Event)) {
        self.beginning(tell);
        (0..4).for_each(|id| self.executor(id, tell));
        (0..4).for_each(|id| self.heartbeats(id, tell));
        let mut task = 0;
        let mut at = self.start + 3000;
        for job in 0..self.jobs {
            at = self.job(job, at, &mut task, tell);
        }
        tell(Event::ExecutorRemoved {
            executor: ExecutorId(3),
            reason: format!("the worker lost it: killed by signal 9, out of memory {}", self.tail),
            at: Tick(at),
        });
        if self.is_over {
            tell(Event::ApplicationEnd { exit_code: Some(0), at: Tick(at + 1500) });
        }
    }

    fn beginning(self, tell: &mut dyn FnMut(Event)) {
        tell(Event::LogStart { version: "0.1.0".to_owned() });
        tell(Event::ApplicationStart {
            name: format!("{} {}", self.name, self.tail),
            app_id: format!("app-{}", self.name.replace(' ', "-")),
            attempt_id: None,
            user: format!("ada {}", self.tail),
            driver_log_urls: BTreeMap::new(),
            driver_attributes: BTreeMap::new(),
            at: Tick(self.start),
        });
        let pair = |key: &str, value: &str| (key.to_owned(), value.to_owned());
        tell(Event::EnvironmentUpdate {
            properties: vec![
                pair("spark.app.name", self.name),
                pair("spark.ui.port", "4040"),
                pair("spark.executor.instances", "6"),
                pair("spark.task.maxFailures", "7"),
                pair("spark.mine.password", "hunter2"),
                pair(&format!("spark.mine {}", self.tail), self.tail),
            ],
            runtime: BTreeMap::from([pair("Machine", "x86_64"), pair("Version", self.tail)]),
            resources: BTreeMap::new(),
            others: BTreeMap::new(),
        });
    }

    /// A map stage and a reduce stage, three tasks of which take far longer. When it ends.
    fn job(self, job: u32, at: u64, task: &mut u64, tell: &mut dyn FnMut(Event)) -> u64 {
        let (map, reduce) = (job * 2, job * 2 + 1);
        let tasks = if job == 0 { self.tasks } else { 8 };
        let stages = vec![self.stage(map, tasks, &[]), self.stage(reduce, tasks, &[map])];
        let properties = Properties::default()
            .with(Properties::DESCRIPTION, &format!("join number {job} {}", self.tail));
        let properties = Arc::new(properties);
        tell(Event::JobStart {
            job: JobId(job),
            properties: properties.clone(),
            stages: stages.clone(),
            at: Tick(at),
        });
        let is_last = job + 1 == self.jobs;
        let failed = job % 5 == 4;
        let mut end = at;
        for (number, info) in stages.iter().enumerate() {
            tell(Event::StageSubmitted {
                stage: info.clone(),
                properties: properties.clone(),
                at: Tick(end + 5),
            });
            let stays = is_last && !self.is_over && number == 1;
            end = self.tasks_of(info, end + 20, task, stays, tell);
            if stays {
                return end;
            }
            let failure =
                (failed && number == 1).then(|| format!("task 3 failed 4 times: {}", self.tail));
            tell(Event::StageCompleted { stage: info.clone(), failure, at: Tick(end + 5) });
        }
        let result = if failed {
            Err(JobError::Told { message: format!("aborted {}\nsecond line", self.tail) })
        } else {
            Ok(())
        };
        tell(Event::JobEnd { job: JobId(job), result, at: Tick(end + 10) });
        for partition in 0..3u32 {
            tell(Event::BlockUpdated {
                block: format!("rdd_{map}_{partition}"),
                executor: ExecutorId(partition % 2),
                memory_bytes: 1 << 20,
                disk_bytes: u64::from(partition) << 18,
                level: StorageLevel::MEMORY_AND_DISK,
            });
        }
        end + 60
    }

    /// On four executors of four cores. `stays`: a third is never heard of again.
    fn tasks_of(
        self,
        info: &StageInfo,
        at: u64,
        task: &mut u64,
        stays: bool,
        tell: &mut dyn FnMut(Event),
    ) -> u64 {
        let mut free = [at; 16];
        let mut end = at;
        for index in 0..info.tasks {
            let (slot, launched) =
                free.iter().copied().enumerate().min_by_key(|(_, free)| *free).unwrap_or((0, at));
            let is_slow = info.tasks >= 100 && index % 67 == 33 && index < 200;
            let took = if is_slow { 4000 } else { 60 + u64::from(index * 7 % 41) } + self.slower_ms;
            free[slot] = launched + took + 2;
            let attempt = TaskInfo {
                task: TaskId(*task),
                stage: info.stage,
                partition: index,
                index,
                attempt: 0,
                executor: ExecutorId(slot as u32 / 4),
                host: Host::new(&format!("node-{}.example.org {}", slot / 4, self.tail)),
                speculative: false,
                locality: Locality::NodeLocal,
                launched: Tick(launched),
            };
            *task += 1;
            tell(Event::TaskStart { task: attempt.clone(), at: Tick(launched) });
            if stays && index % 3 == 2 {
                continue;
            }
            let ended = Tick(launched + took);
            end = end.max(ended.0);
            let failure = (index == 5 && info.tasks < 100)
                .then(|| TaskFailure::Error { message: format!("no such file {}", self.tail) });
            tell(Event::TaskEnd {
                task: attempt,
                failure,
                metrics: Some(Box::new(metrics(index, took, is_slow))),
                at: ended,
            });
        }
        end
    }
}

fn metrics(index: u32, took_ms: u64, is_slow: bool) -> TaskMetrics {
    let bytes = if is_slow { 64 << 20 } else { (1 << 20) + u64::from(index % 13) * 40_000 };
    TaskMetrics {
        run_time_us: (took_ms - 4) * 1000,
        cpu_time_ns: took_ms * 700_000,
        deserialize_time_us: 2000,
        shuffle_fetch_wait_us: took_ms * 100,
        shuffle_write_time_ns: took_ms * 80_000,
        input_bytes: bytes,
        input_records: bytes / 100,
        shuffle_remote_bytes: bytes / 3,
        shuffle_write_bytes: bytes / 2,
        memory_bytes_spilled: if is_slow { bytes } else { 0 },
        disk_bytes_spilled: if is_slow { bytes / 4 } else { 0 },
        ..TaskMetrics::default()
    }
}

impl Made {
    /// Every 200 ms: memory that grows, two of four cores busy.
    fn heartbeats(self, id: u32, tell: &mut dyn FnMut(Event)) {
        let from = self.start + 1000 + u64::from(id) * 300;
        for (number, at) in (from..self.start + 9000).step_by(200).enumerate() {
            let metrics = ExecutorMetrics {
                resident_memory: (100 << 20) + number as u64 * (u64::from(id) + 1) * (3 << 20),
                ..ExecutorMetrics::default()
            };
            let cpu_time_ns = number as u64 * 400_000_000;
            let running = RunningTask {
                task: TaskId(u64::MAX),
                stage: StageRef { stage: StageId(u32::MAX), attempt: 0 },
                metrics: TaskMetrics { cpu_time_ns, ..TaskMetrics::default() },
            };
            tell(Event::ExecutorMetricsUpdate {
                executor: ExecutorId(id),
                metrics,
                stages: Vec::new(),
                tasks: vec![running],
                at: Some(Tick(at)),
            });
        }
    }

    fn executor(self, id: u32, tell: &mut dyn FnMut(Event)) {
        let mut info = ExecutorInfo::new(Host::new(&format!("node-{id}.example.org")), 4);
        info.log_urls = BTreeMap::from([
            ("stdout".to_owned(), "javascript:window.evil=1".to_owned()),
            ("stderr".to_owned(), "http://node:8081/logs".to_owned()),
        ]);
        tell(Event::ExecutorAdded {
            executor: ExecutorId(id),
            info: info.clone(),
            at: Tick(self.start + 1000 + u64::from(id) * 300),
        });
        let block_manager =
            BlockManagerId { executor: ExecutorId(id), host: info.host, port: 7078 };
        tell(Event::BlockManagerAdded {
            id: block_manager,
            max_memory: 512 << 20,
            max_off_heap_memory: None,
            at: Tick(self.start + 1000),
        });
    }

    fn stage(self, id: u32, tasks: u32, parents: &[u32]) -> StageInfo {
        let rdd = RddDescription {
            id: RddId(id),
            name: format!("pairs {}", self.tail),
            scope: RddScope { id: u64::from(id), name: "reduce_by_key".to_owned(), parent: None },
            call_site: format!("reduce_by_key at src/main.rs:{id} {}", self.tail),
            parents: Vec::new(),
            partitions: tasks,
            determinism: Determinism::Determinate,
        };
        StageInfo {
            stage: StageRef { stage: StageId(id), attempt: 0 },
            name: format!("reduce_by_key at src/main.rs:{} {}", id % 40, self.tail).into(),
            tasks,
            parents: parents.iter().map(|parent| StageId(*parent)).collect(),
            rdds: vec![StageRdd {
                rdd: Arc::new(rdd),
                level: if id.is_multiple_of(4) {
                    StorageLevel::MEMORY_AND_DISK
                } else {
                    StorageLevel::NONE
                },
            }]
            .into(),
            shuffle_map: parents.is_empty(),
            submitted: None,
            completed: None,
            details: Some(format!("at {}", self.tail).into()),
            resource_profile: 0,
        }
    }
}

/// A running application, or several that are over.
pub(crate) struct Fixed {
    pub applications: Mutex<Vec<AppStatus>>,
    pub is_live: bool,
    /// What was killed.
    pub killed: Mutex<Vec<String>>,
}

impl Fixed {
    pub(crate) fn new(applications: Vec<AppStatus>, is_live: bool) -> Self {
        Fixed { applications: Mutex::new(applications), is_live, killed: Mutex::default() }
    }
}

impl Applications for Fixed {
    fn list(&self) -> Vec<ApplicationEntry> {
        self.applications.lock().unwrap().iter().map(ApplicationEntry::live).collect()
    }

    fn with_status(&self, id: &str, _: Option<&str>, look: &mut dyn FnMut(&AppStatus)) -> bool {
        let applications = self.applications.lock().unwrap();
        applications.iter().find(|it| it.application().id == id).map(look).is_some()
    }

    fn is_live(&self) -> bool {
        self.is_live
    }

    fn control(&self) -> Option<&dyn Control> {
        self.is_live.then_some(self)
    }

    fn threads(&self, executor: ExecutorId) -> Option<Vec<ThreadInfo>> {
        // Other pages need the status while an executor is asked.
        drop(self.applications.try_lock().expect("the status is not locked"));
        let thread = |id, task: Option<&str>| ThreadInfo {
            id,
            name: format!("worker {EVIL}"),
            state: if task.is_some() { 'R' } else { 'S' },
            user_ms: 1000,
            system_ms: 500 * id,
            waits_in: task.is_none().then(|| "futex_wait".to_owned()),
            task: task.map(str::to_owned),
        };
        let task = "task 2.0 in stage 23.0 (TID 376)";
        (executor != ExecutorId(1)).then(|| vec![thread(7, None), thread(8, Some(task))])
    }

    fn logs(&self, _: &str, _: Option<&str>) -> Option<std::io::Result<Archive>> {
        None
    }
}

impl Control for Fixed {
    fn kill_job(&self, job: JobId, reason: &str) {
        self.killed.lock().unwrap().push(format!("job {job}: {reason}"));
    }

    fn kill_stage(&self, stage: StageId, reason: &str) {
        self.killed.lock().unwrap().push(format!("stage {stage}: {reason}"));
    }
}
