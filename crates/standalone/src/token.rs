//! The keys of tokens that prove that a request over HTTP may be made; `firesteel-jws` signs and checks them.
//!
//! The key is a setting, or made of the cluster's secret.

use std::net::SocketAddr;

use firesteel_conf::{Conf, ConfError, entries};
use firesteel_jws::JwsKey;
use firesteel_rpc::{RpcAddress, RpcOptions};

use crate::web::reaches_others;

/// What the key is made for of a secret.
const PURPOSE: &str = "firesteel rest 2026 token";
/// What the key of readers is made for of that.
const LOGS_PURPOSE: &str = "firesteel worker logs 2026 token";

/// What the key of readers is made for of that, at one worker.
const AT_PURPOSE: &str = "firesteel worker logs 2026 token of one address";

/// Why there is no key.
#[derive(Debug, thiserror::Error)]
pub enum TokenKeyError {
    /// A setting is wrong.
    #[error(transparent)]
    Conf(#[from] ConfError),
    /// The filter of this setting has no key.
    #[error("{filters} needs a key: set spark.org.apache.spark.ui.JWSFilter.param.secretKey")]
    Missing { filters: &'static str },
    /// The key is none.
    #[error(
        "spark.org.apache.spark.ui.JWSFilter.param.secretKey is no BASE64URL of at least 256 bits: `openssl rand -base64 32 | tr +/ -_` \
         makes one"
    )]
    Invalid,
}

/// Signs tokens, and tells whether others did.
#[derive(Clone, Debug)]
pub struct TokenKey {
    key: JwsKey,
    /// Whether it is the filter's: its tokens name the users who have them. Others are of those who have the cluster's secret, and may
    /// do everything.
    names_users: bool,
}

impl TokenKey {
    /// The key of the filter, or of the secret; `None` if there is neither.
    pub fn from_settings(conf: &Conf, rpc: &RpcOptions) -> Result<Option<Self>, TokenKeyError> {
        if conf.get(&entries::MASTER_REST_FILTERS)?.is_some() {
            let missing = TokenKeyError::Missing { filters: entries::MASTER_REST_FILTERS.key() };
            let text = conf.get(&entries::JWS_SECRET_KEY)?.ok_or(missing)?;
            let key = JwsKey::from_base64url(&text).ok_or(TokenKeyError::Invalid)?;
            return Ok(Some(Self { key, names_users: true }));
        }
        Ok(Self::of_secret(rpc))
    }

    /// The key of the secret, if there is one.
    pub(crate) fn of_secret(rpc: &RpcOptions) -> Option<Self> {
        let secret = rpc.identity.as_ref().map(|identity| identity.secret().expose());
        secret.map(|secret| Self::derived(PURPOSE, secret.as_bytes()))
    }

    fn derived(purpose: &str, of: &[u8]) -> Self {
        Self::of(blake3::derive_key(purpose, of))
    }

    pub(crate) fn of(key: [u8; 32]) -> Self {
        Self { key: JwsKey::from_bytes(key), names_users: false }
    }

    /// The key of tokens for readers of output: with one of these nothing can be submitted, should a server that is no worker get it.
    pub fn for_logs(&self) -> Self {
        Self::derived(LOGS_PURPOSE, self.key.expose())
    }

    /// The key of tokens that only the server at this address takes: another one that gets such a token can do nothing with it.
    pub fn at(&self, address: &RpcAddress) -> Self {
        let of = [self.key.expose(), address.to_string().as_bytes()].concat();
        Self::derived(AT_PURPOSE, &of)
    }

    /// A token for a request that is made now, by the user of this process.
    pub fn sign(&self) -> String {
        let user = std::env::var("USER").ok().filter(|_| self.names_users);
        self.key.sign(user.as_deref())
    }

    /// Whether the header of a request has such a token; else Spark's words for it.
    pub(crate) fn check(&self, authorization: Option<&str>) -> Result<(), &'static str> {
        self.key.check(authorization).map(drop)
    }

    /// The same, and who makes the request.
    pub(crate) fn holder(&self, authorization: Option<&str>) -> Result<Holder, &'static str> {
        let claims = self.key.check(authorization)?;
        Ok(match self.names_users {
            true => Holder::User(claims.subject.filter(|user| !user.is_empty())),
            false => Holder::OfSecret,
        })
    }

    /// Whether the header of a request has a token for an address of the server that it came to: the one that the server tells others,
    /// or the one at which it was reached. A loopback address is every machine's, and another program may get tokens for it there: it
    /// counts only for a server that tells others such an address.
    pub(crate) fn check_at(
        &self,
        told: Option<&RpcAddress>,
        reached: Option<SocketAddr>,
        authorization: Option<&str>,
    ) -> Result<(), &'static str> {
        let reached = reached.map(|it| (it.ip().to_canonical(), it.port()));
        let is_told_as_loopback = told.is_some_and(|told| !reaches_others(&told.host));
        let reached = reached.filter(|(ip, _)| is_told_as_loopback || !ip.is_loopback());
        let reached = reached.map(|(ip, port)| RpcAddress::new(ip.to_string(), port));
        let mut refusal = None;
        for at in told.into_iter().chain(&reached) {
            match self.at(at).check(authorization) {
                Ok(()) => return Ok(()),
                Err(why) => refusal = refusal.or(Some(why)),
            }
        }
        Err(refusal.unwrap_or("the server has no address"))
    }
}

/// Who has a token.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Holder {
    /// Somebody who has the cluster's secret.
    OfSecret,
    /// The user that it names; `None`: it names nobody.
    User(Option<String>),
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_key_is_the_filters_or_of_the_secret() {
        let mut conf = Conf::new();
        conf.set("spark.authenticate", true)
            .set("spark.authenticate.secret", "swordfish, and long");
        let rpc = RpcOptions::from_conf(&conf, |_| None).unwrap();
        let of_secret = TokenKey::from_settings(&conf, &rpc).unwrap().unwrap();
        assert!(TokenKey::from_settings(&Conf::new(), &RpcOptions::default()).unwrap().is_none());
        conf.set("spark.master.rest.filters", "org.apache.spark.ui.JWSFilter");
        assert!(matches!(TokenKey::from_settings(&conf, &rpc), Err(TokenKeyError::Missing { .. })));
        let key = "spark.org.apache.spark.ui.JWSFilter.param.secretKey";
        conf.set(key, "dG9vIHNob3J0");
        assert!(matches!(TokenKey::from_settings(&conf, &rpc), Err(TokenKeyError::Invalid)));
        // The example of Spark's documentation, and a token that another library made for it.
        conf.set(
            key,
            "VmlzaXQgaHR0cHM6Ly9zcGFyay5hcGFjaGUub3JnIHRvIGRvd25sb2FkIEFwYWNoZSBTcGFyay4=",
        );
        let of_filter = TokenKey::from_settings(&conf, &rpc).unwrap().unwrap();
        let token = "Bearer \
            eyJhbGciOiJIUzI1NiIsInR5cCI6IkpXVCJ9.e30.4EKWlOkobpaAPR0J4BE0cPQ-ZD1tRQKLZp1vtE7upPw";
        assert!(of_filter.check(Some(token)).is_ok(), "{token}");
        assert!(of_secret.check(Some(token)).is_err());
        let own = format!("Bearer {}", of_secret.sign());
        assert!(of_secret.check(Some(&own)).is_ok());
        assert!(of_secret.for_logs().check(Some(&own)).is_err(), "it is a key of its own");
        let [here, there] = ["node-1:8081", "node-2:8081"].map(|it| it.parse().unwrap());
        let logs = of_secret.for_logs();
        let bound = format!("Bearer {}", logs.at(&here).sign());
        assert!(logs.at(&here).check(Some(&bound)).is_ok());
        assert!(logs.at(&there).check(Some(&bound)).is_err() && logs.check(Some(&bound)).is_err());
        assert_eq!(of_secret.holder(Some(&own)), Ok(Holder::OfSecret));
        assert_eq!(of_filter.holder(Some(token)), Ok(Holder::User(None)));
        let shown = format!("{of_filter:?}");
        assert!(shown.contains("JwsKey(redacted)"), "{shown}");
    }

    #[test]
    fn tokens_count_for_the_address_told_and_for_the_one_reached_unless_every_machine_has_that() {
        let key = TokenKey::of([7; 32]);
        for (told, reached, of, may) in [
            (Some("node-1:8080"), Some("10.0.0.7:8080"), "node-1:8080", true),
            (Some("node-1:8080"), Some("10.0.0.7:8080"), "10.0.0.7:8080", true),
            (Some("node-1:8080"), Some("[::ffff:10.0.0.7]:8080"), "10.0.0.7:8080", true),
            (Some("node-1:8080"), Some("10.0.0.7:8080"), "10.0.0.8:8080", false),
            (Some("node-1:8080"), Some("10.0.0.7:8080"), "node-1:8081", false),
            // A token that another server got at 127.0.0.1 of another machine.
            (Some("node-1:8080"), Some("127.0.0.1:8080"), "127.0.0.1:8080", false),
            (Some("node-1:8080"), Some("[::1]:8080"), "[::1]:8080", false),
            (Some("node-1:8080"), Some("127.0.0.1:8080"), "node-1:8080", true),
            (Some("localhost:8080"), Some("127.0.0.1:8080"), "127.0.0.1:8080", true),
            (Some("127.0.0.1:8080"), Some("[::ffff:127.0.0.1]:8080"), "127.0.0.1:8080", true),
            (None, Some("127.0.0.1:8080"), "127.0.0.1:8080", false),
            (None, None, "node-1:8080", false),
        ] {
            let told: Option<RpcAddress> = told.map(|it| it.parse().unwrap());
            let token = format!("Bearer {}", key.at(&of.parse().unwrap()).sign());
            let reached = reached.map(|it| it.parse().unwrap());
            let found = key.check_at(told.as_ref(), reached, Some(&token));
            assert_eq!(found.is_ok(), may, "{of} at {told:?}, {reached:?}");
        }
    }
}
