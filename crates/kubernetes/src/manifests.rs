//! For tests: the manifests of `deploy/` give drivers the rights that they use and no others, and all of them the same.

use std::collections::{BTreeMap, BTreeSet};

use k8s_openapi::api::apps::v1::Deployment;
use k8s_openapi::api::core::v1::{Service, ServiceAccount};
use k8s_openapi::api::rbac::v1::{Role, RoleBinding};
use serde::de::DeserializeOwned;

const ACCOUNT: &str = include_str!("../../../deploy/kubernetes/account.yaml");
const CHART: &str = include_str!("../../../deploy/helm/firesteel/templates/account.yaml");
const HISTORY: &str = include_str!("../../../deploy/kubernetes/history/history.yaml");
const HISTORY_CHART: &str = include_str!("../../../deploy/helm/firesteel/templates/history.yaml");

/// The rights of drivers: verbs, by resource.
pub(crate) fn rights() -> BTreeMap<String, BTreeSet<String>> {
    let role: Role = document(ACCOUNT, 1);
    let rules = role.rules.expect("it has rules").into_iter();
    let rights = rules.flat_map(|rule| {
        let verbs: BTreeSet<String> = rule.verbs.into_iter().collect();
        rule.resources.unwrap_or_default().into_iter().map(move |one| (one, verbs.clone()))
    });
    rights.collect()
}

fn document<T: DeserializeOwned>(text: &str, index: usize) -> T {
    let document = text.split("\n---\n").nth(index).expect("there are so many documents");
    serde_saphyr::from_str(document).unwrap_or_else(|error| panic!("{error}: {document}"))
}

/// The rules of a role: what stands between `rules:` and the next document.
fn rules(text: &str) -> &str {
    let start = text.find("rules:\n").expect("it has a role");
    let rest = &text[start..];
    &rest[..rest.find("---").unwrap_or(rest.len())]
}

#[test]
fn chart_and_kustomization_give_drivers_the_same_rights() {
    assert_eq!(rules(ACCOUNT), rules(CHART));
}

#[test]
fn the_kustomizations_are_what_they_say() {
    let (account, role): (ServiceAccount, Role) = (document(ACCOUNT, 0), document(ACCOUNT, 1));
    let binding: RoleBinding = document(ACCOUNT, 2);
    let named = |name: Option<String>| assert_eq!(name.as_deref(), Some("spark"));
    named(account.metadata.name);
    named(role.metadata.name);
    assert_eq!((binding.role_ref.kind.as_str(), binding.role_ref.name.as_str()), ("Role", "spark"));
    named(binding.subjects.unwrap_or_default().pop().map(|subject| subject.name));
    let (history, service): (Deployment, Service) = (document(HISTORY, 0), document(HISTORY, 1));
    let spec = history.spec.expect("it has a specification");
    let labels = spec.template.metadata.and_then(|metadata| metadata.labels);
    assert_eq!(service.spec.and_then(|spec| spec.selector), labels, "it finds its pods");
    assert_eq!(spec.selector.match_labels, labels);
    let pod = spec.template.spec.expect("it has a pod");
    assert_eq!(pod.automount_service_account_token, Some(false));
    let command = pod.containers[0].command.clone().unwrap_or_default();
    assert_eq!(command[..2], ["firesteel", "history"]);
    for flag in ["--host", "--port", "--dir"] {
        assert!(command.iter().any(|one| one == flag) && HISTORY_CHART.contains(flag), "{flag}");
    }
}
