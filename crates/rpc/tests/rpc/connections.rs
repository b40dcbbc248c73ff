//! Connections that come, go and come back, what endpoints hear of it, and the end of an environment.

use std::time::Duration;

use firesteel_rpc::*;
use tokio::net::{TcpListener, TcpStream};

use crate::stage::*;

/// Lines of the diary about connections.
fn news(server: &TestServer) -> Vec<String> {
    let about = |line: &String| line.contains("connect") || line.starts_with("network");
    server.diary.lines().into_iter().filter(about).collect()
}

/// A port that nobody listens on.
async fn free_port() -> RpcAddress {
    TcpListener::bind("127.0.0.1:0").await.unwrap().local_addr().unwrap().into()
}

#[test]
fn every_endpoint_that_talked_with_a_peer_hears_of_its_end_once() {
    run(async {
        let server = TestServer::open(options()).await;
        let second = Scribe::new();
        let diary = second.diary.clone();
        server.env.register("Second", second).unwrap();
        let silent = Scribe::new();
        let unheard = silent.diary.clone();
        server.env.register("Silent", silent).unwrap();
        let client = RpcEnv::client(options());
        for name in ["Scribe", "Second"] {
            let endpoint =
                client.endpoint_ref::<Ask>(&server.rpc_address().endpoint(name)).unwrap();
            for number in 0..3 {
                endpoint.ask(Ask::Echo(number)).await.unwrap();
            }
        }
        client.shutdown().await;
        server.diary.wait_for("disconnected", 1).await;
        diary.wait_for("disconnected", 1).await;
        server.env.shutdown().await;
        for diary in [&server.diary, &diary] {
            let lines = diary.lines();
            assert_eq!(diary.count("connected"), 1, "{lines:?}");
            assert_eq!(diary.count("disconnected"), 1, "{lines:?}");
            assert!(lines[1].starts_with("connected"), "before the first message: {lines:?}");
            assert!(lines[5].starts_with("disconnected"), "after the last message: {lines:?}");
        }
        assert_eq!(unheard.lines(), ["start Silent", "stop"]);
    });
}

#[test]
fn the_dialling_endpoint_hears_of_its_connection_too() {
    run(async {
        let server = TestServer::open(options()).await;
        let client = TestServer::on(RpcEnv::client(options()));
        let address = server.address();
        client.local.send(Ask::SendTo { address: address.clone(), number: 1 }).await.unwrap();
        server.diary.wait_for("echo 1", 1).await;
        server.env.shutdown().await;
        client.diary.wait_for("disconnected", 1).await;
        // Nobody listens any more: what is sent now cannot be.
        client.local.send(Ask::SendTo { address: address.clone(), number: 2 }).await.unwrap();
        client.diary.wait_for("network error", 1).await;
        let peer = address.address;
        let news = news(&client);
        assert_eq!(news[..2], [format!("connected {peer}"), format!("disconnected {peer}")]);
        assert!(
            news[2].starts_with(&format!("network error {peer}: could not connect")),
            "{news:?}"
        );
        assert_eq!(news.len(), 3);
    });
}

#[test]
fn asks_under_way_fail_when_the_connection_ends_and_later_ones_connect_again() {
    run(async {
        let first = TestServer::open(options()).await;
        let address = first.rpc_address();
        let client = RpcEnv::client(options());
        let endpoint = client.endpoint_ref::<Ask>(&first.address()).unwrap();
        let kept = endpoint.try_ask(Ask::Keep).unwrap();
        endpoint.ask(Ask::Echo(1)).await.unwrap();
        drop(first); // without a shutdown: cut off
        let cut = kept.wait().await.unwrap_err();
        assert!(matches!(cut, RpcError::Disconnected { .. }), "{cut}");
        // The same port, another environment: as after the restart of a process.
        let only = || RpcOptions { port_retries: 0, ..options() };
        let bind = || RpcEnv::server(only(), BindTo::new("127.0.0.1", address.port));
        let mut again = bind().await;
        while again.is_err() {
            tokio::task::yield_now().await;
            again = bind().await;
        }
        let again = again.unwrap();
        assert_eq!(again.address(), Some(&address));
        let second = TestServer::on(again);
        assert_eq!(endpoint.ask(Ask::Echo(2)).await.unwrap(), Answer::Number(2));
        assert_eq!(second.diary.count("echo"), 1);
    });
}

#[test]
fn a_peer_that_is_not_there_is_unreachable_and_says_where() {
    run(async {
        let address = free_port().await;
        let client = RpcEnv::client(options());
        let endpoint = client.endpoint_ref::<Ask>(&address.endpoint("Scribe")).unwrap();
        let error = endpoint.ask(Ask::Echo(1)).await.unwrap_err();
        assert!(matches!(error, RpcError::Unreachable { .. }), "{error}");
        assert!(error.to_string().contains(&address.to_string()), "{error}");
        let error = client.lookup::<Ask>(&address.endpoint("Scribe")).await.unwrap_err();
        assert!(matches!(error, RpcError::Unreachable { .. }), "{error}");
    });
}

#[test]
fn one_connection_serves_all_references_to_a_peer() {
    run(async {
        let server = TestServer::open(options()).await;
        server.env.register("Second", Scribe::new()).unwrap();
        let client = RpcEnv::client(options());
        let mut asks = tokio::task::JoinSet::new();
        for number in 0..50 {
            let name = ["Scribe", "Second"][number as usize % 2];
            let address = server.rpc_address().endpoint(name);
            let endpoint = client.endpoint_ref::<Ask>(&address).unwrap();
            asks.spawn(async move { endpoint.ask(Ask::Echo(number)).await.unwrap() });
        }
        asks.join_all().await;
        assert_eq!(server.diary.count("connected"), 1);
        assert_eq!(client.task_count(), 1);
    });
}

#[test]
fn a_peer_that_is_silent_for_too_long_counts_as_lost() {
    run(async {
        // Takes the connection and never says a word after the handshake: a copy of the bytes of a
        // real server, up to there.
        let server = TestServer::open(options()).await;
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let address: RpcAddress = listener.local_addr().unwrap().into();
        let target = server.rpc_address();
        let relay = tokio::spawn(async move {
            let (mut from, _) = listener.accept().await.unwrap();
            let mut to = TcpStream::connect((target.host.as_str(), target.port)).await.unwrap();
            pass_on_handshake(&mut from, &mut to).await;
            (from, to) // kept open, and nothing is read or written any more
        });
        let client =
            RpcEnv::client(RpcOptions { network_timeout: Duration::from_millis(800), ..options() });
        let endpoint = client.endpoint_ref::<Ask>(&address.endpoint("Scribe")).unwrap();
        let lost = endpoint.ask(Ask::Keep).await.unwrap_err();
        assert!(matches!(lost, RpcError::Disconnected { .. }), "{lost}");
        drop(relay.await.unwrap());
    });
}

#[test]
fn connections_without_traffic_stay() {
    let quick = RpcOptions { network_timeout: Duration::from_secs(1), ..options() };
    stays_without_traffic(quick.clone(), quick);
}

#[test]
fn connections_without_traffic_stay_when_the_timeouts_of_both_sides_differ() {
    let quick = RpcOptions { network_timeout: Duration::from_secs(1), ..options() };
    let patient = RpcOptions { network_timeout: Duration::from_secs(120), ..options() };
    stays_without_traffic(quick.clone(), patient.clone());
    stays_without_traffic(patient, quick);
}

fn stays_without_traffic(ours: RpcOptions, theirs: RpcOptions) {
    run(async {
        let quicker = ours.network_timeout.min(theirs.network_timeout);
        let server = TestServer::open(theirs).await;
        let client = RpcEnv::client(ours);
        let endpoint = client.endpoint_ref::<Ask>(&server.address()).unwrap();
        let kept = endpoint.try_ask(Ask::Keep).unwrap();
        tokio::time::sleep(3 * quicker).await; // what is tested is that nothing happens
        endpoint.ask(Ask::AnswerKept(3)).await.unwrap();
        assert_eq!(kept.wait().await.unwrap(), Answer::Number(3));
        assert_eq!(server.diary.count("disconnected"), 0);
    });
}

#[test]
fn a_shutdown_sends_what_is_queued_and_leaves_neither_tasks_nor_ports() {
    run(async {
        let server = TestServer::open(options()).await;
        let address = server.rpc_address();
        let client = TestServer::on(RpcEnv::client(options()));
        let endpoint = client.env.endpoint_ref::<Ask>(&server.address()).unwrap();
        for number in 0..500 {
            endpoint.try_send(Ask::Echo(number)).unwrap();
        }
        client.env.shutdown().await;
        assert_eq!(client.env.task_count(), 0);
        assert_eq!(client.diary.lines().last().unwrap(), "stop");
        server.diary.wait_for("echo", 500).await;
        for error in [endpoint.try_send(Ask::Echo(0)), endpoint.send(Ask::Echo(0)).await] {
            assert!(error.is_err());
        }
        let stopped = client.env.register("Late", Scribe::new()).unwrap_err();
        assert!(matches!(stopped, RpcError::EnvStopped), "{stopped}");
        let stopped = client.env.endpoint_ref::<Ask>(&address.endpoint("x")).unwrap_err();
        assert!(matches!(stopped, RpcError::EnvStopped), "{stopped}");
        server.env.shutdown().await;
        assert_eq!(server.env.task_count(), 0);
        TcpListener::bind((address.host.as_str(), address.port)).await.expect("the port is free");
    });
}

#[test]
fn a_shutdown_does_not_wait_for_ever_for_a_handler_that_does() {
    run(async {
        let server = TestServer::open(RpcOptions {
            shutdown_timeout: Duration::from_millis(100),
            ..options()
        })
        .await;
        server.local.send(Ask::Hold).await.unwrap();
        let waiting = server.local.try_ask(Ask::Echo(1)).unwrap();
        server.diary.wait_for("holding", 1).await;
        server.env.shutdown().await;
        assert_eq!(server.env.task_count(), 0);
        assert!(waiting.wait().await.is_err());
    });
}

#[test]
fn an_environment_that_is_dropped_ends_its_tasks() {
    run(async {
        let server = TestServer::open(options()).await;
        let address = server.rpc_address();
        let client = RpcEnv::client(options());
        client.endpoint_ref::<Ask>(&server.address()).unwrap().ask(Ask::Echo(1)).await.unwrap();
        drop(client);
        server.diary.wait_for("disconnected", 1).await;
        let TestServer { env, local, .. } = server;
        drop(env);
        eventually("the endpoint is gone", || local.try_send(Ask::Echo(1)).is_err()).await;
        eventually("the port is free", || {
            std::net::TcpListener::bind((address.host.as_str(), address.port)).is_ok()
        })
        .await;
    });
}

#[test]
fn a_taken_port_leads_to_the_next_one_as_often_as_allowed() {
    run(async {
        let first = TestServer::open(options()).await;
        let port = first.rpc_address().port;
        let bind = BindTo::new("127.0.0.1", port);
        let second = RpcEnv::server(options(), bind.clone()).await.unwrap();
        assert!(second.address().unwrap().port != port);
        let refused =
            RpcEnv::server(RpcOptions { port_retries: 0, ..options() }, bind).await.unwrap_err();
        assert!(refused.to_string().contains("spark.port.maxRetries"), "{refused}");
    });
}

#[test]
fn ports_beyond_loopback_need_a_secret_or_the_word_insecure() {
    run(async {
        let everywhere = || BindTo::new("0.0.0.0", 0);
        let refused = RpcEnv::server(options(), everywhere()).await.unwrap_err();
        assert!(matches!(refused, SetupError::InsecureBind { .. }), "{refused}");
        let text = refused.to_string();
        assert!(text.contains("openssl rand -hex 32") && text.contains("--insecure"), "{text}");
        RpcEnv::server(with_secret("a long enough secret"), everywhere()).await.unwrap();
        let insecure = RpcOptions { insecure: true, ..options() };
        let advertised = BindTo { advertise: Some("my-host".to_owned()), ..everywhere() };
        let env = RpcEnv::server(insecure, advertised).await.unwrap();
        assert_eq!(env.address().unwrap().host, "my-host");
        let nowhere =
            RpcEnv::server(options(), BindTo::new("no.such.host.invalid", 0)).await.unwrap_err();
        assert!(matches!(nowhere, SetupError::ResolveHost { .. }), "{nowhere}");
    });
}
