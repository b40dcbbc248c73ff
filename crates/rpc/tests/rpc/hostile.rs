//! Those who should not get in, and what they cannot do: nothing crashes, nothing leaks.

use std::sync::Arc;
use std::time::{Duration, Instant};

use firesteel_rpc::*;
use proptest::prelude::*;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{TcpListener, TcpStream};
use tokio::time::timeout;

use crate::stage::*;

async fn connect(address: &RpcAddress) -> TcpStream {
    TcpStream::connect((address.host.as_str(), address.port)).await.unwrap()
}

/// What comes back until the other side closes, which it has to.
async fn until_closed(mut stream: TcpStream) -> Vec<u8> {
    let mut bytes = Vec::new();
    let closed = timeout(DEADLINE, stream.read_to_end(&mut bytes)).await;
    closed.expect("the connection stays open").ok(); // a reset is an end too
    bytes
}

/// The server still serves, and has nothing left of those it refused.
async fn serves_only(server: &TestServer, options: RpcOptions) {
    let client = RpcEnv::client(options);
    let endpoint = client.endpoint_ref::<Ask>(&server.address()).unwrap();
    assert_eq!(endpoint.ask(Ask::Echo(1)).await.unwrap(), Answer::Number(1));
    client.shutdown().await;
    // The listener and the scribe.
    eventually("only two tasks are left", || server.env.task_count() == 2).await;
}

async fn refusal(server: &TestServer, options: RpcOptions) -> Arc<HandshakeError> {
    let client = RpcEnv::client(options);
    let endpoint = client.endpoint_ref::<Ask>(&server.address()).unwrap();
    let error = endpoint.ask(Ask::Echo(1)).await.unwrap_err();
    let RpcError::Handshake { source, .. } = error else { panic!("{error}") };
    source
}

#[test]
fn wrong_and_missing_secrets_are_refused_with_what_to_set() {
    run(async {
        let server = TestServer::open(with_secret("the right one")).await;
        let wrong = refusal(&server, with_secret("the wrong one")).await;
        assert!(matches!(*wrong, HandshakeError::Refused), "{wrong}");
        let missing = refusal(&server, options()).await;
        assert!(matches!(*missing, HandshakeError::MissingSecret), "{missing}");
        assert!(missing.to_string().contains("spark.authenticate.secret"), "{missing}");
        let open = TestServer::open(options()).await;
        let unexpected = refusal(&open, with_secret("the right one")).await;
        assert!(matches!(*unexpected, HandshakeError::NotAuthenticating), "{unexpected}");
        server.diary.wait_for("start", 1).await;
        assert_eq!(server.diary.lines(), ["start Scribe"], "nothing reached the endpoint");
        serves_only(&server, with_secret("the right one")).await;
    });
}

#[test]
fn each_application_has_its_own_secret_and_endpoints_know_who_calls() {
    run(async {
        let keyring = Keyring::new();
        let application = |name: &str, secret: &str| {
            Identity::new(name, Secret::new(secret, "test").unwrap()).unwrap()
        };
        keyring.insert(application("app-1", "secret of one"));
        let server =
            TestServer::open(RpcOptions { keyring: Some(keyring.clone()), ..options() }).await;
        let dial = |identity| RpcOptions { identity: Some(identity), ..options() };
        let second = || dial(application("app-2", "secret of two"));
        assert!(matches!(*refusal(&server, second()).await, HandshakeError::Refused));
        keyring.insert(application("app-2", "secret of two"));
        serves_only(&server, second()).await;
        server.diary.wait_for("echo 1 app-2", 1).await;
        let stolen = dial(application("app-1", "secret of two"));
        assert!(matches!(*refusal(&server, stolen).await, HandshakeError::Refused));
        keyring.remove("app-1");
        keyring.remove("app-2");
        // Nobody is left, which is not the same as everybody.
        assert!(matches!(*refusal(&server, second()).await, HandshakeError::Refused));
        assert!(matches!(*refusal(&server, options()).await, HandshakeError::MissingSecret));
    });
}

#[test]
fn another_version_is_told_so_on_both_sides() {
    run(async {
        // A client of the future, at our server.
        let server = TestServer::open(options()).await;
        let mut future = connect(&server.rpc_address()).await;
        future.write_all(b"FSRP\xff\x7f\x20\x00and something we cannot know about").await.unwrap();
        let answer = until_closed(future).await;
        assert_eq!(answer[..6], [b'F', b'S', b'R', b'P', PROTOCOL_VERSION as u8, 0]);
        serves_only(&server, options()).await;
        // A server of the future, for our client.
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let address: RpcAddress = listener.local_addr().unwrap().into();
        let answer = tokio::spawn(async move {
            let (mut stream, _) = listener.accept().await.unwrap();
            stream.write_all(b"FSRP\x63\x00\x01\x00\x02").await.unwrap();
            until_closed(stream).await;
        });
        let client = RpcEnv::client(options());
        let error = client.lookup::<Ask>(&address.endpoint("Scribe")).await.unwrap_err();
        assert!(error.to_string().contains("protocol version 99, this one 1"), "{error}");
        answer.await.unwrap();
    });
}

#[test]
fn something_else_at_the_port_is_recognised() {
    run(async {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let address: RpcAddress = listener.local_addr().unwrap().into();
        tokio::spawn(async move {
            for reply in
                [&b"HTTP/1.1 400 Bad Request\r\n\r\n"[..], b"\x15\x03\x03\x00\x02\x02\x46\x00"]
            {
                let (mut stream, _) = listener.accept().await.unwrap();
                stream.write_all(reply).await.unwrap();
                until_closed(stream).await;
            }
        });
        let client = RpcEnv::client(options());
        let mut errors = Vec::new();
        for _ in 0..2 {
            let error = client.lookup::<Ask>(&address.endpoint("Scribe")).await.unwrap_err();
            errors.push(error.to_string());
        }
        assert!(errors[0].contains("a web port is not the RPC port"), "{errors:?}");
        assert!(errors[1].contains("spark.ssl.rpc.enabled"), "{errors:?}");
    });
}

#[test]
fn a_recorded_client_gets_nowhere_and_decodes_nothing() {
    run(async {
        let server = TestServer::open(with_secret("the right one")).await;
        let target = server.rpc_address();
        // Between a client and the server sits somebody who writes down what the client says.
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let between: RpcAddress = listener.local_addr().unwrap().into();
        let to = target.clone();
        let recording = tokio::spawn(async move {
            let (client, _) = listener.accept().await.unwrap();
            let (mut from_client, mut to_client) = client.into_split();
            let (mut from_server, mut to_server) = connect(&to).await.into_split();
            tokio::spawn(async move { tokio::io::copy(&mut from_server, &mut to_client).await });
            let (mut said, mut buffer) = (Vec::new(), [0; 1024]);
            while let Ok(read @ 1..) = from_client.read(&mut buffer).await {
                said.extend_from_slice(&buffer[..read]);
                to_server.write_all(&buffer[..read]).await.unwrap();
            }
            said
        });
        let client = RpcEnv::client(with_secret("the right one"));
        let endpoint = client.endpoint_ref::<Ask>(&between.endpoint("Scribe")).unwrap();
        endpoint.ask(Ask::Echo(77)).await.unwrap();
        client.shutdown().await;
        let said = recording.await.unwrap();
        let mut replayed = connect(&target).await;
        replayed.write_all(&said).await.unwrap();
        until_closed(replayed).await;
        serves_only(&server, with_secret("the right one")).await;
        assert_eq!(server.diary.count("echo 77"), 1, "{:?}", server.diary.lines());
    });
}

#[test]
fn half_open_clients_are_cut_off_and_keep_nobody_out_for_long() {
    run(async {
        let options = RpcOptions {
            handshake_timeout: Duration::from_secs(2),
            pending_handshakes: 4,
            ..options()
        };
        let server = TestServer::open(options.clone()).await;
        let mut idle = Vec::new();
        for index in 0..12 {
            let mut stream = connect(&server.rpc_address()).await;
            if index % 2 == 0 {
                stream.write_all(b"FSRP\x01\x00").await.unwrap(); // and the rest never comes
            }
            idle.push(stream);
        }
        let patient = RpcOptions { handshake_timeout: DEADLINE, ..options };
        serves_only(&server, patient).await;
        for stream in idle {
            until_closed(stream).await;
        }
    });
}

#[test]
fn half_open_clients_of_one_address_do_not_keep_the_next_one_waiting() {
    run(async {
        let options =
            RpcOptions { handshake_timeout: DEADLINE, pending_handshakes: 4, ..options() };
        let server = TestServer::open(options.clone()).await;
        let mut idle = Vec::new();
        for _ in 0..12 {
            let mut stream = connect(&server.rpc_address()).await;
            stream.write_all(b"FSRP\x01\x00").await.unwrap(); // and the rest never comes
            idle.push(stream);
        }
        let client = RpcEnv::client(options);
        let endpoint = client.endpoint_ref::<Ask>(&server.address()).unwrap();
        assert_eq!(endpoint.ask(Ask::Echo(1)).await.unwrap(), Answer::Number(1));
        until_closed(idle.remove(0)).await; // long before its time was over
    });
}

#[test]
fn an_address_with_as_many_connections_as_it_may_have_is_told_so_until_one_ends() {
    run(async {
        let limited = RpcOptions { connections_per_address: 2, ..options() };
        let server = TestServer::open(limited).await;
        let held = [let_in(&server).await, let_in(&server).await];
        let refused = refusal(&server, options()).await;
        assert!(matches!(*refused, HandshakeError::TooManyConnections), "{refused}");
        drop(held);
        let client = RpcEnv::client(options());
        let endpoint = client.endpoint_ref::<Ask>(&server.address()).unwrap();
        let start = Instant::now();
        while endpoint.ask(Ask::Echo(5)).await.is_err() {
            assert!(start.elapsed() < DEADLINE, "nobody is let in any more");
        }
    });
}

#[test]
fn a_client_that_drips_byte_by_byte_is_cut_off_by_the_same_deadline() {
    run(async {
        let options = RpcOptions { handshake_timeout: Duration::from_secs(2), ..options() };
        let server = TestServer::open(options.clone()).await;
        let mut stream = connect(&server.rpc_address()).await;
        let hello = b"FSRP\x01\x00\x60\x00".iter().chain(std::iter::repeat(&b'x'));
        let mut sent = 0;
        for byte in hello {
            if stream.write_all(&[*byte]).await.is_err() {
                break;
            }
            sent += 1;
            assert!(sent < 5000, "nobody minds");
            tokio::time::sleep(Duration::from_millis(5)).await; // the attack itself
        }
        serves_only(&server, options).await;
    });
}

/// A connection that did a proper handshake, for hostile frames.
async fn let_in(server: &TestServer) -> TcpStream {
    // Through a real client whose bytes pass by here, then cut in.
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let address: RpcAddress = listener.local_addr().unwrap().into();
    let client = RpcEnv::client(options());
    let endpoint = client.endpoint_ref::<Ask>(&address.endpoint("Scribe")).unwrap();
    endpoint.try_send(Ask::Recorded).unwrap();
    let (mut from, _) = listener.accept().await.unwrap();
    let mut to = connect(&server.rpc_address()).await;
    pass_on_handshake(&mut from, &mut to).await;
    to
}

#[test]
fn frames_over_the_limit_and_garbage_end_their_connection_and_nothing_else() {
    run(async {
        let server = TestServer::open(RpcOptions { max_message: 1 << 20, ..options() }).await;
        let over = (2_u32 << 20).to_le_bytes();
        let huge = u32::MAX.to_le_bytes();
        let credit = [6, 0, 0, 0, 4, 255, 255, 255, 255, 15];
        let cut = [100, 0, 0, 0, 1, 2, 3];
        for bytes in [
            &over[..],
            &huge,
            b"\x01\0\0\0\xff",
            b"\0\0\0\0",
            &credit,
            &cut,
            b"GET / HTTP/1.1\r\n\r\n",
        ] {
            let mut stream = let_in(&server).await;
            stream.write_all(bytes).await.unwrap();
            stream.shutdown().await.unwrap();
            until_closed(stream).await;
        }
        serves_only(&server, options()).await;
    });
}

#[test]
fn a_peer_that_ignores_its_credit_is_cut_off() {
    run(async {
        let server = TestServer::open(options()).await;
        server.local.send(Ask::Hold).await.unwrap();
        server.diary.wait_for("holding", 1).await;
        let mut stream = let_in(&server).await;
        // One-way calls of the scribe, of 1 MB each, and no wait for credit.
        let mut frame = (1_000_009_u32).to_le_bytes().to_vec();
        frame.extend(b"\x00\x00\x06Scribe");
        frame.extend(vec![0; 1_000_000]);
        let mut sent = 0;
        while stream.write_all(&frame).await.is_ok() {
            sent += 1;
            assert!(sent < 100, "the window has no end");
        }
        server.gate.notify_one();
        serves_only(&server, options()).await;
    });
}

#[test]
fn a_peer_that_reads_no_replies_is_cut_off() {
    run(async {
        let limits = RpcOptions { outbox_bytes: 1 << 20, max_message: 1 << 20, ..options() };
        let server = TestServer::open(limits).await;
        let mut stream = let_in(&server).await;
        // Asks for 900 kB, again and again; the replies stay where they are.
        let ask = b"\x0e\0\0\0\x00\x01\x07\x06Scribe\x02\xa0\xf7\x36";
        let mut asked = 0;
        while stream.write_all(ask).await.is_ok() {
            asked += 1;
            assert!(asked < 10_000, "nobody minds");
            tokio::time::sleep(Duration::from_millis(1)).await; // each ask is for 900 kB
        }
        assert!(asked > 2, "cut off before there was a reason: {asked}");
        serves_only(&server, options()).await;
    });
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 8, failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn no_first_bytes_harm_a_server(
        attacks in prop::collection::vec((prop::collection::vec(any::<u8>(), 0..200), any::<bool>()), 20),
    ) {
        run(async move {
            let options = RpcOptions { handshake_timeout: Duration::from_secs(2), ..with_secret("a secret") };
            let server = TestServer::open(options.clone()).await;
            for (bytes, proper) in attacks {
                let mut stream = connect(&server.rpc_address()).await;
                let prefix = [&b"FSRP\x01\x00"[..], &(bytes.len() as u16).to_le_bytes()].concat();
                let bytes = if proper { [prefix, bytes].concat() } else { bytes };
                stream.write_all(&bytes).await.ok();
                stream.shutdown().await.ok();
                until_closed(stream).await;
            }
            serves_only(&server, options).await;
            assert_eq!(server.diary.count("echo"), 1);
        });
    }
}
