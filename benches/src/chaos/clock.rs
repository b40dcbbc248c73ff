//! Clocks of the hosts, which jump: a small library that is loaded into every process adds what a file says to the time of day.
//! It is compiled here, by the C compiler that Rust links with.

use std::{
    fs::{self, File},
    os::unix::fs::FileExt,
    path::{Path, PathBuf},
    process::Command,
};

use anyhow::{Context, Result, ensure};

const SOURCE: &str = include_str!("clock.c");

/// A clock for each host.
#[derive(Debug)]
pub(crate) struct Clocks {
    library: PathBuf,
    files: Vec<PathBuf>,
}

impl Clocks {
    pub(crate) fn make(directory: &Path, hosts: usize) -> Result<Self> {
        let (source, library) = (directory.join("clock.c"), directory.join("clock.so"));
        fs::write(&source, SOURCE)?;
        let mut compile = Command::new("cc");
        compile.args(["-O2", "-shared", "-fPIC", "-o"]).arg(&library).arg(&source).arg("-ldl");
        let output = compile.output().context("no C compiler `cc` found")?;
        let stderr = String::from_utf8_lossy(&output.stderr);
        ensure!(output.status.success(), "cc cannot compile it: {}", stderr.trim());
        let files = (0..hosts).map(|host| directory.join(format!("clock-{host}"))).collect();
        let clocks = Self { library, files };
        (0..hosts).try_for_each(|host| clocks.set(host, 0))?;
        Ok(clocks)
    }

    /// From now on, the clock of this host is off by so much.
    pub(crate) fn set(&self, host: usize, offset_ms: i64) -> Result<()> {
        // The file is mapped: it is never shorter than it was.
        let file =
            File::options().create(true).truncate(false).write(true).open(&self.files[host])?;
        Ok(file.write_all_at(&offset_ms.to_ne_bytes(), 0)?)
    }

    /// A process of this host: it and its children have the host's clock.
    pub(crate) fn give(&self, command: &mut Command, host: usize) {
        command.env("LD_PRELOAD", &self.library).env("FIRESTEEL_CHAOS_CLOCK", &self.files[host]);
    }
}

#[cfg(test)]
mod tests {
    use std::{env, fs, process::Command};

    use super::Clocks;

    #[test]
    fn a_process_has_the_time_of_its_host() {
        let directory = env::temp_dir().join(format!("firesteel-clocks-{}", std::process::id()));
        fs::create_dir_all(&directory).unwrap();
        let clocks = Clocks::make(&directory, 2).unwrap();
        clocks.set(1, -7_200_000).unwrap();
        let now = |host| -> i64 {
            let mut command = Command::new("date");
            clocks.give(command.arg("+%s"), host);
            let output = command.output().unwrap();
            String::from_utf8_lossy(&output.stdout).trim().parse().unwrap()
        };
        let behind = now(0) - now(1);
        assert!((7190..7210).contains(&behind), "{behind} s");
        fs::remove_dir_all(directory).unwrap();
    }
}
