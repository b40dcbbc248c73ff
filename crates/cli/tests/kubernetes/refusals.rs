//! What cannot work ends soon, with the words of those who know why.

use std::time::Instant;

use firesteel::Builder;

use crate::application::{bounded, builder, print_times};
use crate::cluster::{Turn, turn, wait_until};

/// What a job of such an application fails with. How long that took is printed, and how long until nothing of it runs.
pub(crate) fn failure(scenario: &str, turn: &Turn, builder: Builder) -> String {
    let since = Instant::now();
    let (failed, noticed) = match bounded("a driver's start", move || builder.build()) {
        Err(error) => (error.to_string(), since.elapsed()),
        Ok(ctx) => {
            let rows = ctx.parallelize_in(2, 0..10u64);
            let failed = bounded("a job that cannot work", move || rows.count());
            let failed = failed.map(|count| format!("it counted {count}")).unwrap_err().to_string();
            let noticed = since.elapsed();
            ctx.stop();
            (failed, noticed)
        }
    };
    wait_until("the end of its pods", || turn.unfinished().is_empty());
    print_times(scenario, noticed, since.elapsed());
    println!("scenario {scenario}: {failed}");
    failed
}

pub(crate) fn impossible(turn: &Turn, settings: &[(&str, &str)]) -> Builder {
    settings.iter().fold(builder(turn), |builder, (key, value)| builder.config(key, value))
}

#[test]
#[ignore = "needs root, network namespaces and the servers of Kubernetes; part of ./test k8s"]
fn s12_executors_that_never_register_end_the_application() {
    let turn = turn("s12");
    let settings = [
        ("spark.kubernetes.container.image", "localhost/pause:1"),
        ("spark.firesteel.kubernetes.registrationTimeout", "3s"),
        ("spark.executor.maxNumFailures", "1"),
        ("spark.kubernetes.executor.terminationGracePeriodSeconds", "1s"),
    ];
    let failed = failure("12, never registers", &turn, impossible(&turn, &settings));
    assert!(failed.contains("never registered") && failed.contains("maxNumFailures"), "{failed}");
}

#[test]
#[ignore = "needs root, network namespaces and the servers of Kubernetes; part of ./test k8s"]
fn s14_an_image_that_cannot_be_had_ends_the_application_with_the_kubelets_words() {
    let turn = turn("s14");
    let settings = [
        ("spark.kubernetes.container.image", "localhost:1/none:1"),
        ("spark.kubernetes.container.image.pullPolicy", "IfNotPresent"),
        ("spark.firesteel.kubernetes.imageTimeout", "4s"),
    ];
    let failed = failure("14, image cannot be pulled", &turn, impossible(&turn, &settings));
    assert!(failed.contains("image") && failed.contains("localhost:1/none:1"), "{failed}");
}

#[test]
#[ignore = "needs root, network namespaces and the servers of Kubernetes; part of ./test k8s"]
fn s15_a_secret_that_does_not_exist_ends_the_application_at_once() {
    let turn = turn("s15");
    let settings = [("spark.kubernetes.executor.secretKeyRef.TOKEN", "nosuch:key")];
    let failed = failure("15, secret does not exist", &turn, impossible(&turn, &settings));
    assert!(failed.contains("CreateContainerConfigError") && failed.contains("nosuch"), "{failed}");
}

#[test]
#[ignore = "needs root, network namespaces and the servers of Kubernetes; part of ./test k8s"]
fn s19_a_missing_right_ends_the_application_and_is_named() {
    let turn = turn("s19");
    let settings = [("spark.kubernetes.authenticate.oauthToken", "nobody-token")];
    let failed = failure("19, no rights", &turn, impossible(&turn, &settings));
    assert!(
        failed.contains("lacks a right") && failed.contains("cannot list resource"),
        "{failed}"
    );
}

#[test]
#[ignore = "needs root, network namespaces and the servers of Kubernetes; part of ./test k8s"]
fn a_namespace_that_does_not_exist_is_named() {
    let turn = turn("nons");
    let settings = [("spark.kubernetes.namespace", "nowhere")];
    let failed = failure("-, no namespace", &turn, impossible(&turn, &settings));
    assert!(failed.contains("nowhere"), "{failed}");
}
