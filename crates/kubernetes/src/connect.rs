//! How to reach an API server, and who asks: kubeconfig, the pod's own service account, or explicit credentials.
//!
//! | where it runs | what counts |
//! |---|---|
//! | `KUBECONFIG` or `~/.kube/config` is there | the context of `spark.kubernetes.context`, else the current one |
//! | in a pod without such a file | the pod's service account |
//! | anywhere | `spark.kubernetes.authenticate.*` over either |
//!
//! The server is the one of the master URL, whatever a file says. Files of tokens are read again by a new client.

use std::path::PathBuf;
use std::time::Duration;

use firesteel_conf::{Conf, Entry, entries};
use kube::client::ClientBuilder;
use kube::config::{AuthInfo, KubeConfigOptions, Kubeconfig, KubeconfigError};
use kube::{Client, Config};
use tower::util::AndThenLayer;

use crate::Error;
use crate::answer::chain;
use crate::retry_after::heed;

/// The name by which pods reach the API server of their cluster.
pub(crate) const IN_CLUSTER: &str = "https://kubernetes.default.svc";

/// Who asks: each has settings of its own.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Caller {
    Driver,
    Submission,
}

impl Caller {
    /// Authorities, key, certificate, token, file of a token.
    fn credentials(self) -> [&'static Entry<Option<String>>; 5] {
        match self {
            Caller::Driver => [
                &entries::KUBERNETES_CA_CERT_FILE,
                &entries::KUBERNETES_CLIENT_KEY_FILE,
                &entries::KUBERNETES_CLIENT_CERT_FILE,
                &entries::KUBERNETES_OAUTH_TOKEN,
                &entries::KUBERNETES_OAUTH_TOKEN_FILE,
            ],
            Caller::Submission => [
                &entries::KUBERNETES_SUBMISSION_CA_CERT_FILE,
                &entries::KUBERNETES_SUBMISSION_CLIENT_KEY_FILE,
                &entries::KUBERNETES_SUBMISSION_CLIENT_CERT_FILE,
                &entries::KUBERNETES_SUBMISSION_OAUTH_TOKEN,
                &entries::KUBERNETES_SUBMISSION_OAUTH_TOKEN_FILE,
            ],
        }
    }

    fn timeouts(self, conf: &Conf) -> Result<(Duration, Duration), Error> {
        Ok(match self {
            Caller::Driver => (
                conf.get(&entries::KUBERNETES_DRIVER_CONNECTION_TIMEOUT)?,
                conf.get(&entries::KUBERNETES_DRIVER_REQUEST_TIMEOUT)?,
            ),
            Caller::Submission => (
                conf.get(&entries::KUBERNETES_SUBMISSION_CONNECTION_TIMEOUT)?,
                conf.get(&entries::KUBERNETES_SUBMISSION_REQUEST_TIMEOUT)?,
            ),
        })
    }
}

/// What is to be known to make a client, again and again.
#[derive(Clone, Debug)]
pub(crate) struct Connection {
    url: String,
    context: Option<String>,
    trusts_any: bool,
    credentials: [Option<String>; 5],
    connect: Duration,
    request: Duration,
}

impl Connection {
    /// Reads the settings, and looks whether the files are there that they name.
    pub(crate) fn new(url: &str, conf: &Conf, caller: Caller) -> Result<Self, Error> {
        let [ca, key, certificate, token, token_file] = caller.credentials();
        let value = |entry: &Entry<Option<String>>| conf.get(entry);
        let credentials =
            [value(ca)?, value(key)?, value(certificate)?, value(token)?, value(token_file)?];
        for (entry, path) in [ca, key, certificate, token_file].into_iter().zip([
            &credentials[0],
            &credentials[1],
            &credentials[2],
            &credentials[4],
        ]) {
            if let Some(path) = path {
                let failed = |source| Error::File { key: entry.key(), path: path.into(), source };
                std::fs::File::open(path).map_err(failed)?;
            }
        }
        let (connect, request) = caller.timeouts(conf)?;
        Ok(Connection {
            url: url.to_owned(),
            context: conf.get(&entries::KUBERNETES_CONTEXT)?,
            trusts_any: conf.get(&entries::KUBERNETES_TRUST_CERTIFICATES)?,
            credentials,
            connect,
            request,
        })
    }

    pub(crate) fn url(&self) -> &str {
        &self.url
    }

    /// How long a request waits for its answer.
    pub(crate) fn request_timeout(&self) -> Duration {
        self.request
    }

    /// A client with the credentials as they are now.
    pub(crate) async fn client(&self) -> Result<Client, Error> {
        let config = self.config().await?;
        client_of(config).map_err(|error| self.unusable(chain(&error)))
    }

    fn unusable(&self, reason: String) -> Error {
        Error::Client { url: self.url.clone(), reason }
    }

    async fn config(&self) -> Result<Config, Error> {
        let mut config = self.found().await?;
        let [ca, key, certificate, token, token_file] = &self.credentials;
        if let Some(ca) = ca {
            (config.root_cert_file, config.root_cert) = (Some(PathBuf::from(ca)), None);
        }
        if key.is_some() || certificate.is_some() || token.is_some() || token_file.is_some() {
            config.auth_info = AuthInfo {
                token: token.clone().map(Into::into),
                token_file: token_file.clone(),
                client_key: key.clone(),
                client_certificate: certificate.clone(),
                ..AuthInfo::default()
            };
        }
        config.accept_invalid_certs |= self.trusts_any;
        config.connect_timeout = Some(self.connect);
        // The allocator decides when to ask again.
        config.default_retry = false;
        Ok(config)
    }

    /// What the surroundings say, with the server of the master URL.
    async fn found(&self) -> Result<Config, Error> {
        let server = self.url.parse().map_err(|_| self.unusable("it is not a URL".to_owned()))?;
        let mut config = match kubeconfig(self.context.as_deref())? {
            Some(file) => {
                let options = KubeConfigOptions { context: self.context.clone(), ..<_>::default() };
                let found = Config::from_custom_kubeconfig(file, &options).await;
                found.map_err(|error| unreadable(&error))?
            }
            None => match Config::incluster() {
                // Its address is known without asking for its name.
                Ok(config) if self.url == IN_CLUSTER => return Ok(config),
                Ok(config) => config,
                Err(_) => Config::new("https://none.invalid".parse().expect("it is a URL")),
            },
        };
        config.cluster_url = server;
        Ok(config)
    }
}

/// A client that hears how long an API server wants to be left alone.
pub(crate) fn client_of(config: Config) -> kube::Result<Client> {
    Ok(ClientBuilder::try_from(config)?.with_layer(&AndThenLayer::new(heed)).build())
}

/// The kubeconfig of the user, if there is one. A context can only be had from one.
fn kubeconfig(context: Option<&str>) -> Result<Option<Kubeconfig>, Error> {
    match Kubeconfig::read() {
        Ok(file) => Ok(Some(file)),
        Err(KubeconfigError::ReadConfig(error, path)) => {
            let absent = error.kind() == std::io::ErrorKind::NotFound;
            let asked = std::env::var_os("KUBECONFIG").is_some();
            match (absent && !asked, context) {
                (true, None) => Ok(None),
                (true, Some(context)) => Err(Error::Kubeconfig {
                    reason: format!(
                        "spark.kubernetes.context is {context}, and there is no file {}",
                        path.display()
                    ),
                }),
                (false, _) => {
                    Err(Error::Kubeconfig { reason: format!("{}: {error}", path.display()) })
                }
            }
        }
        Err(KubeconfigError::FindPath) if context.is_none() => Ok(None),
        Err(error) => Err(unreadable(&error)),
    }
}

fn unreadable(error: &KubeconfigError) -> Error {
    Error::Kubeconfig { reason: chain(error) }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_file_that_is_not_there_is_named_with_its_setting() {
        let mut conf = Conf::new();
        conf.set("spark.kubernetes.authenticate.oauthTokenFile", "/nowhere/token");
        let refused = Connection::new("https://a:1", &conf, Caller::Driver).unwrap_err();
        let text = refused.to_string();
        assert!(text.contains("/nowhere/token") && text.contains("oauthTokenFile"), "{text}");
        assert!(Connection::new("https://a:1", &conf, Caller::Submission).is_ok(), "not its own");
    }
}
