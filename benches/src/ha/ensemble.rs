//! What elects masters and has their state: a ZooKeeper or an etcd server of its own, from Debian's packages.

use std::{
    fs,
    net::TcpStream,
    path::{Path, PathBuf},
    process::{Child, Command, Stdio},
    time::Duration,
};

use anyhow::{Context, Result, ensure};

use crate::cluster::{site::free_port, wait::until};

const JAR: &str = "/usr/share/java/zookeeper.jar";
const START: Duration = Duration::from_secs(60);

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Service {
    ZooKeeper,
    Etcd,
}

/// A server; it ends when this is dropped.
#[derive(Debug)]
pub(super) struct Ensemble {
    service: Service,
    server: Server,
    directory: PathBuf,
    port: u16,
    /// For other servers of its kind, of which there are none.
    peer_port: u16,
}

impl Ensemble {
    pub(super) fn start(service: Service, directory: &Path) -> Result<Self> {
        let (port, peer_port) = (free_port()?, free_port()?);
        let directory = directory.join("ensemble");
        fs::create_dir_all(&directory)?;
        if let Service::ZooKeeper = service {
            ensure!(Path::new(JAR).exists(), "there is no {JAR}: apt-get install zookeeper");
            let data = directory.join("data");
            let settings = format!(
                "tickTime=400\nminSessionTimeout=1000\nmaxSessionTimeout=60000\ndataDir={}\nclientPort={port}\nadmin.enableServer=false\n",
                data.display()
            );
            fs::write(directory.join("zoo.cfg"), settings)?;
        }
        let server = serve(service, &directory, port, peer_port)?;
        Ok(Self { service, server, directory, port, peer_port })
    }

    /// Settings of masters that it elects.
    pub(super) fn settings(&self) -> [(&'static str, String); 2] {
        let address = format!("127.0.0.1:{}", self.port);
        let (mode, url) = match self.service {
            Service::ZooKeeper => ("ZOOKEEPER", ("spark.deploy.zookeeper.url", address)),
            Service::Etcd => {
                ("ETCD", ("spark.firesteel.deploy.etcd.url", format!("http://{address}")))
            }
        };
        [("spark.deploy.recoveryMode", mode.to_owned()), url]
    }

    pub(super) fn kill(&mut self) -> Result<()> {
        self.server.0.kill()?;
        self.server.0.wait()?;
        Ok(())
    }

    /// Starts it again, with what it had.
    pub(super) fn restart(&mut self) -> Result<()> {
        self.server = serve(self.service, &self.directory, self.port, self.peer_port)?;
        Ok(())
    }
}

fn serve(service: Service, directory: &Path, port: u16, peer_port: u16) -> Result<Server> {
    let mut command = match service {
        Service::ZooKeeper => {
            let mut java = Command::new("java");
            java.args(["-Xmx128m", "-cp", JAR]);
            java.args(["org.apache.zookeeper.server.quorum.QuorumPeerMain", "zoo.cfg"]);
            java
        }
        Service::Etcd => {
            let url = |port: u16| format!("http://127.0.0.1:{port}");
            let (clients, peers) = (url(port), url(peer_port));
            let mut etcd = Command::new("etcd");
            etcd.args(["--data-dir", "data", "--initial-cluster", &format!("default={peers}")]);
            etcd.args(["--listen-client-urls", &clients, "--advertise-client-urls", &clients]);
            etcd.args(["--listen-peer-urls", &peers, "--initial-advertise-peer-urls", &peers]);
            etcd
        }
    };
    command.current_dir(directory);
    command.stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::null());
    let program = command.get_program().to_owned();
    let needed = "apt-get install zookeeper etcd-server";
    let server =
        command.spawn().with_context(|| format!("cannot start {}: {needed}", program.display()))?;
    let server = Server(server);
    until("a server that elects", START, || TcpStream::connect(("127.0.0.1", port)).ok())?;
    Ok(server)
}

/// A process that is killed with this, also if it does not come to serve.
#[derive(Debug)]
struct Server(Child);

impl Drop for Server {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}
