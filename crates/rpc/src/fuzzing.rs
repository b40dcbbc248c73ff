//! What the fuzz targets run, as plain functions: any bytes, no panic, and what must not happen does not.

use bytes::BytesMut;

use crate::error::RemoteFailure;
use crate::frame::{self, Header};
use crate::handshake::{Channel, Client, Server, body_length};
use crate::secret::{Identity, Keyring, Secret};
use crate::stream;

/// Bytes of a peer as frames. The first byte says how they are cut.
pub fn frames(bytes: &[u8]) {
    const LIMIT: usize = 1 << 16;
    let Some((cut, rest)) = bytes.split_first() else { return };
    let mut buffer = BytesMut::new();
    for piece in rest.chunks(usize::from(*cut) + 1) {
        buffer.extend_from_slice(piece);
        loop {
            match frame::take_frame(&mut buffer, LIMIT) {
                Ok(Some(frame)) => {
                    assert!(frame.len() <= LIMIT);
                    let _ = frame::open(&frame);
                }
                Ok(None) => break,
                Err(_) => return,
            }
        }
        assert!(buffer.capacity() <= 8 * LIMIT, "memory grew with what was promised");
    }
}

/// Bytes as each of the headers and control messages; what can be read is written as it was meant.
pub fn messages(bytes: &[u8]) {
    let bytes = bytes::Bytes::copy_from_slice(bytes);
    if let Ok((header, body)) = frame::open(&bytes) {
        let mut out = BytesMut::new();
        frame::put_head(&mut out, &header, body.len());
        out.extend_from_slice(&body);
        let frame = frame::take_frame(&mut out, usize::MAX).unwrap().unwrap();
        let (again, rest): (Header<'_>, _) = frame::open(&frame).unwrap();
        assert_eq!((again, rest), (header, body));
    }
    let _ = postcard::from_bytes::<RemoteFailure>(&bytes);
    let _ = postcard::from_bytes::<stream::Request<'_>>(&bytes);
    let _ = postcard::from_bytes::<stream::Response>(&bytes);
    if let Ok(text) = std::str::from_utf8(&bytes) {
        let _ = text.parse::<crate::EndpointAddress>();
    }
}

/// Bytes in place of each message of a handshake: nobody is ever let in.
pub fn handshake(bytes: &[u8]) {
    let binding = [0; 32];
    let identity =
        Identity::new("app", Secret::new("a secret of some length", "").unwrap()).unwrap();
    let keyring = Keyring::new();
    keyring.insert(identity.clone());
    if let Some(prefix) = bytes.first_chunk() {
        let _ = body_length(prefix);
    }
    assert!(
        Server::challenge(bytes, Some(&keyring), &binding)
            .and_then(|(server, _)| server.finish(bytes))
            .is_err()
    );
    let (mut client, hello) = Client::hello(Channel::Messages, Some(identity), &binding);
    let (server, challenge) = Server::challenge(&hello, Some(&keyring), &binding).unwrap();
    assert!(server.finish(bytes).is_err());
    if client.prove(bytes).is_err() {
        client.prove(&challenge).unwrap();
    }
    assert!(client.finish(bytes).is_err());
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;
    use proptest::sample::Index;

    use super::*;

    /// A valid input of each kind: what a fuzzer would take long to find.
    fn seeds() -> Vec<Vec<u8>> {
        let headers = [
            Header::Call { id: Some(300), endpoint: "Master" },
            Header::Call { id: None, endpoint: "Worker" },
            Header::Reply { id: u64::MAX },
            Header::Failure { id: 1, failure: RemoteFailure::ReplyTooLarge { size: 9, limit: 8 } },
            Header::Lookup { id: 2, endpoint: "" },
            Header::Credit { amount: u32::MAX },
            Header::Ping,
            Header::Pong,
        ];
        let frames = headers.iter().map(|header| {
            let mut out = BytesMut::new();
            frame::put_head(&mut out, header, 5);
            out.extend_from_slice(b"hello");
            out.to_vec()
        });
        let frames: Vec<Vec<u8>> = frames.collect();
        let identity = Identity::new("app", Secret::new("a secret", "").unwrap()).unwrap();
        let (mut client, hello) = Client::hello(Channel::Streams, Some(identity), &[0; 32]);
        let keyring = Keyring::new();
        let (_, challenge) = Server::challenge(&hello, Some(&keyring), &[0; 32]).unwrap();
        let proof = client.prove(&challenge).unwrap();
        let bare = frames.iter().map(|frame| frame[frame::LENGTH..].to_vec());
        bare.chain([frames.concat(), hello, challenge, proof]).collect()
    }

    #[derive(Clone, Debug)]
    enum Change {
        Set(Index, u8),
        Cut(Index),
        Insert(Index, Vec<u8>),
        Repeat(Index),
    }

    fn change() -> impl Strategy<Value = Change> {
        let bytes = prop::collection::vec(any::<u8>(), 1..9);
        prop_oneof![
            any::<(Index, u8)>().prop_map(|(at, byte)| Change::Set(at, byte)),
            any::<Index>().prop_map(Change::Cut),
            (any::<Index>(), bytes).prop_map(|(at, bytes)| Change::Insert(at, bytes)),
            any::<Index>().prop_map(Change::Repeat),
        ]
    }

    fn apply(bytes: &mut Vec<u8>, change: Change) {
        if bytes.is_empty() {
            return;
        }
        match change {
            Change::Set(at, byte) => *at.get_mut(bytes) = byte,
            Change::Cut(at) => bytes.truncate(at.index(bytes.len())),
            Change::Insert(at, new) => {
                let at = at.index(bytes.len());
                bytes.splice(at..at, new);
            }
            Change::Repeat(at) => bytes.extend_from_within(at.index(bytes.len())..),
        }
    }

    proptest! {
        #![proptest_config(ProptestConfig { cases: 4000, failure_persistence: None, ..ProptestConfig::default() })]

        #[test]
        fn mutated_input_breaks_no_reader(
            seed: Index,
            cut: u8,
            changes in prop::collection::vec(change(), 0..5),
        ) {
            let mut bytes = seed.get(&seeds()).clone();
            changes.into_iter().for_each(|change| apply(&mut bytes, change));
            frames(&[&[cut], &bytes[..]].concat());
            messages(&bytes);
            handshake(&bytes);
        }
    }
}
