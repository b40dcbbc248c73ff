//! Streams of bulk bytes: what arrives, what does not, and how each is told.

use std::collections::BTreeMap;
use std::io::{self, Write};
use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use bytes::Bytes;
use firesteel_rpc::*;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpListener;

use crate::stage::*;

/// Bytes, files and trouble by id.
#[derive(Default)]
pub(crate) struct Shelf {
    bytes: BTreeMap<String, Bytes>,
    files: BTreeMap<String, (PathBuf, u64, u64)>,
    opened: AtomicUsize,
}

impl StreamSource for Shelf {
    fn open(&self, id: &str, peer: &Peer) -> Result<StreamBody, OpenError> {
        self.opened.fetch_add(1, Ordering::SeqCst);
        if id == "who" {
            return Ok(StreamBody::Bytes(peer.identity.to_string().into()));
        }
        if id == "broken" {
            return Err(io::Error::other("the disk is on fire").into());
        }
        assert!(id != "panic", "the source panics");
        if let Some(bytes) = self.bytes.get(id) {
            return Ok(StreamBody::Bytes(bytes.clone()));
        }
        if id == "parts" {
            let mut whole = self.bytes["memory"].clone();
            let start = whole.split_to(whole.len() / 5);
            return Ok(StreamBody::Parts(vec![start, Bytes::new(), whole]));
        }
        let (path, offset, length) = self.files.get(id).ok_or(OpenError::Missing)?;
        Ok(StreamBody::File { file: std::fs::File::open(path)?, offset: *offset, length: *length })
    }
}

/// Bytes that are different everywhere.
fn noise(length: usize) -> Vec<u8> {
    let mut bytes = vec![0; length];
    blake3::Hasher::new().finalize_xof().fill(&mut bytes);
    bytes
}

pub(crate) struct Library {
    pub(crate) server: TestServer,
    pub(crate) shelf: Arc<Shelf>,
    pub(crate) contents: Vec<u8>,
    _file: tempfile::NamedTempFile,
}

impl Library {
    /// A server with a file of `length` bytes, whole and in part, and bytes in memory.
    pub(crate) async fn open(length: usize, options: RpcOptions) -> Self {
        let (mut file, contents) = (tempfile::NamedTempFile::new().unwrap(), noise(length));
        file.write_all(&contents).unwrap();
        let mut shelf = Shelf::default();
        let path = file.path().to_owned();
        let third = length as u64 / 3;
        shelf.files.insert("whole".into(), (path.clone(), 0, length as u64));
        shelf.files.insert("middle".into(), (path.clone(), third, third));
        shelf.files.insert("too long".into(), (path, 0, length as u64 + 1));
        shelf.files.insert("gone".into(), ("/nowhere/at/all".into(), 0, 1));
        shelf.bytes.insert("memory".into(), contents.clone().into());
        shelf.bytes.insert("empty".into(), Bytes::new());
        let (server, shelf) = (TestServer::open(options).await, Arc::new(shelf));
        server.env.serve_streams(shelf.clone());
        Self { server, shelf, contents, _file: file }
    }

    /// Reads everything there is and compares.
    pub(crate) async fn check(&self, client: &RpcEnv) {
        let address = self.server.rpc_address();
        let third = self.contents.len() / 3;
        let empty = [];
        let middle = &self.contents[third..2 * third];
        let all = &self.contents[..];
        for (id, expected) in
            [("whole", all), ("middle", middle), ("memory", all), ("parts", all), ("empty", &empty)]
        {
            let read = client.streams().read(&address, id, u64::MAX).await.unwrap();
            assert_eq!(blake3::hash(&read), blake3::hash(expected), "{id}");
        }
    }
}

#[test]
fn large_files_ranges_and_bytes_arrive_as_they_are() {
    run(async {
        let library = Library::open(33_000_001, options()).await;
        let client = RpcEnv::client(options());
        library.check(&client).await;
        client.shutdown().await;
        library.server.env.shutdown().await;
        assert_eq!((client.task_count(), library.server.env.task_count()), (0, 0));
    });
}

#[test]
fn a_stream_can_be_read_piece_by_piece_and_says_how_long_it_is() {
    run(async {
        let library = Library::open(3_000_000, options()).await;
        let client = RpcEnv::client(options());
        let address = library.server.rpc_address();
        let mut stream = client.streams().open(&address, "whole", 3_000_000).await.unwrap();
        assert_eq!(stream.length(), 3_000_000);
        let mut read = vec![0; 7];
        stream.read_exact(&mut read).await.unwrap();
        stream.read_to_end(&mut read).await.unwrap();
        assert_eq!(blake3::hash(&read), blake3::hash(&library.contents));
        assert_eq!(stream.read(&mut [0; 9]).await.unwrap(), 0);
    });
}

#[test]
fn what_is_missing_broken_or_too_large_is_told_apart_and_the_connection_is_used_again() {
    run(async {
        let library = Library::open(100_000, with_secret("of the library")).await;
        let client = RpcEnv::client(with_secret("of the library"));
        let address = library.server.rpc_address();
        let read = async |id: &str, limit| client.streams().read(&address, id, limit).await;
        let missing = read("nothing", 10).await.unwrap_err();
        assert!(matches!(missing, StreamError::Missing { .. }), "{missing}");
        for (id, reason) in [("broken", "on fire"), ("gone", "No such file"), ("panic", "panic")] {
            let failed = read(id, 10).await.unwrap_err();
            assert!(matches!(failed, StreamError::Failed { .. }), "{failed}");
            assert!(failed.to_string().contains(reason), "{failed}");
        }
        let large = read("whole", 99_999).await.unwrap_err();
        assert!(
            matches!(large, StreamError::TooLarge { length: 100_000, limit: 99_999, .. }),
            "{large}"
        );
        let short = read("too long", u64::MAX).await.unwrap_err();
        assert!(matches!(short, StreamError::Broken { .. }), "{short}");
        let long = read(&"x".repeat(MAX_STREAM_ID + 1), 1).await.unwrap_err();
        assert!(matches!(long, StreamError::LongId { .. }), "{long}");
        assert_eq!(read("who", 100).await.unwrap(), DEFAULT_IDENTITY.as_bytes());
        let nobody = RpcEnv::client(options());
        let refused = nobody.streams().read(&address, "who", 100).await.unwrap_err();
        assert!(matches!(refused, StreamError::Connect(RpcError::Handshake { .. })), "{refused}");
        let nothing = TestServer::open(options()).await;
        let unserved = nobody.streams().read(&nothing.rpc_address(), "who", 1).await.unwrap_err();
        assert!(matches!(unserved, StreamError::Missing { .. }), "{unserved}");
    });
}

#[test]
fn many_streams_share_few_connections() {
    run(async {
        let library = Library::open(200_000, options()).await;
        let client = RpcEnv::client(RpcOptions { stream_connections: 3, ..options() });
        let address = library.server.rpc_address();
        let mut reads = tokio::task::JoinSet::new();
        for _ in 0..60 {
            let (client, address) = (client.clone(), address.clone());
            reads.spawn(async move {
                client.streams().read(&address, "whole", u64::MAX).await.unwrap()
            });
        }
        for read in reads.join_all().await {
            assert_eq!(blake3::hash(&read), blake3::hash(&library.contents));
        }
        assert_eq!(library.shelf.opened.load(Ordering::SeqCst), 60);
        // The listener, the scribe, and at most three connections.
        assert!(library.server.env.task_count() <= 5, "{}", library.server.env.task_count());
    });
}

#[test]
fn a_dropped_stream_ends_on_the_other_side_and_gives_its_place_back() {
    run(async {
        let library = Library::open(20_000_000, options()).await;
        let client = RpcEnv::client(RpcOptions { stream_connections: 1, ..options() });
        let address = library.server.rpc_address();
        for _ in 0..3 {
            let mut stream = client.streams().open(&address, "whole", u64::MAX).await.unwrap();
            stream.read_exact(&mut [0; 10]).await.unwrap();
            drop(stream);
        }
        eventually("the server has let go", || library.server.env.task_count() == 2).await;
        library.check(&client).await;
    });
}

#[test]
fn a_slow_reader_holds_the_sender_back_and_nobody_else() {
    run(async {
        let library = Library::open(20_000_000, options()).await;
        let client = RpcEnv::client(options());
        let address = library.server.rpc_address();
        let slow = client.streams().open(&address, "whole", u64::MAX).await.unwrap();
        library.check(&client).await;
        let endpoint = client.endpoint_ref::<Ask>(&library.server.address()).unwrap();
        endpoint.ask(Ask::Echo(1)).await.unwrap();
        let mut file = Vec::new();
        assert_eq!(slow.copy_to(&mut file).await.unwrap(), 20_000_000);
        assert_eq!(blake3::hash(&file), blake3::hash(&library.contents));
    });
}

#[test]
fn a_connection_the_server_closed_meanwhile_is_replaced_without_a_word() {
    run(async {
        let quick = RpcOptions { network_timeout: Duration::from_secs(1), ..options() };
        let library = Library::open(1000, quick).await;
        let client = RpcEnv::client(options());
        let address = library.server.rpc_address();
        client.streams().read(&address, "whole", 1000).await.unwrap();
        eventually("the server has closed it", || library.server.env.task_count() == 2).await;
        client.streams().read(&address, "whole", 1000).await.unwrap();
    });
}

#[test]
fn a_peer_that_dies_in_the_middle_is_a_broken_connection() {
    run(async {
        let library = Library::open(20_000_000, options()).await;
        let client = RpcEnv::client(options());
        let address = library.server.rpc_address();
        let stream = client.streams().open(&address, "whole", u64::MAX).await.unwrap();
        drop(library);
        let broken = stream.copy_to(&mut tokio::io::sink()).await.unwrap_err();
        assert!(matches!(broken, StreamError::Broken { .. }), "{broken}");
        let port = (address.host.as_str(), address.port);
        eventually("the port is free", || std::net::TcpListener::bind(port).is_ok()).await;
        let gone = client.streams().read(&address, "whole", 1).await.unwrap_err();
        assert!(matches!(gone, StreamError::Connect(RpcError::Unreachable { .. })), "{gone}");
    });
}

#[test]
fn where_the_bytes_go_to_can_fail_too_and_is_not_the_connections_fault() {
    struct Full;
    impl tokio::io::AsyncWrite for Full {
        fn poll_write(
            self: std::pin::Pin<&mut Self>,
            _: &mut std::task::Context<'_>,
            _: &[u8],
        ) -> std::task::Poll<io::Result<usize>> {
            std::task::Poll::Ready(Err(io::ErrorKind::StorageFull.into()))
        }
        fn poll_flush(
            self: std::pin::Pin<&mut Self>,
            _: &mut std::task::Context<'_>,
        ) -> std::task::Poll<io::Result<()>> {
            std::task::Poll::Ready(Ok(()))
        }
        fn poll_shutdown(
            self: std::pin::Pin<&mut Self>,
            _: &mut std::task::Context<'_>,
        ) -> std::task::Poll<io::Result<()>> {
            std::task::Poll::Ready(Ok(()))
        }
    }
    run(async {
        let library = Library::open(10_000, options()).await;
        let client = RpcEnv::client(options());
        let stream =
            client.streams().open(&library.server.rpc_address(), "whole", u64::MAX).await.unwrap();
        let full = stream.copy_to(&mut Full).await.unwrap_err();
        assert!(matches!(full, StreamError::Write { .. }), "{full}");
    });
}

#[test]
fn a_server_of_streams_that_lies_or_stalls_is_a_broken_connection() {
    run(async {
        // After the handshake and the request the real server's bytes are replaced by these.
        let lies: [&[u8]; 4] = [
            b"\xff\xff\xff\x7f",                    // a response of impossible length
            b"\x02\0\0\0\x00\x0a\x00\xff\0\0\0",    // a piece longer than the stream
            b"\x02\0\0\0\x00\x0a\x00\0\0\0\0",      // a piece of nothing
            b"\x02\0\0\0\x00\x0a\x00\x05\0\0\0abc", // and then silence
        ];
        let library = Library::open(10, options()).await;
        let target = library.server.rpc_address();
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let address: RpcAddress = listener.local_addr().unwrap().into();
        tokio::spawn(async move {
            for lie in lies {
                let (mut from, _) = listener.accept().await.unwrap();
                let mut to = tokio::net::TcpStream::connect((target.host.as_str(), target.port))
                    .await
                    .unwrap();
                for step in 0..4 {
                    let (reader, writer) =
                        if step % 2 == 0 { (&mut from, &mut to) } else { (&mut to, &mut from) };
                    let mut message = vec![0; 8];
                    reader.read_exact(&mut message).await.unwrap();
                    message.resize(8 + usize::from(message[6]), 0);
                    reader.read_exact(&mut message[8..]).await.unwrap();
                    writer.write_all(&message).await.unwrap();
                }
                from.write_all(lie).await.unwrap();
                let _ = tokio::io::copy(&mut from, &mut tokio::io::sink()).await;
            }
        });
        let client =
            RpcEnv::client(RpcOptions { network_timeout: Duration::from_millis(300), ..options() });
        for _ in 0..4 {
            let broken = client.streams().read(&address, "whole", 100).await.unwrap_err();
            assert!(matches!(broken, StreamError::Broken { .. }), "{broken}");
        }
    });
}
