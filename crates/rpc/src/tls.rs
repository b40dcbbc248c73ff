//! TLS by rustls, version 1.3, from PEM files.
//!
//! Which certificate is trusted and what it has to be named is rustls's own strict rule: signed by
//! the authority in the trust store, and naming the host that was dialled.

use std::fmt;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use firesteel_conf::{Conf, Entry, entries};
use tokio_rustls::rustls::crypto::{CryptoProvider, ring};
use tokio_rustls::rustls::pki_types::pem::PemObject;
use tokio_rustls::rustls::pki_types::{CertificateDer, PrivateKeyDer};
use tokio_rustls::rustls::{self, ClientConfig, RootCertStore, ServerConfig, version::TLS13};
use tokio_rustls::{TlsAcceptor, TlsConnector};

use crate::SetupError;

/// Both sides of TLS, ready for use.
#[derive(Clone)]
pub struct Tls {
    pub(crate) connector: TlsConnector,
    pub(crate) acceptor: Option<TlsAcceptor>,
}

impl fmt::Debug for Tls {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Tls").field("serves", &self.acceptor.is_some()).finish_non_exhaustive()
    }
}

impl Tls {
    /// Reads `spark.ssl.rpc.*`; nothing when it is off.
    pub(crate) fn from_conf(conf: &Conf) -> Result<Option<Self>, SetupError> {
        if !conf.get(&entries::SSL_RPC_ENABLED)? {
            return Ok(None);
        }
        let file = |entry: &Entry<Option<String>>| {
            Ok::<_, SetupError>(conf.get(entry)?.map(|path| PemFile::new(entry.key(), path)))
        };
        let authority = file(&entries::SSL_RPC_TRUST_STORE)?
            .ok_or(SetupError::TlsKeyMissing { key: entries::SSL_RPC_TRUST_STORE.key() })?;
        let chain = file(&entries::SSL_RPC_CERT_CHAIN)?;
        let key = file(&entries::SSL_RPC_PRIVATE_KEY)?;
        let missing = |key| Err(SetupError::TlsKeyMissing { key });
        let acceptor = match (chain, key) {
            (Some(chain), Some(key)) => Some(acceptor(&chain, &key)?),
            (None, None) => None, // enough for an environment that only dials
            (Some(_), None) => return missing(entries::SSL_RPC_PRIVATE_KEY.key()),
            (None, Some(_)) => return missing(entries::SSL_RPC_CERT_CHAIN.key()),
        };
        Ok(Some(Self { connector: connector(&authority)?, acceptor }))
    }
}

fn provider() -> Arc<CryptoProvider> {
    Arc::new(ring::default_provider())
}

fn connector(authority: &PemFile) -> Result<TlsConnector, SetupError> {
    let mut roots = RootCertStore::empty();
    for certificate in authority.certificates()? {
        roots.add(certificate).map_err(|error| authority.refused(error))?;
    }
    let config = ClientConfig::builder_with_provider(provider())
        .with_protocol_versions(&[&TLS13])
        .map_err(|error| authority.refused(error))?
        .with_root_certificates(roots)
        .with_no_client_auth();
    Ok(TlsConnector::from(Arc::new(config)))
}

fn acceptor(chain: &PemFile, key: &PemFile) -> Result<TlsAcceptor, SetupError> {
    let private = PrivateKeyDer::from_pem_file(&key.path)
        .map_err(|error| key.refused(format!("no private key in PEM format: {error}")))?;
    let config = ServerConfig::builder_with_provider(provider())
        .with_protocol_versions(&[&TLS13])
        .map_err(|error| chain.refused(error))?
        .with_no_client_auth()
        .with_single_cert(chain.certificates()?, private)
        .map_err(|error| {
            chain.refused(format!("does not go with {}: {error}", key.path.display()))
        })?;
    Ok(TlsAcceptor::from(Arc::new(config)))
}

/// A file with the key that names it, for messages.
struct PemFile {
    key: &'static str,
    path: PathBuf,
}

impl PemFile {
    fn new(key: &'static str, path: impl AsRef<Path>) -> Self {
        Self { key, path: path.as_ref().to_owned() }
    }

    fn refused(&self, reason: impl ToString) -> SetupError {
        SetupError::TlsFile { key: self.key, path: self.path.clone(), reason: reason.to_string() }
    }

    fn certificates(&self) -> Result<Vec<CertificateDer<'static>>, SetupError> {
        let read = CertificateDer::pem_file_iter(&self.path).and_then(Iterator::collect);
        let found: Vec<_> =
            read.map_err(|error| self.refused(format!("cannot be read as PEM: {error}")))?;
        if found.is_empty() {
            return Err(
                self.refused("holds no certificate: a PEM file is expected, not a Java key store")
            );
        }
        Ok(found)
    }
}

/// Key material that only the two ends of this TLS connection have.
pub(crate) fn binding<Data>(
    connection: &rustls::ConnectionCommon<Data>,
) -> Result<[u8; 32], rustls::Error> {
    connection.export_keying_material([0; 32], b"EXPORTER-firesteel-rpc-handshake", None)
}
