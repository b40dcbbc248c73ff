//! The event log, the pages, the REST API, the metrics and the traces of a running application: of programs that were built with the feature `monitor`.

#[cfg(feature = "monitor")]
pub(crate) use with_monitor::{Ui, listeners};
#[cfg(not(feature = "monitor"))]
pub(crate) use without_monitor::{Ui, listeners};

#[cfg(feature = "monitor")]
mod with_monitor {
    use std::sync::{Arc, Mutex, MutexGuard, OnceLock, Weak};

    use firesteel_conf::{Conf, entries};
    use firesteel_engine::{Engine, Listener, Observed, page_hosts};
    use firesteel_metrics::{Metrics, Reporter, SinkOptions, Timer, process};
    use firesteel_monitor::rest::{ApplicationEntry, Applications, Control};
    use firesteel_monitor::{Access, Archive, EventLog, Server, ServerOptions, Traces, metrics};
    use firesteel_pages::Pages;
    use firesteel_status::AppStatus;
    use firesteel_task::Environment as _;
    use firesteel_types::{Event, ExecutorId, JobId, StageId, ThreadInfo};

    use crate::{Error, Result};

    /// Only this machine reaches it, unless a master shows the pages to others: nobody has to prove who they are, unless settings say so.
    const HOST: &str = "127.0.0.1";

    struct Log(EventLog);

    impl Listener for Log {
        fn on_event(&mut self, event: &Event) {
            self.0.on_event(event);
        }

        fn on_lost(&mut self, events: u64) {
            self.0.on_lost(events);
        }

        fn queue(&self) -> &'static str {
            "eventLog"
        }
    }

    struct Tracer(Traces);

    impl Listener for Tracer {
        fn on_event(&mut self, event: &Event) {
            self.0.on_event(event);
        }
    }

    /// The log and the traces that the settings ask for.
    pub(crate) fn listeners(conf: &Conf) -> Result<Vec<Box<dyn Listener>>> {
        // Refused before anything runs.
        sinks(conf)?;
        access(conf)?;
        let traces =
            Traces::from_conf(conf).map_err(|error| Error::Traces { reason: error.to_string() })?;
        let log = EventLog::from_conf(conf)
            .map_err(|error| Error::EventLog { reason: error.to_string() })?;
        let log = log.map(|log| Box::new(Log(log)) as Box<dyn Listener>);
        let traces = traces.map(|traces| Box::new(Tracer(traces)) as Box<dyn Listener>);
        Ok(log.into_iter().chain(traces).collect())
    }

    /// How long things take in a driver.
    #[derive(Default)]
    struct Timers {
        messages: Timer,
        status: Timer,
        event_log: Timer,
        shared: Timer,
    }

    impl Timers {
        /// Measures from now on.
        fn measure(self: Arc<Self>, engine: &Engine) {
            engine.observe(Box::new(move |what, took, times| self.get(what).update(took, times)));
        }

        fn get(&self, what: Observed) -> &Timer {
            match what {
                Observed::Message => &self.messages,
                Observed::Status => &self.status,
                Observed::Listener("eventLog") => &self.event_log,
                Observed::Listener(_) => &self.shared,
            }
        }

        /// By Spark's names; those of listeners are the names of its classes.
        fn tell(&self, all: &mut Metrics, queues: impl Iterator<Item = &'static str>) {
            all.timer("DAGScheduler.messageProcessingTime", self.messages.snapshot());
            for queue in ["appStatus"].into_iter().chain(queues) {
                let (timer, class) = match queue {
                    "appStatus" => (&self.status, Some("status.AppStatusListener")),
                    "eventLog" => (&self.event_log, Some("scheduler.EventLoggingListener")),
                    _ => (&self.shared, None),
                };
                let told = timer.snapshot();
                if let Some(class) = class {
                    let name =
                        format!("LiveListenerBus.listenerProcessingTime.org.apache.spark.{class}");
                    all.timer(&name, told.clone());
                }
                all.timer(&format!("LiveListenerBus.queue.{queue}.listenerProcessingTime"), told);
            }
        }
    }

    /// The application of this process.
    struct Live {
        /// Set once the engine runs; requests before that find no application.
        engine: OnceLock<Weak<Engine>>,
        timers: Arc<Timers>,
        /// Whether its jobs and stages can be killed from its pages.
        can_kill: bool,
        /// `spark.metrics.namespace`
        namespace: Option<String>,
        /// `spark.ui.prometheus.enabled`
        tells_executors: bool,
    }

    impl Live {
        fn engine(&self) -> Option<Arc<Engine>> {
            self.engine.get()?.upgrade()
        }

        fn look<R>(&self, look: impl FnOnce(&AppStatus) -> R) -> Option<R> {
            Some(self.engine()?.with_status(look))
        }
    }

    /// The metrics of a driver, as they are now.
    fn driver_metrics(engine: &Engine, timers: &Timers, namespace: Option<&str>) -> Metrics {
        let namespace = namespace.unwrap_or_else(|| engine.application_id());
        let mut all = Metrics::new(&format!("{namespace}.driver"));
        engine.with_status(|status| metrics::application(status, &mut all));
        let queues = engine.listener_queues();
        timers.tell(&mut all, queues.iter().map(|(name, ..)| *name));
        for (name, size, lost) in queues {
            all.gauge(&format!("LiveListenerBus.queue.{name}.size"), size);
            all.counter(&format!("LiveListenerBus.queue.{name}.numDroppedEvents"), lost);
        }
        all.counter("rpc.sentTaskBytes", engine.sent_task_bytes());
        all.counter("rpc.fetchedResultBytes", engine.fetched_result_bytes());
        all.counter("rpc.servedBroadcastBytes", engine.served_broadcast_bytes());
        all.counter("rpc.servedItemBytes", engine.served_item_bytes());
        all.gauge("rpc.mostQueuedReportBytes", engine.most_queued_bytes());
        let (storage, execution) = engine.environment().scratch().memory().used();
        all.gauge("memory.storageUsed_bytes", storage);
        all.gauge("memory.executionUsed_bytes", execution);
        process(&mut all);
        all
    }

    impl Applications for Live {
        fn list(&self) -> Vec<ApplicationEntry> {
            self.look(ApplicationEntry::live).into_iter().collect()
        }

        fn with_status(
            &self,
            id: &str,
            attempt: Option<&str>,
            look: &mut dyn FnMut(&AppStatus),
        ) -> bool {
            let is_it = |status: &AppStatus| {
                let application = status.application();
                application.id == id
                    && (attempt.is_none() || application.attempt_id.as_deref() == attempt)
            };
            let found = self.look(|status| is_it(status).then(|| look(status)));
            found.flatten().is_some()
        }

        fn is_live(&self) -> bool {
            true
        }

        fn control(&self) -> Option<&dyn Control> {
            self.can_kill.then_some(self)
        }

        fn metrics(&self) -> Option<Metrics> {
            let engine = self.engine()?;
            Some(driver_metrics(&engine, &self.timers, self.namespace.as_deref()))
        }

        fn threads(&self, executor: ExecutorId) -> Option<Vec<ThreadInfo>> {
            self.engine()?.threads(executor)
        }

        fn tells_executors(&self) -> bool {
            self.tells_executors
        }

        /// What Spark hands out of a running application: an archive without files.
        fn logs(&self, id: &str, _: Option<&str>) -> Option<std::io::Result<Archive>> {
            let is_it = self.look(|status| status.application().id == id)?;
            is_it.then(|| Ok(Archive::default()))
        }
    }

    impl Control for Live {
        fn kill_job(&self, job: JobId, reason: &str) {
            if let Some(engine) = self.engine() {
                tracing::info!(job = job.0, reason, "a job is killed from its page");
                engine.cancel_job(job, reason);
            }
        }

        fn kill_stage(&self, stage: StageId, reason: &str) {
            if let Some(engine) = self.engine() {
                tracing::info!(stage = stage.0, reason, "a stage is killed from its page");
                engine.cancel_stage(stage, reason);
            }
        }
    }

    /// The server and the reports of a running application, until it stops.
    pub(crate) struct Ui {
        live: Arc<Live>,
        server: Mutex<Option<Server>>,
        reporter: Mutex<Option<Reporter>>,
    }

    /// What to bind, and the host that a master is told that shows the pages to others.
    fn hosts(conf: &Conf) -> (String, Option<String>) {
        match page_hosts(conf) {
            Ok(Some((bind, told))) => (bind, Some(told)),
            Ok(None) => (HOST.to_owned(), None),
            Err(error) => {
                tracing::warn!(%error, "no master can show the pages of this application: set spark.driver.host");
                (HOST.to_owned(), None)
            }
        }
    }

    fn sinks(conf: &Conf) -> Result<Vec<SinkOptions>> {
        SinkOptions::from_conf(conf, "driver")
            .map_err(|error| Error::Metrics { reason: error.to_string() })
    }

    fn access(conf: &Conf) -> Result<Access> {
        Access::of_application(conf).map_err(|error| Error::Pages { reason: error.to_string() })
    }

    /// Tells sinks of the settings how the application is.
    fn reporter(engine: &Arc<Engine>, timers: Arc<Timers>) -> Result<Option<Reporter>> {
        let sinks = sinks(engine.conf())?;
        let namespace = engine.conf().get(&entries::METRICS_NAMESPACE)?;
        let engine = Arc::downgrade(engine);
        let source = move || match engine.upgrade() {
            Some(engine) => driver_metrics(&engine, &timers, namespace.as_deref()),
            None => Metrics::new(""),
        };
        Ok(Reporter::start(sinks, Arc::new(source)))
    }

    impl Ui {
        /// Opens the port. A master is told of it by the settings.
        pub(crate) fn open(conf: &mut Conf) -> Result<Self> {
            let (host, told) = hosts(conf);
            // Who comes through a master proves nothing: that they may kill, somebody has to say.
            let is_said = conf.setting(entries::UI_KILL_ENABLED.key()).is_some();
            let live = Arc::new(Live {
                engine: OnceLock::new(),
                timers: Arc::default(),
                can_kill: conf.get(&entries::UI_KILL_ENABLED)? && (told.is_none() || is_said),
                namespace: conf.get(&entries::METRICS_NAMESPACE)?,
                tells_executors: conf.get(&entries::UI_PROMETHEUS_ENABLED)?,
            });
            let server = Self::serve(conf, &live, host, told.clone())?;
            let port = server.as_ref().map(|server| server.address().port());
            let is_set = conf.get(&entries::DRIVER_APP_UI_ADDRESS)?.is_some();
            if let (Some(host), Some(port), false) = (told, port, is_set) {
                let host = if host.contains(':') { format!("[{host}]") } else { host };
                conf.set(entries::DRIVER_APP_UI_ADDRESS.key(), format!("http://{host}:{port}"));
            }
            Ok(Ui { live, server: Mutex::new(server), reporter: Mutex::new(None) })
        }

        /// Shows an engine that runs.
        pub(crate) fn show(&self, engine: &Arc<Engine>) -> Result<()> {
            let _ = self.live.engine.set(Arc::downgrade(engine));
            let timers = &self.live.timers;
            let reporter = reporter(engine, timers.clone())?;
            if reporter.is_some() || lock(&self.server).is_some() {
                timers.clone().measure(engine);
            }
            *lock(&self.reporter) = reporter;
            Ok(())
        }

        /// A port that cannot be had is no reason not to run jobs.
        fn serve(
            conf: &Conf,
            live: &Arc<Live>,
            host: String,
            told: Option<String>,
        ) -> Result<Option<Server>> {
            if !conf.get(&entries::UI_ENABLED)? {
                return Ok(None);
            }
            let access = access(conf)?;
            if access.refuses_everybody() {
                tracing::warn!(
                    "spark.acls.enable is true and no request can say who makes it: all are refused until spark.ui.filters is set"
                );
            }
            let mut allowed_hosts = conf.get(&entries::HTTP_ALLOWED_HOSTS)?;
            allowed_hosts.extend(told);
            let options = ServerOptions {
                host,
                port: u16::try_from(conf.get(&entries::UI_PORT)?).unwrap_or(0),
                retries: conf.get(&entries::PORT_MAX_RETRIES)?,
                allowed_hosts,
                secrets: conf.get(&entries::REDACTION_REGEX)?,
                access,
            };
            let base = conf.get(&entries::UI_PROXY_BASE)?;
            let pages = Pages::default().below(base.as_ref().map(|base| base.path()));
            let server = Server::start_with(live.clone(), Arc::new(pages), options);
            match &server {
                Ok(server) => {
                    tracing::info!(url = %format!("http://{}/", server.address()), "pages and REST API");
                }
                Err(error) => tracing::warn!(%error, "there are no pages of this application"),
            }
            Ok(server.ok())
        }

        /// `None`: nothing is served.
        pub(crate) fn address(&self) -> Option<std::net::SocketAddr> {
            lock(&self.server).as_ref().map(Server::address)
        }

        pub(crate) fn stop(&self) {
            let (reporter, server) = (lock(&self.reporter).take(), lock(&self.server).take());
            drop(reporter);
            drop(server);
        }
    }

    fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
        mutex.lock().unwrap_or_else(|poisoned| poisoned.into_inner())
    }
}

#[cfg(not(feature = "monitor"))]
mod without_monitor {
    use std::sync::Arc;

    use firesteel_conf::{Conf, entries};
    use firesteel_engine::{Engine, Listener};

    use crate::{Error, Result};

    /// Who asks for a log or for traces gets them, or is told why not.
    pub(crate) fn listeners(conf: &Conf) -> Result<Vec<Box<dyn Listener>>> {
        let without = |instead: &str| {
            format!(
                "this program was built without the feature `monitor` of firesteel: add it, or {instead}"
            )
        };
        if conf.get(&entries::EVENT_LOG_ENABLED)? {
            return Err(Error::EventLog { reason: without("set spark.eventLog.enabled=false") });
        }
        if conf.get(&entries::OTLP_ENDPOINT)?.is_some() {
            let reason = without("leave spark.firesteel.otlp.endpoint out");
            return Err(Error::Traces { reason });
        }
        Ok(Vec::new())
    }

    /// Nothing is served.
    pub(crate) struct Ui;

    impl Ui {
        pub(crate) fn open(_: &mut Conf) -> Result<Self> {
            Ok(Ui)
        }

        pub(crate) fn show(&self, _: &Arc<Engine>) -> Result<()> {
            Ok(())
        }

        pub(crate) fn stop(&self) {}
    }
}
