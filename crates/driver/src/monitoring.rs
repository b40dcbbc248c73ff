//! The event log and the REST API of a running application: of programs that were built with the feature `monitor`.

#[cfg(feature = "monitor")]
pub(crate) use with_monitor::{Ui, event_log};
#[cfg(not(feature = "monitor"))]
pub(crate) use without_monitor::{Ui, event_log};

#[cfg(feature = "monitor")]
mod with_monitor {
    use std::sync::{Arc, Mutex, Weak};

    use firesteel_conf::{Conf, entries};
    use firesteel_engine::{Engine, Listener};
    use firesteel_monitor::rest::{ApplicationEntry, Applications, Control};
    use firesteel_monitor::{EventLog, Server, ServerOptions};
    use firesteel_pages::Pages;
    use firesteel_status::AppStatus;
    use firesteel_types::{Event, JobId, StageId};

    use crate::{Error, Result};

    /// Only this machine reaches it: nobody has to prove who they are.
    const HOST: &str = "127.0.0.1";

    struct Log(EventLog);

    impl Listener for Log {
        fn on_event(&mut self, event: &Event) {
            self.0.on_event(event);
        }

        fn queue(&self) -> &'static str {
            "eventLog"
        }
    }

    /// The log that the settings ask for.
    pub(crate) fn event_log(conf: &Conf) -> Result<Option<Box<dyn Listener>>> {
        let log = EventLog::from_conf(conf)
            .map_err(|error| Error::EventLog { reason: error.to_string() })?;
        Ok(log.map(|log| Box::new(Log(log)) as Box<dyn Listener>))
    }

    /// The application of this process.
    struct Live {
        engine: Weak<Engine>,
        /// Whether its jobs and stages can be killed from its pages.
        can_kill: bool,
    }

    impl Live {
        fn look<R>(&self, look: impl FnOnce(&AppStatus) -> R) -> Option<R> {
            Some(self.engine.upgrade()?.with_status(look))
        }
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

        /// What Spark hands out of a running application: an archive without files.
        fn logs(&self, id: &str, _: Option<&str>) -> Option<std::io::Result<Vec<u8>>> {
            let is_it = self.look(|status| status.application().id == id)?;
            let empty = [b"PK\x05\x06".as_slice(), &[0; 18]].concat();
            is_it.then_some(Ok(empty))
        }
    }

    impl Control for Live {
        fn kill_job(&self, job: JobId, reason: &str) {
            if let Some(engine) = self.engine.upgrade() {
                tracing::info!(job = job.0, reason, "a job is killed from its page");
                engine.cancel_job(job, reason);
            }
        }

        fn kill_stage(&self, stage: StageId, reason: &str) {
            if let Some(engine) = self.engine.upgrade() {
                tracing::info!(stage = stage.0, reason, "a stage is killed from its page");
                engine.cancel_stage(stage, reason);
            }
        }
    }

    /// The server of a running application, until it stops.
    pub(crate) struct Ui(Mutex<Option<Server>>);

    impl Ui {
        /// A port that cannot be had is no reason not to run jobs.
        pub(crate) fn start(engine: &Arc<Engine>) -> Result<Self> {
            let conf = engine.conf();
            if !conf.get(&entries::UI_ENABLED)? {
                return Ok(Ui(Mutex::new(None)));
            }
            let options = ServerOptions {
                host: HOST.to_owned(),
                port: u16::try_from(conf.get(&entries::UI_PORT)?).unwrap_or(0),
                retries: conf.get(&entries::PORT_MAX_RETRIES)?,
                allowed_hosts: conf.get(&entries::HTTP_ALLOWED_HOSTS)?,
                secrets: conf.get(&entries::REDACTION_REGEX)?,
            };
            let can_kill = conf.get(&entries::UI_KILL_ENABLED)?;
            let live = Live { engine: Arc::downgrade(engine), can_kill };
            let server = Server::start_with(Arc::new(live), Arc::new(Pages::default()), options);
            match &server {
                Ok(server) => {
                    tracing::info!(url = %format!("http://{}/", server.address()), "pages and REST API");
                }
                Err(error) => tracing::warn!(%error, "there are no pages of this application"),
            }
            Ok(Ui(Mutex::new(server.ok())))
        }

        /// Where it answers.
        pub(crate) fn address(&self) -> Option<std::net::SocketAddr> {
            self.lock().as_ref().map(Server::address)
        }

        pub(crate) fn stop(&self) {
            let server = self.lock().take();
            drop(server);
        }

        fn lock(&self) -> std::sync::MutexGuard<'_, Option<Server>> {
            self.0.lock().unwrap_or_else(|poisoned| poisoned.into_inner())
        }
    }
}

#[cfg(not(feature = "monitor"))]
mod without_monitor {
    use std::sync::Arc;

    use firesteel_conf::{Conf, entries};
    use firesteel_engine::{Engine, Listener};

    use crate::{Error, Result};

    /// Who asks for a log gets one, or is told why not.
    pub(crate) fn event_log(conf: &Conf) -> Result<Option<Box<dyn Listener>>> {
        let reason = "this program was built without the feature `monitor` of firesteel: add it, or set \
                      spark.eventLog.enabled=false";
        match conf.get(&entries::EVENT_LOG_ENABLED)? {
            true => Err(Error::EventLog { reason: reason.to_owned() }),
            false => Ok(None),
        }
    }

    /// Nothing is served.
    pub(crate) struct Ui;

    impl Ui {
        pub(crate) fn start(_: &Arc<Engine>) -> Result<Self> {
            Ok(Ui)
        }

        pub(crate) fn stop(&self) {}
    }
}
