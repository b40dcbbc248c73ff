//! The init container of pods whose executable is not in their image: it fetches that, and files, from where `submit` put them.

use firesteel_conf::{Conf, entries};
use k8s_openapi::api::core::v1::{
    ConfigMapVolumeSource, Container, EmptyDirVolumeSource, PodSpec, Volume, VolumeMount,
};

use super::driver::{CONF_DIR, CONF_VARIABLE, config_map_name, secret_name};
use super::parts::secret_variable;
use crate::Error;
use crate::labels::variable;

/// Where it puts them: the directory in which driver and executors are started.
const DIRECTORY: &str = "/opt/spark/work-dir";
const NAME: &str = "spark-fetch";
const VOLUME: &str = "spark-fetch-volume";
const CONF_VOLUME: &str = "spark-fetch-conf-volume";

/// What is to be fetched.
fn urls(conf: &Conf) -> Result<Vec<String>, Error> {
    let urls = conf.get(&entries::KUBERNETES_FETCH)?;
    Ok(urls.into_iter().filter(|url| !url.is_empty()).collect())
}

/// Whether pods fetch their executable.
pub(crate) fn is_fetched(conf: &Conf) -> Result<bool, Error> {
    Ok(!urls(conf)?.is_empty())
}

/// Where they are then: the executable, and the files.
pub(super) fn paths(conf: &Conf) -> Result<Vec<String>, Error> {
    let name = |url: &String| url.rsplit('/').next().unwrap_or_default().to_owned();
    Ok(urls(conf)?.iter().map(|url| format!("{DIRECTORY}/{}", name(url))).collect())
}

/// Adds it, if there is something to fetch. The settings of stores are those of the driver of this name; volumes are those of the
/// container, which may be where a `file://` directory is. `container` is not in `spec` yet.
pub(super) fn add(
    conf: &Conf,
    driver: &str,
    spec: &mut PodSpec,
    container: &mut Container,
) -> Result<(), Error> {
    let urls = urls(conf)?;
    if urls.is_empty() {
        return Ok(());
    }
    let mount = |name: &str, path: &str| VolumeMount {
        name: name.to_owned(),
        mount_path: path.to_owned(),
        ..VolumeMount::default()
    };
    let empty_dir = Some(EmptyDirVolumeSource::default());
    let directory = Volume { name: VOLUME.to_owned(), empty_dir, ..Volume::default() };
    let source = ConfigMapVolumeSource { name: config_map_name(driver), ..<_>::default() };
    let settings =
        Volume { name: CONF_VOLUME.to_owned(), config_map: Some(source), ..Volume::default() };
    spec.volumes.get_or_insert_default().extend([directory, settings]);
    let volumes = container.volume_mounts.get_or_insert_default();
    let is_settings = |one: &&VolumeMount| one.mount_path == CONF_DIR;
    let mut mounts: Vec<VolumeMount> =
        volumes.iter().filter(|one| !is_settings(one)).cloned().collect();
    mounts.extend([mount(VOLUME, DIRECTORY), mount(CONF_VOLUME, CONF_DIR)]);
    volumes.push(mount(VOLUME, DIRECTORY));
    container.working_dir.get_or_insert_with(|| DIRECTORY.to_owned());
    let words = ["firesteel", "fetch", "--to", DIRECTORY];
    let command = words.iter().map(|word| (*word).to_owned()).chain(urls).collect();
    let variables = vec![
        variable("SPARK_CONF_DIR", CONF_DIR),
        secret_variable(CONF_VARIABLE, &secret_name(driver), CONF_VARIABLE),
    ];
    spec.init_containers.get_or_insert_default().push(Container {
        name: NAME.to_owned(),
        image: container.image.clone(),
        image_pull_policy: container.image_pull_policy.clone(),
        command: Some(command),
        env: Some(variables),
        // A pod asks for the larger of both, so that this costs nothing, and a quota that wants amounts has them.
        resources: container.resources.clone(),
        termination_message_policy: container.termination_message_policy.clone(),
        security_context: container.security_context.clone(),
        volume_mounts: Some(mounts),
        ..Container::default()
    });
    Ok(())
}
