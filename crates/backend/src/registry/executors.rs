//! Which executors count, when one is lost, and whose fault that is.

use firesteel_scheduler::SchedulerInput;
use firesteel_types::{ExecutorId, ExecutorInfo, Tick};

use super::core::{Registry, RegistryEffect, Turn};
use crate::blame::{Blame, End, ExitStatus, blame};
use crate::executor::exit;
use crate::mutant::Mutant;
use crate::protocol::{Refusal, ToDriver, ToExecutor};
use crate::provider::{Preparing, ProviderCommand};
use crate::{AppId, Peer};

/// What an executor introduces itself with.
struct Introduction {
    app: AppId,
    executor: ExecutorId,
    info: ExecutorInfo,
    hash: Option<[u8; 32]>,
    /// Whether the executor told over this connection where it serves its blocks.
    has_address: bool,
}

impl Registry {
    pub(super) fn received_executor(
        &mut self,
        turn: &mut Turn<'_>,
        (from, has_address): (Peer, bool),
        message: ToDriver,
    ) {
        match message {
            ToDriver::RegisterExecutor {
                app,
                executor,
                host,
                cores,
                hash,
                log_urls,
                attributes,
            } => {
                let info = ExecutorInfo { log_urls, attributes, ..ExecutorInfo::new(host, cores) };
                let who = Introduction { app, executor, info, hash, has_address };
                self.register(turn, from, who);
            }
            ToDriver::ExecutorHeartbeat { executor, running } => {
                self.heartbeat(turn, from, executor, running.is_empty());
            }
            ToDriver::StatusUpdate { executor, task, outcome, data } => {
                if self.roster.heard(executor, from, turn.now) {
                    turn.out.push(RegistryEffect::ReportTask { executor, task, outcome, data });
                } else {
                    self.dropped_stale();
                }
            }
        }
    }

    fn register(&mut self, turn: &mut Turn<'_>, from: Peer, who: Introduction) {
        if let Some((refusal, message)) = self.refusal(from, &who) {
            return turn
                .tell_executor(from, ToExecutor::RegisterExecutorFailed { refusal, message });
        }
        let Introduction { app, executor, info, .. } = who;
        let is_new = self.roster.register(executor, from, turn.now);
        turn.tell_executor(from, ToExecutor::RegisteredExecutor);
        if is_new {
            turn.out
                .push(RegistryEffect::Schedule(SchedulerInput::ExecutorAdded { executor, info }));
            if self.app.is_none() {
                turn.command(ProviderCommand::Named(app));
            }
            turn.command(ProviderCommand::Registered(executor));
            if self.roster.get(executor).is_some_and(|known| known.decommissioned.is_some()) {
                turn.bar(executor);
            }
        }
    }

    fn refusal(&self, from: Peer, who: &Introduction) -> Option<(Refusal, String)> {
        let id = who.executor;
        if self.is_over() {
            return Some((Refusal::Stopping, "the application is over".to_owned()));
        }
        if self.app.as_ref().is_some_and(|app| *app != who.app) {
            let message = format!("this is not the driver of {}", who.app);
            return Some((Refusal::OtherApplication, message));
        }
        if self.options.hash.is_some() && who.hash != self.options.hash {
            let message = "its executable differs from the driver's: make the same file available \
                           on every worker, or let the driver serve it";
            return Some((Refusal::OtherExecutable, message.to_owned()));
        }
        if !who.has_address && !self.options.planted.is(Mutant::TakesExecutorsWithoutAddress) {
            let message = "its connection broke after it had told where it serves its blocks";
            return Some((Refusal::NoAddress, message.to_owned()));
        }
        let takes_back = self.options.planted.is(Mutant::TakesLostExecutorsBack);
        if self.is_lost(id) && !takes_back {
            return Some((Refusal::Lost, format!("executor {id} was declared dead before")));
        }
        let other = self.roster.get(id).is_some_and(|known| known.peer != from);
        other.then(|| (Refusal::Duplicate, format!("there is an executor {id} already")))
    }

    fn heartbeat(&mut self, turn: &mut Turn<'_>, from: Peer, id: ExecutorId, idle: bool) {
        let known = self.roster.heard(id, from, turn.now);
        let keeps = self.options.planted.is(Mutant::KeepsDecommissionedExecutors);
        let leaves = self.roster.get(id).and_then(|executor| executor.decommissioned.as_ref());
        if let Some(why) = leaves.filter(|_| known && idle && !keeps) {
            let reason = format!("{why}, and its last task has ended");
            return self.declare_dead(turn, id, End::Told, &reason);
        }
        if !known && (self.is_over() || self.is_lost(id)) {
            self.dropped_stale();
            return turn.tell_executor(from, ToExecutor::StopExecutor);
        }
        turn.tell_executor(from, ToExecutor::HeartbeatResponse { reregister: !known });
    }

    /// No new tasks for it; what becomes of the old ones depends on why, which the provider may know.
    pub(super) fn executor_disconnected(&mut self, turn: &mut Turn<'_>, peer: Peer) {
        let Some(executor) = self.roster.disconnect(peer, turn.now) else { return };
        self.check_by(turn.now.plus_ms(self.options.reason_wait_ms));
        turn.bar(executor);
        turn.command(ProviderCommand::Disconnected(executor));
    }

    /// Executors that were silent for too long, never came, or are gone without a reason.
    pub(super) fn remove_silent_executors(&mut self, turn: &mut Turn<'_>) {
        if self.options.planted.is(Mutant::IgnoresSilence) {
            return;
        }
        let (now, timeout) = (turn.now, self.options.network_timeout_ms);
        let (mut gone, mut next) = (Vec::new(), None);
        for (id, executor) in self.roster.iter() {
            let patience = |since: Tick| since.plus_ms(self.options.reason_wait_ms);
            let waits_until = executor.disconnected.map(patience);
            if now.since_ms(executor.last_seen) > timeout {
                let reason =
                    format!("no heartbeat came for more than {timeout} ms (spark.network.timeout)");
                gone.push((id, End::Silent, reason));
            } else if waits_until.is_some_and(|until| until <= now) {
                gone.push((id, End::Disconnected, "its connection broke".to_owned()));
            }
            next = next.into_iter().chain(waits_until.filter(|until| *until > now)).min();
        }
        if let Some(next) = next {
            self.check_by(next);
        }
        let late = self.roster.late(now, timeout);
        let late = late.inspect(|(id, late)| {
            let stood_still = late.preparing.is_some_and(Preparing::is_under_way);
            let message = || format!("executor {id}: {}", never(late.preparing, timeout));
            turn.out.extend(stood_still.then(|| RegistryEffect::Warn { message: message() }));
        });
        gone.extend(
            late.map(|(id, late)| (id, End::NeverRegistered, never(late.preparing, timeout))),
        );
        // None of them may get the tasks of another one.
        let bars = !self.options.planted.is(Mutant::RemovesOneByOne);
        for (id, ..) in gone.iter().filter(|(id, ..)| bars && self.roster.get(*id).is_some()) {
            turn.bar(*id);
        }
        for (id, end, reason) in gone {
            self.declare_dead(turn, id, end, &reason);
        }
    }

    /// This side found that it is lost: the provider shall end what is left of it and replace it.
    pub(super) fn declare_dead(
        &mut self,
        turn: &mut Turn<'_>,
        id: ExecutorId,
        end: End,
        reason: &str,
    ) {
        self.lose(turn, id, end, reason);
        if end == End::Silent {
            turn.command(ProviderCommand::Silent(id));
        }
        turn.command(ProviderCommand::Release(vec![id]));
    }

    /// The one way to lose an executor.
    pub(super) fn lose(&mut self, turn: &mut Turn<'_>, id: ExecutorId, end: End, reason: &str) {
        let Some(executor) = self.roster.lose(id) else { return };
        if executor.disconnected.is_none() {
            turn.tell_executor(executor.peer, ToExecutor::StopExecutor);
        }
        let mutant = match end {
            End::Exited(Some(ExitStatus::Code(0))) => Some(Mutant::ClearsTasksByExitZero),
            End::Exited(Some(ExitStatus::Code(exit::HEARTBEAT_FAILURE..=exit::REFUSED))) => {
                Some(Mutant::ClearsTasksByOwnCodes)
            }
            End::Silent => Some(Mutant::ClearsTasksBySilence),
            _ => None,
        };
        let clears = mutant.is_some_and(|mutant| self.options.planted.is(mutant));
        turn.out.push(RegistryEffect::Schedule(SchedulerInput::ExecutorLost {
            executor: id,
            caused_by_app: blame(end, true) == Blame::RunningTasks
                && executor.decommissioned.is_none()
                && !clears,
            outputs_lost: true,
            reason: reason.to_owned(),
        }));
    }
}

/// Why an executor that did not come is waited for no longer.
pub(super) fn never(preparing: Option<Preparing>, timeout_ms: u64) -> String {
    match preparing.filter(|preparing| preparing.is_under_way()) {
        Some(preparing) => format!(
            "it never registered: its node had fetched {preparing} of its executable and files, and none more came for more than \
             {timeout_ms} ms (spark.network.timeout)"
        ),
        None => "it never registered".to_owned(),
    }
}
