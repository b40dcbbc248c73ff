//! The applications of a cluster: those that are not over in the order they came, and the last of those that are.

use std::collections::{BTreeMap, VecDeque};
use std::ops::Index;

use firesteel_backend::{AppId, Peer};
use firesteel_types::Tick;

use super::application::Application;
use super::records::{ApplicationRecord, ExecutorRecord};
use super::state::ApplicationState;
use super::view::ApplicationView;
use crate::Incarnation;

/// How an application ended.
#[derive(Debug)]
pub(super) struct Ending {
    pub(super) at: Tick,
    pub(super) state: ApplicationState,
    /// The cores it had.
    pub(super) cores: u32,
    pub(super) message: String,
    /// Its driver may come back: it only went silent.
    pub(super) may_return: bool,
}

/// An application that is over.
#[derive(Debug)]
pub(super) struct CompletedApplication {
    record: ApplicationRecord,
    ending: Ending,
}

impl CompletedApplication {
    pub(super) fn view(&self) -> ApplicationView {
        let ApplicationRecord { app, description, submitted, .. } = self.record.clone();
        ApplicationView {
            app,
            description,
            state: self.ending.state,
            cores: self.ending.cores,
            submitted,
            ended: Some(self.ending.at),
            message: Some(self.ending.message.clone()),
            executors: Vec::new(),
        }
    }
}

#[derive(Debug)]
pub(super) struct Applications {
    active: BTreeMap<AppId, Application>,
    /// The same, first come first.
    queue: BTreeMap<u64, AppId>,
    next_order: u64,
    completed: VecDeque<CompletedApplication>,
    /// So many completed ones are listed.
    retained: usize,
}

impl Applications {
    /// None; of those that end, `retained` stay listed.
    pub(super) fn new(retained: usize) -> Self {
        let (active, queue) = (BTreeMap::new(), BTreeMap::new());
        Applications { active, queue, next_order: 0, completed: VecDeque::new(), retained }
    }

    pub(super) fn get(&self, id: &AppId) -> Option<&Application> {
        self.active.get(id)
    }

    pub(super) fn get_mut(&mut self, id: &AppId) -> Option<&mut Application> {
        self.active.get_mut(id)
    }

    /// In the order of their ids.
    pub(super) fn iter(&self) -> impl Iterator<Item = &Application> {
        self.active.values()
    }

    pub(super) fn iter_mut(&mut self) -> impl Iterator<Item = &mut Application> {
        self.active.values_mut()
    }

    /// In the order in which they registered.
    pub(super) fn in_order(&self) -> impl Iterator<Item = &Application> {
        self.queue.values().map(|id| &self.active[id])
    }

    /// The application of this driver process.
    pub(super) fn of(&self, driver: Incarnation) -> Option<&Application> {
        self.iter().find(|app| app.incarnation() == driver)
    }

    /// Why the application of this driver process is over for good, if it is.
    pub(super) fn why_over(&self, driver: Incarnation) -> Option<&str> {
        let mut over = self.completed.iter().filter(|app| !app.ending.may_return);
        let over = over.find(|app| app.record.incarnation == driver);
        over.map(|app| app.ending.message.as_str())
    }

    /// Takes the application of this driver process off the completed ones: it comes back.
    pub(super) fn take_returned(&mut self, driver: Incarnation) -> Option<ApplicationRecord> {
        let at = self.completed.iter().position(|app| app.record.incarnation == driver)?;
        self.completed.remove(at).map(|app| app.record)
    }

    /// Whether an application has, or had, this id.
    pub(super) fn is_taken(&self, id: &AppId) -> bool {
        self.active.contains_key(id) || self.completed.iter().any(|app| app.record.app == *id)
    }

    /// Takes an application in, behind all others.
    pub(super) fn admit(&mut self, mut record: ApplicationRecord, peer: Peer, now: Tick) {
        record.order = self.next_order;
        self.add(Application::new(record, peer, now));
    }

    /// Takes an application in that was a master's before this one, at its old place. It is to answer.
    pub(super) fn restore(
        &mut self,
        record: ApplicationRecord,
        executors: Vec<ExecutorRecord>,
        now: Tick,
    ) {
        self.completed.retain(|app| app.record.app != record.app);
        self.add(Application::restored(record, executors, now));
    }

    fn add(&mut self, app: Application) {
        self.next_order = self.next_order.max(app.order() + 1);
        self.queue.insert(app.order(), app.id().clone());
        self.active.insert(app.id().clone(), app);
    }

    /// Applications that are not over are another master's.
    pub(super) fn forget_active(&mut self) {
        self.active.clear();
        self.queue.clear();
        self.next_order = 0;
    }

    /// The application is over.
    pub(super) fn complete(&mut self, id: &AppId, ending: Ending) {
        let Some(app) = self.active.remove(id) else { return };
        self.queue.remove(&app.order());
        self.completed.push_back(CompletedApplication { record: app.record(), ending });
        while self.completed.len() > self.retained {
            self.completed.pop_front();
        }
    }

    /// The last one last.
    pub(super) fn completed(&self) -> impl Iterator<Item = &CompletedApplication> {
        self.completed.iter()
    }

    pub(super) fn clear_completed(&mut self) {
        self.completed.clear();
    }

    pub(super) fn assert_consistent(&self) {
        assert_eq!(self.queue.len(), self.active.len(), "an application is not in the queue");
        for app in self.iter() {
            let queued = self.queue.get(&app.order()) == Some(app.id());
            assert!(queued, "{} has lost its place in the queue", app.id());
            app.assert_consistent();
        }
    }
}

impl Index<&AppId> for Applications {
    type Output = Application;

    fn index(&self, id: &AppId) -> &Application {
        &self.active[id]
    }
}
