//! From a TCP connection to an authenticated one: connect or accept, TLS, handshake, each in time.

use std::io;
use std::time::Duration;

use tokio::io::{AsyncRead, AsyncReadExt, AsyncWrite, AsyncWriteExt};
use tokio::time::timeout;
use tokio_rustls::rustls::pki_types::ServerName;
use tokio_rustls::{TlsAcceptor, TlsStream, client, server};

use crate::RpcError;
use crate::address::RpcAddress;
use crate::handshake::{self, Binding, Channel, Client, HandshakeError, PREFIX, Server};
use crate::net::TcpStream;
use crate::options::{Encryption, RpcOptions};
use crate::tls;

/// A connection below the handshake.
pub(crate) enum Socket {
    Plain(TcpStream),
    Tls(Box<TlsStream<TcpStream>>),
}

pub(crate) type BoxedReader = Box<dyn AsyncRead + Send + Unpin>;
pub(crate) type BoxedWriter = Box<dyn AsyncWrite + Send + Unpin>;

impl Socket {
    pub(crate) fn split(self) -> (BoxedReader, BoxedWriter) {
        match self {
            Self::Plain(stream) => {
                let (reader, writer) = stream.into_split();
                (Box::new(reader), Box::new(writer))
            }
            Self::Tls(stream) => {
                let (reader, writer) = tokio::io::split(*stream);
                (Box::new(reader), Box::new(writer))
            }
        }
    }
}

/// Dials, and proves and checks identities.
pub(crate) async fn dial(
    address: &RpcAddress,
    channel: Channel,
    options: &RpcOptions,
) -> Result<Socket, RpcError> {
    let unreachable =
        |source| RpcError::Unreachable { address: address.clone(), source: source_of(source) };
    let target = (address.host.as_str(), address.port);
    let stream = in_time(options.connect_timeout, TcpStream::connect(target))
        .await
        .and_then(without_delay)
        .map_err(unreachable)?;
    let limit = options.handshake_timeout;
    let greeted = timeout(limit, greet(stream, &address.host, channel, options)).await;
    greeted.unwrap_or(Err(HandshakeError::TimedOut { after: limit })).map_err(|source| {
        RpcError::Handshake { address: address.clone(), source: source_of(source) }
    })
}

fn source_of<E>(error: E) -> std::sync::Arc<E> {
    std::sync::Arc::new(error)
}

async fn in_time<T>(
    limit: Duration,
    connect: impl Future<Output = io::Result<T>>,
) -> io::Result<T> {
    let late = |_| {
        let text = format!("no answer within {}", firesteel_conf::format_duration(limit));
        io::Error::new(io::ErrorKind::TimedOut, text)
    };
    timeout(limit, connect).await.map_err(late)?
}

fn without_delay(stream: TcpStream) -> io::Result<TcpStream> {
    stream.set_nodelay(true)?;
    Ok(stream)
}

async fn greet(
    stream: TcpStream,
    host: &str,
    channel: Channel,
    options: &RpcOptions,
) -> Result<Socket, HandshakeError> {
    let tls_failed = |source: io::Error| match tls::is_not_spoken(&source) {
        true => HandshakeError::NotTls,
        false => HandshakeError::Tls { source },
    };
    let (tls, name) = match &options.tls {
        Some(tls) => (tls, host),
        None if options.identity.is_some() && encrypts(options, &stream) => {
            (tls::ephemeral().map_err(tls_failed)?, tls::NO_NAME)
        }
        None => {
            let mut stream = stream;
            prove(&mut stream, channel, options, &[0; 32]).await?;
            return Ok(Socket::Plain(stream));
        }
    };
    let name = ServerName::try_from(name.to_owned())
        .map_err(|error| tls_failed(io::Error::other(error)))?;
    let mut stream: client::TlsStream<_> =
        tls.connector.connect(name, stream).await.map_err(tls_failed)?;
    let binding = bound(tls::binding(stream.get_ref().1))?;
    prove(&mut stream, channel, options, &binding).await?;
    Ok(Socket::Tls(Box::new(stream.into())))
}

fn bound(
    exported: Result<Binding, tokio_rustls::rustls::Error>,
) -> Result<Binding, HandshakeError> {
    exported.map_err(|error| HandshakeError::Tls { source: io::Error::other(error) })
}

async fn prove(
    io: &mut (impl AsyncRead + AsyncWrite + Unpin),
    channel: Channel,
    options: &RpcOptions,
    binding: &Binding,
) -> Result<(), HandshakeError> {
    let (mut client, hello) = Client::hello(channel, options.identity.clone(), binding);
    write(io, &hello).await?;
    let proof = client.prove(&read(io).await?)?;
    write(io, &proof).await?;
    client.finish(&read(io).await?)
}

/// How long a dialler may say nothing at all: it speaks first, and at once.
const FIRST_BYTE: Duration = Duration::from_secs(10);

/// Who dialled, and what for.
pub(crate) struct Accepted {
    pub(crate) socket: Socket,
    pub(crate) identity: String,
    pub(crate) channel: Channel,
}

/// Lets a dialler in once it has proved who it is, within the time there is for that.
pub(crate) async fn accept(
    mut stream: TcpStream,
    options: &RpcOptions,
) -> Result<Accepted, HandshakeError> {
    let limit = options.handshake_timeout;
    let first = limit.min(FIRST_BYTE);
    let spoke = timeout(first, speaks_tls(&mut stream)).await;
    spoke.map_err(|_| HandshakeError::TimedOut { after: first })??;
    let welcomed = timeout(limit, welcome(stream, options)).await;
    welcomed.unwrap_or(Err(HandshakeError::TimedOut { after: limit }))
}

/// Tells a dialler that its address has too many connections, where that can be told before TLS.
pub(crate) async fn turn_away(mut stream: TcpStream, options: &RpcOptions) {
    if options.tls.is_none() {
        let _ = timeout(FIRST_BYTE, refuse(&mut stream, &handshake::full())).await;
    }
}

async fn welcome(stream: TcpStream, options: &RpcOptions) -> Result<Accepted, HandshakeError> {
    let mut stream = without_delay(stream).map_err(broken)?;
    let Some(acceptor) = acceptor(&mut stream, options).await? else {
        let (identity, channel) = check(&mut stream, options, &[0; 32]).await?;
        return Ok(Accepted { socket: Socket::Plain(stream), identity, channel });
    };
    let accepted = acceptor.accept(stream).await;
    let mut stream: server::TlsStream<_> =
        accepted.map_err(|source| HandshakeError::Tls { source })?;
    let binding = bound(tls::binding(stream.get_ref().1))?;
    let (identity, channel) = check(&mut stream, options, &binding).await?;
    Ok(Accepted { socket: Socket::Tls(Box::new(stream.into())), identity, channel })
}

/// What a new connection is accepted with, if that is TLS. Without certificates of the user's, a connection of this machine with
/// itself may do without.
async fn acceptor<'a>(
    stream: &mut TcpStream,
    options: &'a RpcOptions,
) -> Result<Option<&'a TlsAcceptor>, HandshakeError> {
    if let Some(tls) = &options.tls {
        expect_tls(stream).await?;
        return Ok(tls.acceptor.as_ref());
    }
    if options.keyring.is_none() || options.encryption == Encryption::Never {
        return Ok(None);
    }
    if encrypts(options, stream) {
        expect_tls(stream).await?;
    } else if !speaks_tls(stream).await? {
        return Ok(None);
    }
    let tls = tls::ephemeral().map_err(|source| HandshakeError::Tls { source })?;
    Ok(tls.acceptor.as_ref())
}

/// Whether a connection is to be encrypted, where there are no certificates.
fn encrypts(options: &RpcOptions, stream: &TcpStream) -> bool {
    match options.encryption {
        Encryption::Never => false,
        Encryption::BetweenMachines => !stays_here(stream),
        Encryption::Always => true,
    }
}

/// Whether both ends are this machine: nobody else sees what is sent.
fn stays_here(stream: &TcpStream) -> bool {
    match (stream.local_addr(), stream.peer_addr()) {
        (Ok(own), Ok(peer)) => own.ip().is_loopback() || own.ip() == peer.ip(),
        _ => false,
    }
}

/// What a dialler with TLS begins with.
const TLS_HANDSHAKE: u8 = 0x16;

async fn speaks_tls(stream: &mut TcpStream) -> Result<bool, HandshakeError> {
    let mut first = [0];
    let read = stream.peek(&mut first).await.map_err(broken)?;
    Ok(read == 1 && first == [TLS_HANDSHAKE])
}

/// That one side speaks TLS and the other does not, in a form that both understand: a TLS alert, as long as the prefix of a
/// message.
const PROTOCOL_VERSION_ALERT: [u8; PREFIX] = [0x15, 3, 3, 0, 2, 2, 70, 0];

/// Tells a dialler without TLS so: rustls would say nothing.
async fn expect_tls(stream: &mut TcpStream) -> Result<(), HandshakeError> {
    if speaks_tls(stream).await? {
        return Ok(());
    }
    refuse(stream, &PROTOCOL_VERSION_ALERT).await;
    Err(HandshakeError::NotTls)
}

/// The server's side; a refusal is told before the connection is closed.
async fn check(
    io: &mut (impl AsyncRead + AsyncWrite + Unpin),
    options: &RpcOptions,
    binding: &Binding,
) -> Result<(String, Channel), HandshakeError> {
    let checked = converse(io, options, binding).await;
    match checked {
        Err(HandshakeError::Version { .. } | HandshakeError::Refused) => {
            refuse(io, &handshake::refusal()).await;
        }
        Err(HandshakeError::SpeaksTls) => refuse(io, &PROTOCOL_VERSION_ALERT).await,
        _ => {}
    }
    checked
}

/// Says why and closes, if the other side is still there.
async fn refuse(io: &mut (impl AsyncRead + AsyncWrite + Unpin), why: &[u8]) {
    let _ = write(io, why).await;
    let _ = io.shutdown().await;
    // Closing with bytes unread would reset the connection and destroy the refusal.
    let _ = tokio::io::copy(&mut io.take(4096), &mut tokio::io::sink()).await;
}

async fn converse(
    io: &mut (impl AsyncRead + AsyncWrite + Unpin),
    options: &RpcOptions,
    binding: &Binding,
) -> Result<(String, Channel), HandshakeError> {
    let hello = read(io).await?;
    let (server, challenge) = Server::challenge(&hello, options.keyring.as_ref(), binding)?;
    write(io, &challenge).await?;
    let (identity, channel, welcome) = server.finish(&read(io).await?)?;
    write(io, &welcome).await?;
    Ok((identity, channel))
}

fn broken(source: io::Error) -> HandshakeError {
    HandshakeError::Io { source }
}

async fn write(io: &mut (impl AsyncWrite + Unpin), bytes: &[u8]) -> Result<(), HandshakeError> {
    io.write_all(bytes).await.map_err(broken)?;
    io.flush().await.map_err(broken)
}

/// Reads one message: never a byte more, and never more than a message may have.
async fn read(io: &mut (impl AsyncRead + Unpin)) -> Result<Vec<u8>, HandshakeError> {
    let mut message = vec![0; PREFIX];
    io.read_exact(&mut message).await.map_err(broken)?;
    let prefix: &[u8; PREFIX] = message.first_chunk().expect("as long as a prefix");
    let length = handshake::body_length(prefix)?;
    message.resize(PREFIX + length, 0);
    io.read_exact(&mut message[PREFIX..]).await.map_err(broken)?;
    Ok(message)
}

#[cfg(test)]
mod tests {
    use tokio::net::TcpListener;

    use super::*;
    use crate::secret::{Identity, Secret};

    fn options(secret: &str, encryption: Encryption) -> RpcOptions {
        let identity = Identity::new("cluster", Secret::new(secret, "here").unwrap()).unwrap();
        RpcOptions { encryption, ..RpcOptions::default().for_identity(Some(identity)) }
    }

    async fn listen() -> (TcpListener, RpcAddress) {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let port = listener.local_addr().unwrap().port();
        (listener, RpcAddress::new("127.0.0.1", port))
    }

    /// What both sides make of a connection.
    async fn meet(
        client: RpcOptions,
        server: RpcOptions,
    ) -> (Result<Socket, RpcError>, Result<Accepted, HandshakeError>) {
        let (listener, address) = listen().await;
        let accepting = async { accept(listener.accept().await.unwrap().0, &server).await };
        tokio::join!(dial(&address, Channel::Messages, &client), accepting)
    }

    const SECRET: &str = "a secret that is long enough";

    #[tokio::test]
    async fn a_secret_is_enough_for_tls_and_a_machine_with_itself_needs_none() {
        use Encryption::*;
        for (client, server, encrypted) in [
            (Always, Always, true),
            (Always, BetweenMachines, true),
            (BetweenMachines, BetweenMachines, false),
            (Never, BetweenMachines, false),
        ] {
            let met = meet(options(SECRET, client), options(SECRET, server)).await;
            let (Ok(dialled), Ok(accepted)) = met else { panic!("{client:?} {server:?}") };
            assert_eq!(matches!(dialled, Socket::Tls(_)), encrypted, "{client:?} {server:?}");
            assert_eq!(matches!(accepted.socket, Socket::Tls(_)), encrypted);
        }
    }

    #[tokio::test]
    async fn who_has_another_secret_or_speaks_in_the_clear_is_not_let_in() {
        use Encryption::*;
        let (dialled, accepted) =
            meet(options(SECRET, Always), options("another secret, also long", Always)).await;
        assert!(dialled.is_err() && matches!(accepted, Err(HandshakeError::Refused)));
        let (dialled, accepted) = meet(options(SECRET, Never), options(SECRET, Always)).await;
        let told = dialled.err().unwrap().to_string();
        assert!(told.contains("spark.network.crypto.enabled"), "{told}");
        assert!(matches!(accepted, Err(HandshakeError::NotTls)));
        let (dialled, accepted) = meet(options(SECRET, Always), options(SECRET, Never)).await;
        let error = dialled.err().unwrap();
        assert!(error.to_string().contains("the other does not"), "{error}");
        assert!(error.is_lasting() && matches!(accepted, Err(HandshakeError::SpeaksTls)));
        let nobody = RpcOptions { encryption: Always, ..RpcOptions::default() };
        let (dialled, accepted) = meet(nobody, options(SECRET, Always)).await;
        assert!(dialled.is_err() && accepted.is_err());
    }

    #[tokio::test]
    async fn one_in_the_middle_with_certificates_of_its_own_is_found_out() {
        let ((outer, address), (inner, target)) = (listen().await, listen().await);
        let tls = tls::ephemeral().unwrap();
        let middle = async {
            let (client, _) = outer.accept().await.unwrap();
            let server = TcpStream::connect((target.host.as_str(), target.port)).await.unwrap();
            let name = ServerName::try_from(tls::NO_NAME).unwrap();
            let mut client = tls.acceptor.as_ref().unwrap().accept(client).await.unwrap();
            let mut server = tls.connector.connect(name, server).await.unwrap();
            let _ = tokio::io::copy_bidirectional(&mut client, &mut server).await;
        };
        let options = options(SECRET, Encryption::Always);
        let accepting = async { accept(inner.accept().await.unwrap().0, &options).await };
        let (dialled, accepted, ()) =
            tokio::join!(dial(&address, Channel::Messages, &options), accepting, middle);
        assert!(dialled.is_err(), "it has the secret of neither connection");
        assert!(matches!(accepted, Err(HandshakeError::Refused)));
    }
}
