//! The applications of a server as the maker of one request may see them. Everything that an answer tells of an application goes
//! through here, so that no path can be forgotten; a refusal is remembered and replaces the answer.

use std::cell::{Cell, OnceCell};
use std::io;
use std::net::SocketAddr;

use firesteel_metrics::Metrics;
use firesteel_status::AppStatus;
use firesteel_types::{ExecutorId, ThreadInfo};

use crate::access::{Access, Right, Verdict};
use crate::archive::Archive;
use crate::rest::{ApplicationEntry, Applications, Control};

/// What a running application lets the maker of a request do. Found out once: pages ask while they look at the status.
#[derive(Clone, Copy)]
struct Rights {
    view: Verdict,
    modify: Verdict,
}

/// Of an application that is over, nobody sees anything.
const OVER: Rights = Rights { view: Verdict::Denied, modify: Verdict::Denied };

pub(crate) struct Guard<'a> {
    served: &'a dyn Applications,
    access: &'a Access,
    asker: Asker<'a>,
    /// Whether the request changes something: then it is an error not to be allowed to.
    is_form: bool,
    /// `None`: a history server, whose applications differ.
    rights: Option<Rights>,
    refused: Cell<Option<Verdict>>,
    is_unread: Cell<bool>,
}

/// Who makes a request.
struct Asker<'a> {
    user: Option<&'a str>,
    /// The ends of the connection that it came by; `None`: they say nothing about who asks.
    ends: Option<(SocketAddr, SocketAddr)>,
    /// Whether forms of this connection may be looked at. Found out where there would be a form: the system is asked for it.
    sends_forms: OnceCell<bool>,
    /// Found out where they matter.
    groups: OnceCell<Vec<String>>,
    lacks_groups: Cell<bool>,
}

impl<'a> Asker<'a> {
    fn new(user: Option<&'a str>, ends: Option<(SocketAddr, SocketAddr)>) -> Self {
        let (sends_forms, groups) = (OnceCell::new(), OnceCell::new());
        Asker { user, ends, sends_forms, groups, lacks_groups: Cell::new(false) }
    }

    fn sends_forms(&self, access: &Access) -> bool {
        *self.sends_forms.get_or_init(|| access.takes_forms_of(self.ends))
    }

    /// By the groups that are known: a status is locked meanwhile, and the system may take seconds to tell them.
    fn decide(&self, access: &Access, status: &AppStatus, right: Right) -> Verdict {
        let groups = |_: &str| {
            self.lacks_groups.set(self.groups.get().is_none());
            self.groups.get().cloned().unwrap_or_default()
        };
        access.acls(status).decide(self.user, &groups, right)
    }

    /// Whether a verdict lacked the groups, which are known now.
    fn has_learned_groups(&self, access: &Access) -> bool {
        let Some(user) = self.user.filter(|_| self.lacks_groups.take()) else { return false };
        self.groups.set(access.groups_of(user)).is_ok()
    }
}

impl<'a> Guard<'a> {
    #[cfg(test)]
    pub(crate) fn new(
        served: &'a dyn Applications,
        access: &'a Access,
        user: Option<&'a str>,
        is_form: bool,
    ) -> Self {
        Self::by(served, access, (user, None), is_form)
    }

    /// What a user sees by a connection.
    pub(crate) fn by(
        served: &'a dyn Applications,
        access: &'a Access,
        (user, ends): (Option<&'a str>, Option<(SocketAddr, SocketAddr)>),
        is_form: bool,
    ) -> Self {
        let asker = Asker::new(user, ends);
        let rights = served.is_live().then(|| rights(served, access, &asker));
        let (refused, is_unread) = (Cell::new(None), Cell::new(false));
        Guard { served, access, asker, is_form, rights, refused, is_unread }
    }

    /// Why nothing at all is shown: of a running application, everything is its own; a history server has a list that every user
    /// sees.
    pub(crate) fn at_once(&self) -> Option<Verdict> {
        let verdict = match self.rights {
            Some(rights) => rights.view,
            None if !self.access.is_open() && self.asker.user.is_none() => Verdict::Unidentified,
            None => Verdict::Allowed,
        };
        (verdict != Verdict::Allowed).then_some(verdict)
    }

    /// Why the answer that was made is not to be given.
    pub(crate) fn refused(&self) -> Option<Verdict> {
        self.refused.get()
    }

    /// Whether something that is there could not be read: the answer that was made says that it is not.
    pub(crate) fn is_unread(&self) -> bool {
        self.is_unread.get()
    }

    /// Whether something may be done; remembers if not.
    fn passes(&self, verdict: Verdict) -> bool {
        if verdict != Verdict::Allowed {
            self.refused.set(Some(verdict));
        }
        verdict == Verdict::Allowed
    }

    fn read(&self, id: &str, attempt: Option<&str>, look: &mut dyn FnMut(&AppStatus)) -> bool {
        self.served.read_status(id, attempt, look).unwrap_or_else(|_| {
            self.is_unread.set(true);
            false
        })
    }
}

fn rights(served: &dyn Applications, access: &Access, asker: &Asker<'_>) -> Rights {
    if access.is_open() {
        return Rights { view: Verdict::Allowed, modify: Verdict::Allowed };
    }
    let Some(entry) = served.list().into_iter().next() else { return OVER };
    loop {
        let mut found = OVER;
        served.with_status(&entry.id, None, &mut |status| {
            let decide = |right| asker.decide(access, status, right);
            found = Rights { view: decide(Right::View), modify: decide(Right::Modify) };
        });
        if !asker.has_learned_groups(access) {
            return found;
        }
    }
}

impl Applications for Guard<'_> {
    fn list(&self) -> Vec<ApplicationEntry> {
        self.served.list()
    }

    fn find(&self, id: &str) -> Option<ApplicationEntry> {
        self.served.find(id)
    }

    fn with_status(
        &self,
        id: &str,
        attempt: Option<&str>,
        look: &mut dyn FnMut(&AppStatus),
    ) -> bool {
        if self.access.is_open() {
            return self.read(id, attempt, look);
        }
        loop {
            let mut verdict = Verdict::Allowed;
            let found = self.read(id, attempt, &mut |status| {
                verdict = self.asker.decide(self.access, status, Right::View);
                if verdict == Verdict::Allowed {
                    look(status);
                }
            });
            if verdict == Verdict::Allowed || !self.asker.has_learned_groups(self.access) {
                return self.passes(verdict) && found;
            }
        }
    }

    fn is_live(&self) -> bool {
        self.served.is_live()
    }

    fn metrics(&self) -> Option<Metrics> {
        self.served.metrics()
    }

    fn tells_executors(&self) -> bool {
        self.served.tells_executors()
    }

    fn threads(&self, executor: ExecutorId) -> Option<Vec<ThreadInfo>> {
        self.served.threads(executor)
    }

    /// Who may not kill anything gets no form, and no token of one either.
    fn control(&self) -> Option<&dyn Control> {
        let control = self.served.control()?;
        let verdict = self.rights.map_or(Verdict::Denied, |rights| rights.modify);
        // A page that shows no form is an answer; a form that is not carried out is none.
        let is_allowed =
            if self.is_form { self.passes(verdict) } else { verdict == Verdict::Allowed };
        (is_allowed && self.asker.sends_forms(self.access)).then_some(control)
    }

    /// Somebody has to be allowed to see each of the logs: another one may name the same application.
    fn logs(&self, id: &str, attempt: Option<&str>) -> Option<io::Result<Archive>> {
        if self.access.is_open() {
            return self.served.logs(id, attempt);
        }
        loop {
            let mut refused = None;
            let archive = self.served.logs_seen(id, attempt, &mut |status| {
                let verdict = self.asker.decide(self.access, status, Right::View);
                refused = (verdict != Verdict::Allowed).then_some(verdict);
                refused.is_none()
            });
            let Some(verdict) = refused else { return archive };
            if !self.asker.has_learned_groups(self.access) {
                self.passes(verdict);
                return None;
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use firesteel_conf::Conf;
    use firesteel_status::Retention;
    use firesteel_types::{Event, JobId, StageId, Tick};

    use super::*;

    struct Served {
        status: AppStatus,
        is_live: bool,
    }

    fn served(properties: &[(&str, &str)], is_live: bool) -> Served {
        let retention = Retention { jobs: 5, stages: 5, tasks: 5, dead_executors: 5 };
        let mut status = AppStatus::new(retention);
        let owned = |(key, value): &(&str, &str)| ((*key).to_owned(), (*value).to_owned());
        status.take(Event::EnvironmentUpdate {
            properties: properties.iter().map(owned).collect(),
            runtime: Default::default(),
            resources: Default::default(),
            others: Default::default(),
        });
        status.take(Event::ApplicationStart {
            name: "n".to_owned(),
            app_id: "app-1".to_owned(),
            attempt_id: None,
            user: "owner".to_owned(),
            at: Tick(1),
            driver_log_urls: Default::default(),
            driver_attributes: Default::default(),
        });
        Served { status, is_live }
    }

    impl Applications for Served {
        fn list(&self) -> Vec<ApplicationEntry> {
            vec![ApplicationEntry::live(&self.status)]
        }

        fn with_status(&self, id: &str, _: Option<&str>, look: &mut dyn FnMut(&AppStatus)) -> bool {
            let is_it = id == "app-1";
            if is_it {
                look(&self.status);
            }
            is_it
        }

        fn is_live(&self) -> bool {
            self.is_live
        }

        fn control(&self) -> Option<&dyn Control> {
            self.is_live.then_some(self)
        }

        fn logs(&self, _: &str, _: Option<&str>) -> Option<io::Result<Archive>> {
            Some(Ok(Archive::default()))
        }
    }

    impl Control for Served {
        fn kill_job(&self, _: JobId, _: &str) {}

        fn kill_stage(&self, _: StageId, _: &str) {}
    }

    fn conf(settings: &[(&str, &str)]) -> Conf {
        let mut conf = Conf::new();
        settings.iter().for_each(|(key, value)| {
            conf.set(*key, value);
        });
        conf
    }

    #[test]
    fn a_running_application_is_shown_to_its_viewers_and_killed_by_its_modifiers() {
        let settings = [
            ("spark.acls.enable", "true"),
            ("spark.ui.view.acls", "vic,mod"),
            ("spark.modify.acls", "mod"),
        ];
        let access = Access::of_application(&conf(&settings)).unwrap();
        let served = served(&[], true);
        for (user, seen, kills) in [
            (Some("owner"), None, true),
            (Some("vic"), None, false),
            (Some("mod"), None, true),
            (Some("eve"), Some(Verdict::Denied), false),
            (None, Some(Verdict::Unidentified), false),
        ] {
            let guard = Guard::new(&served, &access, user, false);
            assert_eq!((guard.at_once(), guard.control().is_some()), (seen, kills), "{user:?}");
            assert_eq!(guard.refused(), None, "a page without a form is an answer");
            let mut looked = false;
            let found = guard.with_status("app-1", None, &mut |_| looked = true);
            assert_eq!((found, looked, guard.refused()), (seen.is_none(), seen.is_none(), seen));
            let form = Guard::new(&served, &access, user, true);
            assert_eq!((form.control().is_some(), form.refused().is_none()), (kills, kills));
        }
    }

    #[test]
    fn groups_of_the_system_count_as_lists_of_users_do() {
        let settings = [
            ("spark.acls.enable", "true"),
            ("spark.ui.view.acls.groups", "no-such-group,root"),
            ("spark.history.ui.acls.enable", "true"),
        ];
        let access = Access::of_application(&conf(&settings)).unwrap();
        let running = served(&[], true);
        let seen = |user| Guard::new(&running, &access, Some(user), false).at_once();
        assert_eq!((seen("root"), seen("eve")), (None, Some(Verdict::Denied)));
        let access = Access::of_history(&conf(&settings)).unwrap();
        let over = served(&[("spark.admin.acls.groups", "root")], false);
        for (user, is_seen) in [("root", true), ("eve", false)] {
            let guard = Guard::new(&over, &access, Some(user), false);
            assert_eq!(guard.logs("app-1", None).is_some(), is_seen, "{user}");
        }
    }

    #[test]
    fn a_history_server_takes_the_lists_of_each_log_and_its_own_admins() {
        let settings =
            [("spark.history.ui.acls.enable", "true"), ("spark.history.ui.admin.acls", "root")];
        let access = Access::of_history(&conf(&settings)).unwrap();
        let logged = [
            ("spark.acls.enable", "false"),
            ("spark.ui.view.acls", "vic"),
            ("spark.admin.acls", "ada"),
        ];
        let served = served(&logged, false);
        for (user, is_seen) in
            [("owner", true), ("vic", true), ("ada", true), ("root", true), ("eve", false)]
        {
            let guard = Guard::new(&served, &access, Some(user), false);
            assert_eq!(guard.at_once(), None, "{user} sees the list");
            assert_eq!(guard.logs("app-1", None).is_some(), is_seen, "{user}");
            assert_eq!(guard.refused().is_none(), is_seen, "{user}");
            assert!(!guard.with_status("other", None, &mut |_| {}));
        }
        let nobody = Guard::new(&served, &access, None, false);
        assert_eq!(nobody.at_once(), Some(Verdict::Unidentified));
        let open = Access::default();
        let guard = Guard::new(&served, &open, None, false);
        assert!(guard.at_once().is_none() && guard.logs("app-1", None).is_some());
    }
}
