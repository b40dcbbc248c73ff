//! A master that runs: [`start`] opens its ports, [`RunningMaster::stop`] closes them.

mod args;
mod metrics;
mod pages;
mod proxy;
pub mod recovery;
mod rest;
mod shell;

use std::sync::Arc;

use firesteel_backend::Address;
use firesteel_conf::entries;
use firesteel_rpc::{BindTo, RpcAddress, RpcEnv};
use firesteel_standalone_core::master::MasterView;
use firesteel_standalone_core::wire::MASTER;
use firesteel_types::Host;
use tokio_util::sync::CancellationToken;
use tokio_util::task::TaskTracker;

use crate::gateway::GATEWAY;
use crate::{StartError, TokenKey, web};
pub use args::MasterArgs;
pub(crate) use args::millis;
use recovery::{Codec, Outbox};
pub(crate) use rest::fuzz as fuzz_rest;
use rest::{Gateway, GatewayEndpoint, Site};
use shell::{MasterEndpoint, Shell};

const LOOPBACK: &str = "127.0.0.1";

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
    /// The thread that persists, if one does.
    writer: Option<recovery::Running>,
}

/// Starts a master in this runtime.
pub async fn start(args: MasterArgs) -> Result<RunningMaster, StartError> {
    firesteel_storage::raise_open_file_limit();
    if args.web_port.or(args.rest_port).is_some() {
        web::check_tls(&args.conf)?;
    }
    let mut options = args.options()?;
    let secret = args.rpc.identity.as_ref().map(|identity| identity.secret().clone());
    let (store, authenticates) = (Arc::new(args.store()?), args.rpc.keyring.is_some());
    let (key, retries) = (args.token_key()?, args.rpc.port_retries);
    let rest_here_only = args.takes_rest_here_only()?;
    // Workers share the secret; the filter may be in the master's settings only.
    let logs = match TokenKey::of_secret(&args.rpc) {
        Some(key) => Some(key.for_logs()),
        None => TokenKey::from_settings(&args.conf, &args.rpc)?.map(|key| key.for_logs()),
    };
    let bind = BindTo { host: args.host.clone(), port: args.port, advertise: args.advertise };
    let env = RpcEnv::server(args.rpc, bind).await?;
    let address = env.address().expect("a server has an address").clone();
    let web = match args.web_port {
        Some(port) => {
            let web = web::bind(&args.host, &address.host, port, retries).await?;
            Some(web.also_named(&args.conf)?)
        }
        None => None,
    };
    let rest = match args.rest_port {
        Some(port) => {
            let both = if rest_here_only { [LOOPBACK; 2] } else { [&*args.host, &*address.host] };
            let [host, name] = both;
            let web = web::bind(host, name, port, retries).await?;
            Some(web.also_named(&args.conf)?)
        }
        None => None,
    };
    let rest_address = rest.as_ref().map(|rest| rest.address.clone());
    let web_address = web.as_ref().map(|web| web.address.clone());
    options.url = format!("spark://{address}");
    options.web_ui = web_address.as_ref().map_or_else(String::new, |web| format!("http://{web}"));
    if let Some(url) =
        args.conf.get(&entries::UI_REVERSE_PROXY_URL)?.filter(|it| it.host().is_some())
    {
        options.web_ui = url.to_string();
    }
    let records = recovery::of(&args.conf, secret.as_ref(), args.recovery.as_ref())?;
    options.elected = records.as_ref().is_some_and(|records| records.has_rivals());
    let codec = Codec::new(&args.conf, secret.as_ref())?;
    let (outbox, writer) = match records {
        Some(records) => Some(Outbox::new(records, codec, &options.url)?).unzip(),
        None => (None, None),
    };
    let shell = Arc::new(Shell::new(options, outbox));
    let writer = match writer {
        Some(writer) => Some(writer.run(shell.clone()).map_err(StartError::Thread)?),
        None => {
            shell.lead_alone();
            None
        }
    };
    env.serve_streams(store.clone());
    env.register(MASTER, MasterEndpoint(shell.clone()))?;
    let site = Site {
        url: format!("spark://{address}"),
        address: Address { host: Host::new(&address.host), port: address.port },
        rest_port: rest_address.as_ref().map(|rest| rest.port),
        authenticates,
    };
    let gateway = Arc::new(Gateway::new(shell.clone(), store, site));
    let rights = Arc::new(rest::Rights::new(key.clone(), &args.conf)?);
    let endpoint = GatewayEndpoint { gateway: gateway.clone(), rights: rights.clone() };
    env.register(GATEWAY, endpoint)?;
    let (stop, tasks) = (CancellationToken::new(), TaskTracker::new());
    tasks.spawn(stop.clone().run_until_cancelled_owned(shell.clone().keep_time()));
    if let Some(reporter) = metrics::reporter(&args.conf, &shell)? {
        tasks.spawn(web::hold_until(stop.clone(), reporter));
    }
    if let Some(web) = web {
        let handler = pages::handler(shell.clone(), pages::Operating::from_conf(&args.conf)?);
        let web =
            web.in_front(proxy::Proxy::from_conf(&args.conf, &shell, logs, web_address.clone())?);
        tasks.spawn(web::serve(web, handler, pages::FORM, stop.clone()));
    }
    if let Some(rest) = rest {
        if key.is_none() {
            tracing::warn!(address = %rest.address, "everybody who reaches the REST server can run programs");
        }
        if !rest_here_only && !args::is_loopback(&args.host) && key.is_some() {
            tracing::warn!(
                address = %rest.address,
                "tokens cross the network in the clear when other machines submit over HTTP: firesteel submit does not, other clients \
                 should come through a proxy with TLS"
            );
        }
        let handler = rest::handler(gateway, rights);
        tasks.spawn(web::serve(rest, handler, rest::LONGEST, stop.clone()));
    }
    Ok(RunningMaster { address, web_address, rest_address, shell, env, stop, tasks, writer })
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
        self.shell.close_outbox();
        if let Some(writer) = self.writer {
            let _ = tokio::task::spawn_blocking(|| writer.join()).await;
        }
        self.env.shutdown().await;
    }
}
