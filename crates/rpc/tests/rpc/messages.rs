//! What endpoints may rely on, over both transports: inside one process, and over TCP.

use std::time::Duration;

use firesteel_rpc::*;
use proptest::prelude::*;

use crate::stage::*;

/// Runs a test with a reference inside the process and with one over TCP.
fn on_both(test: impl AsyncFn(&TestServer, EndpointRef<Ask>)) {
    on_both_with(options(), test);
}

fn on_both_with(options: RpcOptions, test: impl AsyncFn(&TestServer, EndpointRef<Ask>)) {
    for remote in [false, true] {
        run(async {
            let server = TestServer::open(options.clone()).await;
            let client = RpcEnv::client(options.clone());
            let endpoint = match remote {
                true => client.endpoint_ref(&server.address()).unwrap(),
                false => server.local.clone(),
            };
            test(&server, endpoint).await;
            client.shutdown().await;
            server.env.shutdown().await;
            assert_eq!((client.task_count(), server.env.task_count()), (0, 0), "tasks were left");
        });
    }
}

#[test]
fn an_ask_is_answered_and_a_send_is_not() {
    on_both(async |server, endpoint| {
        assert_eq!(endpoint.ask(Ask::Echo(7)).await.unwrap(), Answer::Number(7));
        endpoint.send(Ask::Echo(8)).await.unwrap();
        endpoint.try_send(Ask::Echo(9)).unwrap();
        let pending = endpoint.try_ask(Ask::Echo(10)).unwrap();
        assert_eq!(pending.wait().await.unwrap(), Answer::Number(10));
        let echoes: Vec<String> =
            server.diary.lines().into_iter().filter(|line| line.starts_with("echo")).collect();
        assert_eq!(echoes, ["echo 7 ", "echo 8 ", "echo 9 ", "echo 10 "]);
    });
}

#[test]
fn a_handler_that_fails_or_panics_tells_the_asker_and_the_next_message_is_handled() {
    on_both(async |server, endpoint| {
        let failed = endpoint.ask(Ask::Fail("no such thing".into())).await.unwrap_err();
        let RpcError::HandlerFailed { name, message, .. } = failed else { panic!("{failed}") };
        assert_eq!((name.as_str(), message.as_str()), ("Scribe", "no such thing"));
        let panicked = endpoint.ask(Ask::Panic("out of ink".into())).await.unwrap_err();
        assert!(panicked.to_string().contains("panicked: out of ink"), "{panicked}");
        endpoint.send(Ask::Panic("again".into())).await.unwrap();
        assert_eq!(endpoint.ask(Ask::Echo(1)).await.unwrap(), Answer::Number(1));
        assert_eq!(server.diary.count("error"), 3);
    });
}

#[test]
fn a_reply_can_be_given_later_and_a_dropped_question_is_a_failure_at_once() {
    on_both(async |_, endpoint| {
        let kept = endpoint.try_ask(Ask::Keep).unwrap();
        let also = endpoint.try_ask(Ask::Keep).unwrap();
        endpoint.ask(Ask::AnswerKept(5)).await.unwrap();
        assert_eq!(kept.wait().await.unwrap(), Answer::Number(5));
        assert_eq!(also.wait().await.unwrap(), Answer::Number(5));
        let forgotten = endpoint.ask(Ask::Forget).await.unwrap_err();
        assert!(matches!(forgotten, RpcError::NoReply { .. }), "{forgotten}");
    });
}

#[test]
fn an_ask_without_an_answer_times_out_and_says_which_key_to_change() {
    on_both(async |_, endpoint| {
        let late = endpoint.ask_within(Ask::Keep, Duration::from_millis(20)).await.unwrap_err();
        assert!(matches!(late, RpcError::Timeout { .. }), "{late}");
        assert!(late.to_string().contains("spark.rpc.askTimeout"), "{late}");
        let pending = endpoint.try_ask(Ask::Keep).unwrap();
        let late = pending.wait_within(Duration::from_millis(20)).await.unwrap_err();
        assert!(matches!(late, RpcError::Timeout { .. }), "{late}");
        // The answers that come too late disturb nobody.
        assert_eq!(endpoint.ask(Ask::AnswerKept(1)).await.unwrap(), Answer::Number(0));
        assert_eq!(endpoint.ask(Ask::Echo(1)).await.unwrap(), Answer::Number(1));
    });
}

#[test]
fn a_stopped_endpoint_is_unknown_and_what_waited_in_it_was_handled() {
    on_both(async |server, endpoint| {
        let pending = endpoint.try_ask(Ask::Echo(3)).unwrap();
        server.diary.wait_for("echo 3", 1).await;
        server.env.stop(&server.local);
        assert_eq!(pending.wait().await.unwrap(), Answer::Number(3));
        server.diary.wait_for("stop", 1).await;
        let gone = endpoint.ask(Ask::Echo(4)).await.unwrap_err();
        let expected =
            matches!(gone, RpcError::UnknownEndpoint { .. } | RpcError::EndpointStopped { .. });
        assert!(expected, "{gone}");
        let lines = server.diary.lines();
        assert_eq!((lines[0].as_str(), lines.last().unwrap().as_str()), ("start Scribe", "stop"));
        TestServer::on(server.env.clone()); // the name is free again
    });
}

#[test]
fn a_full_queue_makes_senders_wait_and_keeps_memory_bounded() {
    let options = RpcOptions { outbox_bytes: 1 << 20, inbox_messages: 30, ..options() };
    on_both_with(options, async |server, endpoint| {
        endpoint.send(Ask::Hold).await.unwrap();
        server.diary.wait_for("holding", 1).await;
        let blob = || Ask::Blob(vec![1; 100_000]);
        let mut accepted = 0;
        let full = eventually("the queue is full", || match endpoint.try_send(blob()) {
            Ok(()) => {
                accepted += 1;
                false
            }
            Err(error) => {
                assert!(matches!(error, RpcError::QueueFull { .. }), "{error}");
                accepted > 10
            }
        });
        full.await;
        // 8 MiB at the receiver, 1 MiB here, and what the sockets hold; or 30 messages.
        assert!(accepted < 300, "{accepted} messages of 100 kB were taken");
        let waiting = endpoint.clone();
        let sending = tokio::spawn(async move { waiting.send(Ask::Echo(1)).await });
        assert_eq!(server.diary.count("blob"), 0);
        server.gate.notify_one();
        sending.await.unwrap().unwrap();
        server.diary.wait_for("echo 1", 1).await;
        assert_eq!(server.diary.count("blob"), accepted, "none is lost");
    });
}

#[test]
fn messages_over_the_limit_are_refused_before_they_are_sent_and_replies_after() {
    run(async {
        let options = RpcOptions { max_message: 1 << 20, ..options() };
        let server = TestServer::open(options.clone()).await;
        let client = RpcEnv::client(options);
        let endpoint = client.endpoint_ref::<Ask>(&server.address()).unwrap();
        let large = endpoint.ask(Ask::Blob(vec![0; 2 << 20])).await.unwrap_err();
        assert!(matches!(large, RpcError::TooLarge { .. }), "{large}");
        assert!(large.to_string().contains("spark.rpc.message.maxSize"), "{large}");
        let large = endpoint.ask(Ask::Make(2 << 20)).await.unwrap_err();
        assert!(matches!(large, RpcError::TooLarge { .. }), "{large}");
        let fits = endpoint.ask(Ask::Blob(vec![0; (1 << 20) - 10])).await.unwrap();
        assert_eq!(fits, Answer::Number((1 << 20) - 10));
    });
}

#[test]
fn messages_larger_than_the_window_pass_one_after_the_other() {
    run(async {
        let server = TestServer::open(options()).await;
        let client = RpcEnv::client(options());
        let endpoint = client.endpoint_ref::<Ask>(&server.address()).unwrap();
        for length in [3 << 20, 12 << 20, 1, 9 << 20, 5 << 20, 5 << 20, 8 << 20] {
            endpoint.send(Ask::Blob(vec![3; length])).await.unwrap();
        }
        assert_eq!(
            endpoint.ask(Ask::Blob(vec![3; 10 << 20])).await.unwrap(),
            Answer::Number(10 << 20)
        );
        assert_eq!(server.diary.count("blob"), 8);
    });
}

#[test]
fn an_endpoint_can_wait_for_a_reply_over_a_connection_whose_messages_fill_its_inbox() {
    run(async {
        let server = TestServer::open(RpcOptions { outbox_bytes: 2 << 20, ..options() }).await;
        let client = TestServer::on(RpcEnv::client(options()));
        // The client's scribe holds, and the server fills its window over the client's connection.
        let endpoint = client.env.endpoint_ref::<Ask>(&server.address()).unwrap();
        client.local.send(Ask::Hold).await.unwrap();
        client.diary.wait_for("holding", 1).await;
        endpoint.send(Ask::Flood { name: "Scribe".into(), blobs: 30 }).await.unwrap();
        server.diary.wait_for("flooded", 8).await;
        // A reply comes through all the same.
        assert_eq!(endpoint.ask(Ask::Echo(1)).await.unwrap(), Answer::Number(1));
        assert_eq!(client.diary.count("blob"), 0);
        assert!(server.diary.count("flooded") < 15, "the window has no end");
        client.gate.notify_one();
        client.diary.wait_for("blob", 30).await;
    });
}

#[test]
fn an_environment_without_a_port_is_called_over_its_own_connection() {
    run(async {
        let server = TestServer::open(options()).await;
        let client = TestServer::on(RpcEnv::client(options()));
        assert_eq!(client.env.address(), None);
        let endpoint = client.env.lookup::<Ask>(&server.address()).await.unwrap();
        let called = endpoint.ask(Ask::CallMeBack { name: "Scribe".into() }).await.unwrap();
        assert_eq!(called, Answer::Number(99));
        let unknown = endpoint.ask(Ask::CallMeBack { name: "Nobody".into() }).await.unwrap_err();
        assert!(unknown.to_string().contains("no endpoint Nobody"), "{unknown}");
        client.diary.wait_for("echo 99", 1).await;
    });
}

#[test]
fn unknown_endpoints_other_types_and_taken_names_are_errors_of_their_own() {
    #[derive(Debug, serde::Serialize, serde::Deserialize)]
    struct Other(u8);
    impl Message for Other {
        type Reply = ();
    }
    run(async {
        let server = TestServer::open(options()).await;
        let client = RpcEnv::client(options());
        let nobody = server.rpc_address().endpoint("Nobody");
        let elsewhere = client.endpoint_ref::<Ask>(&server.address()).unwrap();
        assert_eq!(elsewhere.address(), Some(server.address()));
        assert_eq!(server.local.address(), Some(server.address()));
        assert_eq!(TestServer::on(client.clone()).local.address(), None);
        client.stop(&elsewhere); // neither there nor here, where another has that name
        client.local_ref::<Ask>("Scribe").unwrap().ask(Ask::Echo(0)).await.unwrap();
        elsewhere.ask(Ask::Echo(0)).await.unwrap();
        for env in [&client, &server.env] {
            let unknown = env.lookup::<Ask>(&nobody).await.unwrap_err();
            assert!(matches!(unknown, RpcError::UnknownEndpoint { .. }), "{unknown}");
        }
        let asked =
            client.endpoint_ref::<Ask>(&nobody).unwrap().ask(Ask::Recorded).await.unwrap_err();
        assert!(matches!(asked, RpcError::UnknownEndpoint { .. }), "{asked}");
        let other = server.env.local_ref::<Other>("Scribe").unwrap_err();
        assert!(matches!(other, RpcError::OtherMessageType { .. }), "{other}");
        let taken = server.env.register("Scribe", Scribe::new()).unwrap_err();
        assert!(matches!(taken, RpcError::DuplicateEndpoint { .. }), "{taken}");
        let unnamed = server.env.register("a b", Scribe::new()).unwrap_err();
        assert!(matches!(unnamed, RpcError::InvalidName { .. }), "{unnamed}");
        // Bytes of another type reach the endpoint, which says so and lives on.
        let mistyped = client.endpoint_ref::<Other>(&server.address()).unwrap();
        let undecodable = mistyped.ask(Other(255)).await.unwrap_err();
        assert!(matches!(undecodable, RpcError::Decode { .. }), "{undecodable}");
        client.endpoint_ref::<Ask>(&server.address()).unwrap().ask(Ask::Echo(1)).await.unwrap();
        assert_eq!(server.diary.count("error"), 1);
    });
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 24, failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn each_senders_messages_keep_their_order_among_those_of_others(
        counts in prop::collection::vec(1_u32..150, 1..8),
        tight: bool,
        remote: bool,
    ) {
        run(async move {
            let mut options = options();
            if tight {
                (options.outbox_bytes, options.inbox_messages) = (1000, 2);
            }
            let server = TestServer::open(options.clone()).await;
            let client = RpcEnv::client(options);
            let endpoint = match remote {
                true => client.endpoint_ref::<Ask>(&server.address()).unwrap(),
                false => server.local.clone(),
            };
            let senders = counts.iter().enumerate().map(|(sender, count)| {
                let (endpoint, sender, count) = (endpoint.clone(), sender as u32, *count);
                tokio::spawn(async move {
                    for number in 0..count {
                        endpoint.send(Ask::Record { sender, number }).await.unwrap();
                    }
                })
            });
            for sender in senders.collect::<Vec<_>>() {
                sender.await.unwrap();
            }
            let Answer::Records(records) = endpoint.ask(Ask::Recorded).await.unwrap() else { panic!() };
            for (sender, count) in counts.iter().enumerate() {
                let of_sender = records.iter().filter(|(s, _)| *s == sender as u32).map(|(_, n)| *n);
                assert!(of_sender.eq(0..*count), "sender {sender} of {counts:?}");
            }
        });
    }
}
