//! `firesteel history`.

use std::path::PathBuf;
use std::process::ExitCode;
use std::sync::Arc;
use std::time::{Instant, SystemTime, UNIX_EPOCH};

use clap::Args;
use firesteel_conf::{Origin, entries};
use firesteel_monitor::{Access, History, HistoryOptions, Server, ServerOptions};
use firesteel_pages::Pages;
use tokio::sync::Notify;

use crate::Failure;
use crate::daemons::{self, Ending};

#[derive(Args)]
pub(crate) struct HistoryFlags {
    /// The directory of event logs [default: spark.history.fs.logDirectory].
    #[arg(short, long)]
    dir: Option<String>,
    /// The host or address to bind. Without spark.ui.filters nobody has to prove who they are: others see every application.
    #[arg(short = 'h', long, default_value = "127.0.0.1")]
    host: String,
    /// The port [default: spark.history.ui.port]; 0: any.
    #[arg(short, long)]
    port: Option<u16>,
    /// A file of settings, instead of spark-defaults.conf.
    #[arg(long, value_name = "FILE")]
    properties_file: Option<PathBuf>,
    /// A setting; can be repeated.
    #[arg(long = "conf", value_name = "KEY=VALUE")]
    settings: Vec<String>,
}

pub(crate) fn run(flags: HistoryFlags) -> Result<ExitCode, Failure> {
    let mut conf = daemons::load(flags.properties_file.as_deref(), &flags.settings)?;
    if let Some(directory) = &flags.dir {
        let origin = Origin::Flag { flag: "--dir" };
        conf.insert(entries::HISTORY_LOG_DIRECTORY.key(), directory, origin);
    }
    daemons::log(&conf)?;
    conf.validate()?;
    conf.warnings().iter().for_each(|warning| tracing::warn!("{warning}"));
    let set = conf.get(&entries::HISTORY_UI_PORT)?;
    let port = flags.port.unwrap_or(u16::try_from(set).unwrap_or(0));
    let history = Arc::new(History::open(HistoryOptions::from_conf(&conf)?)?);
    let access = Access::of_history(&conf)?;
    if access.refuses_everybody() {
        tracing::warn!(
            "spark.history.ui.acls.enable is true and no request can say who makes it: all are refused until spark.ui.filters is set"
        );
    }
    let options = ServerOptions {
        host: flags.host,
        port,
        retries: conf.get(&entries::PORT_MAX_RETRIES)?,
        allowed_hosts: conf.get(&entries::HTTP_ALLOWED_HOSTS)?,
        secrets: conf.get(&entries::REDACTION_REGEX)?,
        access,
    };
    let base = conf.get(&entries::UI_PROXY_BASE)?;
    let pages = Pages::default().below(base.as_ref().map(|base| base.path()));
    let server = Server::start_with(history.clone(), Arc::new(pages), options)?;
    let directory = history.options().directory.path().display();
    println!("firesteel history: http://{}/ of {directory}", server.address());
    daemons::runtime()?.block_on(async {
        let mut ending = Ending::listen()?;
        let stopped = Arc::new(Notify::new());
        let watching = tokio::spawn(watch(history, stopped.clone()));
        ending.told().await;
        stopped.notify_one();
        let _ = watching.await;
        drop(server);
        Ok(ExitCode::SUCCESS)
    })
}

/// Looks at the directory again and again.
async fn watch(history: Arc<History>, stopped: Arc<Notify>) {
    let mut cleaned = None::<Instant>;
    loop {
        let cleaner = history.options().cleaner;
        let is_due = cleaner
            .filter(|options| cleaned.is_none_or(|cleaned| cleaned.elapsed() >= options.interval));
        if is_due.is_some() {
            cleaned = Some(Instant::now());
        }
        let own = history.clone();
        let looked = tokio::task::spawn_blocking(move || {
            if let Err(error) = own.refresh() {
                tracing::warn!(%error, "the directory of logs cannot be read");
            }
            if is_due.is_some() {
                let since = SystemTime::now().duration_since(UNIX_EPOCH);
                let now = since.map_or(0, |since| since.as_millis() as u64);
                let removed = own.clean(firesteel_types::Tick(now));
                tracing::info!(removed, "old logs were looked for");
            }
        });
        let _ = looked.await;
        tokio::select! {
            () = stopped.notified() => return,
            () = tokio::time::sleep(history.options().update_interval) => {}
        }
    }
}
