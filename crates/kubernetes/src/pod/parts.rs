//! What the pods of drivers and of executors have in common: image, resources, labels, nodes, volumes, variables.

use std::collections::BTreeMap;

use firesteel_conf::{ByteSize, Conf, Entry, entries};
use k8s_openapi::api::core::v1::{
    Container, EnvVar, EnvVarSource, LocalObjectReference, Pod, PodSpec, ResourceRequirements,
    SecretKeySelector,
};
use k8s_openapi::apimachinery::pkg::api::resource::Quantity;

use super::template::Template;
use super::volumes;
use crate::labels::{self, named};
use crate::{Error, VERSION};

pub(crate) const DRIVER_CONTAINER: &str = "spark-kubernetes-driver";
pub(crate) const EXECUTOR_CONTAINER: &str = "spark-kubernetes-executor";

/// The least memory beyond that of the application, in MiB.
const LEAST_OVERHEAD_MB: u64 = 384;
/// What a driver has when `spark.driver.memory` does not say.
const DRIVER_MEMORY_MB: u64 = 1024;

/// Whose pod it is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Role {
    Driver,
    Executor,
}

impl Role {
    /// The settings of this role: `spark.kubernetes.executor.` and the rest.
    pub(super) fn key(self, rest: &str) -> String {
        format!("spark.kubernetes.{}.{rest}", self.word())
    }

    fn word(self) -> &'static str {
        match self {
            Role::Driver => labels::DRIVER,
            Role::Executor => labels::EXECUTOR,
        }
    }

    fn container(self) -> &'static str {
        match self {
            Role::Driver => DRIVER_CONTAINER,
            Role::Executor => EXECUTOR_CONTAINER,
        }
    }

    fn template(self, conf: &Conf) -> Result<Template, Error> {
        let (file, container) = match self {
            Role::Driver => (
                &entries::KUBERNETES_DRIVER_POD_TEMPLATE_FILE,
                &entries::KUBERNETES_DRIVER_POD_TEMPLATE_CONTAINER,
            ),
            Role::Executor => (
                &entries::KUBERNETES_EXECUTOR_POD_TEMPLATE_FILE,
                &entries::KUBERNETES_EXECUTOR_POD_TEMPLATE_CONTAINER,
            ),
        };
        Template::from_conf(conf, file, container)
    }

    pub(super) fn image(self, conf: &Conf) -> Result<Option<String>, Error> {
        Ok(conf.get(match self {
            Role::Driver => &entries::KUBERNETES_DRIVER_CONTAINER_IMAGE,
            Role::Executor => &entries::KUBERNETES_EXECUTOR_CONTAINER_IMAGE,
        })?)
    }

    fn service_account(self) -> &'static Entry<Option<String>> {
        match self {
            Role::Driver => &entries::KUBERNETES_DRIVER_SERVICE_ACCOUNT,
            Role::Executor => &entries::KUBERNETES_EXECUTOR_SERVICE_ACCOUNT,
        }
    }
}

/// A pod as far as settings and template say, without its application's container, and that container.
pub(super) fn base(
    conf: &Conf,
    role: Role,
    app: &str,
    name: &str,
) -> Result<(Pod, Container), Error> {
    let (mut pod, mut container) = role.template(conf)?.split();
    container.name = match container.name.is_empty() {
        true => role.container().to_owned(),
        false => container.name,
    };
    container.image = role.image(conf)?.or(container.image);
    if container.image.is_none() {
        return Err(Error::NoImage);
    }
    container.image_pull_policy =
        Some(conf.get(&entries::KUBERNETES_IMAGE_PULL_POLICY)?.to_string());
    // The end of the log of one that fails is in its status then, where everybody looks who asks why.
    container.termination_message_policy.get_or_insert_with(|| "FallbackToLogsOnError".to_owned());
    container.resources = Some(resources(conf, role, container.resources.take())?);
    mark(conf, role, app, name, &mut pod)?;
    let spec = pod.spec.get_or_insert_with(PodSpec::default);
    place(conf, role, spec)?;
    let secrets = secret_variables(conf, role)?;
    container.env.get_or_insert_default().extend(secrets);
    volumes::add(conf, role, app, spec, &mut container)?;
    Ok((pod, container))
}

/// Labels and annotations: the user's, over those of the template, and those by which the pod is found over all.
fn mark(conf: &Conf, role: Role, app: &str, name: &str, pod: &mut Pod) -> Result<(), Error> {
    // It goes where this application's pods go, and no label of a template hides it.
    pod.metadata.namespace = None;
    let of_pod = pod.metadata.labels.get_or_insert_default();
    of_pod.retain(|name, _| !labels::RESERVED.contains(&name.as_str()));
    of_pod.extend(labels::of_user(conf, &role.key("label."))?);
    of_pod.insert(labels::APPLICATION.to_owned(), app.to_owned());
    of_pod.insert(labels::APPLICATION_NAME.to_owned(), labels::as_label(name));
    of_pod.insert(labels::ROLE.to_owned(), role.word().to_owned());
    of_pod.insert(labels::VERSION.to_owned(), VERSION.to_owned());
    let annotations = named(conf, &role.key("annotation.")).map(owned).collect::<Vec<_>>();
    if !annotations.is_empty() {
        pod.metadata.annotations.get_or_insert_default().extend(annotations);
    }
    Ok(())
}

fn place(conf: &Conf, role: Role, spec: &mut PodSpec) -> Result<(), Error> {
    match role {
        // One that ended is over: a process that comes after it would have its number.
        Role::Executor => spec.restart_policy = Some("Never".to_owned()),
        Role::Driver => drop(spec.restart_policy.get_or_insert_with(|| "Never".to_owned())),
    }
    let both = named(conf, "spark.kubernetes.node.selector.").map(owned);
    let own = named(conf, &role.key("node.selector.")).map(owned).collect::<Vec<_>>();
    let selectors: BTreeMap<String, String> = both.chain(own).collect();
    if !selectors.is_empty() {
        spec.node_selector.get_or_insert_default().extend(selectors);
    }
    if let Some(account) = conf.get(role.service_account())? {
        spec.service_account_name = Some(account);
    } else if role == Role::Executor && spec.service_account_name.is_none() {
        // Executors ask the API server for nothing.
        spec.automount_service_account_token.get_or_insert(false);
    }
    let secrets = conf.get(&entries::KUBERNETES_IMAGE_PULL_SECRETS)?;
    for name in secrets.into_iter().filter(|name| !name.is_empty()) {
        spec.image_pull_secrets.get_or_insert_default().push(LocalObjectReference { name });
    }
    Ok(())
}

pub(super) fn owned((name, value): (&str, &str)) -> (String, String) {
    (name.to_owned(), value.to_owned())
}

fn secret_variables(conf: &Conf, role: Role) -> Result<Vec<EnvVar>, Error> {
    let prefix = role.key("secretKeyRef.");
    let variable = |(name, value): (&str, &str)| {
        let (secret, key) = value.split_once(':').ok_or_else(|| {
            Error::value(
                format!("{prefix}{name}"),
                format!("`{value}` does not name a key of a secret: write secret:key"),
            )
        })?;
        Ok(secret_variable(name, secret, key))
    };
    named(conf, &prefix).map(variable).collect()
}

/// A variable whose value is a key of a secret.
pub(super) fn secret_variable(name: &str, secret: &str, key: &str) -> EnvVar {
    let selector =
        SecretKeySelector { key: key.to_owned(), name: secret.to_owned(), optional: None };
    let source = EnvVarSource { secret_key_ref: Some(selector), ..EnvVarSource::default() };
    EnvVar { name: name.to_owned(), value: None, value_from: Some(source) }
}

/// An executor's cores: 1 if `spark.executor.cores` does not say.
pub(crate) fn executor_cores(conf: &Conf) -> Result<u32, Error> {
    Ok(conf.get(&entries::EXECUTOR_CORES)?.unwrap_or(1))
}

/// An executor's memory in MiB, without what its pod has beyond that.
pub(crate) fn executor_memory_mb(conf: &Conf) -> Result<u64, Error> {
    let ByteSize(memory) = conf.get(&entries::EXECUTOR_MEMORY)?;
    Ok((memory >> 20).max(1))
}

/// Processor time as asked for and at most, memory of the application and beyond.
fn resources(
    conf: &Conf,
    role: Role,
    template: Option<ResourceRequirements>,
) -> Result<ResourceRequirements, Error> {
    let (cores, request, limit) = match role {
        Role::Driver => (
            conf.get(&entries::DRIVER_CORES)?,
            &entries::KUBERNETES_DRIVER_REQUEST_CORES,
            &entries::KUBERNETES_DRIVER_LIMIT_CORES,
        ),
        Role::Executor => (
            executor_cores(conf)?,
            &entries::KUBERNETES_EXECUTOR_REQUEST_CORES,
            &entries::KUBERNETES_EXECUTOR_LIMIT_CORES,
        ),
    };
    let mut resources = template.unwrap_or_default();
    let requested = quantity(request, conf.get(request)?)?.unwrap_or(Quantity(cores.to_string()));
    let memory = Quantity(format!("{}Mi", memory_mb(conf, role)?));
    let requests = resources.requests.get_or_insert_default();
    requests.extend([("cpu".to_owned(), requested), ("memory".to_owned(), memory.clone())]);
    let limits = resources.limits.get_or_insert_default();
    limits.insert("memory".to_owned(), memory);
    limits.extend(quantity(limit, conf.get(limit)?)?.map(|limit| ("cpu".to_owned(), limit)));
    Ok(resources)
}

/// Whether a text is an amount of processor time: `2`, `0.5`, `500m`.
fn quantity(
    entry: &Entry<Option<String>>,
    text: Option<String>,
) -> Result<Option<Quantity>, Error> {
    let Some(text) = text else { return Ok(None) };
    let number = text.strip_suffix('m').unwrap_or(&text);
    match number.parse::<f64>().is_ok_and(|amount| amount > 0.0 && amount.is_finite()) {
        true => Ok(Some(Quantity(text))),
        false => Err(Error::value(
            entry.key(),
            format!("`{text}` is not an amount of processor time: write 2, 0.5 or 500m"),
        )),
    }
}

fn memory_mb(conf: &Conf, role: Role) -> Result<u64, Error> {
    let (memory, overhead, factor) = match role {
        Role::Driver => (
            conf.get(&entries::DRIVER_MEMORY)?
                .map_or(DRIVER_MEMORY_MB, |ByteSize(bytes)| bytes >> 20),
            conf.get(&entries::DRIVER_MEMORY_OVERHEAD)?,
            conf.get(&entries::DRIVER_MEMORY_OVERHEAD_FACTOR)?,
        ),
        Role::Executor => (
            executor_memory_mb(conf)?,
            conf.get(&entries::EXECUTOR_MEMORY_OVERHEAD)?,
            conf.get(&entries::EXECUTOR_MEMORY_OVERHEAD_FACTOR)?,
        ),
    };
    let part = ((memory as f64 * factor) as u64).max(LEAST_OVERHEAD_MB);
    Ok(memory + overhead.map_or(part, |ByteSize(bytes)| bytes >> 20))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn conf(settings: &[(&str, &str)]) -> Conf {
        let mut conf = Conf::new();
        conf.set("spark.kubernetes.container.image", "pi:1");
        for (key, value) in settings {
            conf.set(*key, value);
        }
        conf
    }

    fn amounts(of: Option<BTreeMap<String, Quantity>>) -> Vec<(String, String)> {
        of.unwrap().into_iter().map(|(name, Quantity(text))| (name, text)).collect()
    }

    #[test]
    fn a_pod_asks_for_memory_beyond_its_applications_and_for_processor_time() {
        let both = |cpu: &str, memory: &str| {
            [("cpu".to_owned(), cpu.to_owned()), ("memory".to_owned(), memory.to_owned())]
        };
        let resources = |settings, role| {
            let (_, container) = base(&conf(settings), role, "app", "name").unwrap();
            let found = container.resources.unwrap();
            (amounts(found.requests), amounts(found.limits))
        };
        let (requests, limits) = resources(&[("spark.executor.memory", "10g")], Role::Executor);
        assert_eq!(requests, both("1", "11264Mi"), "a tenth");
        assert_eq!(limits, [("memory".to_owned(), "11264Mi".to_owned())]);
        let (requests, _) = resources(&[("spark.executor.cores", "3")], Role::Executor);
        assert_eq!(requests, both("3", "1408Mi"), "384 MiB at least");
        let own = [
            ("spark.executor.memoryOverhead", "100m"),
            ("spark.kubernetes.executor.request.cores", "500m"),
            ("spark.kubernetes.executor.limit.cores", "2"),
        ];
        let (requests, limits) = resources(&own, Role::Executor);
        assert_eq!((requests, limits), (both("500m", "1124Mi").into(), both("2", "1124Mi").into()));
        let (requests, _) = resources(&[("spark.driver.memory", "512m")], Role::Driver);
        assert_eq!(requests, both("1", "896Mi"));
        let bad = conf(&[("spark.kubernetes.executor.limit.cores", "two")]);
        let refused = base(&bad, Role::Executor, "a", "n").unwrap_err().to_string();
        assert!(refused.contains("limit.cores") && refused.contains("500m"), "{refused}");
    }

    #[test]
    fn a_template_cannot_hide_a_pod_nor_have_an_executor_started_again() {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("pod.yaml");
        let text = "metadata:\n  namespace: elsewhere\n  labels: {spark-exec-inactive: 'true', spark-role: x, team: a}\n\
                    spec:\n  restartPolicy: OnFailure\n  containers: []\n";
        std::fs::write(&path, text).unwrap();
        let path = path.display().to_string();
        for (role, policy) in [(Role::Executor, "Never"), (Role::Driver, "OnFailure")] {
            let settings = conf(&[(&role.key("podTemplateFile"), &path)]);
            let (pod, _) = base(&settings, role, "spark-1", "My job").unwrap();
            let labels = pod.metadata.labels.unwrap();
            assert!(!labels.contains_key(labels::INACTIVE), "{labels:?}");
            assert_eq!(
                (labels["team"].as_str(), labels["spark-role"].as_str()),
                ("a", role.word())
            );
            assert_eq!(pod.metadata.namespace, None);
            assert_eq!(pod.spec.unwrap().restart_policy.as_deref(), Some(policy));
        }
    }

    #[test]
    fn what_users_say_about_pods_is_in_them_and_an_image_is_needed() {
        let settings = conf(&[
            ("spark.kubernetes.executor.label.team", "a"),
            ("spark.kubernetes.executor.annotation.note", "b"),
            ("spark.kubernetes.node.selector.disk", "ssd"),
            ("spark.kubernetes.executor.node.selector.zone", "z"),
            ("spark.kubernetes.executor.secretKeyRef.TOKEN", "api:token"),
            ("spark.kubernetes.container.image.pullSecrets", "one,two"),
        ]);
        let (pod, container) = base(&settings, Role::Executor, "spark-1", "My job").unwrap();
        let (labels, spec) = (pod.metadata.labels.unwrap(), pod.spec.unwrap());
        assert_eq!((labels["team"].as_str(), labels["spark-app-name"].as_str()), ("a", "My-job"));
        assert_eq!(pod.metadata.annotations.unwrap()["note"], "b");
        assert_eq!(spec.node_selector.unwrap().len(), 2);
        assert_eq!(spec.image_pull_secrets.unwrap().len(), 2);
        assert_eq!(spec.automount_service_account_token, Some(false));
        assert_eq!(container.env.unwrap()[0].name, "TOKEN");
        let policy = container.termination_message_policy.as_deref();
        assert_eq!(policy, Some("FallbackToLogsOnError"));
        assert_eq!(
            (container.image.as_deref(), container.name.as_str()),
            (Some("pi:1"), EXECUTOR_CONTAINER)
        );
        assert!(matches!(base(&Conf::new(), Role::Driver, "a", "n"), Err(Error::NoImage)));
    }
}
