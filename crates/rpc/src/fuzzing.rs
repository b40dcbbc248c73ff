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
