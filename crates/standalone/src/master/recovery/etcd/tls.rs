//! TLS with etcd: whom this master trusts, and what it proves. Files in PEM.

use std::path::{Path, PathBuf};
use std::sync::Arc;

use firesteel_conf::{Conf, ConfError, entries};
use tokio_rustls::rustls::crypto::ring;
use tokio_rustls::rustls::pki_types::pem::PemObject;
use tokio_rustls::rustls::pki_types::{CertificateDer, PrivateKeyDer};
use tokio_rustls::rustls::version::TLS13;
use tokio_rustls::rustls::{ClientConfig, RootCertStore};

use super::super::RecoveryError;

/// The files of the settings.
#[derive(Clone, Debug, Default)]
pub(in super::super) struct EtcdTls {
    pub(super) trust_store: Option<PathBuf>,
    /// What this master shows, if etcd asks for that, and its key.
    pub(super) chain: Option<PathBuf>,
    pub(super) key: Option<PathBuf>,
}

impl EtcdTls {
    pub(in super::super) fn from_conf(conf: &Conf) -> Result<Self, ConfError> {
        Ok(Self {
            trust_store: conf.get(&entries::DEPLOY_ETCD_TRUST_STORE)?.map(PathBuf::from),
            chain: conf.get(&entries::DEPLOY_ETCD_CERT_CHAIN)?.map(PathBuf::from),
            key: conf.get(&entries::DEPLOY_ETCD_PRIVATE_KEY)?.map(PathBuf::from),
        })
    }

    /// Nothing says whom to trust.
    pub(super) fn missing(&self) -> RecoveryError {
        let reason =
            "https:// needs the certificate of the authority that signed those of the servers"
                .to_owned();
        RecoveryError::EtcdTls { setting: entries::DEPLOY_ETCD_TRUST_STORE.key(), reason }
    }

    /// `None` if nobody is trusted.
    pub(super) fn config(&self) -> Result<Option<Arc<ClientConfig>>, RecoveryError> {
        let Some(authority) = &self.trust_store else { return Ok(None) };
        let setting = entries::DEPLOY_ETCD_TRUST_STORE.key();
        let mut roots = RootCertStore::empty();
        for certificate in certificates(setting, authority)? {
            roots.add(certificate).map_err(|error| unusable(setting, authority, error))?;
        }
        let builder = ClientConfig::builder_with_provider(Arc::new(ring::default_provider()))
            .with_protocol_versions(&[&TLS13])
            .map_err(|error| unusable(setting, authority, error))?
            .with_root_certificates(roots);
        let config = match (&self.chain, &self.key) {
            (None, None) => builder.with_no_client_auth(),
            (Some(chain), Some(key)) => {
                let setting = entries::DEPLOY_ETCD_PRIVATE_KEY.key();
                let shown = certificates(entries::DEPLOY_ETCD_CERT_CHAIN.key(), chain)?;
                let failed = |error| unusable(setting, key, error);
                let secret = PrivateKeyDer::from_pem_file(key).map_err(failed)?;
                let built = builder.with_client_auth_cert(shown, secret);
                built.map_err(|error| unusable(setting, key, error))?
            }
            (chain, _) => {
                let (setting, other) = match chain {
                    Some(_) => {
                        (&entries::DEPLOY_ETCD_PRIVATE_KEY, &entries::DEPLOY_ETCD_CERT_CHAIN)
                    }
                    None => (&entries::DEPLOY_ETCD_CERT_CHAIN, &entries::DEPLOY_ETCD_PRIVATE_KEY),
                };
                let reason = format!("it is missing beside {}", other.key());
                return Err(RecoveryError::EtcdTls { setting: setting.key(), reason });
            }
        };
        Ok(Some(Arc::new(config)))
    }
}

fn certificates(
    setting: &'static str,
    path: &Path,
) -> Result<Vec<CertificateDer<'static>>, RecoveryError> {
    let found = CertificateDer::pem_file_iter(path);
    let found = found.and_then(|found| found.collect::<Result<Vec<_>, _>>());
    let found = found.map_err(|error| unusable(setting, path, error))?;
    match found.is_empty() {
        true => Err(unusable(setting, path, "it has no certificate")),
        false => Ok(found),
    }
}

fn unusable(setting: &'static str, path: &Path, reason: impl std::fmt::Display) -> RecoveryError {
    RecoveryError::EtcdTls { setting, reason: format!("{}: {reason}", path.display()) }
}
