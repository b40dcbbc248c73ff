//! What proves to a server who asks for pages or its REST API, where it wants to know: the token of `--token-file`, or one made with
//! the key of Spark's filter (`spark.ui.filters`).
//!
//! A token says everything to who gets it: it is sent to addresses only that the user names.

use std::path::Path;

use firesteel_conf::{Conf, entries};
use firesteel_jws::JwsKey;

use crate::Failure;

/// A longer file is no token.
const LONGEST: u64 = 16 << 10;

/// Who asks.
#[derive(Clone, Default)]
pub(crate) enum Proof {
    /// Nobody in particular.
    #[default]
    None,
    /// The user of this process, signed with the key of the filter for each request.
    Key(JwsKey),
    /// Whom a token names that somebody else made.
    Token(String),
}

impl std::fmt::Debug for Proof {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("Proof(redacted)")
    }
}

impl Proof {
    pub(crate) fn of(conf: &Conf, file: Option<&Path>) -> Result<Self, Failure> {
        if let Some(file) = file {
            return Ok(Proof::Token(read(file)?));
        }
        if conf.get(&entries::UI_FILTERS)?.is_none() {
            return Ok(Proof::None);
        }
        let filters = entries::UI_FILTERS.key();
        let key = entries::JWS_SECRET_KEY.key();
        let text = conf.get(&entries::JWS_SECRET_KEY)?;
        let text =
            text.ok_or_else(|| format!("{filters} needs a key: set {key}, or give --token-file"))?;
        let made = JwsKey::from_base64url(&text);
        Ok(Proof::Key(made.ok_or_else(|| format!("{key} is no BASE64URL of at least 256 bits"))?))
    }

    /// For a request that is made now.
    pub(crate) fn token(&self) -> Option<String> {
        match self {
            Proof::None => None,
            Proof::Key(key) => Some(key.sign(std::env::var("USER").ok().as_deref())),
            Proof::Token(token) => Some(token.clone()),
        }
    }
}

/// One token, as it may stand in a header.
fn read(file: &Path) -> Result<String, Failure> {
    let failed = |error| format!("cannot read the token in {}: {error}", file.display());
    let length = std::fs::metadata(file).map_err(failed)?.len();
    let text = match length <= LONGEST {
        true => std::fs::read_to_string(file).map_err(failed)?,
        false => String::new(),
    };
    let token = text.trim();
    match !token.is_empty() && token.bytes().all(|it| it.is_ascii_graphic()) {
        true => Ok(token.to_owned()),
        false => Err(format!(
            "{} has no token: one line without blanks, of at most {LONGEST} bytes",
            file.display()
        )
        .into()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const KEY: &str =
        "VmlzaXQgaHR0cHM6Ly9zcGFyay5hcGFjaGUub3JnIHRvIGRvd25sb2FkIEFwYWNoZSBTcGFyay4=";

    #[test]
    fn a_proof_is_the_file_or_of_the_filters_key_or_nothing() {
        let mut conf = Conf::new();
        conf.set("spark.org.apache.spark.ui.JWSFilter.param.secretKey", KEY);
        assert!(Proof::of(&conf, None).unwrap().token().is_none(), "nobody asks for a filter");
        conf.set("spark.ui.filters", "org.apache.spark.ui.JWSFilter");
        let token = Proof::of(&conf, None).unwrap().token().unwrap();
        let key = JwsKey::from_base64url(KEY).unwrap();
        let claims = key.check(Some(&format!("Bearer {token}"))).unwrap();
        assert_eq!(claims.subject, std::env::var("USER").ok());
        let folder = tempfile::tempdir().unwrap();
        let file = folder.path().join("token");
        std::fs::write(&file, "abc.def.ghi\n").unwrap();
        let of = |conf: &Conf| Proof::of(conf, Some(&file)).map(|it| it.token());
        assert_eq!(of(&conf).unwrap().as_deref(), Some("abc.def.ghi"));
        for wrong in ["", "a b", "a\r\nX-Own: 1", "ä", &"x".repeat(1 << 15)] {
            std::fs::write(&file, wrong).unwrap();
            assert!(of(&conf).unwrap_err().to_string().contains("has no token"), "{wrong:?}");
        }
        conf.set("spark.org.apache.spark.ui.JWSFilter.param.secretKey", "dG9vIHNob3J0");
        assert!(Proof::of(&conf, None).unwrap_err().to_string().contains("256 bits"));
        let mut keyless = Conf::new();
        keyless.set("spark.ui.filters", "org.apache.spark.ui.JWSFilter");
        assert!(Proof::of(&keyless, None).unwrap_err().to_string().contains("--token-file"));
    }
}
