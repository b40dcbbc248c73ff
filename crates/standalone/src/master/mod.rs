//! A master that runs: [`start`] opens its ports, [`RunningMaster::stop`] closes them.

mod args;
mod pages;
mod rest;
mod shell;

use std::sync::Arc;

use firesteel_rpc::{BindTo, RpcAddress, RpcEnv};
use firesteel_standalone_core::master::MasterView;
use firesteel_standalone_core::wire::MASTER;
use tokio_util::sync::CancellationToken;
use tokio_util::task::TaskTracker;

use crate::{StartError, web};
pub use args::MasterArgs;
pub(crate) use args::millis;
pub(crate) use rest::fuzz as fuzz_rest;
use shell::{MasterEndpoint, Shell};

/// A master with its ports open.
#[derive(Debug)]
pub struct RunningMaster {
    /// Where workers and drivers find it.
    pub address: RpcAddress,
    /// Where its page is, if it has one.
    pub web_address: Option<RpcAddress>,
    /// Where it takes submissions over HTTP, if it does.
    pub rest_address: Option<RpcAddress>,
    shell: Arc<Shell>,
    env: RpcEnv,
    stop: CancellationToken,
    tasks: TaskTracker,
}

/// Starts a master in this runtime.
pub async fn start(args: MasterArgs) -> Result<RunningMaster, StartError> {
    firesteel_storage::raise_open_file_limit();
    if args.web_port.or(args.rest_port).is_some() {
        web::check_tls(&args.conf)?;
    }
    let mut options = args.options()?;
    let retries = args.rpc.port_retries;
    let bind = BindTo { host: args.host.clone(), port: args.port, advertise: args.advertise };
    let env = RpcEnv::server(args.rpc, bind).await?;
    let address = env.address().expect("a server has an address").clone();
    let web = match args.web_port {
        Some(port) => Some(web::bind(&args.host, &address.host, port, retries).await?),
        None => None,
    };
    let rest = match args.rest_port {
        Some(port) => Some(web::bind(&args.host, &address.host, port, retries).await?),
        None => None,
    };
    let rest_address = rest.as_ref().map(|rest| rest.address.clone());
    let web_address = web.as_ref().map(|web| web.address.clone());
    options.url = format!("spark://{address}");
    options.web_ui = web_address.as_ref().map_or_else(String::new, |web| format!("http://{web}"));
    let shell = Arc::new(Shell::new(options));
    env.register(MASTER, MasterEndpoint(shell.clone()))?;
    let (stop, tasks) = (CancellationToken::new(), TaskTracker::new());
    tasks.spawn(stop.clone().run_until_cancelled_owned(shell.clone().keep_time()));
    if let Some(web) = web {
        tasks.spawn(web::serve_pages(web, pages::of(shell.clone()), stop.clone()));
    }
    if let Some(rest) = rest {
        let handler = rest::handler(shell.clone(), format!("spark://{address}"));
        tasks.spawn(web::serve(rest, handler, rest::LONGEST, stop.clone()));
    }
    Ok(RunningMaster { address, web_address, rest_address, shell, env, stop, tasks })
}

impl RunningMaster {
    /// Its name: `spark://host:7077`.
    pub fn url(&self) -> String {
        format!("spark://{}", self.address)
    }

    /// All there is to see.
    pub fn view(&self) -> MasterView {
        self.shell.view().0
    }

    /// Ends it. Workers and drivers notice by their connections and go on without it.
    pub async fn stop(self) {
        self.stop.cancel();
        self.tasks.close();
        self.tasks.wait().await;
        self.env.shutdown().await;
    }
}
