//! Who may do what: a token lets in, and, where lists of users count (`spark.acls.enable`), only those who may change something kill what
//! others have submitted, and only those who may see it hear how far it is: users that tokens name (`spark.master.rest.filters`). Who is
//! asked for no token, or for no secret inside messages, is nobody.

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
                self.check(user.as_deref(), owner(&driver, shell), &[Right::Modify])?;
                Ok(Request::Kill(driver))
            }
            // Who may end a driver may look whether it has ended.
            Request::Status(driver) => {
                let enough = [Right::View, Right::Modify];
                self.check(user.as_deref(), owner(&driver, shell), &enough)?;
                Ok(Request::Status(driver))
            }
            Request::KillAll | Request::Clear | Request::Decommission(_) => {
                self.check(user.as_deref(), None, &[Right::Modify])?;
                Ok(request)
            }
            harmless => Ok(harmless),
        }
    }

    /// Whether a user has one of these rights.
    fn check(
        &self,
        user: Option<&str>,
        owner: Option<String>,
        enough: &[Right],
    ) -> Result<(), Refusal> {
        if !self.acls.enabled {
            return Ok(());
        }
        let acls = Acls { owner: owner.unwrap_or_default(), ..self.acls.clone() };
        let has = |right: &Right| acls.decide(user, &access::no_groups, *right) == Verdict::Allowed;
        if enough.iter().any(has) {
            return Ok(());
        }
        Err(match user.filter(|user| !user.is_empty()) {
            None => refusal(
                403,
                "Only users in lists may do this (spark.acls.enable), and the request names nobody: it needs a token with the claim sub, and \
                 the master spark.master.rest.filters; or the cluster's secret.",
            ),
            Some(user) => {
                let lists = match enough.contains(&Right::View) {
                    true => "spark.ui.view.acls and spark.modify.acls",
                    false => "spark.modify.acls",
                };
                refusal(403, format!("User {user} is not authorized to do this: see {lists}."))
            }
        })
    }
}

/// Who submitted a driver. One that is not known is nobody's: users that are in no list do not even hear that.
fn owner(driver: &DriverId, shell: &Shell) -> Option<String> {
    let (view, _) = shell.view();
    let mut all = view.active_drivers.iter().chain(&view.completed_drivers);
    let found = all.find(|it| it.driver == *driver)?;
    found.description.command.environment.get(USER).cloned()
}

#[cfg(test)]
mod tests {
    use firesteel_backend::command::Command;
    use firesteel_standalone_core::description::DriverDescription;
    use firesteel_standalone_core::master::MasterOptions;

    use super::super::protocol::Reply;
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
        conf.set("spark.ui.view.acls", "vic");
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
        let unknown = DriverId::new("driver-of-nobody");
        for (holder, sees, kills, all) in [
            (user("ann"), true, true, false),
            (user("mod"), true, true, true),
            (user("vic"), true, false, false),
            (user("eve"), false, false, false),
            (user(""), false, false, false),
            (Holder::User(None), false, false, false),
            (Holder::OfSecret, true, true, true),
        ] {
            assert_eq!(may(Request::Kill(driver.clone()), holder.clone()), kills, "{holder:?}");
            assert_eq!(may(Request::Status(driver.clone()), holder.clone()), sees, "{holder:?}");
            let sees = sees && holder != user("ann");
            assert_eq!(may(Request::Status(unknown.clone()), holder.clone()), sees, "{holder:?}");
            let worker = Request::Decommission("w".to_owned());
            for request in [Request::KillAll, Request::Clear, worker] {
                assert_eq!(may(request, holder.clone()), all, "{holder:?}");
            }
            assert!(may(Request::Readyz, holder.clone()), "{holder:?}");
        }
        let refused = |request| match rights.allow(request, &user("eve"), &shell) {
            Err(refusal) => Reply::refused(refusal).json(),
            Ok(_) => panic!("eve is in no list"),
        };
        let told = refused(Request::Status(driver.clone()));
        assert!(told.contains("spark.ui.view.acls and spark.modify.acls"), "{told}");
        let told = refused(Request::Kill(driver.clone()));
        assert!(told.contains("do this: see spark.modify.acls."), "{told}");
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
        let status = Request::Status(driver.clone());
        for request in [Request::KillAll, Request::Kill(driver.clone()), status] {
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
