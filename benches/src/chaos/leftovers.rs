//! What runs that were killed themselves have left: processes and mounted disks. Their logs stay.

use std::{fs, path::Path};

use anyhow::Result;
use rustix::process::Signal;

use super::disks;
use crate::{
    cache,
    cluster::processes::{marked, signal},
};

/// The mark of a run's processes, and the name of its directory, by the id of the process that made them.
pub(crate) fn mark(process: u32) -> String {
    format!("chaos-{process}")
}

const DIRECTORY: &str = "run-";

pub(crate) fn directory(process: u32) -> String {
    format!("{DIRECTORY}{process}")
}

/// Removes what is left of runs whose process is gone.
pub(crate) fn remove() -> Result<()> {
    for entry in fs::read_dir(cache::directory("chaos")?)?.flatten() {
        let name = entry.file_name();
        let process = name.to_str().and_then(|name| name.strip_prefix(DIRECTORY)?.parse().ok());
        let Some(process) = process.filter(|process| !is_running(*process)) else { continue };
        disks::release(&entry.path());
        for left in marked(&mark(process)) {
            let _ = signal(left.pid, Signal::KILL);
        }
        disks::unmount(&entry.path());
    }
    Ok(())
}

fn is_running(process: u32) -> bool {
    Path::new(&format!("/proc/{process}")).exists()
}
