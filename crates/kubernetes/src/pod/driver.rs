//! The pod of a driver that the cluster runs, and what goes with it: a service, its settings, its secrets.

use std::collections::BTreeMap;
use std::path::PathBuf;

use firesteel_conf::{Conf, REDACTED, entries};
use k8s_openapi::api::core::v1::{
    ConfigMap, ConfigMapVolumeSource, ContainerPort, Pod, PodSpec, Secret, Service, ServicePort,
    ServiceSpec, Volume, VolumeMount,
};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::{ObjectMeta, OwnerReference};

use super::parts::{self, Role, owned, secret_variable};
use crate::labels::{self, named, variable, variable_of_pod};
use crate::{DRIVER_ADDRESS, Error};

/// Where the driver finds its settings.
const CONF_DIR: &str = "/opt/spark/conf";
const CONF_FILE: &str = "spark-defaults.conf";
/// Settings in a variable; they win over the file's.
const CONF_VARIABLE: &str = "FIRESTEEL_CONF";

const RPC_PORT: u16 = 7078;
const BLOCK_PORT: u16 = 7079;
const UI_PORT: u16 = 4040;

/// A driver to be created, with all that belongs to it.
#[derive(Debug)]
pub(crate) struct DriverPod {
    pub(crate) pod: Pod,
    pub(crate) container: String,
    app: String,
    name: String,
    settings: Conf,
    /// The name of a file and its text: the template of executors' pods.
    template: Option<(String, String)>,
    service_labels: BTreeMap<String, String>,
    service_annotations: BTreeMap<String, String>,
}

impl DriverPod {
    /// `program` is a path in the image. `settings` are those of the application, complete but for what is said here.
    pub(crate) fn new(
        settings: &Conf,
        (app, name): (&str, &str),
        program: &str,
        arguments: &[String],
    ) -> Result<Self, Error> {
        let app_name = settings.get(&entries::APP_NAME)?.unwrap_or_else(|| name.to_owned());
        let (mut pod, mut container) = parts::base(settings, Role::Driver, app, &app_name)?;
        pod.metadata.name = Some(name.to_owned());
        container.command = Some(vec![program.to_owned()]);
        container.args = Some(arguments.to_vec());
        let secrets = secrets_of(settings);
        let variables = container.env.get_or_insert_default();
        let of_user = named(settings, "spark.kubernetes.driverEnv.");
        variables.extend(of_user.map(|(name, value)| variable(name, value)));
        variables.extend([
            variable("SPARK_CONF_DIR", CONF_DIR),
            variable("SPARK_APPLICATION_ID", app),
            variable_of_pod(DRIVER_ADDRESS, "status.podIP"),
        ]);
        if !secrets.is_empty() {
            variables.push(secret_variable(CONF_VARIABLE, &secret_name(name), CONF_VARIABLE));
        }
        let ports =
            [("driver-rpc-port", RPC_PORT), ("blockmanager", BLOCK_PORT), ("spark-ui", UI_PORT)];
        let ports = ports.map(|(name, port)| ContainerPort {
            container_port: port.into(),
            name: Some(name.to_owned()),
            ..ContainerPort::default()
        });
        container.ports.get_or_insert_default().extend(ports);
        let mount = VolumeMount {
            name: "spark-conf-volume-driver".to_owned(),
            mount_path: CONF_DIR.to_owned(),
            ..<_>::default()
        };
        let source = ConfigMapVolumeSource { name: config_map_name(name), ..<_>::default() };
        let volume =
            Volume { name: mount.name.clone(), config_map: Some(source), ..Volume::default() };
        container.volume_mounts.get_or_insert_default().push(mount);
        let own = container.name.clone();
        let template = executor_template(settings)?;
        let mut told = told(settings, app, name)?;
        if let Some((file, _)) = &template {
            let key = entries::KUBERNETES_EXECUTOR_POD_TEMPLATE_FILE.key();
            told.set(key, format!("{CONF_DIR}/{file}"));
        }
        let spec = pod.spec.get_or_insert_with(PodSpec::default);
        spec.volumes.get_or_insert_default().push(volume);
        spec.containers.insert(0, container);
        Ok(DriverPod {
            pod,
            container: own,
            app: app.to_owned(),
            name: name.to_owned(),
            settings: told,
            template,
            service_labels: labels::of_user(settings, "spark.kubernetes.driver.service.label.")?
                .into_iter()
                .collect(),
            service_annotations: named(settings, "spark.kubernetes.driver.service.annotation.")
                .map(owned)
                .collect(),
        })
    }

    fn metadata(&self, name: String, owner: OwnerReference) -> ObjectMeta {
        let labels = [(labels::APPLICATION.to_owned(), self.app.clone())];
        ObjectMeta {
            name: Some(name),
            labels: Some(labels.into()),
            owner_references: Some(vec![owner]),
            ..ObjectMeta::default()
        }
    }

    /// A name for the driver's address: no load is balanced.
    pub(crate) fn service(&self, owner: OwnerReference) -> Service {
        let port = |(name, port): (&str, u16)| ServicePort {
            name: Some(name.to_owned()),
            port: port.into(),
            ..ServicePort::default()
        };
        let ports =
            [("driver-rpc-port", RPC_PORT), ("blockmanager", BLOCK_PORT), ("spark-ui", UI_PORT)];
        let selector = [
            (labels::APPLICATION.to_owned(), self.app.clone()),
            (labels::ROLE.to_owned(), labels::DRIVER.to_owned()),
        ];
        let mut metadata = self.metadata(service_name(&self.name), owner);
        metadata.labels.get_or_insert_default().extend(self.service_labels.clone());
        metadata.annotations = Some(self.service_annotations.clone()).filter(|all| !all.is_empty());
        let spec = ServiceSpec {
            cluster_ip: Some("None".to_owned()),
            selector: Some(selector.into()),
            ports: Some(ports.map(port).into()),
            ..ServiceSpec::default()
        };
        Service { metadata, spec: Some(spec), status: None }
    }

    /// The application's settings, without those that may not be shown.
    pub(crate) fn config_map(&self, owner: OwnerReference) -> ConfigMap {
        let mut shown = self.settings.clone();
        for (key, _) in secrets_of(&self.settings).iter() {
            shown.remove(key);
        }
        let settings = (CONF_FILE.to_owned(), shown.to_properties());
        let data = self.template.clone().into_iter().chain([settings]).collect();
        let metadata = self.metadata(config_map_name(&self.name), owner);
        ConfigMap { metadata, data: Some(data), immutable: Some(true), ..ConfigMap::default() }
    }

    /// Those that may not be shown, if there are any.
    pub(crate) fn secret(&self, owner: OwnerReference) -> Option<Secret> {
        let secrets = secrets_of(&self.settings);
        let mut conf = Conf::new();
        for (key, value) in &secrets {
            conf.set(key, value);
        }
        let data = [(CONF_VARIABLE.to_owned(), conf.to_properties())];
        (!secrets.is_empty()).then(|| Secret {
            metadata: self.metadata(secret_name(&self.name), owner),
            string_data: Some(data.into()),
            immutable: Some(true),
            ..Secret::default()
        })
    }
}

/// The template of executors' pods goes with the settings: the driver makes these pods. Looked at here, where its author is.
fn executor_template(settings: &Conf) -> Result<Option<(String, String)>, Error> {
    let entry = &entries::KUBERNETES_EXECUTOR_POD_TEMPLATE_FILE;
    let Some(path) = settings.get(entry)? else { return Ok(None) };
    // Not created, only found out whether they could be.
    parts::base(settings, Role::Executor, "", "")?;
    let path = PathBuf::from(path.strip_prefix("file://").unwrap_or(&path));
    let kind = path.extension().is_some_and(|extension| extension == "json");
    let file = if kind { "executor-pod-template.json" } else { "executor-pod-template.yaml" };
    let text = std::fs::read_to_string(&path);
    let text = text.map_err(|source| Error::File { key: entry.key(), path, source })?;
    Ok(Some((file.to_owned(), text)))
}

/// Settings that stay with the process that submits: what proves who that is, and what is of its machine only.
fn stays(key: &str) -> bool {
    key.starts_with("spark.kubernetes.authenticate.submission.")
        || key == entries::KUBERNETES_CONTEXT.key()
        || key == entries::DRIVER_HOST.key()
        || key == entries::DRIVER_BIND_ADDRESS.key()
        || key == entries::AUTHENTICATE_SECRET.key()
        || key == entries::AUTHENTICATE_SECRET_FILE.key()
        || key == entries::KUBERNETES_DRIVER_POD_TEMPLATE_FILE.key()
}

/// The settings that the driver is told.
fn told(settings: &Conf, app: &str, name: &str) -> Result<Conf, Error> {
    let mut told = Conf::new();
    for (key, value) in settings.iter().filter(|(key, _)| !stays(key)) {
        told.set(key, value);
    }
    // The driver's process is the application itself, in a pod.
    told.set(entries::SUBMIT_DEPLOY_MODE.key(), "client");
    told.set(entries::MASTER.key(), format!("k8s://{}", crate::connect::IN_CLUSTER));
    told.set(entries::APP_ID.key(), app);
    told.set(entries::KUBERNETES_DRIVER_POD_NAME.key(), name);
    let chosen = settings.get(&entries::KUBERNETES_EXECUTOR_POD_NAME_PREFIX)?;
    let prefix = chosen.unwrap_or_else(|| name.strip_suffix("-driver").unwrap_or(name).to_owned());
    told.set(entries::KUBERNETES_EXECUTOR_POD_NAME_PREFIX.key(), prefix);
    for (entry, port) in
        [(&entries::DRIVER_PORT, RPC_PORT), (&entries::BLOCK_MANAGER_PORT, BLOCK_PORT)]
    {
        if told.get_raw(entry.key()).is_none() {
            told.set(entry.key(), port);
        }
    }
    Ok(told)
}

/// The settings of an application that may not be shown.
fn secrets_of(settings: &Conf) -> Vec<(String, String)> {
    let hidden = settings.redacted().filter(|(_, value)| *value == REDACTED);
    let hidden = hidden.filter(|(key, _)| !stays(key));
    let value = |key: &str| settings.get_raw(key).unwrap_or_default().to_owned();
    hidden.map(|(key, _)| (key.to_owned(), value(key))).collect()
}

fn service_name(driver: &str) -> String {
    format!("{driver}-svc")
}

fn config_map_name(driver: &str) -> String {
    format!("{driver}-conf-map")
}

fn secret_name(driver: &str) -> String {
    format!("{driver}-conf-secret")
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::pod::Owner;

    fn driver() -> DriverPod {
        let mut conf = Conf::new();
        for (key, value) in [
            ("spark.app.name", "Pi"),
            ("spark.kubernetes.container.image", "pi:1"),
            ("spark.executor.instances", "4"),
            ("spark.kubernetes.authenticate.submission.oauthToken", "of-the-submitter"),
            ("spark.hadoop.fs.s3a.secret.key", "hush"),
            ("spark.kubernetes.driverEnv.GREETING", "hello"),
            ("spark.kubernetes.authenticate.driver.serviceAccountName", "spark"),
        ] {
            conf.set(key, value);
        }
        DriverPod::new(&conf, ("spark-1", "pi-1-driver"), "/opt/app/pi", &["9".to_owned()]).unwrap()
    }

    fn owner() -> OwnerReference {
        Owner { name: "pi-1-driver".to_owned(), uid: "u".to_owned(), image: None }.reference()
    }

    #[test]
    fn a_driver_finds_its_settings_and_no_secret_lies_open() {
        let driver = driver();
        let map = driver.config_map(owner());
        let text = &map.data.as_ref().unwrap()[CONF_FILE];
        for line in [
            "spark.app.id=spark-1",
            "spark.kubernetes.driver.pod.name=pi-1-driver",
            "spark.kubernetes.executor.podNamePrefix=pi-1",
            "spark.executor.instances=4",
            "spark.driver.port=7078",
            "spark.submit.deployMode=client",
        ] {
            assert!(text.lines().any(|found| found == line), "{line} is not in {text}");
        }
        assert!(!text.contains("hush") && !text.contains("of-the-submitter"), "{text}");
        let secret = driver.secret(owner()).unwrap();
        let text = &secret.string_data.unwrap()[CONF_VARIABLE];
        assert!(text.contains("hush") && !text.contains("of-the-submitter"), "{text}");
        assert_eq!(map.metadata.owner_references.unwrap()[0].name, "pi-1-driver");
    }

    #[test]
    fn a_drivers_pod_runs_the_executable_with_its_arguments_and_has_a_service() {
        let driver = driver();
        let pod = serde_json::to_value(&driver.pod).unwrap();
        let container = &pod["spec"]["containers"][0];
        assert_eq!(
            (&container["command"][0], &container["args"][0]),
            (&"/opt/app/pi".into(), &"9".into())
        );
        assert_eq!(pod["spec"]["serviceAccountName"], "spark");
        assert_eq!(pod["metadata"]["labels"]["spark-role"], "driver");
        let names: Vec<&str> = container["env"]
            .as_array()
            .unwrap()
            .iter()
            .map(|v| v["name"].as_str().unwrap())
            .collect();
        for name in ["GREETING", "SPARK_CONF_DIR", "SPARK_DRIVER_BIND_ADDRESS", "FIRESTEEL_CONF"] {
            assert!(names.contains(&name), "{name} is not in {names:?}");
        }
        let service = serde_json::to_value(driver.service(owner())).unwrap();
        assert_eq!(
            (&service["metadata"]["name"], &service["spec"]["clusterIP"]),
            (&"pi-1-driver-svc".into(), &"None".into())
        );
    }
}
