//! TLS by rustls, version 1.3: with certificates of the user's, from PEM files, or with one that this process makes for itself.
//!
//! Which certificate of the user's is trusted and what it has to be named is rustls's own strict rule: signed by
//! the authority in the trust store, and naming the host that was dialled.
//!
//! A certificate that a process made for itself proves nothing, and nobody looks at it. What proves who is at the other end of
//! such a connection is the handshake above it: its proofs cover key material that only the two ends of this TLS connection have
//! ([`binding`]), so one in the middle, who has two connections, has no proof that fits the other one.

use std::path::{Path, PathBuf};
use std::sync::{Arc, OnceLock};
use std::{fmt, io};

use firesteel_conf::{Conf, Entry, entries};
use tokio_rustls::rustls::client::danger::{
    HandshakeSignatureValid, ServerCertVerified, ServerCertVerifier,
};
use tokio_rustls::rustls::crypto::{CryptoProvider, ring};
use tokio_rustls::rustls::pki_types::pem::PemObject;
use tokio_rustls::rustls::pki_types::{CertificateDer, PrivateKeyDer, ServerName, UnixTime};
use tokio_rustls::rustls::{
    self, AlertDescription, CertificateError, ClientConfig, DigitallySignedStruct, RootCertStore,
    ServerConfig, SignatureScheme, version::TLS13,
};
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

/// The name that a certificate of a process's own bears.
pub(crate) const NO_NAME: &str = "firesteel.invalid";

/// TLS without certificates of the user's. The same for all connections of this process.
pub(crate) fn ephemeral() -> Result<&'static Tls, io::Error> {
    static EPHEMERAL: OnceLock<Tls> = OnceLock::new();
    if let Some(made) = EPHEMERAL.get() {
        return Ok(made);
    }
    let made = make_ephemeral()?;
    Ok(EPHEMERAL.get_or_init(|| made))
}

fn make_ephemeral() -> Result<Tls, io::Error> {
    let made =
        rcgen::generate_simple_self_signed([NO_NAME.to_owned()]).map_err(io::Error::other)?;
    let key =
        PrivateKeyDer::try_from(made.signing_key.serialize_der()).map_err(io::Error::other)?;
    let server = ServerConfig::builder_with_provider(provider())
        .with_protocol_versions(&[&TLS13])
        .and_then(|config| {
            config.with_no_client_auth().with_single_cert(vec![made.cert.der().clone()], key)
        })
        .map_err(io::Error::other)?;
    let client = ClientConfig::builder_with_provider(provider())
        .with_protocol_versions(&[&TLS13])
        .map_err(io::Error::other)?
        .dangerous()
        .with_custom_certificate_verifier(Arc::new(AnyCertificate(provider())))
        .with_no_client_auth();
    let acceptor = Some(TlsAcceptor::from(Arc::new(server)));
    Ok(Tls { connector: TlsConnector::from(Arc::new(client)), acceptor })
}

/// Takes any certificate: see above for what proves who is there. The other end of the connection has the certificate's key.
#[derive(Debug)]
struct AnyCertificate(Arc<CryptoProvider>);

impl ServerCertVerifier for AnyCertificate {
    fn verify_server_cert(
        &self,
        _: &CertificateDer<'_>,
        _: &[CertificateDer<'_>],
        _: &ServerName<'_>,
        _: &[u8],
        _: UnixTime,
    ) -> Result<ServerCertVerified, rustls::Error> {
        Ok(ServerCertVerified::assertion())
    }

    fn verify_tls12_signature(
        &self,
        _: &[u8],
        _: &CertificateDer<'_>,
        _: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, rustls::Error> {
        Err(rustls::Error::General("TLS 1.2 is not spoken here".to_owned()))
    }

    fn verify_tls13_signature(
        &self,
        message: &[u8],
        certificate: &CertificateDer<'_>,
        signature: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, rustls::Error> {
        let algorithms = &self.0.signature_verification_algorithms;
        rustls::crypto::verify_tls13_signature(message, certificate, signature, algorithms)
    }

    fn supported_verify_schemes(&self) -> Vec<SignatureScheme> {
        self.0.signature_verification_algorithms.supported_schemes()
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

fn rustls_error(error: &io::Error) -> Option<&rustls::Error> {
    error.get_ref()?.downcast_ref()
}

/// Whether the other side answered that it speaks no TLS, as `socket.rs` has it do.
pub(crate) fn is_not_spoken(error: &io::Error) -> bool {
    let protocol = rustls::Error::AlertReceived(AlertDescription::ProtocolVersion);
    rustls_error(error) == Some(&protocol)
}

/// Whether TLS will fail between the two sides until somebody changes a file or a setting: one of them does not take the other's
/// certificate. A connection that broke says nothing about the next one, nor does an answer that is not TLS: such is the one to
/// an address that has too many connections.
pub(crate) fn is_lasting(error: &io::Error) -> bool {
    use AlertDescription as Alert;
    use CertificateError::{NotValidYet, NotValidYetContext};
    use rustls::Error::{AlertReceived, InvalidCertificate, NoCertificatesPresented};
    match rustls_error(error) {
        Some(InvalidCertificate(NotValidYet | NotValidYetContext { .. })) => false,
        Some(InvalidCertificate(_) | NoCertificatesPresented) => true,
        Some(AlertReceived(alert)) => matches!(
            alert,
            Alert::AccessDenied
                | Alert::BadCertificate
                | Alert::CertificateExpired
                | Alert::CertificateRequired
                | Alert::CertificateRevoked
                | Alert::CertificateUnknown
                | Alert::HandshakeFailure
                | Alert::ProtocolVersion
                | Alert::UnknownCA
                | Alert::UnrecognisedName
                | Alert::UnsupportedCertificate
        ),
        _ => false,
    }
}

/// Key material that only the two ends of this TLS connection have.
pub(crate) fn binding<Data>(
    connection: &rustls::ConnectionCommon<Data>,
) -> Result<[u8; 32], rustls::Error> {
    connection.export_keying_material([0; 32], b"EXPORTER-firesteel-rpc-handshake", None)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_certificate_that_is_not_taken_is_lasting_and_a_connection_that_broke_is_not() {
        use rustls::Error::{AlertReceived, General, InvalidCertificate, InvalidMessage};
        use rustls::InvalidMessage as Message;
        let of_rustls = |error| io::Error::new(io::ErrorKind::InvalidData, error);
        for (error, lasting) in [
            (InvalidCertificate(CertificateError::UnknownIssuer), true),
            (InvalidCertificate(CertificateError::NotValidForName), true),
            (InvalidCertificate(CertificateError::Expired), true),
            (InvalidCertificate(CertificateError::NotValidYet), false),
            (AlertReceived(AlertDescription::UnknownCA), true),
            (AlertReceived(AlertDescription::ProtocolVersion), true),
            (AlertReceived(AlertDescription::InternalError), false),
            (AlertReceived(AlertDescription::UserCanceled), false),
            (InvalidMessage(Message::InvalidContentType), false),
            (General("something".to_owned()), false),
        ] {
            assert_eq!(is_lasting(&of_rustls(error.clone())), lasting, "{error:?}");
        }
        for kind in [io::ErrorKind::UnexpectedEof, io::ErrorKind::ConnectionReset] {
            assert!(!is_lasting(&kind.into()), "{kind}");
        }
        let told = io::Error::other("received fatal alert: UnknownCA");
        assert!(!is_lasting(&told), "nobody reads the text");
    }
}
