//! Spark's settings that promise safety which is not here. They are refused: a user who sets one would believe to be
//! protected. Values that promise nothing pass.

use crate::conf::{Conf, Setting};
use crate::{ConfError, entries};

/// Settings that promise the same.
struct Promise {
    keys: &'static [&'static str],
    /// The value, besides none at all, with which they promise nothing.
    harmless: &'static str,
    /// Why it would not be kept, and what there is instead.
    reason: &'static str,
}

/// Kept by TLS, unless that is off.
const ENCRYPTED_CONNECTIONS: Promise = Promise {
    keys: &["spark.authenticate.enableSaslEncryption", "spark.network.sasl.serverAlwaysEncrypt"],
    harmless: "false",
    reason: "connections are encrypted by TLS here, which spark.network.crypto.enabled=false turns off: leave that out",
};

const PROMISES: &[Promise] = &[
    ENCRYPTED_CONNECTIONS,
    Promise {
        keys: &["spark.io.encryption.enabled"],
        harmless: "false",
        reason: "files of shuffles, spills and cached partitions are not encrypted here: use an encrypted disk for \
                 spark.local.dir",
    },
    Promise {
        keys: &["spark.master.rest.allowedAppResourcePatterns"],
        harmless: "",
        reason: "a master takes any executable that is submitted over HTTP: set spark.master.rest.enabled=false",
    },
    Promise {
        keys: &["spark.master.rest.host"],
        harmless: "",
        reason: "a master takes submissions over HTTP at the host it binds (--host)",
    },
    Promise {
        keys: &["spark.ssl.historyServer.enabled", "spark.ssl.ui.enabled"],
        harmless: "false",
        reason: "no page is served with TLS here; spark.ssl.rpc.enabled=true protects connections between processes",
    },
    Promise {
        keys: &[
            "spark.ssl.needClientAuth",
            "spark.ssl.rpc.needClientAuth",
            "spark.ssl.standalone.needClientAuth",
            "spark.ssl.ui.needClientAuth",
        ],
        harmless: "false",
        reason: "nobody is asked for a certificate here: a secret (spark.authenticate=true) keeps others out",
    },
    Promise {
        keys: &[
            "spark.ssl.enabledAlgorithms",
            "spark.ssl.rpc.enabledAlgorithms",
            "spark.ssl.standalone.enabledAlgorithms",
            "spark.ssl.ui.enabledAlgorithms",
        ],
        harmless: "",
        reason: "connections use any cipher suite of TLS 1.3 here, and no older version",
    },
];

/// Every key that promises something.
pub(crate) fn keys() -> impl Iterator<Item = &'static str> {
    PROMISES.iter().flat_map(|promise| promise.keys).copied()
}

/// Why a setting is refused, if it promises what is not kept.
pub(crate) fn unkept(conf: &Conf, key: &str, setting: &Setting) -> Option<ConfError> {
    let promise = PROMISES.iter().find(|promise| promise.keys.contains(&key))?;
    let is_harmless =
        setting.value.is_empty() || setting.value.eq_ignore_ascii_case(promise.harmless);
    if is_harmless || is_kept_by_tls(conf, key) {
        return None;
    }
    let instead = match promise.harmless {
        "" => format!("; leave {key} out"),
        harmless => format!("; leave {key} out, or write {key}={harmless}"),
    };
    let reason = format!("{}{instead}", promise.reason);
    Some(ConfError::Refused { key: key.to_owned(), origin: setting.origin.clone(), reason })
}

fn is_kept_by_tls(conf: &Conf, key: &str) -> bool {
    let is_on = |entry| conf.get(entry).is_ok_and(|enabled| enabled);
    ENCRYPTED_CONNECTIONS.keys.contains(&key)
        && (is_on(&entries::SSL_RPC_ENABLED) || is_on(&entries::NETWORK_CRYPTO_ENABLED))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::spark_names;

    /// Without TLS, where the settings do not say otherwise.
    fn refusal(settings: &[(&str, &str)]) -> Option<String> {
        let mut conf = Conf::new();
        conf.set("spark.network.crypto.enabled", false);
        for (key, value) in settings {
            conf.set(*key, value);
        }
        conf.validate().err().map(|error| error.to_string())
    }

    #[test]
    fn a_setting_that_would_not_protect_is_refused_and_one_that_promises_nothing_passes() {
        for promise in PROMISES {
            for key in promise.keys {
                let text = refusal(&[(key, "something")]).expect("refused");
                assert!(
                    text.starts_with(&format!("{key} (from the program) is refused: ")),
                    "{text}"
                );
                assert!(!text.contains("something"), "it may be a secret: {text}");
                let lower = promise.harmless.to_lowercase();
                for harmless in ["", promise.harmless, &lower] {
                    assert_eq!(refusal(&[(key, harmless)]), None, "{key}={harmless}");
                }
            }
        }
        let text = refusal(&[("spark.ssl.ui.enabled", "true")]).unwrap();
        assert!(text.ends_with("or write spark.ssl.ui.enabled=false"), "{text}");
        let all = [("spark.ssl.ui.enabled", "true"), ("spark.io.encryption.enabled", "true")];
        assert!(refusal(&all).unwrap().starts_with("2 settings are refused:"));
    }

    #[test]
    fn tls_keeps_the_promise_of_encrypted_connections() {
        for key in ENCRYPTED_CONNECTIONS.keys {
            let told = refusal(&[(key, "true")]).unwrap();
            assert!(told.contains("spark.network.crypto.enabled=false"), "{told}");
            for on in ["spark.network.crypto.enabled", "spark.ssl.rpc.enabled", "spark.ssl.enabled"]
            {
                assert_eq!(refusal(&[(key, "true"), (on, "true")]), None);
            }
            let off =
                [(*key, "true"), ("spark.ssl.enabled", "true"), ("spark.ssl.rpc.enabled", "false")];
            assert!(refusal(&off).is_some(), "{key}");
        }
    }

    #[test]
    fn what_is_refused_is_spelt_as_spark_does_and_not_registered() {
        for key in keys() {
            assert_eq!(spark_names::look_up(key), Some(spark_names::Known::ByName), "{key}");
            assert!(entries::find(key).is_none(), "{key} is registered: it is kept now");
        }
    }
}
