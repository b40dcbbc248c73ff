//! Who sees the pages of a master or a worker and who may kill from them, where Spark's lists of users (`spark.acls.enable`) or its filter
//! (`spark.ui.filters`) say so.
//!
//! Who asks is told by the token that the filter wants, or, without a filter, by the connection: processes of this process's own user
//! on this machine.

use firesteel_conf::{Conf, entries};
use firesteel_jws::{Acls, JwsKey, Right, Verdict};
use hyper::StatusCode;
use hyper::header::{HeaderValue, WWW_AUTHENTICATE};

use crate::StartError;
use crate::token::TokenKeyError;
use crate::web::{Ends, HttpResponse, plain};

const UNIDENTIFIED: &str = "Only users in lists see this, and the request names nobody: send Authorization: Bearer and a token of the key \
                            spark.org.apache.spark.ui.JWSFilter.param.secretKey with the claim sub, to a server with \
                            spark.ui.filters=org.apache.spark.ui.JWSFilter, or ask on its machine as its user.\n";

/// What a server asks of those who make requests.
#[derive(Clone, Debug, Default)]
pub(crate) struct Access {
    /// Of the tokens that requests need; `None`: they need none.
    key: Option<JwsKey>,
    acls: Acls,
}

/// Who makes a request.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Asker<'a> {
    pub(crate) authorization: Option<&'a str>,
    /// The connection, unless a proxy speaks for somebody else.
    pub(crate) ends: Option<Ends>,
}

/// Why a request may be made.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Admitted {
    /// Everybody may make it: who asks was not looked at.
    Anybody,
    /// Who asks is proven, by a token or by the connection.
    Proven,
}

/// The lists of the settings. Those of groups are refused: the system may take seconds to say who is in one, and a master or a worker
/// has one thread.
pub(crate) fn lists(conf: &Conf) -> Result<Acls, StartError> {
    let groups =
        [&entries::ADMIN_ACLS_GROUPS, &entries::UI_VIEW_ACLS_GROUPS, &entries::MODIFY_ACLS_GROUPS];
    for entry in groups {
        if !conf.get(entry)?.is_empty() {
            return Err(StartError::ListOfGroups { key: entry.key().to_owned() });
        }
    }
    Ok(Acls {
        enabled: conf.get(&entries::ACLS_ENABLE)?,
        owner: String::new(),
        admins: conf.get(&entries::ADMIN_ACLS)?,
        viewers: conf.get(&entries::UI_VIEW_ACLS)?,
        modifiers: conf.get(&entries::MODIFY_ACLS)?,
        ..Acls::default()
    })
}

/// Those that [`lists`] has none of.
pub(crate) fn no_groups(_user: &str) -> Vec<String> {
    Vec::new()
}

async fn is_own_user(ends: Option<Ends>) -> bool {
    match ends {
        Some(ends) => ends.is_own_user().await,
        None => false,
    }
}

impl Access {
    pub(crate) fn from_conf(conf: &Conf) -> Result<Self, StartError> {
        let key = match conf.get(&entries::UI_FILTERS)? {
            None => None,
            Some(_) => {
                let text = conf.get(&entries::JWS_SECRET_KEY)?;
                let text = text.ok_or(TokenKeyError::Missing { filters: "spark.ui.filters" })?;
                Some(JwsKey::from_base64url(&text).ok_or(TokenKeyError::Invalid)?)
            }
        };
        let owner = std::env::var("USER").unwrap_or_default();
        Ok(Access { key, acls: Acls { owner, ..lists(conf)? } })
    }

    /// Whether everybody who reaches the server may look.
    pub(crate) fn is_open(&self) -> bool {
        self.key.is_none() && !self.acls.enabled
    }

    /// Whether requests need tokens of the filter's key, which take the only place for one.
    pub(crate) fn has_filter(&self) -> bool {
        self.key.is_some()
    }

    /// Whether lists say who may kill.
    pub(crate) fn has_lists(&self) -> bool {
        self.acls.enabled
    }

    /// Whether it may be done. May look through the connections of the machine.
    pub(crate) async fn check(
        &self,
        asker: Asker<'_>,
        right: Right,
    ) -> Result<Admitted, NotAllowed> {
        if self.is_open() {
            return Ok(Admitted::Anybody);
        }
        let (verdict, user) = match &self.key {
            Some(key) => {
                let claims = key.check(asker.authorization);
                let claims = claims.map_err(|words| NotAllowed::Denied(words.to_owned()))?;
                (self.acls.decide(claims.subject.as_deref(), &no_groups, right), claims.subject)
            }
            None => match self.acls.decide(None, &no_groups, right) {
                Verdict::Allowed => return Ok(Admitted::Anybody),
                // The user of this process has every right, whatever its name is.
                _ if is_own_user(asker.ends).await => (Verdict::Allowed, None),
                refused => (refused, None),
            },
        };
        match verdict {
            Verdict::Allowed => Ok(Admitted::Proven),
            Verdict::Unidentified => Err(NotAllowed::Unidentified),
            Verdict::Denied => {
                let what = match right {
                    Right::View => "access this page",
                    Right::Modify => "kill applications and drivers or decommission workers",
                };
                let user = user.unwrap_or_default();
                Err(NotAllowed::Denied(format!("User {user} is not authorized to {what}.\n")))
            }
        }
    }
}

/// Why a request is refused.
#[derive(Debug)]
pub(crate) enum NotAllowed {
    Unidentified,
    Denied(String),
}

impl NotAllowed {
    pub(crate) fn answer(self) -> HttpResponse {
        match self {
            NotAllowed::Denied(why) => plain(StatusCode::FORBIDDEN, why),
            NotAllowed::Unidentified => {
                let mut refused = plain(StatusCode::UNAUTHORIZED, UNIDENTIFIED);
                refused.headers_mut().insert(WWW_AUTHENTICATE, HeaderValue::from_static("Bearer"));
                refused
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use std::net::{TcpListener, TcpStream};

    use super::*;

    const KEY: &str =
        "VmlzaXQgaHR0cHM6Ly9zcGFyay5hcGFjaGUub3JnIHRvIGRvd25sb2FkIEFwYWNoZSBTcGFyay4=";

    fn access(settings: &[(&str, &str)]) -> Access {
        let mut conf = Conf::new();
        settings.iter().for_each(|(key, value)| {
            conf.set(*key, value);
        });
        Access::from_conf(&conf).unwrap()
    }

    async fn status(access: &Access, asker: Asker<'_>, right: Right) -> u16 {
        let refused = |why: NotAllowed| why.answer().status().as_u16();
        access.check(asker, right).await.map_or_else(refused, |_| 200)
    }

    #[tokio::test]
    async fn without_lists_and_filter_everybody_looks_and_a_filter_needs_its_key() {
        let nobody = Asker { authorization: None, ends: None };
        assert_eq!(status(&access(&[]), nobody, Right::View).await, 200);
        let mut conf = Conf::new();
        conf.set("spark.ui.filters", "org.apache.spark.ui.JWSFilter");
        let error = Access::from_conf(&conf).unwrap_err().to_string();
        assert!(error.starts_with("spark.ui.filters needs a key"), "{error}");
        let mut conf = Conf::new();
        conf.set("spark.admin.acls.groups", "operators");
        let error = Access::from_conf(&conf).unwrap_err().to_string();
        assert!(error.starts_with("spark.admin.acls.groups"), "{error}");
    }

    #[tokio::test]
    async fn tokens_name_users_and_lists_say_what_they_may() {
        let filter = [
            ("spark.ui.filters", "org.apache.spark.ui.JWSFilter"),
            ("spark.org.apache.spark.ui.JWSFilter.param.secretKey", KEY),
        ];
        let lists = [
            ("spark.acls.enable", "true"),
            ("spark.ui.view.acls", "vic"),
            ("spark.modify.acls", "mod"),
            ("spark.admin.acls", "ada"),
        ];
        let (filtered, listed) = (access(&filter), access(&[&filter[..], &lists].concat()));
        let key = JwsKey::from_base64url(KEY).unwrap();
        for (user, view, modify) in [
            (Some("vic"), 200, 403),
            (Some("mod"), 403, 200),
            (Some("ada"), 200, 200),
            (Some("eve"), 403, 403),
            (None, 401, 401),
        ] {
            let token = format!("Bearer {}", key.sign(user));
            let asker = Asker { authorization: Some(&token), ends: None };
            assert_eq!(status(&listed, asker, Right::View).await, view, "{user:?}");
            assert_eq!(status(&listed, asker, Right::Modify).await, modify, "{user:?}");
            assert_eq!(status(&filtered, asker, Right::View).await, 200, "any token will do");
        }
        let without = Asker { authorization: None, ends: None };
        assert_eq!(status(&filtered, without, Right::View).await, 403, "as Spark's filter has it");
    }

    #[tokio::test]
    async fn without_a_filter_the_servers_own_user_is_known_by_the_connection() {
        let listed = access(&[("spark.acls.enable", "true")]);
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let _client = TcpStream::connect(listener.local_addr().unwrap()).unwrap();
        let (server, peer) = listener.accept().unwrap();
        let ends = Ends { peer, own: server.local_addr().unwrap() };
        let own = Asker { authorization: None, ends: Some(ends) };
        let other = Asker { authorization: None, ends: None };
        for right in [Right::View, Right::Modify] {
            assert_eq!(listed.check(own, right).await.ok(), Some(Admitted::Proven));
            assert_eq!(status(&listed, other, right).await, 401);
        }
        let all = access(&[("spark.acls.enable", "true"), ("spark.ui.view.acls", "*")]);
        assert_eq!(all.check(other, Right::View).await.ok(), Some(Admitted::Anybody));
        assert_eq!(status(&all, other, Right::Modify).await, 401);
    }
}
