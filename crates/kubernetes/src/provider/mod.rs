//! Executors from Kubernetes, for a driver that runs anywhere: `k8s://https://host:port`.
//!
//! | file | owns |
//! |---|---|
//! | `options` | what settings mean for the allocator |
//! | `requests` | requests to the API server about executors' pods |
//! | `shell` | the allocator: its events, its clock, what it decides |
//! | `credentials` | credentials that are read again |
//! | `telling` | what the driver's own pod says about missing executors |
//! | `home` | the driver's own pod, if it runs in one |

mod credentials;
mod home;
mod options;
mod requests;
mod shell;
mod telling;

use std::io;
use std::net::{ToSocketAddrs, UdpSocket};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::{Receiver, RecvTimeoutError, channel};
use std::time::Duration;

use firesteel_backend::AppId;
use firesteel_backend::jitter::Jitter;
use firesteel_backend::provider::ProviderCommand;
use firesteel_conf::{Conf, Master, entries};
use firesteel_engine::{ApplicationSpec, ClusterManager, Provider, Reports};
use firesteel_kubernetes_core::allocator::Allocator;
use firesteel_rpc::{Identity, RpcOptions, Secret, SetupError};
use tokio::runtime::Handle;
use tokio::sync::mpsc::{UnboundedReceiver, UnboundedSender, unbounded_channel};

use crate::connect::{Caller, Connection};
use crate::pod::{ExecutorPods, is_fetched};
use crate::{APPLICATION_SECRET, DRIVER_ADDRESS, Error, labels, unique};
use home::Home;
use requests::Requests;
use shell::Shell;
use telling::tell_driver_pod;

/// How many executors an application has that does not say; Spark's.
const INSTANCES: u32 = 2;
/// How long to wait for why an executor's connection broke: kubelets look at containers once a second, and write down what they
/// found when they come to it. Another executor is asked for meanwhile; only tasks of the lost one wait.
const REASON_WAIT: Duration = Duration::from_secs(4);
/// How long the end of an application waits for its pods to be gone. They were told to end before.
const GOODBYE: Duration = Duration::from_secs(15);

/// `k8s://URL`.
#[derive(Clone, Copy, Debug, Default)]
pub struct Kubernetes;

impl ClusterManager for Kubernetes {
    fn name(&self) -> &str {
        "kubernetes"
    }

    fn claims(&self, master: &Master) -> bool {
        matches!(master, Master::Kubernetes { .. })
    }

    fn prepare(
        &self,
        master: &Master,
        conf: &Conf,
        runtime: &Handle,
    ) -> Result<Box<dyn Provider>, String> {
        let Master::Kubernetes { url } = master else { return Err("it is another".to_owned()) };
        let provider = PodProvider::new(url, conf, runtime).map_err(|error| error.to_string())?;
        Ok(Box::new(provider))
    }
}

/// An application's executors on one cluster.
struct PodProvider {
    connection: Connection,
    requests: Requests,
    app: String,
    prefix: String,
    driver_pod: Option<String>,
    runtime: Handle,
    commands: UnboundedSender<ProviderCommand>,
    /// `None` once it was started.
    hears: Option<UnboundedReceiver<ProviderCommand>>,
    /// Closed when nothing is left.
    over: Option<Receiver<()>>,
    /// Whether pods may be left if that is not waited for.
    may_leave: Arc<AtomicBool>,
}

impl PodProvider {
    fn new(url: &str, conf: &Conf, runtime: &Handle) -> Result<Self, Error> {
        let none = conf.get(&entries::FILES)?.iter().all(String::is_empty);
        if !none && !is_fetched(conf)? {
            let reason = "files do not go to pods: put them into the image, on a volume, or have submit upload them (spark.kubernetes.file.upload.path)";
            return Err(Error::value(entries::FILES.key(), reason));
        }
        let connection = Connection::new(url, conf, Caller::Driver)?;
        let client = runtime.block_on(connection.client())?;
        let app = conf.get(&entries::APP_ID)?.unwrap_or_else(|| format!("spark-{}", unique()));
        let namespace = conf.get(&entries::KUBERNETES_NAMESPACE)?;
        let requests = Requests::new(client, &namespace, &app, connection.request_timeout());
        let (commands, hears) = unbounded_channel();
        Ok(PodProvider {
            prefix: options::prefix(conf)?,
            driver_pod: conf.get(&entries::KUBERNETES_DRIVER_POD_NAME)?,
            connection,
            requests,
            app,
            runtime: runtime.clone(),
            commands,
            hears: Some(hears),
            over: None,
            may_leave: Arc::new(AtomicBool::new(true)),
        })
    }

    /// What a user is to know of pods whose end nobody confirmed.
    fn leftovers(&self) -> String {
        let (url, app) = (self.connection.url(), &self.app);
        let unsure = format!(
            "the application {app} is over, and the API server {url} has not confirmed within {} s that its executors' pods end",
            GOODBYE.as_secs()
        );
        match &self.driver_pod {
            Some(pod) => format!("{unsure}: they go with the driver's pod {pod}"),
            None => format!(
                "{unsure}: their processes end by themselves; delete the pods with kubectl delete pods --namespace {} --selector {}={app},{}={}",
                self.requests.namespace(),
                labels::APPLICATION,
                labels::ROLE,
                labels::EXECUTOR
            ),
        }
    }

    fn begin(&mut self, application: &ApplicationSpec, reports: Reports) -> Result<(), Error> {
        let Some(hears) = self.hears.take() else { return Ok(()) };
        let home = match &self.driver_pod {
            Some(name) => Some(self.runtime.block_on(Home::find(&self.requests, name)).map_err(
                |error| Error::Refused {
                    url: self.connection.url().to_owned(),
                    what: format!("let the driver take charge of its pod {name} (spark.kubernetes.driver.pod.name)"),
                    error,
                },
            )?),
            None => None,
        };
        let owner = home.as_ref().map(|home| &home.owner);
        let pods = ExecutorPods::new(application, &self.app, owner)?;
        let process = home.as_ref().map(|home| home.process);
        let mut options =
            options::of(&application.conf, AppId::new(&self.app), &self.prefix, process)?;
        options.owner = pods.owner();
        let core = Allocator::new(options, Jitter::new(fastrand::u64(..)));
        let requests = self.requests.clone().for_pods(pods);
        let (done, over) = channel::<()>();
        let mut shell = Shell::new(core, requests.clone(), self.connection.clone(), reports);
        self.may_leave = shell.may_leave();
        if let Some(home) = home {
            let (shortage, changes) = tokio::sync::watch::channel(None);
            self.runtime.spawn(tell_driver_pod(requests, home.owner, changes));
            shell = shell.telling(shortage);
        }
        self.runtime.spawn(async move {
            shell.run(hears).await;
            drop(done);
        });
        self.over = Some(over);
        Ok(())
    }
}

impl Provider for PodProvider {
    fn settings(&self, conf: &Conf) -> Conf {
        let mut settings = conf.clone();
        let unset = |entry: &str| conf.get_raw(entry).is_none();
        if unset(entries::EXECUTOR_INSTANCES.key()) {
            settings.set(entries::EXECUTOR_INSTANCES.key(), INSTANCES);
        }
        if unset(entries::EXECUTOR_CORES.key()) {
            settings.set(entries::EXECUTOR_CORES.key(), 1);
        }
        // In a pod the address is the pod's, and nobody else's.
        if let (Ok(address), true) =
            (std::env::var(DRIVER_ADDRESS), unset(entries::DRIVER_BIND_ADDRESS.key()))
        {
            settings.set(entries::DRIVER_BIND_ADDRESS.key(), address);
        }
        settings
    }

    /// Pods are reached by everybody on the cluster's network: there is a secret, whatever the user has.
    fn rpc_options(&self, conf: &Conf) -> Result<RpcOptions, String> {
        let options = match RpcOptions::from_process(conf) {
            Err(SetupError::NoSecret) => {
                let mut conf = conf.clone();
                conf.remove(entries::AUTHENTICATE.key());
                RpcOptions::from_process(&conf)
            }
            options => options,
        };
        let mut options = options.map_err(|error| error.to_string())?;
        if options.identity.is_none() && !options.insecure {
            let identity = Identity::new(firesteel_rpc::DEFAULT_IDENTITY, Secret::generate());
            options.authenticate_as(identity.map_err(|error| error.to_string())?);
        }
        Ok(options)
    }

    fn application_secret(&self) -> Option<Secret> {
        let text = std::env::var(APPLICATION_SECRET).ok()?;
        Secret::new(&text, "in FIRESTEEL_APPLICATION_SECRET").ok()
    }

    fn driver_host(&self) -> io::Result<String> {
        match std::env::var(DRIVER_ADDRESS) {
            Ok(address) => Ok(address),
            Err(_) => own_address(self.connection.url()),
        }
    }

    fn default_cores(&self) -> Option<u32> {
        Some(1)
    }

    fn reason_wait(&self) -> Option<Duration> {
        Some(REASON_WAIT)
    }

    fn where_to_look(&self) -> String {
        format!("look at its pods: kubectl get pods -l {}={}", labels::APPLICATION, self.app)
    }

    fn start(&mut self, application: ApplicationSpec, reports: Reports) -> Result<(), String> {
        self.begin(&application, reports).map_err(|error| error.to_string())
    }

    fn command(&mut self, command: ProviderCommand) {
        let _ = self.commands.send(command);
    }

    fn stop(&mut self) {
        self.command(ProviderCommand::Stop);
        let Some(over) = self.over.take() else { return };
        if over.recv_timeout(GOODBYE) != Err(RecvTimeoutError::Timeout) {
            return;
        }
        if self.may_leave.load(Ordering::Relaxed) {
            firesteel_engine::warn(&self.leftovers());
        } else {
            tracing::info!(app = self.app, "executor pods are still ending: they were told to");
        }
    }
}

/// The address from which this machine reaches the API server: the system says without sending anything.
fn own_address(url: &str) -> io::Result<String> {
    let (scheme, rest) = url.split_once("://").unwrap_or(("https", url));
    let authority = rest.split('/').next().unwrap_or(rest);
    let port = if scheme == "http" { 80 } else { 443 };
    let with_port = authority.rsplit_once(':').is_some_and(|(_, port)| port.parse::<u16>().is_ok());
    let target = if with_port { authority.to_owned() } else { format!("{authority}:{port}") };
    let found = target.to_socket_addrs()?.next();
    let found = found.ok_or_else(|| io::Error::other("the API server has no address"))?;
    let socket = UdpSocket::bind(if found.is_ipv6() { "[::]:0" } else { "0.0.0.0:0" })?;
    socket.connect(found)?;
    Ok(socket.local_addr()?.ip().to_string())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_application_whose_pods_may_be_left_says_how_to_find_them() {
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
        let mut conf = Conf::new();
        conf.set("spark.app.id", "spark-1").set("spark.kubernetes.namespace", "jobs");
        let left = |conf: &Conf| {
            PodProvider::new("http://127.0.0.1:1", conf, runtime.handle()).unwrap().leftovers()
        };
        let command = "kubectl delete pods --namespace jobs --selector spark-app-selector=spark-1,spark-role=executor";
        let text = left(&conf);
        assert!(text.contains(command) && text.contains("http://127.0.0.1:1"), "{text}");
        conf.set("spark.kubernetes.driver.pod.name", "d");
        let text = left(&conf);
        assert!(text.contains("go with the driver's pod d") && !text.contains("kubectl"), "{text}");
    }

    #[test]
    fn the_address_of_this_machine_is_the_one_that_the_server_sees() {
        for url in ["https://127.0.0.1:6443", "http://127.0.0.1/path", "https://[::1]:1"] {
            let address = own_address(url).unwrap();
            assert!(["127.0.0.1", "::1"].contains(&address.as_str()), "{address}");
        }
        assert!(own_address("https://no host").is_err());
    }
}
