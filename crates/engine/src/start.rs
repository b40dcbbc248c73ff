//! From settings to a running engine, and its end.

use std::collections::BTreeMap;
use std::sync::{Arc, Condvar, Mutex, OnceLock};

use firesteel_conf::{Conf, Master, Threads, entries};
use firesteel_executor::{LocalEnvironment, variables};
use firesteel_scheduler::SchedulerInput;
use firesteel_scheduler::messages::DagEvent;
use firesteel_status::Retention;
use firesteel_storage::Clock;
use firesteel_task::Environment;
use firesteel_types::{BlockManagerId, Event, ExecutorId};

use crate::aftermath::Aftermath;
use crate::backend::{ClusterManager, built_in};
use crate::bus::{Bus, EVENT_LOG, Listener, SHARED};
use crate::files::Files;
use crate::heartbeat::Heartbeats;
use crate::jobs::Ids;
use crate::observe::Observation;
use crate::place::NewPlace;
use crate::state::State;
use crate::status::Status;
use crate::{Engine, Error, Result, blocks, options};

/// Whose jobs these are.
pub(crate) struct Application {
    conf: Conf,
    master: Master,
    name: String,
    id: OnceLock<String>,
    files: Files,
    /// How many events may wait for a listener.
    listener_capacity: usize,
    pub(crate) ids: Ids,
}

impl Application {
    pub(crate) fn files(&self) -> &Files {
        &self.files
    }
}

impl Engine {
    /// Starts an application with these settings, which are taken to be valid.
    pub fn start(conf: Conf, listeners: Vec<Box<dyn Listener>>) -> Result<Arc<Engine>> {
        Self::start_on(conf, listeners, &[])
    }

    /// Starts an application that may also run on clusters of these kinds.
    pub fn start_on(
        conf: Conf,
        listeners: Vec<Box<dyn Listener>>,
        managers: &[Arc<dyn ClusterManager>],
    ) -> Result<Arc<Engine>> {
        firesteel_storage::raise_open_file_limit();
        if let Some(level) = conf.get(&entries::LOG_LEVEL)? {
            firesteel_executor::log::to_stderr(level);
        }
        if cfg!(panic = "abort") {
            let message = "tasks end by unwinding: build with panic = \"unwind\"".to_owned();
            return Err(Error::Unsupported { message });
        }
        let master = conf.get(&entries::MASTER)?.unwrap_or_else(local_on_all_cores);
        let dag = options::dag_options(&conf)?;
        let tasks = options::task_options(&conf, &master)?;
        let name = conf.get(&entries::APP_NAME)?.unwrap_or_else(executable_name);
        let scratch = options::scratch(&conf)?;
        let files = Files::gather(&conf)?;
        let observation = Observation::default();
        let bus = Bus::new(observation.clone());
        let status = Status::new(Retention::from_conf(&conf)?, observation.clone());
        let listener_capacity = conf.get(&entries::LISTENER_BUS_SHARED_CAPACITY)? as usize;
        let managers = [&built_in(), managers].concat();
        let place = NewPlace::of(&master, &conf, tasks.cpus_per_task, &files, &managers)?;
        let log_capacity = conf.get(&entries::LISTENER_BUS_EVENT_LOG_CAPACITY)? as usize;
        for listener in listeners {
            match listener.queue() {
                EVENT_LOG => bus.add(EVENT_LOG, log_capacity, listener),
                _ => bus.add(SHARED, listener_capacity, listener),
            }
        }
        let (id, ids) = (OnceLock::new(), Ids::default());
        let engine = Arc::new(Engine {
            state: Mutex::new(State::new(dag, tasks)),
            work: Condvar::new(),
            timer: Condvar::new(),
            clock: Clock::new(),
            bus,
            status,
            observation,
            heartbeats: Heartbeats::default(),
            aftermath: Aftermath::default(),
            environment: Arc::new(LocalEnvironment::new(scratch)),
            place: place.place(),
            application: Application { conf, master, name, id, files, ids, listener_capacity },
        });
        blocks::watch(&engine);
        if let Some(root) = engine.application.files.root() {
            engine.environment.set_files_root(root);
        }
        place.start(&engine).inspect_err(|_| {
            engine.end_jobs();
            engine.bus.close();
        })?;
        Ok(engine)
    }

    /// Tells listeners that the application is up: it has its id, and no executor yet.
    pub(crate) fn announce(&self) -> Result<()> {
        let conf = self.conf();
        if conf.get(&entries::LOG_CONF)? {
            for (key, value) in conf.redacted() {
                tracing::info!(key, value, "setting");
            }
        }
        self.post(Event::LogStart { version: VERSION.to_owned() });
        let [driver_log_urls, driver_attributes] = variables::of_driver();
        self.post(Event::ApplicationStart {
            name: self.app_name().to_owned(),
            app_id: self.application_id().to_owned(),
            attempt_id: conf.get(&entries::APP_ATTEMPT_ID)?,
            user: user(),
            driver_log_urls,
            driver_attributes,
            at: self.now(),
        });
        let profile = options::resource_profile(conf)?;
        self.post(Event::ResourceProfileAdded { profile });
        self.tell_environment();
        let (host, port) = self.place.driver_address();
        let id = BlockManagerId { executor: ExecutorId::DRIVER, host, port };
        let max_memory = self.environment.scratch().memory().budget();
        self.post(Event::BlockManagerAdded {
            id,
            max_memory,
            max_off_heap_memory: Some(0),
            at: self.now(),
        });
        Ok(())
    }

    /// Tells listeners what the application runs with: settings, and files as there are now.
    pub(crate) fn tell_environment(&self) {
        let owned = |(key, value): (&str, &str)| (key.to_owned(), value.to_owned());
        let properties = self.conf().redacted().map(owned).collect();
        let resources = self.application.files.resources();
        let (runtime, others) = (runtime(), BTreeMap::new());
        self.post(Event::EnvironmentUpdate { properties, runtime, resources, others });
    }

    /// The settings in force.
    pub fn conf(&self) -> &Conf {
        &self.application.conf
    }

    pub fn master(&self) -> &Master {
        &self.application.master
    }

    pub fn app_name(&self) -> &str {
        &self.application.name
    }

    /// The application's id: what a cluster gave it, or e.g. `local-1700000000000`.
    pub fn application_id(&self) -> &str {
        self.application.id.get_or_init(|| self.place.application_id().unwrap_or_else(local_id))
    }

    /// Adds a listener; it hears what happens from now on.
    pub fn add_listener(&self, listener: Box<dyn Listener>) {
        self.bus.add(SHARED, self.application.listener_capacity, listener);
    }

    /// How the queues of listeners stand: name, events that wait, events that were lost.
    pub fn listener_queues(&self) -> Vec<(&'static str, u64, u64)> {
        self.bus.queues()
    }

    /// Waits until listeners have heard everything that has happened so far.
    pub fn wait_for_listeners(&self) {
        self.bus.drain();
    }

    /// Cancels all jobs, ends all threads. Jobs submitted later are refused.
    pub fn stop(self: &Arc<Self>) {
        self.stop_with(0);
    }

    /// The same; the program is going to end with this code, listeners are told.
    pub fn stop_with(self: &Arc<Self>, exit_code: i32) {
        if !self.end_jobs() {
            return;
        }
        self.application.files.remove();
        self.post(Event::ApplicationEnd { exit_code: Some(exit_code), at: self.now() });
        self.bus.close();
    }

    pub fn is_stopped(&self) -> bool {
        self.lock().stopped
    }

    /// Cancels everything, waits for the running tasks to notice, ends the threads; `false` if that was done
    /// before.
    fn end_jobs(self: &Arc<Self>) -> bool {
        let reason = "the context is stopped".to_owned();
        let mut state = self.lock();
        if state.stopped {
            return false;
        }
        state.stopped = true;
        let threads = std::mem::take(&mut state.threads);
        self.carry_out(state, SchedulerInput::Dag(DagEvent::AllJobsCancelled { reason }));
        self.work.notify_all();
        self.timer.notify_all();
        self.heartbeats.stop();
        let current = std::thread::current().id();
        threads.into_iter().filter(|thread| thread.thread().id() != current).for_each(|thread| {
            let _ = thread.join();
        });
        self.place.stop();
        self.environment.blocks().clear();
        self.environment.scratch().remove_files();
        true
    }
}

/// The name of an application that has none.
pub fn executable_name() -> String {
    let path = std::env::current_exe().ok();
    let name = path.as_ref().and_then(|path| path.file_stem());
    name.map_or_else(|| "firesteel".to_owned(), |name| name.to_string_lossy().into_owned())
}

/// Who runs this process.
pub(crate) fn user() -> String {
    let told = |name: &&str| std::env::var(name).ok().filter(|user| !user.is_empty());
    ["SPARK_USER", "USER"].iter().find_map(told).unwrap_or_else(|| "unknown".to_owned())
}

/// The version of the engine.
const VERSION: &str = env!("CARGO_PKG_VERSION");

/// What the program runs on.
fn runtime() -> BTreeMap<String, String> {
    let program = std::env::current_exe().map(|path| path.display().to_string());
    BTreeMap::from([
        ("Firesteel Version".to_owned(), VERSION.to_owned()),
        ("Executable".to_owned(), program.unwrap_or_default()),
        ("Operating System".to_owned(), std::env::consts::OS.to_owned()),
        ("Architecture".to_owned(), std::env::consts::ARCH.to_owned()),
    ])
}

fn local_id() -> String {
    let since_epoch = std::time::SystemTime::now().duration_since(std::time::UNIX_EPOCH);
    format!("local-{}", since_epoch.map_or(0, |since| since.as_millis()))
}

fn local_on_all_cores() -> Master {
    Master::Local { threads: Threads::All, max_failures: None }
}
