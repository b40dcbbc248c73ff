//! The pods of executors: one is made from settings, template and the application's command, and each executor's differs from it in
//! its name, its number and its claims only.

use std::collections::{BTreeMap, BTreeSet};

use firesteel_backend::command::variable as told;
use firesteel_conf::process_variables::EXECUTOR_ATTRIBUTE;
use firesteel_conf::{Conf, entries};
use firesteel_engine::ApplicationSpec;
use firesteel_kubernetes_core::allocator::PodRequest;
use firesteel_kubernetes_core::claim::Mount;
use firesteel_kubernetes_core::names::pod_name;
use firesteel_kubernetes_core::{Generation, PodUid, VolumeName};
use firesteel_rpc::SECRET_VARIABLE;
use firesteel_types::ExecutorId;
use k8s_openapi::api::core::v1::{
    Affinity, Container, ContainerPort, NodeAffinity, NodeSelector, NodeSelectorRequirement,
    NodeSelectorTerm, PersistentVolumeClaim, PersistentVolumeClaimTemplate,
    PersistentVolumeClaimVolumeSource, Pod, PodSpec, PreferredSchedulingTerm,
};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::{ObjectMeta, OwnerReference};

use super::parts::{self, Role, secret_variable};
use super::{fetch, volumes};
use crate::Error;
use crate::labels::{self, variable, variable_of_pod};

/// Tasks' results, broadcasts and blocks are served there unless `spark.blockManager.port` says otherwise.
const BLOCK_PORT: &str = "blockmanager";

/// The driver's pod: executors go when it goes.
#[derive(Clone, Debug)]
pub(crate) struct Owner {
    pub(crate) name: String,
    pub(crate) uid: String,
    pub(crate) image: Option<String>,
    /// The secret and its key that hold the application's secret, if the driver has it from there.
    pub(crate) secret: Option<(String, String)>,
}

impl Owner {
    pub(crate) fn new(name: &str, uid: &str) -> Self {
        Owner { name: name.to_owned(), uid: uid.to_owned(), image: None, secret: None }
    }

    /// As its pods refer to it.
    pub(crate) fn reference(&self) -> OwnerReference {
        OwnerReference {
            api_version: "v1".to_owned(),
            kind: "Pod".to_owned(),
            name: self.name.clone(),
            uid: self.uid.clone(),
            controller: Some(true),
            block_owner_deletion: None,
        }
    }
}

#[derive(Clone, Debug)]
pub(crate) struct ExecutorPods {
    pod: Pod,
    container: String,
    /// Claims that the driver makes, by the volumes that they are for.
    claims: BTreeMap<VolumeName, PersistentVolumeClaimTemplate>,
    owner: Option<OwnerReference>,
}

impl ExecutorPods {
    pub(crate) fn new(
        application: &ApplicationSpec,
        app: &str,
        owner: Option<&Owner>,
    ) -> Result<Self, Error> {
        let mut pods = ExecutorPods::without_claims(application, app, owner)?;
        pods.owner = owner.map(Owner::reference);
        if owner.is_some() {
            let volumes = volumes::owned_by_driver(&application.conf)?;
            pods.claims = take_claims(pods.pod.spec.get_or_insert_default(), &volumes);
        }
        Ok(pods)
    }

    /// The pod of a first executor, for an API server to judge before there is a driver. It owns the claims that the driver would make
    /// first: they are judged, too.
    pub(crate) fn trial(
        application: &ApplicationSpec,
        app: &str,
        driver: &Owner,
        prefix: &str,
    ) -> Result<Pod, Error> {
        let pods = ExecutorPods::without_claims(application, app, Some(driver))?;
        let executor = ExecutorId(1);
        let mut pod = pods.pod(&PodRequest {
            executor,
            name: pod_name(prefix, executor),
            generation: Generation(1),
            attempt: 1,
            avoid: BTreeSet::new(),
            last_choice: BTreeSet::new(),
            mounts: Vec::new(),
        });
        pod.metadata.owner_references = None;
        Ok(pod)
    }

    fn without_claims(
        application: &ApplicationSpec,
        app: &str,
        owner: Option<&Owner>,
    ) -> Result<Self, Error> {
        let conf = &application.conf;
        let (mut pod, mut container) = parts::base(conf, Role::Executor, app, &application.name)?;
        let labels = pod.metadata.labels.get_or_insert_default();
        labels.insert(labels::RESOURCE_PROFILE.to_owned(), "0".to_owned());
        let annotations = pod.metadata.annotations.get_or_insert_default();
        annotations.insert(labels::OWNER.to_owned(), app.to_owned());
        pod.metadata.owner_references = owner.map(|owner| vec![owner.reference()]);
        // Where driver and executors have one image, they have one executable; else the image says which it is.
        let fetched = fetch::is_fetched(conf)?;
        let same = fetched || owner.is_some_and(|owner| owner.image == container.image);
        if same && container.command.is_none() {
            container.command = Some(vec![application.command.program.clone()]);
            container.args = Some(application.command.arguments.clone());
        }
        let secret = owner.and_then(|owner| owner.secret.as_ref());
        variables(application, app, secret, &mut container)?;
        let port = i32::try_from(conf.get(&entries::BLOCK_MANAGER_PORT)?).unwrap_or_default();
        if port > 0 {
            let name = Some(BLOCK_PORT.to_owned());
            let port = ContainerPort { container_port: port, name, ..ContainerPort::default() };
            container.ports.get_or_insert_default().push(port);
        }
        let grace = conf.get(&entries::KUBERNETES_EXECUTOR_GRACE_PERIOD)?.as_secs();
        let name = container.name.clone();
        let spec = pod.spec.get_or_insert_with(PodSpec::default);
        match owner {
            Some(owner) => fetch::add(conf, &owner.name, spec, &mut container)?,
            None if fetched => {
                let reason = "it is for drivers that submit had the cluster run";
                return Err(Error::value(entries::KUBERNETES_FETCH.key(), reason));
            }
            None => {}
        }
        spec.termination_grace_period_seconds = Some(i64::try_from(grace).unwrap_or(i64::MAX));
        spec.containers.insert(0, container);
        Ok(ExecutorPods { pod, container: name, claims: BTreeMap::new(), owner: None })
    }

    /// The claims that a pod needs and that may not be there yet.
    pub(crate) fn claims(&self, request: &PodRequest) -> Vec<PersistentVolumeClaim> {
        let new = request.mounts.iter().filter(|mount| mount.is_new);
        new.filter_map(|mount| self.claim(mount)).collect()
    }

    fn claim(&self, mount: &Mount) -> Option<PersistentVolumeClaim> {
        let template = self.claims.get(&mount.volume)?;
        let mut labels = template.metadata.as_ref()?.labels.clone().unwrap_or_default();
        labels.insert(labels::VOLUME.to_owned(), mount.volume.to_string());
        let metadata = ObjectMeta {
            name: Some(mount.claim.to_string()),
            labels: Some(labels),
            owner_references: self.owner.clone().map(|owner| vec![owner]),
            ..ObjectMeta::default()
        };
        let spec = Some(template.spec.clone());
        Some(PersistentVolumeClaim { metadata, spec, status: None })
    }

    /// The driver's pod, if they belong to it.
    pub(crate) fn owner(&self) -> Option<PodUid> {
        self.owner.as_ref().map(|owner| PodUid::new(&owner.uid))
    }

    /// The container in which executors run.
    pub(crate) fn container(&self) -> &str {
        &self.container
    }

    /// The pod that is asked for.
    pub(crate) fn pod(&self, request: &PodRequest) -> Pod {
        let mut pod = self.pod.clone();
        let (name, id) = (request.name.to_string(), request.executor.to_string());
        let labels = pod.metadata.labels.get_or_insert_default();
        labels.insert(labels::EXECUTOR_ID.to_owned(), id.clone());
        labels.insert(labels::GENERATION.to_owned(), request.generation.to_string());
        let spec = pod.spec.get_or_insert_with(PodSpec::default);
        // A host's name has 63 characters at most, and a letter or digit first.
        let tail = &name[name.len().saturating_sub(63)..];
        spec.hostname = Some(tail.trim_start_matches('-').to_owned());
        pod.metadata.name = Some(name);
        if let Some(container) = spec.containers.first_mut() {
            let variables = container.env.get_or_insert_default();
            variables.push(variable(told::EXECUTOR_ID, &id));
            variables.push(variable("SPARK_EXECUTOR_ID", id));
        }
        for mount in &request.mounts {
            mount_claim(spec, mount);
        }
        let avoid: Vec<String> = request.avoid.iter().map(ToString::to_string).collect();
        if !avoid.is_empty() {
            keep_off(spec, avoid);
        }
        let last: Vec<String> = request.last_choice.iter().map(ToString::to_string).collect();
        if !last.is_empty() {
            rather_not(spec, &last);
        }
        pod
    }
}

/// Takes the claims of these volumes out of a pod: they are not made together with it.
fn take_claims(
    spec: &mut PodSpec,
    of: &[VolumeName],
) -> BTreeMap<VolumeName, PersistentVolumeClaimTemplate> {
    let volumes = spec.volumes.iter_mut().flatten();
    let taken = volumes.filter_map(|volume| {
        let name = of.iter().find(|name| *name.0 == *volume.name)?;
        Some((name.clone(), volume.ephemeral.take()?.volume_claim_template?))
    });
    taken.collect()
}

fn mount_claim(spec: &mut PodSpec, mount: &Mount) {
    let mut volumes = spec.volumes.iter_mut().flatten();
    if let Some(volume) = volumes.find(|volume| *volume.name == *mount.volume.0) {
        let claim_name = mount.claim.to_string();
        let source = PersistentVolumeClaimVolumeSource { claim_name, read_only: None };
        volume.persistent_volume_claim = Some(source);
    }
}

fn variables(
    application: &ApplicationSpec,
    app: &str,
    secret: Option<&(String, String)>,
    container: &mut Container,
) -> Result<(), Error> {
    let conf: &Conf = &application.conf;
    let (cores, memory) = (parts::executor_cores(conf)?, parts::executor_memory_mb(conf)?);
    let all = container.env.get_or_insert_default();
    let environment = &application.command.environment;
    all.extend(environment.iter().map(|(name, value)| match secret {
        // Who may look at pods may not be who may look at secrets.
        Some((secret, key)) if name == SECRET_VARIABLE => secret_variable(name, secret, key),
        _ => variable(name, value),
    }));
    all.extend([
        variable(told::APP_ID, app),
        variable(told::CORES, cores.to_string()),
        variable(told::MEMORY_MB, memory.to_string()),
        variable_of_pod(told::HOST, "status.podIP"),
        variable_of_pod(told::NODE, "spec.nodeName"),
        variable("SPARK_APPLICATION_ID", app),
        variable("SPARK_EXECUTOR_CORES", cores.to_string()),
        variable("SPARK_EXECUTOR_MEMORY", format!("{memory}m")),
        variable("SPARK_RESOURCE_PROFILE_ID", "0"),
        variable_of_pod("SPARK_EXECUTOR_POD_IP", "status.podIP"),
        variable_of_pod("SPARK_EXECUTOR_POD_NAME", "metadata.name"),
        // Attributes, by which logs are found that a collector, or the cluster, keeps of pods.
        variable_of_pod(&format!("{EXECUTOR_ATTRIBUTE}KUBERNETES_NAMESPACE"), "metadata.namespace"),
        variable_of_pod(&format!("{EXECUTOR_ATTRIBUTE}KUBERNETES_POD_NAME"), "metadata.name"),
    ]);
    if let Some(url) = environment.get("FIRESTEEL_DRIVER_URL") {
        all.push(variable("SPARK_DRIVER_URL", url));
    }
    Ok(())
}

/// Adds to every way in which a node may be chosen that it is none of these.
fn keep_off(spec: &mut PodSpec, nodes: Vec<String>) {
    let others = NodeSelectorRequirement {
        key: "metadata.name".to_owned(),
        operator: "NotIn".to_owned(),
        values: Some(nodes),
    };
    let affinity = spec.affinity.get_or_insert_with(Affinity::default);
    let affinity = affinity.node_affinity.get_or_insert_with(NodeAffinity::default);
    let required = affinity
        .required_during_scheduling_ignored_during_execution
        .get_or_insert_with(NodeSelector::default);
    if required.node_selector_terms.is_empty() {
        required.node_selector_terms.push(NodeSelectorTerm::default());
    }
    // `NotIn` takes one value per requirement where fields are compared.
    for term in &mut required.node_selector_terms {
        let nodes = others.values.iter().flatten();
        let each = nodes.map(|node| NodeSelectorRequirement {
            values: Some(vec![node.clone()]),
            ..others.clone()
        });
        term.match_fields.get_or_insert_default().extend(each);
    }
}

/// Prefers any node that is none of these, over all else that is preferred.
fn rather_not(spec: &mut PodSpec, nodes: &[String]) {
    let other = |node: &String| NodeSelectorRequirement {
        key: "metadata.name".to_owned(),
        operator: "NotIn".to_owned(),
        values: Some(vec![node.clone()]),
    };
    let match_fields = Some(nodes.iter().map(other).collect());
    let preference = NodeSelectorTerm { match_fields, ..NodeSelectorTerm::default() };
    let affinity = spec.affinity.get_or_insert_with(Affinity::default);
    let affinity = affinity.node_affinity.get_or_insert_with(NodeAffinity::default);
    let preferred = &mut affinity.preferred_during_scheduling_ignored_during_execution;
    preferred.get_or_insert_default().push(PreferredSchedulingTerm { preference, weight: 100 });
}

#[cfg(test)]
mod tests {
    use firesteel_backend::command::Command;
    use firesteel_kubernetes_core::{ClaimName, PodName};
    use firesteel_types::Host;
    use serde_json::Value;

    use super::*;

    fn application(settings: &[(&str, &str)]) -> ApplicationSpec {
        let mut conf = Conf::new();
        conf.set("spark.kubernetes.container.image", "pi:1").set("spark.executor.cores", 2);
        for (key, value) in settings {
            conf.set(*key, value);
        }
        let environment = [("FIRESTEEL_ROLE".to_owned(), "executor".to_owned())].into();
        let command =
            Command { program: "/opt/app/pi".to_owned(), environment, ..Command::default() };
        ApplicationSpec { name: "Pi".to_owned(), user: "me".to_owned(), conf, command }
    }

    fn request(avoid: &[&str]) -> PodRequest {
        PodRequest {
            executor: ExecutorId(7),
            name: PodName::new("pi-1-exec-7"),
            generation: Generation(3),
            attempt: 1,
            avoid: avoid.iter().map(|node| Host::new(node)).collect::<BTreeSet<_>>(),
            last_choice: BTreeSet::new(),
            mounts: Vec::new(),
        }
    }

    fn variable_of(pod: &Value, name: &str) -> Value {
        let all = pod["spec"]["containers"][0]["env"].as_array().unwrap().clone();
        all.into_iter().find(|variable| variable["name"] == name).unwrap_or_default()
    }

    #[test]
    fn an_executors_pod_has_its_number_its_owner_and_what_it_is_told() {
        let owner = Owner { image: Some("pi:1".to_owned()), ..Owner::new("d", "u") };
        let pods = ExecutorPods::new(&application(&[]), "spark-1", Some(&owner)).unwrap();
        let pod = serde_json::to_value(pods.pod(&request(&[]))).unwrap();
        assert_eq!(pod["metadata"]["name"], "pi-1-exec-7");
        assert_eq!(pod["metadata"]["ownerReferences"][0]["uid"], "u");
        assert_eq!(pod["metadata"]["ownerReferences"][0]["controller"], true);
        let labels = &pod["metadata"]["labels"];
        assert_eq!(
            (&labels["spark-exec-id"], &labels["spark-role"]),
            (&"7".into(), &"executor".into())
        );
        assert_eq!(labels["firesteel-driver-generation"], "3");
        assert_eq!(pod["metadata"]["annotations"]["firesteel.io/application"], "spark-1");
        assert_eq!(pod["spec"]["restartPolicy"], "Never");
        assert_eq!(pod["spec"]["terminationGracePeriodSeconds"], 30);
        assert_eq!(pod["spec"]["containers"][0]["command"][0], "/opt/app/pi");
        assert_eq!(variable_of(&pod, "FIRESTEEL_EXECUTOR_ID")["value"], "7");
        assert_eq!(variable_of(&pod, "FIRESTEEL_EXECUTOR_CORES")["value"], "2");
        let host = variable_of(&pod, "FIRESTEEL_EXECUTOR_HOST");
        assert_eq!(host["valueFrom"]["fieldRef"]["fieldPath"], "status.podIP");
        for (name, field) in [
            ("KUBERNETES_NAMESPACE", "metadata.namespace"),
            ("KUBERNETES_POD_NAME", "metadata.name"),
        ] {
            let attribute = variable_of(&pod, &format!("SPARK_EXECUTOR_ATTRIBUTE_{name}"));
            assert_eq!(attribute["valueFrom"]["fieldRef"]["fieldPath"], field);
        }
        assert_eq!(variable_of(&pod, "FIRESTEEL_ROLE")["value"], "executor");
        assert!(pod["spec"]["affinity"].is_null());
    }

    #[test]
    fn another_image_says_itself_which_executable_is_run() {
        let owner = Owner { image: Some("notebook".to_owned()), ..Owner::new("d", "u") };
        for owner in [None, Some(&owner)] {
            let pods = ExecutorPods::new(&application(&[]), "spark-1", owner).unwrap();
            let pod = serde_json::to_value(pods.pod(&request(&[]))).unwrap();
            assert!(pod["spec"]["containers"][0]["command"].is_null());
        }
    }

    #[test]
    fn claims_belong_to_the_drivers_pod_and_without_one_to_each_executors() {
        let volume = "spark.kubernetes.executor.volumes.persistentVolumeClaim.spark-local-dir-1";
        let said = |what: &str| format!("{volume}.{what}");
        let (name, size) = (said("options.claimName"), said("options.sizeLimit"));
        let path = said("mount.path");
        let told = application(&[(&name, "OnDemand"), (&size, "1Gi"), (&path, "/data")]);
        let mount = Mount {
            volume: VolumeName::new("spark-local-dir-1"),
            claim: ClaimName::new("pi-1-exec-7-pvc-0"),
            is_new: true,
            reused: false,
        };
        let owned = PodRequest { mounts: vec![mount], ..request(&[]) };
        let pods = ExecutorPods::new(&told, "spark-1", Some(&Owner::new("d", "u"))).unwrap();
        let pod = serde_json::to_value(pods.pod(&owned)).unwrap();
        let found = &pod["spec"]["volumes"][0];
        assert_eq!(found["persistentVolumeClaim"]["claimName"], "pi-1-exec-7-pvc-0");
        assert!(found["ephemeral"].is_null());
        let claim = serde_json::to_value(&pods.claims(&owned)[0]).unwrap();
        assert_eq!(claim["metadata"]["name"], "pi-1-exec-7-pvc-0");
        assert_eq!(claim["metadata"]["ownerReferences"][0]["uid"], "u");
        assert_eq!(claim["metadata"]["labels"]["firesteel-volume"], "spark-local-dir-1");
        assert_eq!(claim["metadata"]["labels"]["spark-app-selector"], "spark-1");
        assert_eq!(claim["spec"]["resources"]["requests"]["storage"], "1Gi");
        let mounts = vec![Mount { is_new: false, ..owned.mounts[0].clone() }];
        assert!(pods.claims(&PodRequest { mounts, ..request(&[]) }).is_empty(), "it is there");
        let pods = ExecutorPods::new(&told, "spark-1", None).unwrap();
        let pod = serde_json::to_value(pods.pod(&request(&[]))).unwrap();
        assert!(pod["spec"]["volumes"][0]["ephemeral"].is_object(), "{pod}");
    }

    #[test]
    fn a_pod_on_trial_is_that_of_a_first_executor_without_a_driver_to_belong_to() {
        let volume = "spark.kubernetes.executor.volumes.persistentVolumeClaim.data";
        let said = |what: &str| format!("{volume}.{what}");
        let (name, size) = (said("options.claimName"), said("options.sizeLimit"));
        let path = said("mount.path");
        let told = application(&[(&name, "OnDemand"), (&size, "1Gi"), (&path, "/data")]);
        let owner = Owner { image: Some("pi:1".to_owned()), ..Owner::new("d", "") };
        let mut trial = ExecutorPods::trial(&told, "spark-1", &owner, "pi-1").unwrap();
        assert_eq!(trial.metadata.owner_references, None);
        let made = serde_json::to_value(&trial).unwrap();
        let claim = &made["spec"]["volumes"][0]["ephemeral"]["volumeClaimTemplate"];
        assert_eq!(claim["spec"]["resources"]["requests"]["storage"], "1Gi");
        let pods = ExecutorPods::new(&told, "spark-1", Some(&owner)).unwrap();
        let first = PodRequest {
            executor: ExecutorId(1),
            name: PodName::new("pi-1-exec-1"),
            generation: Generation(1),
            ..request(&[])
        };
        let mut real = pods.pod(&first);
        real.metadata.owner_references = None;
        let volumes = |pod: &mut Pod| pod.spec.as_mut().and_then(|spec| spec.volumes.take());
        assert!(volumes(&mut trial).is_some() && volumes(&mut real).is_some());
        assert_eq!(trial, real, "but for the claim");
    }

    #[test]
    fn an_executor_fetches_what_its_driver_fetched() {
        let told = application(&[("spark.firesteel.kubernetes.fetch", "s3a://b/u/pi")]);
        let owner = Owner { image: Some("another".to_owned()), ..Owner::new("pi-1-driver", "u") };
        let pods = ExecutorPods::new(&told, "spark-1", Some(&owner)).unwrap();
        let pod = serde_json::to_value(pods.pod(&request(&[]))).unwrap();
        let (own, first) = (&pod["spec"]["containers"][0], &pod["spec"]["initContainers"][0]);
        assert_eq!(own["command"][0], "/opt/app/pi", "where the driver's is");
        assert_eq!(own["workingDir"], "/opt/spark/work-dir");
        assert_eq!(first["command"][4], "s3a://b/u/pi");
        let volumes = pod["spec"]["volumes"].as_array().unwrap();
        let has = |name: &str| volumes.iter().any(|volume| volume["configMap"]["name"] == name);
        assert!(has("pi-1-driver-conf-map"), "{volumes:?}");
        assert!(ExecutorPods::new(&told, "spark-1", None).is_err());
    }

    #[test]
    fn the_applications_secret_is_not_in_pods_where_the_cluster_keeps_it() {
        let mut told = application(&[]);
        told.command.environment.insert(SECRET_VARIABLE.to_owned(), "hush".to_owned());
        let secret = Some(("d-conf-secret".to_owned(), "key".to_owned()));
        let owner = Owner { secret, ..Owner::new("d", "u") };
        let pods = ExecutorPods::new(&told, "spark-1", Some(&owner)).unwrap();
        let pod = serde_json::to_value(pods.pod(&request(&[]))).unwrap();
        assert!(!pod.to_string().contains("hush"), "{pod}");
        let from = &variable_of(&pod, SECRET_VARIABLE)["valueFrom"]["secretKeyRef"];
        assert_eq!((&from["name"], &from["key"]), (&"d-conf-secret".into(), &"key".into()));
    }

    #[test]
    fn a_node_that_is_the_last_choice_may_be_chosen() {
        let pods = ExecutorPods::new(&application(&[]), "spark-1", None).unwrap();
        let request = PodRequest { last_choice: [Host::new("a")].into(), ..request(&[]) };
        let pod = serde_json::to_value(pods.pod(&request)).unwrap();
        let affinity = &pod["spec"]["affinity"]["nodeAffinity"];
        assert!(affinity["requiredDuringSchedulingIgnoredDuringExecution"].is_null());
        let preferred = &affinity["preferredDuringSchedulingIgnoredDuringExecution"][0];
        assert_eq!(preferred["weight"], 100);
        let field = &preferred["preference"]["matchFields"][0];
        assert_eq!((&field["operator"], &field["values"][0]), (&"NotIn".into(), &"a".into()));
    }

    #[test]
    fn nodes_are_avoided_beside_whatever_else_is_asked_for() {
        let pods = ExecutorPods::new(&application(&[]), "spark-1", None).unwrap();
        let pod = serde_json::to_value(pods.pod(&request(&["a", "b"]))).unwrap();
        let required = &pod["spec"]["affinity"]["nodeAffinity"]["requiredDuringSchedulingIgnoredDuringExecution"];
        let fields = required["nodeSelectorTerms"][0]["matchFields"].as_array().unwrap();
        assert_eq!(fields.len(), 2);
        assert_eq!(
            (&fields[1]["operator"], &fields[1]["values"][0]),
            (&"NotIn".into(), &"b".into())
        );
    }
}
