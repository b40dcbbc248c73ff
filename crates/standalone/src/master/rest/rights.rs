//! Who may do what over HTTP: a token lets in, and, where lists of users count (`spark.acls.enable`), only those who may change something
//! kill what others have submitted: users that tokens name (`spark.master.rest.filters`). Who is asked for no token is nobody.

use std::sync::Arc;

use firesteel_conf::Conf;
use firesteel_jws::{Acls, Right, Verdict};
use firesteel_standalone_core::DriverId;

use super::protocol::{Refusal, Request, refusal};
use crate::master::shell::Shell;
use crate::token::{Holder, TokenKey};
use crate::{StartError, access};

/// By whom a driver is run, as Spark tells its processes.
const USER: &str = "SPARK_USER";

pub(in super::super) struct Rights {
    /// `None`: everybody may do everything.
    key: Option<TokenKey>,
    acls: Acls,
}

impl Rights {
    pub(in super::super) fn new(key: Option<TokenKey>, conf: &Conf) -> Result<Self, StartError> {
        Ok(Rights { key, acls: access::lists(conf)? })
    }

    /// Whose token a request has; else why it is refused.
    pub(super) fn holder(&self, authorization: Option<&str>) -> Result<Holder, &'static str> {
        self.key.as_ref().map_or(Ok(Holder::User(None)), |key| key.holder(authorization))
    }

    /// The request, if it may be made. A driver is run by the user who submits it, if the token names one; where lists count, what the
    /// request itself says of its user proves nothing.
    pub(super) fn allow(
        &self,
        request: Request,
        holder: &Holder,
        shell: &Shell,
    ) -> Result<Request, Refusal> {
        let Holder::User(user) = holder else { return Ok(request) };
        match request {
            Request::Create { mut description, contents, unknown } => {
                if user.is_some() || self.acls.enabled {
                    let environment = &mut Arc::make_mut(&mut description).command.environment;
                    environment.remove(USER);
                    environment.extend(user.iter().map(|user| (USER.to_owned(), user.clone())));
                }
                Ok(Request::Create { description, contents, unknown })
            }
            Request::Kill(driver) => {
                self.changes(user.as_deref(), owner(&driver, shell))?;
                Ok(Request::Kill(driver))
            }
            Request::KillAll | Request::Clear | Request::Decommission(_) => {
                self.changes(user.as_deref(), None)?;
                Ok(request)
            }
            harmless => Ok(harmless),
        }
    }

    fn changes(&self, user: Option<&str>, owner: Option<String>) -> Result<(), Refusal> {
        let acls = Acls { owner: owner.unwrap_or_default(), ..self.acls.clone() };
        match acls.decide(user, &access::no_groups, Right::Modify) {
            Verdict::Allowed => Ok(()),
            Verdict::Unidentified => Err(refusal(
                403,
                "Only users in lists may do this (spark.acls.enable), and the request names nobody: it needs a token with the claim sub, and \
                 the master spark.master.rest.filters.",
            )),
            Verdict::Denied => {
                let user = user.unwrap_or_default();
                Err(refusal(
                    403,
                    format!("User {user} is not authorized to do this: see spark.modify.acls."),
                ))
            }
        }
    }
}

/// Who submitted a driver that is not over.
fn owner(driver: &DriverId, shell: &Shell) -> Option<String> {
    let (view, _) = shell.view();
    let found = view.active_drivers.iter().find(|it| it.driver == *driver)?;
    found.description.command.environment.get(USER).cloned()
}

#[cfg(test)]
mod tests {
    use firesteel_backend::command::Command;
    use firesteel_standalone_core::description::DriverDescription;
    use firesteel_standalone_core::master::MasterOptions;

    use super::*;

    fn user(name: &str) -> Holder {
        Holder::User(Some(name.to_owned()))
    }

    fn submission() -> Request {
        let mut command = Command::default();
        command.environment.insert(USER.to_owned(), "as the client says".to_owned());
        let description = DriverDescription {
            name: "driver".to_owned(),
            cores: 1,
            memory_mb: 1,
            supervise: false,
            command,
        };
        let description = Arc::new(description);
        Request::Create { description, contents: Vec::new(), unknown: Vec::new() }
    }

    #[tokio::test]
    async fn users_kill_what_they_submitted_and_only_those_in_lists_what_others_did() {
        let mut conf = Conf::new();
        conf.set("spark.acls.enable", true).set("spark.modify.acls", "mod");
        let rights = Rights::new(None, &conf).unwrap();
        let shell = Shell::new(MasterOptions::default(), None);
        shell.lead_alone();
        let Ok(Request::Create { description, .. }) =
            rights.allow(submission(), &user("ann"), &shell)
        else {
            panic!("everybody with a token submits");
        };
        assert_eq!(description.command.environment[USER], "ann", "whom the token names");
        use firesteel_standalone_core::messages::ToMaster;
        shell.ask(ToMaster::RequestSubmitDriver { description }).await.unwrap();
        let driver = shell.view().0.active_drivers[0].driver.clone();
        let may = |request, holder: Holder| rights.allow(request, &holder, &shell).is_ok();
        for (holder, kills, all) in [
            (user("ann"), true, false),
            (user("mod"), true, true),
            (user("eve"), false, false),
            (Holder::User(None), false, false),
            (Holder::OfSecret, true, true),
        ] {
            assert_eq!(may(Request::Kill(driver.clone()), holder.clone()), kills, "{holder:?}");
            let worker = Request::Decommission("w".to_owned());
            for request in [Request::KillAll, Request::Clear, worker] {
                assert_eq!(may(request, holder.clone()), all, "{holder:?}");
            }
            assert!(may(Request::Status(driver.clone()), holder.clone()), "{holder:?}");
        }
        for (holder, told) in [(Holder::User(None), None), (Holder::OfSecret, Some(()))] {
            let Ok(Request::Create { description, .. }) =
                rights.allow(submission(), &holder, &shell)
            else {
                panic!("everybody with a token submits");
            };
            let found = description.command.environment.get(USER).map(|_| ());
            assert_eq!(found, told, "{holder:?} is nobody's word: it would be somebody's driver");
        }
        let unasked = rights.holder(None).unwrap();
        for request in [Request::KillAll, Request::Kill(driver.clone())] {
            assert!(!may(request, unasked.clone()), "nobody is asked who they are");
        }
        let open = Rights::new(None, &Conf::new()).unwrap();
        assert!(open.allow(Request::KillAll, &open.holder(None).unwrap(), &shell).is_ok());
        let kept = open.allow(submission(), &Holder::User(None), &shell);
        let Ok(Request::Create { description, .. }) = kept else { panic!("no lists count") };
        assert_eq!(description.command.environment[USER], "as the client says");
        assert!(open.allow(Request::KillAll, &user("eve"), &shell).is_ok(), "no lists count");
    }
}
