//! How much memory a status takes, roughly, and what is forgotten first when that is too much.
//!
//! [`crate::Retention`] counts what is over, as Spark does. That is no bound for what a log may say: jobs and tasks that never end, a thousand
//! stages of a hundred thousand tasks each, texts of megabytes. So there is a limit in bytes as well.

use std::collections::BTreeMap;
use std::fmt;

use firesteel_types::event::{RddScope, StageRdd};
use firesteel_types::{
    Accumulable, ProcessInfo, Properties, ResourceProfile, StageInfo, TaskFailure,
};

use crate::{AppStatus, Application};

/// So many bytes a status takes at most, roughly, unless somebody says otherwise.
const LIMIT: usize = 1 << 30;
/// What an entry of a map takes besides its texts.
pub(crate) const ENTRY: usize = 48;

/// So many events change little: what is held is added up once for them.
const EVENTS: u32 = 10_000;

/// The most bytes, and how many events came since they were looked at. It says nothing of the application: all are equal, and look it.
#[derive(Clone, Copy)]
pub(crate) struct Limit {
    bytes: usize,
    events: u32,
}

impl Default for Limit {
    fn default() -> Self {
        Limit { bytes: LIMIT, events: 0 }
    }
}

impl fmt::Debug for Limit {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Limit")
    }
}

impl PartialEq for Limit {
    fn eq(&self, _: &Self) -> bool {
        true
    }
}

/// Bytes that are too many.
#[derive(Debug)]
pub(crate) struct Excess(usize);

impl Excess {
    /// Whether there are still some.
    pub(crate) fn is_left(&self) -> bool {
        self.0 > 0
    }

    /// So many are no more.
    pub(crate) fn freed(&mut self, bytes: usize) {
        self.0 = self.0.saturating_sub(bytes);
    }
}

pub(crate) fn texts(map: &BTreeMap<String, String>) -> usize {
    map.iter().map(|(key, value)| key.len() + value.len() + ENTRY).sum()
}

pub(crate) fn properties(properties: &Properties) -> usize {
    let values = properties.iter().map(|(key, value)| key.len() + value.len() + ENTRY);
    values.sum::<usize>() + properties.tags().iter().map(|tag| tag.len() + ENTRY).sum::<usize>()
}

/// Of the reasons that tasks were killed for.
pub(crate) fn reasons(killed: &BTreeMap<String, u32>) -> usize {
    killed.keys().map(|reason| reason.len() + ENTRY).sum()
}

pub(crate) fn accumulable(of: &Accumulable) -> usize {
    size_of::<Accumulable>() + of.name.len() + of.update.len() + of.value.len()
}

pub(crate) fn failure(of: &TaskFailure) -> usize {
    let texts = match of {
        TaskFailure::Panicked { message, location, stack_trace } => {
            message.len() + location.len() + stack_trace.len()
        }
        TaskFailure::FetchFailed { message, broken, .. } => {
            message.len() + size_of_val(broken.as_slice())
        }
        TaskFailure::Error { message } | TaskFailure::Fatal { message } => message.len(),
        TaskFailure::Killed { reason } | TaskFailure::ExecutorLost { reason, .. } => reason.len(),
    };
    size_of::<TaskFailure>() + texts
}

pub(crate) fn process(of: &ProcessInfo) -> usize {
    of.address.len() + texts(&of.log_urls)
}

pub(crate) fn profile(of: &ResourceProfile) -> usize {
    let devices = of.devices.iter().map(|(name, device)| {
        name.len() + device.discovery_script.len() + device.vendor.len() + ENTRY
    });
    let names = of.executor.keys().chain(of.task.keys()).map(|name| name.len() + ENTRY);
    devices.sum::<usize>() + names.sum::<usize>()
}

pub(crate) fn stage(info: &StageInfo) -> usize {
    let details = info.details.as_ref().map_or(0, |details| details.len());
    let rdds = info.rdds.iter().map(rdd).sum::<usize>();
    size_of::<StageInfo>() + info.name.len() + details + size_of_val(&*info.parents) + rdds
}

fn rdd(of: &StageRdd) -> usize {
    let rdd = &of.rdd;
    let texts = rdd.name.len() + rdd.call_site.len() + scope(&rdd.scope);
    size_of::<StageRdd>() + size_of_val(&**rdd) + size_of_val(&*rdd.parents) + texts
}

fn scope(of: &RddScope) -> usize {
    let chain = std::iter::successors(Some(of), |scope| scope.parent.as_deref());
    chain.map(|scope| size_of::<RddScope>() + scope.name.len()).sum()
}

impl Application {
    fn weight(&self) -> usize {
        let lists = [&self.properties].into_iter().chain(self.others.values());
        let settings = lists.flatten().map(|(key, value)| key.len() + value.len() + ENTRY);
        let maps = [&self.driver_log_urls, &self.driver_attributes, &self.runtime, &self.resources];
        settings.sum::<usize>() + maps.into_iter().map(texts).sum::<usize>()
    }
}

impl AppStatus {
    /// Says how many bytes of memory it may take, roughly.
    pub fn set_limit(&mut self, bytes: usize) {
        self.limit.bytes = bytes;
    }

    /// Roughly how many bytes of memory it takes.
    pub fn weight(&self) -> usize {
        self.application.weight() + self.weight_of_history()
    }

    /// What grows with the application.
    fn weight_of_history(&self) -> usize {
        self.jobs.weight() + self.stages.weight() + self.executors.weight() + self.storage.weight()
    }

    pub(crate) fn trim_now_and_then(&mut self) {
        self.limit.events += 1;
        if self.limit.events == EVENTS {
            self.limit.events = 0;
            self.trim();
        }
    }

    /// Forgets enough if it takes more than it may: tasks of the stages that ended first, then these stages and the oldest jobs, then lost
    /// executors. If all that is not enough, also what has not ended. It does so by itself every ten thousand events; who reads a log, whose
    /// events may be large, calls it besides.
    pub fn trim(&mut self) {
        let weight = self.weight_of_history();
        if weight <= self.limit.bytes {
            return;
        }
        // Some more, so that this is not done again for the next event.
        let mut excess = Excess(weight - self.limit.bytes / 4 * 3);
        self.stages.forget_tasks_of_ended(&mut excess);
        self.stages.forget_ended(&mut excess);
        self.jobs.forget_ended(&mut excess);
        self.executors.forget_dead(&mut excess);
        self.stages.forget_running(&mut excess);
        self.jobs.forget_running(&mut excess);
        self.storage.forget(&mut excess);
        self.executors.forget_living(&mut excess, self.latest);
    }
}
