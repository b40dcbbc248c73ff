//! Tokens that prove that a request over HTTP may be made, as Spark's `JWSFilter` takes them: `Authorization: Bearer` and a JSON Web
//! Signature, signed with a key that both sides have.
//!
//! The key is a setting, or made of the cluster's secret. Only signatures by HMAC count, and a token that says when it expires
//! has to be used before.

use std::time::{Duration, SystemTime, UNIX_EPOCH};

use base64::Engine;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use firesteel_conf::{Conf, ConfError, entries};
use firesteel_rpc::RpcOptions;
use ring::hmac;
use serde_json::Value;

/// What the key is made for of a secret.
const PURPOSE: &str = "firesteel rest 2026 token";
/// What the key of readers is made for of that.
const LOGS_PURPOSE: &str = "firesteel worker logs 2026 token";
/// For how long a token of our own counts. It is used at once.
const LIFETIME: Duration = Duration::from_secs(300);
/// How far clocks may differ.
const SKEW: Duration = Duration::from_secs(60);

/// Why there is no key.
#[derive(Debug, thiserror::Error)]
pub enum TokenKeyError {
    /// A setting is wrong.
    #[error(transparent)]
    Conf(#[from] ConfError),
    /// The filter has no key.
    #[error(
        "spark.master.rest.filters needs a key: set spark.org.apache.spark.ui.JWSFilter.param.secretKey"
    )]
    Missing,
    /// The key is none.
    #[error(
        "spark.org.apache.spark.ui.JWSFilter.param.secretKey is no BASE64URL of at least 256 bits: `openssl rand -base64 32 | tr +/ -_` \
         makes one"
    )]
    Invalid,
}

/// Signs tokens, and tells whether others did.
#[derive(Clone)]
pub struct TokenKey(Vec<u8>);

impl std::fmt::Debug for TokenKey {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("TokenKey(redacted)")
    }
}

impl TokenKey {
    /// The key of the filter, or of the secret; `None` if there is neither.
    pub fn from_settings(conf: &Conf, rpc: &RpcOptions) -> Result<Option<Self>, TokenKeyError> {
        if conf.get(&entries::MASTER_REST_FILTERS)?.is_some() {
            let text = conf.get(&entries::JWS_SECRET_KEY)?.ok_or(TokenKeyError::Missing)?;
            let key = URL_SAFE_NO_PAD.decode(text.trim().trim_end_matches('='));
            let key = key.ok().filter(|key| key.len() >= 32).ok_or(TokenKeyError::Invalid)?;
            return Ok(Some(Self(key)));
        }
        let secret = rpc.identity.as_ref().map(|identity| identity.secret().expose());
        Ok(secret.map(|secret| Self(blake3::derive_key(PURPOSE, secret.as_bytes()).into())))
    }

    #[cfg(test)]
    pub(crate) fn of(key: Vec<u8>) -> Self {
        Self(key)
    }

    /// The key of tokens for readers of output: with one of these nothing can be submitted, should a server that is no worker get it.
    pub fn for_logs(&self) -> Self {
        Self(blake3::derive_key(LOGS_PURPOSE, &self.0).into())
    }

    /// A token for a request that is made now.
    pub fn sign(&self) -> String {
        let expires = (SystemTime::now() + LIFETIME).duration_since(UNIX_EPOCH).unwrap_or_default();
        let claims = format!(r#"{{"iss":"firesteel","exp":{}}}"#, expires.as_secs());
        self.sign_claims("HS256", &claims)
    }

    fn sign_claims(&self, algorithm: &str, claims: &str) -> String {
        let header = format!(r#"{{"alg":"{algorithm}"}}"#);
        let [header, claims] = [header.as_str(), claims].map(|part| URL_SAFE_NO_PAD.encode(part));
        let signed = format!("{header}.{claims}");
        let key = self.key(algorithm).expect("it is one of ours");
        let signature = URL_SAFE_NO_PAD.encode(hmac::sign(&key, signed.as_bytes()));
        format!("{signed}.{signature}")
    }

    fn key(&self, algorithm: &str) -> Option<hmac::Key> {
        let (algorithm, least) = match algorithm {
            "HS256" => (hmac::HMAC_SHA256, 32),
            "HS384" => (hmac::HMAC_SHA384, 48),
            "HS512" => (hmac::HMAC_SHA512, 64),
            _ => return None,
        };
        (self.0.len() >= least).then(|| hmac::Key::new(algorithm, &self.0))
    }

    /// Whether the header of a request has such a token; else Spark's words for it.
    pub(crate) fn check(&self, authorization: Option<&str>) -> Result<(), &'static str> {
        let header = authorization.ok_or("Authorization header is missing.")?;
        let token = header.strip_prefix("Bearer ").ok_or("Malformed Authorization header.")?;
        match self.verify(token.trim(), SystemTime::now()) {
            Some(()) => Ok(()),
            None => Err("JWT Validate Fail"),
        }
    }

    fn verify(&self, token: &str, now: SystemTime) -> Option<()> {
        let (signed, signature) = token.rsplit_once('.')?;
        let (header, claims) = signed.split_once('.')?;
        let decode = |part: &str| URL_SAFE_NO_PAD.decode(part).ok();
        let header: Value = serde_json::from_slice(&decode(header)?).ok()?;
        let key = self.key(header.get("alg")?.as_str()?)?;
        hmac::verify(&key, signed.as_bytes(), &decode(signature)?).ok()?;
        let claims: Value = serde_json::from_slice(&decode(claims)?).ok()?;
        let moment = |name: &str| match claims.get(name) {
            None => Some(None),
            Some(value) => Some(Some(
                UNIX_EPOCH.checked_add(Duration::try_from_secs_f64(value.as_f64()?).ok()?)?,
            )),
        };
        let expired = moment("exp")?.is_some_and(|end| end < now - SKEW);
        let early = moment("nbf")?.is_some_and(|begin| begin > now + SKEW);
        (!expired && !early).then_some(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn key(byte: u8, length: usize) -> TokenKey {
        TokenKey(vec![byte; length])
    }

    #[test]
    fn a_token_counts_for_its_key_until_it_expires_and_a_changed_one_never() {
        let (key, other, now) = (key(1, 64), key(2, 64), SystemTime::now());
        assert!(key.check(Some(&format!("Bearer {}", key.sign()))).is_ok());
        for algorithm in ["HS256", "HS384", "HS512"] {
            let token = key.sign_claims(algorithm, r#"{"user":"dongjoon"}"#);
            assert!(key.verify(&token, now).is_some(), "{algorithm}");
            assert!(other.verify(&token, now).is_none(), "{algorithm}");
            for at in 0..token.len() {
                let mut changed = token.clone().into_bytes();
                changed[at] = if changed[at] == b'A' { b'Q' } else { b'A' };
                let changed = String::from_utf8(changed).unwrap();
                assert!(key.verify(&changed, now).is_none(), "{changed}");
            }
        }
        let token = key.sign();
        assert!(key.verify(&token, now + LIFETIME + SKEW * 2).is_none(), "it is expired");
        let later = key.sign_claims("HS256", r#"{"nbf":99999999999}"#);
        assert!(key.verify(&later, now).is_none(), "it is not valid yet");
        assert!(key.verify(&key.sign_claims("HS256", r#"{"exp":"x"}"#), now).is_none());
    }

    #[test]
    fn what_is_no_signed_token_is_refused_in_sparks_words() {
        let key = key(1, 32);
        let unsigned = format!(
            "Bearer {}.{}.",
            URL_SAFE_NO_PAD.encode(r#"{"alg":"none"}"#),
            URL_SAFE_NO_PAD.encode("{}")
        );
        for (header, words) in [
            (None, "Authorization header is missing."),
            (Some("Basic dXNlcg=="), "Malformed Authorization header."),
            (Some("Bearer x"), "JWT Validate Fail"),
            (Some("Bearer a.b.c"), "JWT Validate Fail"),
            (Some("Bearer é..."), "JWT Validate Fail"),
            (Some(&*unsigned), "JWT Validate Fail"),
        ] {
            assert_eq!(key.check(header), Err(words), "{header:?}");
        }
        assert!(key.key("HS512").is_none(), "the key is too short for that");
    }

    #[test]
    fn the_key_is_the_filters_or_of_the_secret() {
        let mut conf = Conf::new();
        conf.set("spark.authenticate", true)
            .set("spark.authenticate.secret", "swordfish, and long");
        let rpc = RpcOptions::from_conf(&conf, |_| None).unwrap();
        let of_secret = TokenKey::from_settings(&conf, &rpc).unwrap().unwrap();
        assert!(TokenKey::from_settings(&Conf::new(), &RpcOptions::default()).unwrap().is_none());
        conf.set("spark.master.rest.filters", "org.apache.spark.ui.JWSFilter");
        assert!(matches!(TokenKey::from_settings(&conf, &rpc), Err(TokenKeyError::Missing)));
        let key = "spark.org.apache.spark.ui.JWSFilter.param.secretKey";
        conf.set(key, "dG9vIHNob3J0");
        assert!(matches!(TokenKey::from_settings(&conf, &rpc), Err(TokenKeyError::Invalid)));
        // The example of Spark's documentation, and a token that another library made for it.
        conf.set(
            key,
            "VmlzaXQgaHR0cHM6Ly9zcGFyay5hcGFjaGUub3JnIHRvIGRvd25sb2FkIEFwYWNoZSBTcGFyay4=",
        );
        let of_filter = TokenKey::from_settings(&conf, &rpc).unwrap().unwrap();
        let token =
            "eyJhbGciOiJIUzI1NiIsInR5cCI6IkpXVCJ9.e30.4EKWlOkobpaAPR0J4BE0cPQ-ZD1tRQKLZp1vtE7upPw";
        assert!(of_filter.verify(token, SystemTime::now()).is_some(), "{token}");
        assert!(of_secret.verify(token, SystemTime::now()).is_none());
        assert_eq!(format!("{of_filter:?}"), "TokenKey(redacted)");
    }
}
