//! The pod of a driver that the cluster runs, and what goes with it: a service, its settings, its secrets.

use std::collections::BTreeMap;
use std::path::PathBuf;

use firesteel_backend::command::Command;
use firesteel_conf::process_variables::DRIVER_ATTRIBUTE;
use firesteel_conf::{Conf, Entry, REDACTED, entries};
use firesteel_engine::ApplicationSpec;
use firesteel_kubernetes_core::names::LONGEST_PREFIX;
use firesteel_rpc::SECRET_VARIABLE;
use k8s_openapi::api::core::v1::{
    ConfigMap, ConfigMapVolumeSource, ContainerPort, EnvVar, Pod, PodSpec, Secret, Service,
    ServicePort, ServiceSpec, Volume, VolumeMount,
};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::{ObjectMeta, OwnerReference};

use super::executor::{ExecutorPods, Owner};
use super::fetch;
use super::parts::{self, Role, owned, secret_variable};
use crate::labels::{self, named, variable, variable_of_pod};
use crate::{APPLICATION_SECRET, DRIVER_ADDRESS, Error, unique};

/// Where the driver finds its settings.
pub(super) const CONF_DIR: &str = "/opt/spark/conf";
const CONF_FILE: &str = "spark-defaults.conf";
/// Settings in a variable; they win over the file's.
pub(super) const CONF_VARIABLE: &str = "FIRESTEEL_CONF";
/// What settings of the driver's variables begin with.
const DRIVER_ENV: &str = "spark.kubernetes.driverEnv.";

const RPC_PORT: u16 = 7078;
const BLOCK_PORT: u16 = 7079;
const UI_PORT: u16 = 4040;

/// A driver to be created, with all that belongs to it.
#[derive(Debug)]
pub(crate) struct DriverPod {
    pub(crate) pod: Pod,
    pub(crate) container: String,
    /// A pod of an executor as this driver will ask for, to find out whether it would get it: here is somebody who can put it right.
    pub(crate) trial: Pod,
    app: String,
    name: String,
    settings: Conf,
    /// The name of a file and its text: the template of executors' pods.
    template: Option<(String, String)>,
    /// Where it listens, with what for.
    ports: Vec<(&'static str, u16)>,
    service_labels: BTreeMap<String, String>,
    service_annotations: BTreeMap<String, String>,
    /// What its process shares with its executors.
    secret: firesteel_rpc::Secret,
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
        let fetched = fetch::paths(settings)?;
        let program = fetched.first().map_or(program, String::as_str);
        container.command = Some(vec![program.to_owned()]);
        container.args = Some(arguments.to_vec());
        container.env.get_or_insert_default().extend(environment(settings, app, name));
        let ports = ports(settings)?;
        let told_ports = ports.iter().map(|(name, port)| ContainerPort {
            container_port: (*port).into(),
            name: Some((*name).to_owned()),
            ..ContainerPort::default()
        });
        container.ports.get_or_insert_default().extend(told_ports);
        let (volume, mount) = settings_volume(name);
        container.volume_mounts.get_or_insert_default().push(mount);
        let spec = pod.spec.get_or_insert_with(PodSpec::default);
        fetch::add(settings, name, spec, &mut container)?;
        let own = container.name.clone();
        let mut told = told(settings, app, name)?;
        let owner = Owner {
            image: container.image.clone(),
            secret: Some((secret_name(name), APPLICATION_SECRET.to_owned())),
            ..Owner::new(name, "")
        };
        let trial = trial(&told, app, &app_name, program, &owner)?;
        let template = executor_template(settings)?;
        if fetched.len() > 1 {
            let files = told.get(&entries::FILES)?.into_iter().filter(|file| !file.is_empty());
            let files: Vec<String> = files.chain(fetched.into_iter().skip(1)).collect();
            told.set(entries::FILES.key(), files.join(","));
        }
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
            trial,
            app: app.to_owned(),
            name: name.to_owned(),
            settings: told,
            template,
            ports,
            service_labels: labels::of_user(settings, "spark.kubernetes.driver.service.label.")?
                .into_iter()
                .collect(),
            service_annotations: named(settings, "spark.kubernetes.driver.service.annotation.")
                .map(owned)
                .collect(),
            secret: firesteel_rpc::Secret::generate(),
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
        let port = |(name, port): &(&str, u16)| ServicePort {
            name: Some((*name).to_owned()),
            port: (*port).into(),
            ..ServicePort::default()
        };
        let ports: Vec<ServicePort> = self.ports.iter().map(port).collect();
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
            ports: Some(ports),
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

    /// Those that may not be shown, and the secret that driver and executors share.
    pub(crate) fn secret(&self, owner: OwnerReference) -> Secret {
        let mut conf = Conf::new();
        for (key, value) in &secrets_of(&self.settings) {
            conf.set(key, value);
        }
        let mut data = hidden_variables(&self.settings);
        data.extend([
            (CONF_VARIABLE.to_owned(), conf.to_properties()),
            (APPLICATION_SECRET.to_owned(), self.secret.expose().to_owned()),
        ]);
        Secret {
            metadata: self.metadata(secret_name(&self.name), owner),
            string_data: Some(data),
            immutable: Some(true),
            ..Secret::default()
        }
    }
}

/// Where the driver's settings are, for its container.
fn settings_volume(driver: &str) -> (Volume, VolumeMount) {
    let mount = VolumeMount {
        name: "spark-conf-volume-driver".to_owned(),
        mount_path: CONF_DIR.to_owned(),
        ..VolumeMount::default()
    };
    let source = ConfigMapVolumeSource { name: config_map_name(driver), ..<_>::default() };
    let volume = Volume { name: mount.name.clone(), config_map: Some(source), ..<_>::default() };
    (volume, mount)
}

/// A pod of an executor, from the settings that the driver is told and the template as it is here.
fn trial(
    told: &Conf,
    app: &str,
    app_name: &str,
    program: &str,
    driver: &Owner,
) -> Result<Pod, Error> {
    let mut environment = told.executor_environment()?;
    environment.insert(SECRET_VARIABLE.to_owned(), String::new());
    let command = Command { program: program.to_owned(), environment, ..Command::default() };
    let (name, user, conf) = (app_name.to_owned(), String::new(), told.clone());
    let application = ApplicationSpec { name, user, conf, command };
    let entry = &entries::KUBERNETES_EXECUTOR_POD_NAME_PREFIX;
    let prefix = told.get(entry)?.unwrap_or_default();
    ExecutorPods::trial(&application, app, driver, &prefix)
}

/// The template of executors' pods goes with the settings: the driver makes these pods. Looked at here, where its author is.
fn executor_template(settings: &Conf) -> Result<Option<(String, String)>, Error> {
    let entry = &entries::KUBERNETES_EXECUTOR_POD_TEMPLATE_FILE;
    let Some(path) = settings.get(entry)? else { return Ok(None) };
    let path = PathBuf::from(path.strip_prefix("file://").unwrap_or(&path));
    let kind = path.extension().is_some_and(|extension| extension == "json");
    let file = if kind { "executor-pod-template.json" } else { "executor-pod-template.yaml" };
    let text = std::fs::read_to_string(&path);
    let text = text.map_err(|source| Error::File { key: entry.key(), path, source })?;
    Ok(Some((file.to_owned(), text)))
}

/// Where the driver listens: what its settings say, else always the same. A port that is chosen by chance is not told.
fn ports(settings: &Conf) -> Result<Vec<(&'static str, u16)>, Error> {
    let of = |entry: &Entry<u32>, usual: u16| match settings.get_raw(entry.key()) {
        Some(_) => Ok(settings.get(entry).map(|port| u16::try_from(port).unwrap_or_default())?),
        None => Ok::<u16, Error>(usual),
    };
    let mut ports = vec![
        ("driver-rpc-port", of(&entries::DRIVER_PORT, RPC_PORT)?),
        ("blockmanager", of(&entries::BLOCK_MANAGER_PORT, BLOCK_PORT)?),
        ("spark-ui", of(&entries::UI_PORT, UI_PORT)?),
    ];
    ports.retain(|(_, port)| *port > 0);
    Ok(ports)
}

/// Credentials of drivers that no cluster runs: one in a pod has its account.
const CLIENT_MODE: [&Entry<Option<String>>; 5] = [
    &entries::KUBERNETES_CA_CERT_FILE,
    &entries::KUBERNETES_CLIENT_KEY_FILE,
    &entries::KUBERNETES_CLIENT_CERT_FILE,
    &entries::KUBERNETES_OAUTH_TOKEN,
    &entries::KUBERNETES_OAUTH_TOKEN_FILE,
];

/// Settings that stay with the process that submits: what proves who that is, and what is of its machine only.
fn stays(key: &str) -> bool {
    key.starts_with("spark.kubernetes.authenticate.submission.")
        || CLIENT_MODE.iter().any(|entry| entry.key() == key)
        || key == entries::KUBERNETES_CONTEXT.key()
        || key == entries::DRIVER_HOST.key()
        || key == entries::DRIVER_BIND_ADDRESS.key()
        || key == entries::AUTHENTICATE_SECRET.key()
        || key == entries::AUTHENTICATE_SECRET_FILE.key()
        || key == entries::KUBERNETES_DRIVER_POD_TEMPLATE_FILE.key()
        || key == entries::KUBERNETES_FILE_UPLOAD_PATH.key()
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
    told.set(entries::KUBERNETES_EXECUTOR_POD_NAME_PREFIX.key(), executor_prefix(settings, name)?);
    for (entry, port) in
        [(&entries::DRIVER_PORT, RPC_PORT), (&entries::BLOCK_MANAGER_PORT, BLOCK_PORT)]
    {
        if told.get_raw(entry.key()).is_none() {
            told.set(entry.key(), port);
        }
    }
    Ok(told)
}

/// What the names of executors' pods begin with: as the driver's, if that is short enough.
fn executor_prefix(settings: &Conf, driver: &str) -> Result<String, Error> {
    let entry = &entries::KUBERNETES_EXECUTOR_POD_NAME_PREFIX;
    if let Some(chosen) = settings.get(entry)? {
        labels::check_name(entry.key(), &chosen, LONGEST_PREFIX)?;
        return Ok(chosen);
    }
    let stem = driver.strip_suffix("-driver").unwrap_or(driver);
    if stem.len() <= LONGEST_PREFIX {
        return Ok(stem.to_owned());
    }
    let unique = unique();
    Ok(format!("{}-{unique}", labels::as_name(stem, LONGEST_PREFIX - unique.len() - 1)))
}

/// The settings of an application that may not be shown.
fn secrets_of(settings: &Conf) -> Vec<(String, String)> {
    let hidden = settings.redacted().filter(|(_, value)| *value == REDACTED);
    let hidden = hidden.filter(|(key, _)| !stays(key));
    let value = |key: &str| settings.get_raw(key).unwrap_or_default().to_owned();
    hidden.map(|(key, _)| (key.to_owned(), value(key))).collect()
}

/// The variables of the driver: its user's, then what it is told. What may not be shown is in its secret.
fn environment(settings: &Conf, app: &str, name: &str) -> Vec<EnvVar> {
    let (secret, hidden) = (secret_name(name), hidden_variables(settings));
    let of_user = named(settings, DRIVER_ENV);
    let of_user = of_user.map(|(name, value)| match hidden.contains_key(name) {
        true => secret_variable(name, &secret, name),
        false => variable(name, value),
    });
    let told = [
        variable("SPARK_CONF_DIR", CONF_DIR),
        variable("SPARK_APPLICATION_ID", app),
        variable_of_pod(DRIVER_ADDRESS, "status.podIP"),
        // Attributes, by which its logs are found, as those of executors.
        variable_of_pod(&format!("{DRIVER_ATTRIBUTE}KUBERNETES_NAMESPACE"), "metadata.namespace"),
        variable_of_pod(&format!("{DRIVER_ATTRIBUTE}KUBERNETES_POD_NAME"), "metadata.name"),
        secret_variable(CONF_VARIABLE, &secret, CONF_VARIABLE),
        secret_variable(APPLICATION_SECRET, &secret, APPLICATION_SECRET),
    ];
    of_user.chain(told).collect()
}

/// Variables of the driver whose names say that they may not be shown.
fn hidden_variables(settings: &Conf) -> BTreeMap<String, String> {
    let hidden = settings.redacted().filter(|(_, value)| *value == REDACTED);
    let hidden = hidden.filter_map(|(key, _)| Some((key.strip_prefix(DRIVER_ENV)?, key)));
    let value = |key: &str| settings.get_raw(key).unwrap_or_default().to_owned();
    hidden.map(|(name, key)| (name.to_owned(), value(key))).collect()
}

fn service_name(driver: &str) -> String {
    format!("{driver}-svc")
}

pub(super) fn config_map_name(driver: &str) -> String {
    format!("{driver}-conf-map")
}

pub(super) fn secret_name(driver: &str) -> String {
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
            ("spark.kubernetes.driverEnv.API_TOKEN", "for-the-driver"),
            ("spark.kubernetes.authenticate.oauthTokenFile", "/home/of-the-submitter"),
            ("spark.kubernetes.authenticate.driver.serviceAccountName", "spark"),
        ] {
            conf.set(key, value);
        }
        DriverPod::new(&conf, ("spark-1", "pi-1-driver"), "/opt/app/pi", &["9".to_owned()]).unwrap()
    }

    fn owner() -> OwnerReference {
        Owner::new("pi-1-driver", "u").reference()
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
        let data = driver.secret(owner()).string_data.unwrap();
        let text = &data[CONF_VARIABLE];
        assert!(text.contains("hush") && !text.contains("of-the-submitter"), "{text}");
        let pod = serde_json::to_string(&driver.pod).unwrap();
        assert!(!pod.contains("for-the-driver") && data["API_TOKEN"] == "for-the-driver", "{pod}");
        assert!(data[APPLICATION_SECRET].len() > 30 && !pod.contains(&data[APPLICATION_SECRET]));
        for (name, field) in [
            ("KUBERNETES_NAMESPACE", "metadata.namespace"),
            ("KUBERNETES_POD_NAME", "metadata.name"),
        ] {
            let env = driver.pod.spec.as_ref().unwrap().containers[0].env.as_ref().unwrap();
            let name = format!("SPARK_DRIVER_ATTRIBUTE_{name}");
            let found = env.iter().find(|it| it.name == name).unwrap();
            let source = found.value_from.as_ref().unwrap().field_ref.as_ref().unwrap();
            assert_eq!(source.field_path, field);
        }
        assert_eq!(map.metadata.owner_references.unwrap()[0].name, "pi-1-driver");
    }

    #[test]
    fn a_driver_whose_executable_was_uploaded_fetches_it_and_its_files_before_it_starts() {
        let mut conf = Conf::new();
        conf.set("spark.kubernetes.container.image", "firesteel:1");
        conf.set("spark.firesteel.kubernetes.fetch", "s3a://b/u/pi,s3a://b/u/words.txt");
        let driver = DriverPod::new(&conf, ("spark-1", "pi-1-driver"), "/home/me/pi", &[]).unwrap();
        let pod = serde_json::to_value(&driver.pod).unwrap();
        let (own, first) = (&pod["spec"]["containers"][0], &pod["spec"]["initContainers"][0]);
        assert_eq!(own["command"][0], "/opt/spark/work-dir/pi");
        let command: Vec<&str> = first["command"]
            .as_array()
            .unwrap()
            .iter()
            .map(|word| word.as_str().unwrap())
            .collect();
        let to = "/opt/spark/work-dir";
        let urls = ["s3a://b/u/pi", "s3a://b/u/words.txt"];
        assert_eq!(command, ["firesteel", "fetch", "--to", to, urls[0], urls[1]]);
        assert_eq!(
            (&first["image"], &first["env"][1]["name"]),
            (&own["image"], &"FIRESTEEL_CONF".into())
        );
        let mounted = |container: &serde_json::Value, path: &str| {
            let mounts = container["volumeMounts"].as_array().unwrap().clone();
            mounts.into_iter().find(|mount| mount["mountPath"] == path).unwrap()["name"].clone()
        };
        assert_eq!(mounted(own, to), mounted(first, to));
        assert_ne!(mounted(own, CONF_DIR), mounted(first, CONF_DIR));
        let text = &driver.config_map(owner()).data.unwrap()[CONF_FILE];
        let line = "spark.files=/opt/spark/work-dir/words.txt";
        assert!(text.lines().any(|found| found == line), "{text}");
    }

    #[test]
    fn what_its_executors_cannot_have_is_refused_before_a_driver_is_created() {
        let planned = |settings: &[(&str, &str)], name: &str| {
            let mut conf = Conf::new();
            conf.set("spark.kubernetes.container.image", "pi:1");
            for (key, value) in settings {
                conf.set(*key, value);
            }
            DriverPod::new(&conf, ("spark-1", name), "/pi", &[])
        };
        for (key, value) in [
            ("spark.kubernetes.executor.limit.cores", "many"),
            ("spark.kubernetes.executor.label.spark-role", "driver"),
            ("spark.kubernetes.executor.podNamePrefix", &"x".repeat(60)),
        ] {
            let refused = planned(&[(key, value)], "pi-driver").unwrap_err().to_string();
            assert!(refused.contains(key), "{refused}");
        }
        let long = planned(&[], &"a".repeat(59)).unwrap();
        let prefix = long.settings.get(&entries::KUBERNETES_EXECUTOR_POD_NAME_PREFIX).unwrap();
        let prefix = prefix.unwrap();
        assert!(prefix.len() <= LONGEST_PREFIX && prefix.starts_with("aaa"), "{prefix}");
    }

    #[test]
    fn an_executors_pod_is_made_for_trial_as_settings_template_and_variables_say() {
        let directory = tempfile::tempdir().unwrap();
        let template = directory.path().join("executor.yaml");
        std::fs::write(&template, "spec:\n  priorityClassName: low\n  containers: []\n").unwrap();
        let mut conf = Conf::new();
        for (key, value) in [
            ("spark.kubernetes.container.image", "pi:1"),
            ("spark.kubernetes.executor.limit.cores", "500m"),
            ("spark.executorEnv.GREETING", "hello"),
            ("spark.firesteel.kubernetes.fetch", "s3a://b/u/pi"),
        ] {
            conf.set(key, value);
        }
        conf.set("spark.kubernetes.executor.podTemplateFile", template.display());
        let driver = DriverPod::new(&conf, ("spark-1", "pi-1-driver"), "/pi", &[]).unwrap();
        let trial = serde_json::to_value(&driver.trial).unwrap();
        assert_eq!(trial["metadata"]["name"], "pi-1-exec-1");
        assert_eq!(trial["spec"]["priorityClassName"], "low");
        let container = &trial["spec"]["containers"][0];
        assert_eq!(container["resources"]["limits"]["cpu"], "500m");
        assert_eq!(container["command"][0], "/opt/spark/work-dir/pi", "where it is fetched to");
        assert_eq!(container["ports"][0]["containerPort"], 7079, "the driver is told so");
        let variables = container["env"].as_array().unwrap();
        let named = |name: &str| variables.iter().find(|one| one["name"] == name).unwrap();
        assert_eq!(named("GREETING")["value"], "hello");
        let secret = &named(SECRET_VARIABLE)["valueFrom"]["secretKeyRef"];
        assert_eq!(secret["name"], "pi-1-driver-conf-secret");
    }

    #[test]
    fn pod_and_service_have_the_ports_that_the_driver_listens_at() {
        let ports = |settings: &[(&str, &str)]| {
            let mut conf = Conf::new();
            conf.set("spark.kubernetes.container.image", "pi:1");
            for (key, value) in settings {
                conf.set(*key, value);
            }
            let driver = DriverPod::new(&conf, ("spark-1", "d"), "/pi", &[]).unwrap();
            let spec = driver.pod.spec.as_ref().unwrap();
            let pod = spec.containers[0].ports.clone().unwrap_or_default();
            let pod: Vec<i32> = pod.iter().map(|port| port.container_port).collect();
            let service = driver.service(owner()).spec.unwrap().ports.unwrap();
            assert_eq!(service.iter().map(|port| port.port).collect::<Vec<_>>(), pod);
            pod
        };
        assert_eq!(ports(&[]), [7078, 7079, 4040]);
        let own = [("spark.driver.port", "9000"), ("spark.blockManager.port", "9001")];
        assert_eq!(ports(&own), [9000, 9001, 4040]);
        assert_eq!(ports(&[("spark.ui.port", "9002"), ("spark.driver.port", "0")]), [7079, 9002]);
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
