//! A ZooKeeper server of its own, from Debian's package.

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

/// A server; it ends when this is dropped.
#[derive(Debug)]
pub(super) struct ZooKeeper {
    server: Child,
    directory: PathBuf,
    port: u16,
}

impl ZooKeeper {
    pub(super) fn start(directory: &Path) -> Result<Self> {
        ensure!(Path::new(JAR).exists(), "there is no {JAR}: apt-get install zookeeper");
        let (directory, port) = (directory.join("zookeeper"), free_port()?);
        fs::create_dir_all(&directory)?;
        let data = directory.join("data");
        let settings = format!(
            "tickTime=400\nminSessionTimeout=1000\nmaxSessionTimeout=60000\ndataDir={}\nclientPort={port}\nadmin.enableServer=false\n",
            data.display()
        );
        fs::write(directory.join("zoo.cfg"), settings)?;
        let server = serve(&directory, port)?;
        Ok(Self { server, directory, port })
    }

    pub(super) fn address(&self) -> String {
        format!("127.0.0.1:{}", self.port)
    }

    pub(super) fn kill(&mut self) -> Result<()> {
        self.server.kill()?;
        self.server.wait()?;
        Ok(())
    }

    /// Starts it again, with what it had.
    pub(super) fn restart(&mut self) -> Result<()> {
        self.server = serve(&self.directory, self.port)?;
        Ok(())
    }
}

fn serve(directory: &Path, port: u16) -> Result<Child> {
    let mut java = Command::new("java");
    java.args([
        "-Xmx128m",
        "-cp",
        JAR,
        "org.apache.zookeeper.server.quorum.QuorumPeerMain",
        "zoo.cfg",
    ]);
    java.current_dir(directory).stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::null());
    let server = java.spawn().context("cannot start java")?;
    until("a ZooKeeper server", START, || TcpStream::connect(("127.0.0.1", port)).ok())?;
    Ok(server)
}

impl Drop for ZooKeeper {
    fn drop(&mut self) {
        let _ = self.server.kill();
        let _ = self.server.wait();
    }
}
