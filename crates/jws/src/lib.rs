//! Tokens that prove that a request over HTTP may be made, as Spark's `JWSFilter` takes them: `Authorization: Bearer` and a JSON Web
//! Signature, signed with a key that both sides have.
//!
//! Only signatures by HMAC count, and a token that says when it expires has to be used before. A token may name the user who
//! makes the request: the claim `sub`. Where the key comes from is not known here.
//!
//! Who asks from this very machine is known without a token: [`is_own_user`]. What they may do follows from lists of users: [`Acls`].

mod acls;
mod neighbour;

pub use acls::{Acls, Right, Verdict};
pub use neighbour::is_own_user;

use std::time::{Duration, SystemTime, UNIX_EPOCH};

use base64::Engine;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use ring::hmac;
use serde_json::Value;

/// For how long a token of our own counts. It is used at once.
const LIFETIME: Duration = Duration::from_secs(300);
/// How far clocks may differ.
const SKEW: Duration = Duration::from_secs(60);
/// The shortest key, in bytes.
const SHORTEST: usize = 32;

/// Signs tokens, and tells whether others did.
#[derive(Clone)]
pub struct JwsKey(Vec<u8>);

impl std::fmt::Debug for JwsKey {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("JwsKey(redacted)")
    }
}

/// What a token says whose signature is right.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Claims {
    /// The user who makes the request: `sub`. `None`: the token names nobody.
    pub subject: Option<String>,
}

impl JwsKey {
    /// From the text of a setting, in BASE64URL; `None`: it is none, or has less than 256 bits.
    pub fn from_base64url(text: &str) -> Option<Self> {
        let key = URL_SAFE_NO_PAD.decode(text.trim().trim_end_matches('=')).ok()?;
        (key.len() >= SHORTEST).then_some(Self(key))
    }

    /// From bytes that were derived of a secret.
    pub fn from_bytes(key: [u8; SHORTEST]) -> Self {
        Self(key.into())
    }

    /// To derive other keys of it. Never to be shown.
    pub fn expose(&self) -> &[u8] {
        &self.0
    }

    /// A token for a request that is made now, by a user or by nobody in particular.
    pub fn sign(&self, subject: Option<&str>) -> String {
        let expires = (SystemTime::now() + LIFETIME).duration_since(UNIX_EPOCH).unwrap_or_default();
        let mut claims = serde_json::json!({"iss": "firesteel", "exp": expires.as_secs()});
        if let Some(subject) = subject {
            claims["sub"] = subject.into();
        }
        self.sign_claims("HS256", &claims.to_string())
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

    /// What the token in the header of a request says; else Spark's words for what is wrong with it.
    pub fn check(&self, authorization: Option<&str>) -> Result<Claims, &'static str> {
        let header = authorization.ok_or("Authorization header is missing.")?;
        let token = header.strip_prefix("Bearer ").ok_or("Malformed Authorization header.")?;
        self.verify(token.trim(), SystemTime::now()).ok_or("JWT Validate Fail")
    }

    fn verify(&self, token: &str, now: SystemTime) -> Option<Claims> {
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
        let subject = claims.get("sub").and_then(Value::as_str).map(str::to_owned);
        (!expired && !early).then_some(Claims { subject })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn key(byte: u8, length: usize) -> JwsKey {
        JwsKey(vec![byte; length])
    }

    #[test]
    fn a_token_counts_for_its_key_until_it_expires_and_a_changed_one_never() {
        let (key, other, now) = (key(1, 64), key(2, 64), SystemTime::now());
        assert!(key.check(Some(&format!("Bearer {}", key.sign(None)))).is_ok());
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
        let token = key.sign(None);
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
    fn a_token_names_its_user_or_nobody() {
        let key = key(1, 32);
        let subject = |token: String| key.check(Some(&format!("Bearer {token}"))).unwrap().subject;
        assert_eq!(subject(key.sign(Some("al\"ice"))).as_deref(), Some("al\"ice"));
        assert_eq!(subject(key.sign(None)), None);
        assert_eq!(subject(key.sign_claims("HS256", r#"{"sub":7}"#)), None);
    }

    #[test]
    fn a_key_is_read_as_spark_documents_it() {
        assert!(JwsKey::from_base64url("dG9vIHNob3J0").is_none(), "it is too short");
        assert!(JwsKey::from_base64url("no base64!").is_none());
        // The example of Spark's documentation, and a token that another library made for it.
        let key = JwsKey::from_base64url(
            "VmlzaXQgaHR0cHM6Ly9zcGFyay5hcGFjaGUub3JnIHRvIGRvd25sb2FkIEFwYWNoZSBTcGFyay4=",
        )
        .unwrap();
        let token =
            "eyJhbGciOiJIUzI1NiIsInR5cCI6IkpXVCJ9.e30.4EKWlOkobpaAPR0J4BE0cPQ-ZD1tRQKLZp1vtE7upPw";
        assert!(key.verify(token, SystemTime::now()).is_some(), "{token}");
        assert_eq!(format!("{key:?}"), "JwsKey(redacted)");
    }
}
