//! For tests: the manifests of `deploy/` give drivers the rights that they need, and all of them the same.

/// The rules of a role: what stands between `rules:` and the next document.
fn rules(text: &str) -> &str {
    let start = text.find("rules:\n").expect("it has a role");
    let rest = &text[start..];
    &rest[..rest.find("---").unwrap_or(rest.len())]
}

#[test]
fn chart_and_kustomization_give_drivers_the_same_rights() {
    let kustomization = include_str!("../../../deploy/kubernetes/account.yaml");
    let chart = include_str!("../../../deploy/helm/firesteel/templates/account.yaml");
    assert_eq!(rules(kustomization), rules(chart));
    assert!(rules(chart).contains("[create, delete, get, list, patch, watch]"));
}
