//! A worker that runs: [`start`] opens its ports and looks for a master; executors and drivers are its
//! child processes and end with it.
//!
//! | file | does |
//! |---|---|
//! | `shell` | feeds the core and carries out its effects |
//! | `order` | what is to be started: program, variables, directory |
//! | `cache` | executables and files that drivers serve, by their hash; other workers are served from it |
//! | `fetch` | downloads of these, each one task that outlives the executor it was begun for |
//! | `prepare` | what has to be there before a process starts |
//! | `process` | one child process from its start to its end |
//! | `reaper` | the end of all children, when the worker itself is killed |
//! | `logs` | what a child prints, in files |
//! | `log_files`, `log_page` | the same, read back over HTTP |
//! | `directories` | work directories: made, cleared, removed |
//! | `temporary` | directories for temporary files, on one disk or several |
//! | `pages` | what can be seen of it |

mod args;
mod cache;
mod directories;
mod download;
mod fetch;
mod log_files;
mod log_page;
mod logs;
mod order;
mod pages;
mod prepare;
mod process;
mod reaper;
mod shell;
mod temporary;

use std::sync::Arc;

use firesteel_rpc::{BindTo, RpcAddress, RpcEnv};
use firesteel_standalone_core::WorkerId;
use firesteel_standalone_core::wire::WORKER;
use tokio_util::sync::CancellationToken;
use tokio_util::task::TaskTracker;

use crate::access::Access;
use crate::{StartError, web};
pub use args::{Launcher, WorkerArgs};
pub use download::FETCH_AGAIN;
use log_page::Logs;
pub use process::LAUNCHED_ROLE;
use shell::{Setting, Shell, WorkerEndpoint};

/// How a worker ended.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Ended {
    /// The exit code of its process.
    pub code: i32,
    /// For people: why the worker ended.
    pub reason: String,
}

/// A worker with its ports open.
#[derive(Debug)]
pub struct RunningWorker {
    pub id: WorkerId,
    pub address: RpcAddress,
    /// Where its page is, if it has one.
    pub web_address: Option<RpcAddress>,
    shell: Arc<Shell>,
    env: RpcEnv,
    stop: CancellationToken,
    tasks: TaskTracker,
}

/// Starts a worker in this runtime. Whether a master takes it in is heard later.
pub async fn start(args: WorkerArgs) -> Result<RunningWorker, StartError> {
    firesteel_storage::raise_open_file_limit();
    if args.web_port.is_some() {
        web::check_tls(&args.conf)?;
    }
    let directories = directories::Directories::make(&args.work_dir, &args.local_dirs)?;
    let advertise = args.advertise.clone();
    let bind = BindTo { host: args.host.clone(), port: args.port, advertise };
    let env = RpcEnv::server(args.rpc.clone(), bind).await?;
    let address = env.address().expect("a server has an address").clone();
    let web = match args.web_port {
        Some(port) => {
            let web = web::bind(&args.host, &address.host, port, args.rpc.port_retries).await?;
            Some(web.also_named(&args.conf)?)
        }
        None => None,
    };
    let web_address = web.as_ref().map(|web| web.address.clone());
    let readers = args.log_readers(&address.host, web_address.as_ref())?;
    let access = Access::from_conf(&args.conf)?;
    let setting = Setting::new(&args, &address, web_address.as_ref(), directories)?;
    let shell = Arc::new(Shell::new(setting));
    shell.remove_leftovers();
    env.serve_streams(shell.cache());
    env.register(WORKER, WorkerEndpoint::new(shell.clone(), args.masters))?;
    let (stop, tasks) = (CancellationToken::new(), TaskTracker::new());
    tasks.spawn(stop.clone().run_until_cancelled_owned(shell.clone().keep_time()));
    if let Some(reporter) = pages::reporter(&args.conf, &shell)? {
        tasks.spawn(web::hold_until(stop.clone(), reporter));
    }
    if let Some(web) = web {
        let logs = Logs { work: shell.work(), readers };
        let handler = pages::handler(shell.clone(), logs, access);
        tasks.spawn(web::serve(web, handler, 0, stop.clone()));
    }
    let id = shell.id().clone();
    Ok(RunningWorker { id, address, web_address, shell, env, stop, tasks })
}

impl RunningWorker {
    /// Its name: `spark://host:port`.
    pub fn url(&self) -> String {
        format!("spark://{}", self.address)
    }

    /// Waits until a master has taken it in; returns that master's name. Waits for ever if none does.
    pub async fn registered(&self) -> String {
        self.shell.registered().await
    }

    /// Waits until it ends by itself: no master wants it, or none is there.
    pub async fn ended(&self) -> Ended {
        self.shell.ended().await
    }

    /// Ends it, and all it runs; returns when nothing of it is left.
    pub async fn stop(self) -> Ended {
        self.shell.request_stop();
        let ended = self.shell.ended().await;
        self.shell.processes_gone().await;
        self.shell.remove_temporary_files().await;
        self.stop.cancel();
        self.tasks.close();
        self.tasks.wait().await;
        self.shell.remove_temporary_files().await;
        self.env.shutdown().await;
        ended
    }
}
