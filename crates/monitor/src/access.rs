//! Who may see an application and who may kill its jobs, as Spark's `SecurityManager` decides: [`Acls::decide`] is a function of
//! lists and a name. Who asks is told by the token of a request.
//!
//! One thing differs from Spark: where lists count, a request that names nobody is refused. Spark lets it through.

use firesteel_conf::{Conf, ConfError, entries};
use firesteel_jws::JwsKey;
use firesteel_status::AppStatus;

/// In a list: everybody.
const WILDCARD: &str = "*";

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
}

/// What a request needs.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Right {
    View,
    /// To kill jobs and stages.
    Modify,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Verdict {
    Allowed,
    /// The request names nobody, and has to.
    Unidentified,
    Denied,
}

/// The lists of users of one application.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Acls {
    /// `false`: everybody may do everything.
    pub enabled: bool,
    /// Who runs the application, and has every right.
    pub owner: String,
    pub admins: Vec<String>,
    pub viewers: Vec<String>,
    pub modifiers: Vec<String>,
}

impl Acls {
    /// Whether a user, or a request that names nobody, has a right.
    pub fn decide(&self, user: Option<&str>, right: Right) -> Verdict {
        let own = match right {
            Right::View => &self.viewers,
            Right::Modify => &self.modifiers,
        };
        let is_listed = |name: &str| self.admins.iter().chain(own).any(|listed| listed == name);
        match user.filter(|user| !user.is_empty()) {
            _ if !self.enabled || is_listed(WILDCARD) => Verdict::Allowed,
            None => Verdict::Unidentified,
            Some(user) if user == self.owner || is_listed(user) => Verdict::Allowed,
            Some(_) => Verdict::Denied,
        }
    }

    /// The lists that settings have.
    fn from_conf(conf: &Conf) -> Result<Self, ConfError> {
        Ok(Acls {
            enabled: conf.get(&entries::ACLS_ENABLE)?,
            owner: String::new(),
            admins: conf.get(&entries::ADMIN_ACLS)?,
            viewers: conf.get(&entries::UI_VIEW_ACLS)?,
            modifiers: conf.get(&entries::MODIFY_ACLS)?,
        })
    }

    /// The lists that an application had, as its log tells. Nobody is in a list that cannot be read.
    fn logged(status: &AppStatus) -> Self {
        let lists = [entries::ADMIN_ACLS.key(), entries::UI_VIEW_ACLS.key()];
        let mut conf = Conf::new();
        for (key, value) in &status.application().properties {
            if lists.contains(&key.as_str()) {
                conf.set(key.as_str(), value);
            }
        }
        Self::from_conf(&conf).unwrap_or_default()
    }
}

/// Which lists count.
#[derive(Clone, Debug, Default)]
enum Lists {
    /// None: everybody sees everything.
    #[default]
    Open,
    /// Those of the application that runs in this process.
    Own(Acls),
    /// Those of each log, and who sees all of them.
    Logged { admins: Vec<String> },
}

/// How a server finds out who asks, and what they may do.
#[derive(Clone, Debug, Default)]
pub struct Access {
    /// Of the tokens that requests need; `None`: they need none.
    key: Option<JwsKey>,
    lists: Lists,
}

impl Access {
    /// As a running application has it.
    pub fn of_application(conf: &Conf) -> Result<Self, AccessError> {
        let own = Acls::from_conf(conf)?;
        let lists = if own.enabled { Lists::Own(own) } else { Lists::Open };
        Ok(Access { key: key(conf)?, lists })
    }

    /// As a history server has it.
    pub fn of_history(conf: &Conf) -> Result<Self, AccessError> {
        let admins = conf.get(&entries::HISTORY_UI_ADMIN_ACLS)?;
        let lists = match conf.get(&entries::HISTORY_UI_ACLS_ENABLE)? {
            true => Lists::Logged { admins },
            false => Lists::Open,
        };
        Ok(Access { key: key(conf)?, lists })
    }

    /// Whether lists count and no request can say who makes it: then each one is refused.
    pub fn refuses_everybody(&self) -> bool {
        let refuses = match &self.lists {
            Lists::Open => false,
            Lists::Own(acls) => acls.decide(None, Right::View) != Verdict::Allowed,
            Lists::Logged { .. } => true,
        };
        self.key.is_none() && refuses
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
            Lists::Logged { admins } => {
                let mut acls = Acls::logged(status);
                // What the application wanted of its own pages does not matter here.
                acls.enabled = true;
                acls.admins.extend(admins.iter().cloned());
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

    fn list(names: &str) -> Vec<String> {
        names.split(',').filter(|name| !name.is_empty()).map(str::to_owned).collect()
    }

    #[test]
    fn rights_follow_from_lists_as_spark_decides() {
        use Right::{Modify, View};
        use Verdict::{Allowed, Denied, Unidentified};
        // Enabled, admins, viewers, modifiers, who asks, what for.
        let table = [
            ((false, "", "", ""), None, View, Allowed),
            ((false, "", "", ""), Some("eve"), Modify, Allowed),
            ((true, "", "", ""), None, View, Unidentified),
            ((true, "", "", ""), Some(""), View, Unidentified),
            ((true, "", "", ""), Some("owner"), View, Allowed),
            ((true, "", "", ""), Some("owner"), Modify, Allowed),
            ((true, "", "", ""), Some("eve"), View, Denied),
            ((true, "ada", "vic", "mod"), Some("ada"), View, Allowed),
            ((true, "ada", "vic", "mod"), Some("ada"), Modify, Allowed),
            ((true, "ada", "vic", "mod"), Some("vic"), View, Allowed),
            ((true, "ada", "vic", "mod"), Some("vic"), Modify, Denied),
            ((true, "ada", "vic", "mod"), Some("mod"), Modify, Allowed),
            ((true, "ada", "vic", "mod"), Some("mod"), View, Denied),
            ((true, "ada", "vic", "mod"), Some("VIC"), View, Denied),
            ((true, "ada", "vic", "mod"), Some("*"), View, Denied),
            ((true, "", "*", ""), Some("eve"), View, Allowed),
            ((true, "", "*", ""), None, View, Allowed),
            ((true, "", "*", ""), Some("eve"), Modify, Denied),
            ((true, "", "", "*"), Some("eve"), Modify, Allowed),
            ((true, "*", "", ""), Some("eve"), Modify, Allowed),
            ((true, "*", "", ""), Some("eve"), View, Allowed),
        ];
        for ((enabled, admins, viewers, modifiers), user, right, verdict) in table {
            let owner = "owner".to_owned();
            let (admins, viewers, modifiers) = (list(admins), list(viewers), list(modifiers));
            let acls = Acls { enabled, owner, admins, viewers, modifiers };
            assert_eq!(acls.decide(user, right), verdict, "{acls:?} {user:?} {right:?}");
        }
        let nobodys = Acls { enabled: true, ..Acls::default() };
        assert_eq!(nobodys.decide(Some(""), View), Unidentified, "no owner is nobody");
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
