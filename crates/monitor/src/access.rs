//! Who may see an application and who may kill its jobs: which lists count, and who asks, which the token of a request tells.

use std::net::SocketAddr;

use std::sync::Arc;

use firesteel_conf::{Conf, ConfError, entries};
pub use firesteel_jws::{Acls, Right, Verdict};
use firesteel_jws::{JwsKey, is_own_user};
use firesteel_status::AppStatus;

use crate::groups::Groups;

/// Why a server cannot tell who asks.
#[derive(Debug, thiserror::Error)]
pub enum AccessError {
    #[error(transparent)]
    Conf(#[from] ConfError),
    #[error(
        "spark.ui.filters needs a key: set spark.org.apache.spark.ui.JWSFilter.param.secretKey"
    )]
    MissingKey,
    #[error(
        "spark.org.apache.spark.ui.JWSFilter.param.secretKey is no BASE64URL of at least 256 bits: `openssl rand -base64 32 | tr +/ -_` \
         makes one"
    )]
    InvalidKey,
    #[error(
        "spark.user.groups.mapping={mapping} is not known here: leave it out, and the system is asked (`id -Gn`)"
    )]
    Mapping { mapping: String },
}

/// Who knows the groups of users: the only one here.
const SHELL: &str = "org.apache.spark.security.ShellBasedGroupsMappingProvider";

/// The lists that settings have.
fn lists_of(conf: &Conf) -> Result<Acls, ConfError> {
    Ok(Acls {
        enabled: conf.get(&entries::ACLS_ENABLE)?,
        owner: String::new(),
        admins: conf.get(&entries::ADMIN_ACLS)?,
        viewers: conf.get(&entries::UI_VIEW_ACLS)?,
        modifiers: conf.get(&entries::MODIFY_ACLS)?,
        admin_groups: conf.get(&entries::ADMIN_ACLS_GROUPS)?,
        viewer_groups: conf.get(&entries::UI_VIEW_ACLS_GROUPS)?,
        modifier_groups: conf.get(&entries::MODIFY_ACLS_GROUPS)?,
    })
}

/// The lists that an application had, as its log tells. Nobody is in a list that cannot be read.
fn logged(status: &AppStatus) -> Acls {
    let lists = [
        entries::ADMIN_ACLS.key(),
        entries::UI_VIEW_ACLS.key(),
        entries::ADMIN_ACLS_GROUPS.key(),
        entries::UI_VIEW_ACLS_GROUPS.key(),
    ];
    let mut conf = Conf::new();
    for (key, value) in &status.application().properties {
        if lists.contains(&key.as_str()) {
            conf.set(key.as_str(), value);
        }
    }
    lists_of(&conf).unwrap_or_default()
}

#[derive(Clone, Debug, Default)]
enum Lists {
    /// None: everybody sees everything.
    #[default]
    Open,
    /// Those of the application that runs in this process.
    Own(Acls),
    /// Those of each log, and who sees all of them.
    Logged { admins: Vec<String>, admin_groups: Vec<String> },
}

/// How a server finds out who asks, and what they may do.
#[derive(Clone, Debug, Default)]
pub struct Access {
    /// Of the tokens that requests need; `None`: they need none.
    key: Option<JwsKey>,
    lists: Lists,
    /// Nobody has said who may kill: only the user of this process may, who asks on this machine.
    own_user_kills: bool,
    groups: Arc<Groups>,
}

impl Access {
    /// As a running application has it.
    pub fn of_application(conf: &Conf) -> Result<Self, AccessError> {
        let own = lists_of(conf)?;
        let lists = if own.enabled { Lists::Own(own) } else { Lists::Open };
        let is_said = conf.setting(entries::UI_KILL_ENABLED.key()).is_some();
        let mut access = Self::new(conf, lists)?;
        access.own_user_kills = access.key.is_none() && access.is_open() && !is_said;
        Ok(access)
    }

    /// As a history server has it.
    pub fn of_history(conf: &Conf) -> Result<Self, AccessError> {
        let admins = conf.get(&entries::HISTORY_UI_ADMIN_ACLS)?;
        let admin_groups = conf.get(&entries::HISTORY_UI_ADMIN_ACLS_GROUPS)?;
        let lists = match conf.get(&entries::HISTORY_UI_ACLS_ENABLE)? {
            true => Lists::Logged { admins, admin_groups },
            false => Lists::Open,
        };
        Self::new(conf, lists)
    }

    fn new(conf: &Conf, lists: Lists) -> Result<Self, AccessError> {
        let mapping = conf.get(&entries::USER_GROUPS_MAPPING)?;
        match mapping.as_str() {
            SHELL => {
                Ok(Access { key: key(conf)?, lists, own_user_kills: false, groups: Arc::default() })
            }
            _ => Err(AccessError::Mapping { mapping }),
        }
    }

    /// The groups of a user, which the system may take seconds to tell.
    pub(crate) fn groups_of(&self, user: &str) -> Vec<String> {
        self.groups.of(user)
    }

    /// Whether lists count and no request can say who makes it: then each one is refused.
    pub fn refuses_everybody(&self) -> bool {
        let refuses = match &self.lists {
            Lists::Open => false,
            Lists::Own(acls) => acls.decide(None, &|_| Vec::new(), Right::View) != Verdict::Allowed,
            Lists::Logged { .. } => true,
        };
        self.key.is_none() && refuses
    }

    /// Whether a form of this connection may be looked at. Its ends are not known where it is over already.
    pub(crate) fn takes_forms_of(&self, ends: Option<(SocketAddr, SocketAddr)>) -> bool {
        !self.own_user_kills || ends.is_some_and(|(peer, own)| is_own_user(peer, own))
    }

    pub(crate) fn is_open(&self) -> bool {
        matches!(self.lists, Lists::Open)
    }

    /// Who makes a request, if it says so; else Spark's words for a token that does not count.
    pub(crate) fn user(&self, authorization: Option<&str>) -> Result<Option<String>, &'static str> {
        match &self.key {
            Some(key) => Ok(key.check(authorization)?.subject.filter(|user| !user.is_empty())),
            None => Ok(None),
        }
    }

    /// The lists of an application.
    pub(crate) fn acls(&self, status: &AppStatus) -> Acls {
        let mut acls = match &self.lists {
            Lists::Open => return Acls::default(),
            Lists::Own(acls) => acls.clone(),
            Lists::Logged { admins, admin_groups } => {
                let mut acls = logged(status);
                // What the application wanted of its own pages does not matter here.
                acls.enabled = true;
                acls.admins.extend(admins.iter().cloned());
                acls.admin_groups.extend(admin_groups.iter().cloned());
                acls
            }
        };
        acls.owner.clone_from(&status.application().user);
        acls
    }
}

/// The key that the filter of the settings asks for.
fn key(conf: &Conf) -> Result<Option<JwsKey>, AccessError> {
    if conf.get(&entries::UI_FILTERS)?.is_none() {
        return Ok(None);
    }
    let text = conf.get(&entries::JWS_SECRET_KEY)?.ok_or(AccessError::MissingKey)?;
    JwsKey::from_base64url(&text).ok_or(AccessError::InvalidKey).map(Some)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_mapping_of_groups_that_is_not_there_is_refused() {
        let mut conf = Conf::new();
        conf.set("spark.user.groups.mapping", SHELL);
        assert!(Access::of_application(&conf).is_ok());
        conf.set("spark.user.groups.mapping", "org.example.Ldap");
        for access in [Access::of_application(&conf), Access::of_history(&conf)] {
            let refused = access.unwrap_err().to_string();
            assert!(
                refused.contains("org.example.Ldap") && refused.contains("id -Gn"),
                "{refused}"
            );
        }
    }

    #[test]
    fn a_filter_needs_a_key_and_lists_without_one_refuse_everybody() {
        let mut conf = Conf::new();
        assert!(Access::of_application(&conf).unwrap().is_open());
        conf.set("spark.acls.enable", true).set("spark.history.ui.acls.enable", true);
        for access in [Access::of_application(&conf), Access::of_history(&conf)] {
            let access = access.unwrap();
            assert!(access.refuses_everybody() && access.user(None) == Ok(None));
        }
        conf.set("spark.ui.view.acls", "*");
        assert!(!Access::of_application(&conf).unwrap().refuses_everybody());
        conf.set("spark.ui.filters", "org.apache.spark.ui.JWSFilter");
        let error = Access::of_history(&conf).unwrap_err();
        assert!(matches!(error, AccessError::MissingKey), "{error}");
        let name = "spark.org.apache.spark.ui.JWSFilter.param.secretKey";
        conf.set(name, "short");
        let error = Access::of_application(&conf).unwrap_err();
        assert!(matches!(error, AccessError::InvalidKey), "{error}");
        let text = "VmlzaXQgaHR0cHM6Ly9zcGFyay5hcGFjaGUub3JnIHRvIGRvd25sb2FkIEFwYWNoZSBTcGFyay4=";
        conf.set(name, text);
        let access = Access::of_application(&conf).unwrap();
        assert!(!access.refuses_everybody());
        assert_eq!(access.user(None), Err("Authorization header is missing."));
        let token = format!("Bearer {}", JwsKey::from_base64url(text).unwrap().sign(Some("ada")));
        assert_eq!(access.user(Some(&token)), Ok(Some("ada".to_owned())));
    }
}
