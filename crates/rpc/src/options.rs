//! The settings of an environment, read once from a `Conf` into types.
//!
//! The process's variables come in as a function, so that only [`RpcOptions::from_process`] looks at
//! the process.

use std::os::unix::fs::PermissionsExt;
use std::path::Path;
use std::sync::Once;
use std::time::Duration;

use firesteel_conf::{ByteSize, Conf, entries};
use tracing::subscriber::NoSubscriber;

use crate::secret::{APPLICATION_IDENTITY, DEFAULT_IDENTITY, Identity, Keyring, Secret};
use crate::tls::Tls;
use crate::{SetupError, user_secret};

/// The variable that hands an application's secret to its processes, as Spark's does.
pub const SECRET_VARIABLE: &str = "_SPARK_AUTH_SECRET";

/// Everything an environment has to know.
#[derive(Clone, Debug)]
pub struct RpcOptions {
    /// How long an ask waits for its reply.
    pub ask_timeout: Duration,
    /// How long a lookup waits.
    pub lookup_timeout: Duration,
    /// How long making a connection may take.
    pub connect_timeout: Duration,
    /// How long a handshake may take, on both sides.
    pub handshake_timeout: Duration,
    /// How long a peer may be silent.
    pub network_timeout: Duration,
    /// How long the end of an environment waits for handlers and for what is still to be sent.
    pub shutdown_timeout: Duration,
    /// The largest message, in bytes.
    pub max_message: usize,
    /// How many bytes of messages may wait to be sent to one peer.
    pub outbox_bytes: usize,
    /// How many messages of this process may wait at one endpoint.
    pub inbox_messages: usize,
    /// How many connections may be in their handshake at once; half of them from one address.
    pub pending_handshakes: usize,
    /// How many connections one address may have.
    pub connections_per_address: usize,
    /// How many ports after the first are tried.
    pub port_retries: u32,
    /// How many streams run at once from one peer.
    pub stream_connections: usize,
    /// Whether a port may be open to other machines without a secret.
    pub insecure: bool,
    /// What this environment proves when it dials; with none it expects no proof either.
    pub identity: Option<Identity>,
    /// Who may dial; `None` lets everybody in.
    pub keyring: Option<Keyring>,
    /// TLS with certificates, when it is on.
    pub tls: Option<Tls>,
    /// Which connections of processes that share a secret use TLS without certificates of the user's.
    pub encryption: Encryption,
}

/// Which connections are encrypted where there are no certificates.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Encryption {
    /// No connection.
    Never,
    /// Those that others could listen to.
    BetweenMachines,
    /// Also those of a machine with itself.
    Always,
}

impl RpcOptions {
    /// Reads the settings with the variables of this process and, where they do not say whether there is a secret, with the secret
    /// of its user.
    pub fn from_process(conf: &Conf) -> Result<Self, SetupError> {
        let variable = |name: &str| std::env::var(name).ok();
        Self::read(conf, variable, user_secret::path().as_deref())
    }

    /// Reads the settings; `variable` looks an environment variable up.
    pub fn from_conf(
        conf: &Conf,
        variable: impl Fn(&str) -> Option<String>,
    ) -> Result<Self, SetupError> {
        Self::read(conf, variable, None)
    }

    fn read(
        conf: &Conf,
        variable: impl Fn(&str) -> Option<String>,
        of_user: Option<&Path>,
    ) -> Result<Self, SetupError> {
        let secret = find_secret(conf, variable, of_user)?;
        let identity = secret.map(|secret| Identity::new(DEFAULT_IDENTITY, secret)).transpose()?;
        let size = |entry| conf.get(entry).map(|ByteSize(bytes)| bytes as usize);
        let mut options = Self {
            ask_timeout: conf.get(&entries::RPC_ASK_TIMEOUT)?,
            lookup_timeout: conf.get(&entries::RPC_LOOKUP_TIMEOUT)?,
            connect_timeout: conf.get(&entries::RPC_CONNECTION_CREATION_TIMEOUT)?,
            handshake_timeout: conf.get(&entries::NETWORK_AUTH_RPC_TIMEOUT)?,
            network_timeout: conf.get(&entries::NETWORK_TIMEOUT)?,
            shutdown_timeout: Duration::from_secs(5),
            max_message: size(&entries::RPC_MESSAGE_MAX_SIZE)?,
            outbox_bytes: size(&entries::RPC_OUTBOX_SIZE)?,
            inbox_messages: conf.get(&entries::RPC_INBOX_CAPACITY)? as usize,
            pending_handshakes: 1024,
            connections_per_address: 4096,
            port_retries: conf.get(&entries::PORT_MAX_RETRIES)?,
            stream_connections: conf.get(&entries::STREAM_CONNECTIONS_PER_PEER)? as usize,
            insecure: conf.get(&entries::INSECURE)?,
            identity: None,
            keyring: None,
            tls: Tls::from_conf(conf)?,
            encryption: match conf.get(&entries::NETWORK_CRYPTO_ENABLED)? {
                true => Encryption::BetweenMachines,
                false => Encryption::Never,
            },
        };
        if let Some(identity) = identity {
            options.authenticate_as(identity);
        }
        Ok(options)
    }

    /// Proves this identity when dialling, and lets the same one in.
    pub fn authenticate_as(&mut self, identity: Identity) {
        self.keyring.get_or_insert_default().insert(identity.clone());
        self.identity = Some(identity);
    }

    /// Whether ports are opened to other machines where nobody names a host: with a secret that those may have, which the user's own
    /// on this machine is not, or without any if the user accepts that.
    pub fn admits_other_machines(&self, conf: &Conf) -> bool {
        let is_shared =
            self.keyring.is_some() && conf.setting(entries::AUTHENTICATE.key()).is_some();
        is_shared || self.insecure
    }

    /// The same settings between the processes of one application: its secret alone counts, also if
    /// there is none.
    #[must_use]
    pub fn for_application(&self, secret: Option<Secret>) -> Self {
        let identity = |secret| Identity::new(APPLICATION_IDENTITY, secret);
        self.for_identity(secret.map(|secret| identity(secret).expect("it is a valid name")))
    }

    /// The same settings for this identity alone, also if there is none.
    #[must_use]
    pub fn for_identity(&self, identity: Option<Identity>) -> Self {
        let mut options = Self { identity: None, keyring: None, ..self.clone() };
        if let Some(identity) = identity {
            options.authenticate_as(identity);
        }
        options
    }
}

impl Default for RpcOptions {
    /// Spark's defaults: no secret, no TLS.
    fn default() -> Self {
        Self::from_conf(&Conf::new(), |_| None).expect("defaults are valid")
    }
}

/// Where Spark looks, in its order: the variable, the setting, the file. Then the one of the user, which also counts if nobody
/// says whether there is to be any.
fn find_secret(
    conf: &Conf,
    variable: impl Fn(&str) -> Option<String>,
    of_user: Option<&Path>,
) -> Result<Option<Secret>, SetupError> {
    let of_user = || of_user.map_or(Ok(None), user_secret::read);
    let of_variable = || {
        let text = variable(SECRET_VARIABLE);
        text.map(|text| Secret::new(&text, "in _SPARK_AUTH_SECRET")).transpose()
    };
    if conf.setting(entries::AUTHENTICATE.key()).is_none() {
        // An executor is told the secret of its application, whatever its user has.
        return match conf.get(&entries::INSECURE)? {
            true => Ok(None),
            false => of_variable()?.map_or_else(of_user, |secret| Ok(Some(secret))),
        };
    }
    if !conf.get(&entries::AUTHENTICATE)? {
        return Ok(None);
    }
    if let Some(secret) = of_variable()? {
        Ok(Some(secret))
    } else if let Some(text) = conf.get(&entries::AUTHENTICATE_SECRET)? {
        Secret::new(&text, "in spark.authenticate.secret").map(Some)
    } else if let Some(path) = conf.get(&entries::AUTHENTICATE_SECRET_FILE)? {
        read_secret(Path::new(&path)).map(Some)
    } else {
        of_user()?.ok_or(SetupError::NoSecret).map(Some)
    }
}

fn read_secret(path: &Path) -> Result<Secret, SetupError> {
    let failed = |source| SetupError::ReadSecret { path: path.to_owned(), source };
    let text = std::fs::read_to_string(path).map_err(failed)?;
    let mode = std::fs::metadata(path).map_err(failed)?.permissions().mode();
    if let Some(warning) = exposure(path, mode) {
        // A process reads its settings more than once.
        static TOLD: Once = Once::new();
        TOLD.call_once(|| warn(&warning));
    }
    Secret::new(&text, &format!("in {}", path.display()))
}

/// What to say about a secret whose file has this mode, if others can read it. Such a file is not refused: a secret that
/// Kubernetes or Docker mounts often has such a mode, and nobody there can change it.
fn exposure(path: &Path, mode: u32) -> Option<String> {
    (mode & 0o077 != 0).then(|| {
        format!(
            "other users can read the secret in {} (spark.authenticate.secret.file has mode {:03o}): run chmod 600 on it, or have it \
             mounted with such a mode (defaultMode of a Kubernetes secret)",
            path.display(),
            mode & 0o777
        )
    })
}

/// In the process's log, or on its standard error if it keeps none.
fn warn(message: &str) {
    let has_log = tracing::dispatcher::get_default(|log| !log.is::<NoSubscriber>());
    if has_log {
        tracing::warn!("{message}");
    } else {
        eprintln!("firesteel: {message}");
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn conf(settings: &[(&str, &str)]) -> Conf {
        let mut conf = Conf::new();
        for (key, value) in settings {
            conf.set(*key, value);
        }
        conf
    }

    fn secret(conf: &Conf, variable: Option<&str>) -> Result<Option<String>, SetupError> {
        let options = RpcOptions::from_conf(conf, |name| {
            assert_eq!(name, SECRET_VARIABLE);
            variable.map(str::to_owned)
        })?;
        assert_eq!(options.identity.is_some(), options.keyring.is_some());
        Ok(options.identity.map(|identity| identity.secret().expose().to_owned()))
    }

    #[test]
    fn the_secret_is_looked_for_where_spark_looks_in_its_order() {
        let file = tempfile::NamedTempFile::new().unwrap();
        std::fs::write(file.path(), "of the file\n").unwrap();
        let path = file.path().to_str().unwrap();
        let mut settings =
            vec![("spark.authenticate", "true"), ("spark.authenticate.secret.file", path)];
        assert_eq!(secret(&conf(&settings), None).unwrap().unwrap(), "of the file");
        settings.push(("spark.authenticate.secret", "of the setting"));
        assert_eq!(secret(&conf(&settings), None).unwrap().unwrap(), "of the setting");
        let found = secret(&conf(&settings), Some("of the variable")).unwrap();
        assert_eq!(found.unwrap(), "of the variable");
        settings[0].1 = "false";
        assert_eq!(secret(&conf(&settings), Some("of the variable")).unwrap(), None);
    }

    #[test]
    fn the_secret_of_the_user_counts_where_nobody_says_otherwise() {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("secret");
        let found = |settings: &[(&str, &str)]| {
            let options = RpcOptions::read(&conf(settings), |_| None, Some(&path)).unwrap();
            options.identity.map(|identity| identity.secret().expose().to_owned())
        };
        assert_eq!(found(&[]), None, "there is none yet");
        let made = user_secret::ensure(&path).unwrap();
        assert_eq!(found(&[]).as_deref(), Some(made.expose()));
        assert_eq!(found(&[("spark.authenticate", "true")]).as_deref(), Some(made.expose()));
        assert_eq!(found(&[("spark.authenticate", "false")]), None);
        assert_eq!(found(&[("spark.firesteel.insecure", "true")]), None);
        let own = [("spark.authenticate", "true"), ("spark.authenticate.secret", "of the setting")];
        assert_eq!(found(&own).as_deref(), Some("of the setting"));
        let admits = |settings: &[(&str, &str)]| {
            let conf = conf(settings);
            RpcOptions::read(&conf, |_| None, Some(&path)).unwrap().admits_other_machines(&conf)
        };
        assert!(!admits(&[]) && !admits(&[("spark.authenticate", "false")]));
        assert!(admits(&own) && admits(&[("spark.firesteel.insecure", "true")]));
    }

    #[test]
    fn a_secret_that_others_can_read_is_taken_with_a_warning_that_says_what_to_do() {
        let path = Path::new("/etc/firesteel/secret");
        for mode in [0o100600, 0o100400, 0o100700] {
            assert_eq!(exposure(path, mode), None, "{mode:o}");
        }
        for (mode, told) in [(0o100644, "644"), (0o100440, "440"), (0o100606, "606")] {
            let warning = exposure(path, mode).unwrap();
            for word in ["/etc/firesteel/secret", "chmod 600", "defaultMode", told] {
                assert!(warning.contains(word), "{warning}");
            }
        }
        let file = tempfile::NamedTempFile::new().unwrap();
        std::fs::write(file.path(), "of the file").unwrap();
        std::fs::set_permissions(file.path(), std::fs::Permissions::from_mode(0o644)).unwrap();
        assert_eq!(read_secret(file.path()).unwrap().expose(), "of the file");
    }

    #[test]
    fn a_secret_that_is_missing_empty_or_unreadable_is_an_error_that_says_what_to_do() {
        let on = ("spark.authenticate", "true");
        for (setting, needle) in [
            (on, "openssl rand -hex 32"),
            (("spark.authenticate.secret", " "), "is empty"),
            (("spark.authenticate.secret.file", "/nowhere/at/all"), "/nowhere/at/all"),
        ] {
            let error = secret(&conf(&[on, setting]), None).unwrap_err().to_string();
            assert!(error.contains(needle), "{error}");
        }
    }

    #[test]
    fn an_application_knows_its_own_secret_and_not_the_clusters() {
        let settings = [("spark.authenticate", "true"), ("spark.authenticate.secret", "of all")];
        let cluster = RpcOptions::from_conf(&conf(&settings), |_| None).unwrap();
        let options = cluster.for_application(Some(Secret::generate()));
        let identity = options.identity.unwrap();
        assert_eq!(identity.name(), APPLICATION_IDENTITY);
        assert_ne!(identity.secret().expose(), "of all");
        let keyring = options.keyring.unwrap();
        assert!(keyring.find(DEFAULT_IDENTITY).is_none());
        assert!(keyring.find(APPLICATION_IDENTITY).is_some());
        assert!(cluster.keyring.unwrap().find(DEFAULT_IDENTITY).is_some(), "it is left alone");
    }

    #[test]
    fn asks_wait_as_long_as_the_network_unless_told_otherwise() {
        let asks =
            |conf: &Conf| RpcOptions::from_conf(conf, |_| None).unwrap().ask_timeout.as_secs();
        assert_eq!(asks(&conf(&[])), 120);
        assert_eq!(asks(&conf(&[("spark.network.timeout", "60s")])), 60);
        assert_eq!(asks(&conf(&[("spark.rpc.askTimeout", "5")])), 5);
        assert_eq!(RpcOptions::default().max_message, 128 << 20);
    }
}
