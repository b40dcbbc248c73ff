//! In place of `backend` in programs that are built without that feature: there are no cluster managers, and nothing that one
//! would bring about can exist.

pub(crate) use std::convert::Infallible as PreparedFile;
use std::io;
use std::path::Path;
use std::sync::Arc;

use firesteel_conf::{Conf, Master};
use firesteel_executor::Forgotten;
use firesteel_types::{BlockLocation, ExecutorId, Host, RddBlock, TaskId, ThreadInfo};

use super::Engine;
use crate::files::Files;
use crate::{Error, Result};

/// A kind of cluster that executors can be had from: none without the feature `cluster`.
pub trait ClusterManager: Send + Sync {
    fn name(&self) -> &str;
}

/// Has no values.
#[derive(Clone, Copy, Debug)]
enum Never {}

pub(crate) struct Cluster(Never);

pub(crate) struct NewCluster(Never);

pub(crate) fn built_in() -> [Arc<dyn ClusterManager>; 0] {
    []
}

/// No master shows the pages of such a program.
pub fn page_hosts(_: &Conf) -> std::io::Result<Option<(String, String)>> {
    Ok(None)
}

pub(crate) fn dispatch(_: &Arc<Engine>) {}

pub(crate) fn claimant<'a>(
    master: &Master,
    _: &'a [Arc<dyn ClusterManager>],
) -> Result<&'a Arc<dyn ClusterManager>> {
    Err(refused(master))
}

fn refused(master: &Master) -> Error {
    let reason = "this program was built without the feature `cluster` of firesteel; build it with that feature, or use \
                  local, local[N] or local[*]";
    Error::Master { master: master.to_string(), reason: reason.to_owned() }
}

impl NewCluster {
    pub(crate) fn join(
        _: &dyn ClusterManager,
        master: &Master,
        _: &Conf,
        _: u32,
        _: &Files,
    ) -> Result<Self> {
        Err(refused(master))
    }

    pub(crate) fn cluster(&self) -> &Arc<Cluster> {
        match self.0 {}
    }

    pub(crate) fn start(self, _: &Arc<Engine>) -> Result<()> {
        match self.0 {}
    }
}

impl Cluster {
    pub(super) fn forget_code(&self, _: u64) {
        match self.0 {}
    }

    pub(super) fn threads(&self, _: ExecutorId) -> Option<Vec<ThreadInfo>> {
        match self.0 {}
    }

    pub(super) fn replicate(&self, _: BlockLocation, _: &[RddBlock]) {
        match self.0 {}
    }

    pub(super) fn kill(&self, _: ExecutorId, _: TaskId, _: String) {
        match self.0 {}
    }

    pub(super) fn node_excluded(&self, _: Host, _: bool) {
        match self.0 {}
    }

    pub(super) fn forget(&self, _: Forgotten) {
        match self.0 {}
    }

    pub(super) fn forget_at(&self, _: BlockLocation, _: Forgotten) {
        match self.0 {}
    }

    pub(super) fn prepare_file(&self, _: &str, _: &Path) -> io::Result<PreparedFile> {
        match self.0 {}
    }

    pub(super) fn publish_file(&self, _: PreparedFile) {
        match self.0 {}
    }

    pub(super) fn served_broadcast_bytes(&self) -> u64 {
        match self.0 {}
    }

    pub(super) fn served_item_bytes(&self) -> u64 {
        match self.0 {}
    }

    pub(super) fn sent_task_bytes(&self) -> u64 {
        match self.0 {}
    }

    pub(super) fn fetched_result_bytes(&self) -> u64 {
        match self.0 {}
    }

    pub(super) fn most_queued_bytes(&self) -> u64 {
        match self.0 {}
    }

    pub(super) fn address(&self) -> Option<(Host, u16)> {
        match self.0 {}
    }

    pub(super) fn cores(&self) -> u32 {
        match self.0 {}
    }

    pub(super) fn application_id(&self) -> Option<String> {
        match self.0 {}
    }

    pub(super) fn stop(&self) {
        match self.0 {}
    }
}
