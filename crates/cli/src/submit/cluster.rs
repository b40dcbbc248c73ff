//! Cluster mode: the executable and its files go to a master, and a worker runs the driver.
//!
//! Requests go to the REST server of the address that was given, or, when that speaks no HTTP, inside messages to the master
//! itself. To another machine with which this one shares a secret they always go inside messages, which are encrypted.

use std::path::Path;
use std::process::ExitCode;
use std::time::Duration;

use firesteel_conf::{Conf, entries};
use firesteel_rpc::{RpcAddress, RpcOptions};
use firesteel_standalone::gateway::{self, DriverStatus, Gateway, GatewayError, Submission};
use firesteel_standalone::{Content, TokenKey};

use super::plan::{Application, Cluster, Place};
use super::remote;
use crate::{Failure, daemons};

/// Settings that stay here: what proves who submits, and what is of this machine only.
const NOT_SENT: [&str; 4] = [
    "spark.authenticate.secret",
    "spark.authenticate.secret.file",
    "spark.driver.host",
    "spark.org.apache.spark.ui.JWSFilter.param.secretKey",
];
/// Variables that begin with these are of this machine.
const OF_THIS_MACHINE: [&str; 7] = [
    "SPARK_HOME",
    "SPARK_CONF_DIR",
    "SPARK_ENV_LOADED",
    "SPARK_LOCAL",
    "SPARK_MASTER",
    "SPARK_WORKER",
    "SPARK_DAEMON",
];

/// How often a driver is looked at whose end is waited for.
const POLL: Duration = Duration::from_secs(1);
/// How many of these looks may fail in a row: a master may be restarted meanwhile.
const FAILED_POLLS: u32 = 60;
/// How many of them a master that leads may refuse: one that has just taken over may not have read all yet.
const REFUSED_POLLS: u32 = 3;

pub(super) fn submit(cluster: &Cluster, mut application: Application) -> Result<ExitCode, Failure> {
    let is_fetched = matches!(application.executable, Place::Remote { .. });
    // They go when all masters have them.
    let _downloads = remote::download(&mut application)?;
    daemons::runtime()?.block_on(async {
        let gateway = connect(cluster).await?;
        let submission = prepare(&gateway, &application, is_fetched).await?;
        // Before there is a driver that needs them: the leader may die as soon as it has taken it, or this process end.
        copy_to_others(cluster, &gateway, &application).await;
        let id = gateway.create(&submission).await?;
        if cluster.conf.get(&entries::STANDALONE_SUBMIT_WAIT_APP_COMPLETION)? {
            return wait(cluster, gateway, &id).await;
        }
        let told = tell(&gateway, &id).await.unwrap_or_else(|error| {
            println!("{id} SUBMITTED");
            eprintln!("firesteel submit: {error}");
            ExitCode::SUCCESS
        });
        gateway.close().await;
        Ok(told)
    })
}

pub(super) fn kill(cluster: &Cluster, id: &str) -> Result<ExitCode, Failure> {
    daemons::runtime()?.block_on(async {
        let gateway = connect(cluster).await?;
        println!("{}", gateway.kill(id).await?);
        gateway.close().await;
        Ok(ExitCode::SUCCESS)
    })
}

pub(super) fn status(cluster: &Cluster, id: &str) -> Result<ExitCode, Failure> {
    daemons::runtime()?.block_on(async {
        let gateway = connect(cluster).await?;
        let told = tell(&gateway, id).await?;
        gateway.close().await;
        Ok(told)
    })
}

/// The gateway of the master that leads.
pub(crate) async fn connect(cluster: &Cluster) -> Result<Gateway, Failure> {
    let mut reasons = Vec::new();
    for address in &cluster.masters {
        match reach(cluster, address).await? {
            Ok(gateway) => match gateway.check_leads() {
                Ok(()) => return Ok(gateway),
                Err(error) => {
                    reasons.push(error.to_string());
                    gateway.close().await;
                }
            },
            Err(error) => reasons.push(error.to_string()),
        }
    }
    Err(format!("no master takes the request: {}", reasons.join("; ")).into())
}

async fn reach(
    Cluster { conf, .. }: &Cluster,
    address: &RpcAddress,
) -> Result<Result<Gateway, GatewayError>, Failure> {
    let options = RpcOptions::from_process(conf)?;
    let guarded = options.identity.is_some() && conf.get(&entries::NETWORK_CRYPTO_ENABLED)?;
    if guarded && !gateway::is_here(address).await {
        return over_network(conf, address, options).await;
    }
    if conf.get(&entries::MASTER_REST_ENABLED)? != Some(false) {
        let key = TokenKey::from_settings(conf, &options)?;
        match Gateway::over_http(address.clone(), key).await {
            Err(GatewayError::NotRest { .. }) => eprintln!(
                "firesteel submit: {address} is not a REST server: falling back to the RPC gateway \
                 (spark.master.rest.enabled=false does so at once)"
            ),
            answered => return Ok(answered),
        }
    }
    Ok(Gateway::over_messages(address.clone(), options).await)
}

/// A token, and all that is submitted with it, is for nobody on the way.
async fn over_network(
    conf: &Conf,
    address: &RpcAddress,
    options: RpcOptions,
) -> Result<Result<Gateway, GatewayError>, Failure> {
    let port = conf.get(&entries::MASTER_REST_PORT)?;
    let reached = Gateway::over_messages(address.clone(), options).await;
    if let Err(GatewayError::Unreachable { reason, .. }) = &reached
        && u32::from(address.port) == port
    {
        let host = &address.host;
        return Err(format!(
            "{address} is the port for HTTP, over which a token would cross the network for everybody to read: write the master's \
             own port, such as spark://{host}:7077, or set spark.network.crypto.enabled=false ({reason})"
        )
        .into());
    }
    Ok(reached)
}

/// Uploads what the driver needs, and describes it. Workers take an executable from where it is here, if they find it there: one
/// that was fetched will be gone.
async fn prepare(
    gateway: &Gateway,
    application: &Application,
    is_fetched: bool,
) -> Result<Submission, Failure> {
    let Application { executable, arguments, conf, files } = application;
    let name = executable.path().file_name().unwrap_or_default().to_string_lossy();
    let resource = match is_fetched {
        true => format!("file:/{name}"),
        false => format!("file:{}", executable.path().display()),
    };
    let mut submission = Submission::new(resource, name.into_owned());
    submission.app_args = arguments.clone();
    let settings = conf.iter().filter(|(key, _)| !NOT_SENT.contains(key));
    submission.spark_properties =
        settings.map(|(key, value)| (key.to_owned(), value.to_owned())).collect();
    submission.environment_variables = std::env::vars_os()
        .filter_map(|(name, value)| Some((name.into_string().ok()?, value.into_string().ok()?)))
        .filter(|(name, _)| name.starts_with("SPARK_"))
        .filter(|(name, _)| !OF_THIS_MACHINE.iter().any(|start| name.starts_with(start)))
        .collect();
    if let Place::Here(path) = executable {
        submission.set_executable(upload(gateway, path).await?);
    }
    for (name, path) in &files.here {
        submission.add_file(name, upload(gateway, path).await?);
    }
    Ok(submission)
}

/// The other masters get copies: workers that start the driver later, or once more, find them there when the one that leads now
/// is gone.
async fn copy_to_others(cluster: &Cluster, leader: &Gateway, application: &Application) {
    let Application { executable, files, .. } = application;
    let here = match executable {
        Place::Here(path) => Some(path),
        Place::OnWorkers(_) | Place::Remote { .. } => None,
    };
    let paths: Vec<_> = here.into_iter().chain(files.here.iter().map(|(_, path)| path)).collect();
    let others = cluster.masters.iter().filter(|address| *address != leader.address());
    for address in others.filter(|_| !paths.is_empty()) {
        let copied = async {
            let gateway = reach(cluster, address).await??;
            for path in &paths {
                upload(&gateway, path).await?;
            }
            gateway.close().await;
            Ok::<_, Failure>(())
        };
        if let Err(error) = copied.await {
            eprintln!(
                "firesteel submit: {address} has no copy of what was uploaded, should {} be lost: {error}",
                leader.address()
            );
        }
    }
}

async fn upload(gateway: &Gateway, path: &Path) -> Result<Content, Failure> {
    let content = Content::of_file(path)
        .map_err(|error| format!("could not read {}: {error}", path.display()))?;
    gateway.upload(path, &content).await?;
    Ok(content)
}

/// Says how far a driver is.
async fn tell(gateway: &Gateway, id: &str) -> Result<ExitCode, GatewayError> {
    let status = gateway.status(id).await?;
    println!("{}", line(id, &status));
    Ok(exit_code(&status))
}

/// Says so whenever that changes, to the end.
async fn wait(cluster: &Cluster, gateway: Gateway, id: &str) -> Result<ExitCode, Failure> {
    let (mut gateway, mut last) = (Some(gateway), String::new());
    let (mut failed, mut refused) = (0, 0);
    loop {
        match look(cluster, &mut gateway, id).await {
            Ok(status) => {
                (failed, refused) = (0, 0);
                let now = line(id, &status);
                if now != last {
                    println!("{now}");
                    last = now;
                }
                if !matches!(status.state.as_str(), "SUBMITTED" | "RUNNING" | "UNKNOWN") {
                    close(gateway).await;
                    return Ok(exit_code(&status));
                }
            }
            Err(error) => {
                failed += 1;
                refused += u32::from(gateway.is_some());
                if refused > REFUSED_POLLS || failed > FAILED_POLLS {
                    return Err(error);
                }
            }
        }
        tokio::time::sleep(POLL).await;
    }
}

/// Asks the master that answered last, or, if that does not answer or does not lead any more, the one that does.
async fn look(
    cluster: &Cluster,
    gateway: &mut Option<Gateway>,
    id: &str,
) -> Result<DriverStatus, Failure> {
    if let Some(known) = gateway {
        if let Ok(status) = known.status(id).await {
            return Ok(status);
        }
        close(gateway.take()).await;
    }
    let leader = gateway.insert(connect(cluster).await?);
    Ok(leader.status(id).await?)
}

async fn close(gateway: Option<Gateway>) {
    if let Some(gateway) = gateway {
        gateway.close().await;
    }
}

fn line(id: &str, DriverStatus { state, worker, reason }: &DriverStatus) -> String {
    let place = worker.as_ref().map(|(worker, address)| format!(" on {worker} ({address})"));
    let reason = reason.as_ref().map(|reason| format!(": {reason}"));
    format!("{id} {state}{}{}", place.unwrap_or_default(), reason.unwrap_or_default())
}

/// Failure for one that ended without success.
fn exit_code(status: &DriverStatus) -> ExitCode {
    match status.state.as_str() {
        "SUBMITTED" | "RUNNING" | "UNKNOWN" | "FINISHED" => ExitCode::SUCCESS,
        _ => ExitCode::FAILURE,
    }
}
