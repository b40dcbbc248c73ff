//! The handshake: both sides prove that they know a secret before any message is decoded.
//!
//! ```text
//! client                                        server
//!   hello      magic version channel identity nonce  ─►
//!   ◄─  challenge   magic version verdict nonce
//!   proof      MAC("client", hello, challenge)       ─►
//!   ◄─  welcome     verdict MAC("server", hello, challenge, proof)
//! ```
//!
//! Messages have a fixed shape and at most [`MAX_BODY`] bytes. The MAC is keyed BLAKE3 over the bytes
//! as they were sent, with a key derived from the secret and for one side: neither a replayed nor
//! a reflected proof fits. Over TLS the connection's own key material is part of it. Here is no IO:
//! a side is fed whole messages and says what to send; `socket.rs` moves the bytes.
//!
//! What is sent afterwards is protected by TLS: always between two machines that share a secret, with certificates of the user's
//! or without (`tls.rs`), unless `spark.network.crypto.enabled` is false.

use std::io;
use std::time::Duration;

use crate::address::MAX_NAME;
use crate::secret::{Identity, Keyring, random_bytes};

/// The version of everything on the wire. A change of frames or messages raises it.
pub const PROTOCOL_VERSION: u16 = 1;

const MAGIC: [u8; 4] = *b"FSRP";
/// Magic, version, length of the body.
pub(crate) const PREFIX: usize = 8;
/// In bytes.
pub(crate) const MAX_BODY: usize = 1 + 1 + 32 + MAX_NAME;

const CLIENT_KEY: &str = "firesteel rpc 2026 handshake, proof of the client";
const SERVER_KEY: &str = "firesteel rpc 2026 handshake, proof of the server";

const OPEN: u8 = 0;
const AUTHENTICATE: u8 = 1;
const REFUSED: u8 = 2;
const FULL: u8 = 3;

/// Key material of the TLS connection below, zeros without one.
pub(crate) type Binding = [u8; 32];

/// What a connection is for: control messages and bulk bytes never share one.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Channel {
    Messages = 1,
    Streams = 2,
}

/// Why two sides did not come together.
#[derive(Debug, thiserror::Error)]
pub enum HandshakeError {
    /// Something else answers, or calls, at this port.
    #[error(
        "the other side does not speak this protocol: check host and port (a web port is not the RPC port)"
    )]
    NotFiresteel,
    /// A TLS record where the handshake should be, or an alert.
    #[error(
        "the other side speaks TLS and this one does not: set spark.ssl.rpc.enabled and spark.network.crypto.enabled to the same values on \
         both, and the secret (spark.authenticate)"
    )]
    SpeaksTls,
    /// No TLS where it should be.
    #[error(
        "this side speaks TLS and the other does not: set spark.ssl.rpc.enabled and spark.network.crypto.enabled to the same values on \
         both, and the secret (spark.authenticate)"
    )]
    NotTls,
    /// The two sides were built from different versions.
    #[error(
        "the other side has protocol version {theirs}, this one {PROTOCOL_VERSION}: install the same version on both"
    )]
    Version {
        /// The version of the other side.
        theirs: u16,
    },
    /// This side has no secret and the other asks for one.
    #[error(
        "the other side asks for a secret and none is set here: set spark.authenticate=true and spark.authenticate.secret or \
         spark.authenticate.secret.file as it is set there"
    )]
    MissingSecret,
    /// This side wants proof and the other gives none.
    #[error(
        "the other side asks for no secret, so it is not the one meant or was started without: set spark.authenticate=true and the \
         same secret there"
    )]
    NotAuthenticating,
    /// The other side did not accept the proof of this one.
    #[error(
        "the other side refused the secret or the identity: both have to have the same spark.authenticate.secret"
    )]
    Refused,
    /// The other side could not prove that it knows the secret.
    #[error(
        "the other side does not know the secret: it has another spark.authenticate.secret, or is an impostor"
    )]
    Unproven,
    /// Not a message of a handshake.
    #[error("the handshake of the other side is malformed: check that both run the same version")]
    Malformed,
    /// This address has as many connections there as it may have.
    #[error(
        "the address of the dialling side has as many connections there as one address may have: close some of them, or find the \
         process that has them"
    )]
    TooManyConnections,
    /// A newer connection of the same address took its place.
    #[error(
        "more than {limit} connections of one address were in their handshake at once: the oldest one is cut off"
    )]
    TooManyAtOnce {
        /// How many may be.
        limit: usize,
    },
    /// It took too long.
    #[error("no handshake within {} (spark.network.auth.rpcTimeout)", firesteel_conf::format_duration(*after))]
    TimedOut {
        /// `spark.network.auth.rpcTimeout` of this process.
        after: Duration,
    },
    /// TLS failed: certificates, names or versions.
    #[error(
        "TLS failed: {source}; check spark.ssl.rpc.certChain, privateKey and trustStore, and that the certificate names this host"
    )]
    Tls {
        /// The error of rustls.
        source: io::Error,
    },
    /// The connection broke before both sides knew each other.
    #[error(
        "the connection broke during the handshake: {source}; the other side may have refused it, see its log"
    )]
    Io {
        /// The error of the system.
        source: io::Error,
    },
}

/// A message: prefix and body.
fn message(body: &[u8]) -> Vec<u8> {
    let mut bytes = Vec::with_capacity(PREFIX + body.len());
    bytes.extend(MAGIC);
    bytes.extend(PROTOCOL_VERSION.to_le_bytes());
    bytes.extend((body.len() as u16).to_le_bytes());
    bytes.extend(body);
    bytes
}

/// The length of the body that follows this prefix.
pub(crate) fn body_length(prefix: &[u8; PREFIX]) -> Result<usize, HandshakeError> {
    if prefix[..4] != MAGIC {
        // The first bytes of a TLS record: an alert or a handshake, version 3.
        let tls = matches!(prefix[..2], [0x15 | 0x16, 3]);
        return Err(if tls { HandshakeError::SpeaksTls } else { HandshakeError::NotFiresteel });
    }
    let theirs = u16::from_le_bytes([prefix[4], prefix[5]]);
    if theirs != PROTOCOL_VERSION {
        return Err(HandshakeError::Version { theirs });
    }
    let length = usize::from(u16::from_le_bytes([prefix[6], prefix[7]]));
    if length > MAX_BODY { Err(HandshakeError::Malformed) } else { Ok(length) }
}

/// Takes a whole message apart.
fn body(bytes: &[u8]) -> Result<&[u8], HandshakeError> {
    let (prefix, body) = bytes.split_first_chunk().ok_or(HandshakeError::Malformed)?;
    if body_length(prefix)? == body.len() { Ok(body) } else { Err(HandshakeError::Malformed) }
}

/// Everything both sides saw, in order.
struct Transcript(Vec<u8>);

impl Transcript {
    fn new(binding: &Binding) -> Self {
        Self(binding.to_vec())
    }

    fn add(&mut self, bytes: &[u8]) {
        self.0.extend_from_slice(bytes); // each message says its own length
    }

    fn mac(&self, identity: Option<&Identity>, purpose: &str) -> blake3::Hash {
        let key = match identity {
            Some(identity) => identity.secret().key(purpose),
            None => blake3::derive_key(purpose, &[]),
        };
        blake3::keyed_hash(&key, &self.0)
    }
}

/// Compares in constant time, which `blake3::Hash` does and arrays do not.
fn agrees(expected: blake3::Hash, proof: &[u8]) -> bool {
    <[u8; 32]>::try_from(proof).is_ok_and(|proof| expected == blake3::Hash::from_bytes(proof))
}

/// The side that dialled.
pub(crate) struct Client {
    identity: Option<Identity>,
    transcript: Transcript,
}

impl Client {
    /// Starts, with the hello to send.
    pub(crate) fn hello(
        channel: Channel,
        identity: Option<Identity>,
        binding: &Binding,
    ) -> (Self, Vec<u8>) {
        let mut body = vec![channel as u8, u8::from(identity.is_some())];
        body.extend(random_bytes());
        body.extend(identity.iter().flat_map(|identity| identity.name().bytes()));
        let hello = message(&body);
        let mut transcript = Transcript::new(binding);
        transcript.add(&hello);
        (Self { identity, transcript }, hello)
    }

    /// Answers the challenge with a proof to send.
    pub(crate) fn prove(&mut self, challenge: &[u8]) -> Result<Vec<u8>, HandshakeError> {
        let (verdict, nonce) = body(challenge)?.split_first().ok_or(HandshakeError::Malformed)?;
        match (*verdict, &self.identity) {
            (OPEN, Some(_)) => return Err(HandshakeError::NotAuthenticating),
            (AUTHENTICATE, None) => return Err(HandshakeError::MissingSecret),
            (OPEN, None) | (AUTHENTICATE, Some(_)) if nonce.len() == 32 => {}
            (REFUSED, _) => return Err(HandshakeError::Refused),
            (FULL, _) => return Err(HandshakeError::TooManyConnections),
            _ => return Err(HandshakeError::Malformed),
        }
        self.transcript.add(challenge);
        let proof = message(self.transcript.mac(self.identity.as_ref(), CLIENT_KEY).as_bytes());
        self.transcript.add(&proof);
        Ok(proof)
    }

    /// Checks the proof of the server.
    pub(crate) fn finish(self, welcome: &[u8]) -> Result<(), HandshakeError> {
        match body(welcome)?.split_first() {
            Some((&REFUSED, _)) => Err(HandshakeError::Refused),
            Some((&OPEN, proof)) => {
                let expected = self.transcript.mac(self.identity.as_ref(), SERVER_KEY);
                if agrees(expected, proof) { Ok(()) } else { Err(HandshakeError::Unproven) }
            }
            _ => Err(HandshakeError::Malformed),
        }
    }
}

/// The side that was dialled, once it has seen a hello.
pub(crate) struct Server {
    channel: Channel,
    claimed: String,
    identity: Option<Identity>,
    authenticate: bool,
    transcript: Transcript,
}

impl Server {
    /// Reads a hello, with the challenge to send. Whether the identity is known does not show yet.
    pub(crate) fn challenge(
        hello: &[u8],
        keyring: Option<&Keyring>,
        binding: &Binding,
    ) -> Result<(Self, Vec<u8>), HandshakeError> {
        let (channel, claimed) = read_hello(body(hello)?)?;
        let known = keyring.and_then(|keyring| keyring.find(&claimed));
        let identity = known.and_then(|secret| Identity::new(&claimed, secret).ok());
        let mut reply = vec![if keyring.is_some() { AUTHENTICATE } else { OPEN }];
        reply.extend(random_bytes());
        let challenge = message(&reply);
        let mut transcript = Transcript::new(binding);
        transcript.add(hello);
        transcript.add(&challenge);
        let authenticate = keyring.is_some();
        Ok((Self { channel, claimed, identity, authenticate, transcript }, challenge))
    }

    /// Checks the proof of the client: its identity, its channel and the welcome to send. Where no
    /// proof is asked for, nobody has an identity, whatever they claim.
    pub(crate) fn finish(
        mut self,
        proof: &[u8],
    ) -> Result<(String, Channel, Vec<u8>), HandshakeError> {
        let given = body(proof)?;
        let expected = self.transcript.mac(self.identity.as_ref(), CLIENT_KEY);
        let known = self.identity.is_some() == self.authenticate;
        if !(agrees(expected, given) && known) {
            return Err(HandshakeError::Refused);
        }
        self.transcript.add(proof);
        let mut welcome = vec![OPEN];
        welcome.extend(self.transcript.mac(self.identity.as_ref(), SERVER_KEY).as_bytes());
        let proved = if self.authenticate { self.claimed } else { String::new() };
        Ok((proved, self.channel, message(&welcome)))
    }
}

/// What a server answers instead, at any step: to another version too, which reads only the prefix.
pub(crate) fn refusal() -> Vec<u8> {
    message(&[REFUSED])
}

/// What a server answers to an address that has as many connections as it may have.
pub(crate) fn full() -> Vec<u8> {
    message(&[FULL])
}

fn read_hello(body: &[u8]) -> Result<(Channel, String), HandshakeError> {
    let (head, rest) = body.split_first_chunk::<2>().ok_or(HandshakeError::Malformed)?;
    let name = rest.get(32..).ok_or(HandshakeError::Malformed)?;
    let channel = match head[0] {
        1 => Channel::Messages,
        2 => Channel::Streams,
        _ => return Err(HandshakeError::Malformed),
    };
    if head[1] > 1 || (head[1] == 0) != name.is_empty() {
        return Err(HandshakeError::Malformed);
    }
    let name = std::str::from_utf8(name).map_err(|_| HandshakeError::Malformed)?;
    Ok((channel, name.to_owned()))
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;
    use crate::secret::Secret;

    const PLAIN: Binding = [0; 32];

    fn identity(name: &str, secret: &str) -> Identity {
        Identity::new(name, Secret::new(secret, "test").unwrap()).unwrap()
    }

    fn keyring(identities: &[Identity]) -> Keyring {
        let keyring = Keyring::new();
        identities.iter().cloned().for_each(|identity| keyring.insert(identity));
        keyring
    }

    /// Runs a handshake; each message passes through `change` on its way.
    fn run(
        client: Option<Identity>,
        server: Option<&Keyring>,
        bindings: [Binding; 2],
        mut change: impl FnMut(usize, &mut Vec<u8>),
    ) -> Result<String, HandshakeError> {
        let (mut client, mut bytes) = Client::hello(Channel::Messages, client, &bindings[0]);
        change(0, &mut bytes);
        let (server, mut bytes) = Server::challenge(&bytes, server, &bindings[1])?;
        change(1, &mut bytes);
        let mut bytes = client.prove(&bytes)?;
        change(2, &mut bytes);
        let (name, _, mut bytes) = server.finish(&bytes)?;
        change(3, &mut bytes);
        client.finish(&bytes)?;
        Ok(name)
    }

    fn plainly(
        client: Option<Identity>,
        server: Option<&Keyring>,
    ) -> Result<String, HandshakeError> {
        run(client, server, [PLAIN; 2], |_, _| {})
    }

    #[test]
    fn the_same_secret_lets_in_and_names_who_came() {
        let ring = keyring(&[identity("app-1", "one"), identity("app-2", "two")]);
        assert_eq!(plainly(Some(identity("app-2", "two")), Some(&ring)).unwrap(), "app-2");
        assert_eq!(plainly(None, None).unwrap(), "");
    }

    #[test]
    fn every_other_pairing_is_refused_with_its_own_error() {
        use HandshakeError::*;
        let ring = keyring(&[identity("app-1", "one"), identity("app-2", "two")]);
        assert!(matches!(plainly(Some(identity("app-1", "two")), Some(&ring)), Err(Refused)));
        assert!(matches!(plainly(Some(identity("app-3", "one")), Some(&ring)), Err(Refused)));
        assert!(matches!(plainly(None, Some(&ring)), Err(MissingSecret)));
        assert!(matches!(plainly(Some(identity("app-1", "one")), None), Err(NotAuthenticating)));
        ring.remove("app-1");
        assert!(matches!(plainly(Some(identity("app-1", "one")), Some(&ring)), Err(Refused)));
        let nobody = Keyring::new();
        assert!(matches!(plainly(Some(identity("app-1", "one")), Some(&nobody)), Err(Refused)));
    }

    #[test]
    fn an_unknown_identity_without_a_secret_cannot_prove_anything() {
        // The proof an attacker can compute without a secret, against a server that asks for one.
        let ring = keyring(&[identity("app-1", "one")]);
        let (mut attacker, hello) = Client::hello(Channel::Messages, None, &PLAIN);
        let (server, mut challenge) = Server::challenge(&hello, Some(&ring), &PLAIN).unwrap();
        let mut forged = Transcript::new(&PLAIN);
        forged.add(&hello);
        forged.add(&challenge);
        let proof = message(forged.mac(None, CLIENT_KEY).as_bytes());
        assert!(matches!(server.finish(&proof), Err(HandshakeError::Refused)));
        challenge[PREFIX] = OPEN;
        assert!(attacker.prove(&challenge).is_ok());
    }

    #[test]
    fn where_no_proof_is_asked_for_nobody_has_an_identity() {
        let (_, hello) = Client::hello(Channel::Messages, Some(identity("app-1", "one")), &PLAIN);
        let (server, challenge) = Server::challenge(&hello, None, &PLAIN).unwrap();
        let mut seen = Transcript::new(&PLAIN);
        seen.add(&hello);
        seen.add(&challenge);
        let (name, _, _) = server.finish(&message(seen.mac(None, CLIENT_KEY).as_bytes())).unwrap();
        assert_eq!(name, "");
    }

    #[test]
    fn a_recorded_handshake_does_not_work_again() {
        let ring = keyring(&[identity("a", "one")]);
        let mut recorded = Vec::new();
        let record = |_, bytes: &mut Vec<u8>| recorded.push(bytes.clone());
        run(Some(identity("a", "one")), Some(&ring), [PLAIN; 2], record).unwrap();
        let (server, _) = Server::challenge(&recorded[0], Some(&ring), &PLAIN).unwrap();
        assert!(matches!(server.finish(&recorded[2]), Err(HandshakeError::Refused)));
        let (mut client, _) = Client::hello(Channel::Messages, Some(identity("a", "one")), &PLAIN);
        client.prove(&recorded[1]).unwrap();
        assert!(matches!(client.finish(&recorded[3]), Err(HandshakeError::Unproven)));
    }

    #[test]
    fn a_proof_sent_back_to_its_maker_proves_nothing() {
        let (mut client, _) = Client::hello(Channel::Messages, Some(identity("a", "one")), &PLAIN);
        let mut challenge = vec![AUTHENTICATE];
        challenge.extend([7; 32]);
        let proof = client.prove(&message(&challenge)).unwrap();
        let reflected = [&[OPEN], &proof[PREFIX..]].concat();
        assert!(matches!(client.finish(&message(&reflected)), Err(HandshakeError::Unproven)));
    }

    #[test]
    fn a_proof_belongs_to_its_tls_connection() {
        let ring = keyring(&[identity("a", "one")]);
        let relayed = run(Some(identity("a", "one")), Some(&ring), [[1; 32], [2; 32]], |_, _| {});
        assert!(matches!(relayed, Err(HandshakeError::Refused)));
    }

    #[test]
    fn other_versions_tls_and_strangers_are_told_apart() {
        let prefix = |bytes: &[u8; 8]| body_length(bytes).unwrap_err();
        assert!(matches!(prefix(b"GET / HT"), HandshakeError::NotFiresteel));
        assert!(matches!(prefix(b"\x16\x03\x01\x02\x00\x01\x00\x01"), HandshakeError::SpeaksTls));
        assert!(matches!(prefix(b"\x15\x03\x03\x00\x02\x02\x32\x00"), HandshakeError::SpeaksTls));
        assert!(matches!(prefix(b"FSRP\x02\x00\x00\x00"), HandshakeError::Version { theirs: 2 }));
        assert!(matches!(prefix(b"FSRP\x01\x00\xff\xff"), HandshakeError::Malformed));
    }

    proptest! {
        #[test]
        fn no_handshake_survives_a_changed_bit(step in 0_usize..4, at: prop::sample::Index, bit in 0_u32..8) {
            let ring = keyring(&[identity("a", "one"), identity("b", "one")]);
            let flip = |now, bytes: &mut Vec<u8>| {
                if now == step {
                    let at = at.index(bytes.len());
                    bytes[at] ^= 1 << bit;
                }
            };
            prop_assert!(run(Some(identity("a", "one")), Some(&ring), [PLAIN; 2], flip).is_err());
        }

        #[test]
        fn no_bytes_break_either_side(bytes in prop::collection::vec(any::<u8>(), 0..300), whole: bool) {
            crate::fuzzing::handshake(&bytes);
            if whole {
                crate::fuzzing::handshake(&message(&bytes));
            }
        }
    }
}
