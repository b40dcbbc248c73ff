//! Volumes of pods: those that users name, secrets, and the directories for temporary files.
//!
//! `spark.kubernetes.ROLE.volumes.KIND.NAME.mount.path`, `.mount.readOnly`, `.mount.subPath` and `.options.*`, as Spark has
//! them. Claims of the name `OnDemand` are made: by the cluster together with their pod, which owns them, or by the driver, whose pod
//! owns them then.

use std::collections::BTreeMap;

use firesteel_conf::{Conf, entries};
use firesteel_kubernetes_core::VolumeName;
use k8s_openapi::api::core::v1::{
    Container, EmptyDirVolumeSource, EphemeralVolumeSource, HostPathVolumeSource, NFSVolumeSource,
    PersistentVolumeClaimSpec, PersistentVolumeClaimTemplate, PersistentVolumeClaimVolumeSource,
    PodSpec, SecretVolumeSource, Volume, VolumeMount, VolumeResourceRequirements,
};
use k8s_openapi::apimachinery::pkg::api::resource::Quantity;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::ObjectMeta;

use super::parts::Role;
use crate::labels::{named, variable};
use crate::{Error, labels};

/// Volumes of this name are for temporary files.
const LOCAL_DIR: &str = "spark-local-dir-";

/// Names of volumes are labels of DNS; so much of a secret's name is in one that cannot have all of it.
const LONGEST_NAME: usize = 63;
const LONGEST_START: usize = 40;

/// The name of a claim that is made.
const ON_DEMAND: &str = "OnDemand";

/// Volumes of executors whose claims the driver makes, if its pod is there to own them.
pub(crate) fn owned_by_driver(conf: &Conf) -> Result<Vec<VolumeName>, Error> {
    if !conf.get(&entries::KUBERNETES_DRIVER_OWN_CLAIMS)? {
        return Ok(Vec::new());
    }
    let volumes = of_user(conf, Role::Executor, "")?;
    let made = volumes.iter().filter(|(volume, _)| volume.ephemeral.is_some());
    Ok(made.map(|(volume, _)| VolumeName::new(&volume.name)).collect())
}

pub(super) fn add(
    conf: &Conf,
    role: Role,
    app: &str,
    spec: &mut PodSpec,
    container: &mut Container,
) -> Result<(), Error> {
    let mut volumes: Vec<(Volume, VolumeMount)> = Vec::new();
    let prefix = role.key("secrets.");
    let secrets: Vec<(&str, &str)> = named(conf, &prefix).collect();
    let all: Vec<&str> = secrets.iter().map(|(secret, _)| *secret).collect();
    for (secret, path) in secrets {
        let source = SecretVolumeSource { secret_name: Some(secret.to_owned()), ..<_>::default() };
        let name = secret_volume(secret, &all);
        let volume = Volume { name: name.clone(), secret: Some(source), ..Volume::default() };
        volumes.push((volume, mount(name, path.to_owned())));
    }
    volumes.extend(of_user(conf, role, app)?);
    let is_local = |(volume, _): &&(Volume, VolumeMount)| volume.name.starts_with(LOCAL_DIR);
    if !volumes.iter().any(|volume| is_local(&volume)) {
        let (name, path) = (format!("{LOCAL_DIR}1"), "/var/data/spark-local-dir-1".to_owned());
        let empty_dir = Some(EmptyDirVolumeSource::default());
        volumes
            .push((Volume { name: name.clone(), empty_dir, ..<_>::default() }, mount(name, path)));
    }
    let local: Vec<&str> =
        volumes.iter().filter(is_local).map(|(_, mount)| mount.mount_path.as_str()).collect();
    container.env.get_or_insert_default().push(variable("SPARK_LOCAL_DIRS", local.join(",")));
    for (volume, mount) in volumes {
        spec.volumes.get_or_insert_default().push(volume);
        container.volume_mounts.get_or_insert_default().push(mount);
    }
    Ok(())
}

/// The name of a secret's volume. Secrets have longer names than volumes may have, and names with dots.
fn secret_volume(secret: &str, all: &[&str]) -> String {
    let plain = |secret: &str| format!("{secret}-volume");
    let fits = |name: &str| name.len() <= LONGEST_NAME && !name.contains('.');
    if fits(&plain(secret)) {
        return plain(secret);
    }
    let mut others = all.iter().filter(|other| !fits(&plain(other)));
    let at = others.position(|other| *other == secret).unwrap_or_default();
    let start = secret[..secret.floor_char_boundary(LONGEST_START)].replace('.', "-");
    // One more of them at each try: some number is not part of another secret's name.
    let names = (0..).map(|round| plain(&format!("{start}-{}", at + round * (all.len() + 1))));
    let taken = |name: &String| all.iter().any(|other| plain(other) == *name);
    { names }.find(|name| !taken(name)).unwrap_or_default()
}

fn mount(name: String, mount_path: String) -> VolumeMount {
    VolumeMount { name, mount_path, ..VolumeMount::default() }
}

/// Settings of one volume, by what follows its name in their keys.
type VolumeSettings<'a> = BTreeMap<&'a str, &'a str>;

fn of_user(conf: &Conf, role: Role, app: &str) -> Result<Vec<(Volume, VolumeMount)>, Error> {
    let prefix = role.key("volumes.");
    let mut all: BTreeMap<(&str, &str), VolumeSettings<'_>> = BTreeMap::new();
    for (rest, value) in named(conf, &prefix) {
        let mut parts = rest.splitn(3, '.');
        let (Some(kind), Some(name), Some(what)) = (parts.next(), parts.next(), parts.next())
        else {
            let reason = "write KIND.NAME.mount.path or KIND.NAME.options.NAME after it";
            return Err(Error::value(format!("{prefix}{rest}"), reason));
        };
        all.entry((kind, name)).or_default().insert(what, value);
    }
    let mode = match conf.get(&entries::KUBERNETES_READ_WRITE_ONCE)? {
        true => "ReadWriteOnce",
        false => "ReadWriteOncePod",
    };
    let maker = ClaimMaker { app, mode };
    all.iter()
        .map(|((kind, name), settings)| {
            volume(&format!("{prefix}{kind}.{name}"), kind, name, settings, &maker)
        })
        .collect()
}

/// Whether volumes of a kind have this setting.
fn is_setting(kind: &str, what: &str) -> bool {
    let labelled = kind == "persistentVolumeClaim" && what.starts_with("label.");
    let known = ["mount.path", "mount.readOnly", "mount.subPath"];
    known.contains(&what) || what.starts_with("options.") || labelled
}

/// What all claims have that are made.
struct ClaimMaker<'a> {
    app: &'a str,
    mode: &'a str,
}

impl ClaimMaker<'_> {
    /// A claim as the settings of its volume want it. Without a class it is of the cluster's default one.
    fn make(
        &self,
        key: &str,
        settings: &VolumeSettings<'_>,
    ) -> Result<PersistentVolumeClaimTemplate, Error> {
        let size = settings.get("options.sizeLimit").ok_or_else(|| {
            let reason = "it is not set, and needed where claimName is OnDemand: write 500Gi";
            Error::value(format!("{key}.options.sizeLimit"), reason)
        })?;
        let of_user = settings.iter().filter_map(|(what, value)| {
            Some((what.strip_prefix("label.")?.to_owned(), (*value).to_owned()))
        });
        let mut labels: BTreeMap<String, String> = of_user.collect();
        if let Some(reserved) = labels.keys().find(|name| labels::RESERVED.contains(&name.as_str()))
        {
            let reason = "this label tells whose claim it is: choose another name";
            return Err(Error::value(format!("{key}.label.{reserved}"), reason));
        }
        labels.insert(labels::APPLICATION.to_owned(), self.app.to_owned());
        let requests = [("storage".to_owned(), Quantity((*size).to_owned()))].into();
        Ok(PersistentVolumeClaimTemplate {
            metadata: Some(ObjectMeta { labels: Some(labels), ..ObjectMeta::default() }),
            spec: PersistentVolumeClaimSpec {
                access_modes: Some(vec![self.mode.to_owned()]),
                resources: Some(VolumeResourceRequirements {
                    requests: Some(requests),
                    limits: None,
                }),
                storage_class_name: settings
                    .get("options.storageClass")
                    .map(|text| (*text).to_owned()),
                ..PersistentVolumeClaimSpec::default()
            },
        })
    }
}

fn volume(
    key: &str,
    kind: &str,
    name: &str,
    settings: &VolumeSettings<'_>,
    maker: &ClaimMaker<'_>,
) -> Result<(Volume, VolumeMount), Error> {
    labels::check_name(key, name, 63)?;
    let options = settings.keys().filter_map(|what| what.strip_prefix("options."));
    let option = |name: &str| {
        settings.get(format!("options.{name}").as_str()).map(|text| (*text).to_owned())
    };
    let needed = |name: &str| {
        option(name).ok_or_else(|| {
            Error::value(format!("{key}.options.{name}"), "it is not set, and needed")
        })
    };
    if let Some(other) = settings.keys().find(|what| !is_setting(kind, what)) {
        return Err(Error::value(format!("{key}.{other}"), "volumes have no such setting"));
    }
    let mut volume = Volume { name: name.to_owned(), ..Volume::default() };
    let allowed: &[&str] = match kind {
        "hostPath" => {
            volume.host_path =
                Some(HostPathVolumeSource { path: needed("path")?, type_: option("type") });
            &["path", "type"]
        }
        "emptyDir" => {
            let size_limit = option("sizeLimit").map(Quantity);
            volume.empty_dir = Some(EmptyDirVolumeSource { medium: option("medium"), size_limit });
            &["medium", "sizeLimit"]
        }
        "nfs" => {
            let (path, server) = (needed("path")?, needed("server")?);
            volume.nfs = Some(NFSVolumeSource { path, server, read_only: None });
            &["path", "server"]
        }
        "persistentVolumeClaim" => {
            let claim_name = needed("claimName")?;
            if claim_name == ON_DEMAND {
                let template = Some(maker.make(key, settings)?);
                volume.ephemeral = Some(EphemeralVolumeSource { volume_claim_template: template });
                &["claimName", "storageClass", "sizeLimit"]
            } else {
                volume.persistent_volume_claim =
                    Some(PersistentVolumeClaimVolumeSource { claim_name, read_only: None });
                &["claimName"]
            }
        }
        _ => {
            let reason = format!(
                "`{kind}` is not a kind of volumes: write emptyDir, hostPath, nfs or persistentVolumeClaim"
            );
            return Err(Error::value(key, reason));
        }
    };
    if let Some(other) = options.into_iter().find(|option| !allowed.contains(option)) {
        return Err(Error::value(
            format!("{key}.options.{other}"),
            format!("volumes of kind {kind} have no such option"),
        ));
    }
    let path = settings
        .get("mount.path")
        .ok_or_else(|| Error::value(format!("{key}.mount.path"), "it is not set, and needed"))?;
    let mut mount = mount(name.to_owned(), (*path).to_owned());
    mount.read_only = match settings.get("mount.readOnly").copied() {
        None => None,
        Some("true") => Some(true),
        Some("false") => Some(false),
        Some(other) => {
            let reason = format!("`{other}` is neither true nor false");
            return Err(Error::value(format!("{key}.mount.readOnly"), reason));
        }
    };
    mount.sub_path = settings.get("mount.subPath").map(|text| (*text).to_owned());
    Ok((volume, mount))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn added(settings: &[(&str, &str)]) -> Result<(PodSpec, Container), Error> {
        let mut conf = Conf::new();
        for (key, value) in settings {
            conf.set(format!("spark.kubernetes.executor.{key}"), value);
        }
        let (mut spec, mut container) = (PodSpec::default(), Container::default());
        add(&conf, Role::Executor, "spark-1", &mut spec, &mut container)?;
        Ok((spec, container))
    }

    fn local_dirs(container: &Container) -> String {
        let variables = container.env.as_deref().unwrap();
        let found = variables.iter().find(|variable| variable.name == "SPARK_LOCAL_DIRS");
        found.unwrap().value.clone().unwrap()
    }

    #[test]
    fn volumes_and_secrets_are_mounted_and_one_of_its_name_has_the_temporary_files() {
        let (spec, container) = added(&[
            ("secrets.keys", "/etc/keys"),
            ("volumes.hostPath.spark-local-dir-1.mount.path", "/scratch"),
            ("volumes.hostPath.spark-local-dir-1.options.path", "/mnt/disk1"),
            ("volumes.persistentVolumeClaim.data.mount.path", "/data"),
            ("volumes.persistentVolumeClaim.data.mount.readOnly", "true"),
            ("volumes.persistentVolumeClaim.data.options.claimName", "mine"),
        ])
        .unwrap();
        let mounts = container.volume_mounts.as_deref().unwrap();
        let paths: Vec<&str> = mounts.iter().map(|mount| mount.mount_path.as_str()).collect();
        assert_eq!(paths, ["/etc/keys", "/scratch", "/data"]);
        assert_eq!(
            (mounts[2].read_only, local_dirs(&container).as_str()),
            (Some(true), "/scratch")
        );
        assert_eq!(spec.volumes.unwrap().len(), 3);
        let (_, container) = added(&[]).unwrap();
        assert_eq!(local_dirs(&container), "/var/data/spark-local-dir-1");
    }

    #[test]
    fn volumes_of_secrets_have_names_of_their_own_that_kubernetes_takes() {
        let (long, other) = ("k".repeat(80), format!("{}.2", "k".repeat(80)));
        let secrets = [
            "api.example.org",
            "api-example-org",
            "api.example-org",
            "api-example-org-0",
            &long,
            &other,
        ];
        let settings: Vec<(String, String)> =
            secrets.iter().map(|one| (format!("secrets.{one}"), format!("/etc/{one}"))).collect();
        let settings: Vec<_> = settings.iter().map(|(key, path)| (&key[..], &path[..])).collect();
        let (spec, container) = added(&settings).unwrap();
        let mounts = container.volume_mounts.unwrap();
        let mut names = std::collections::BTreeSet::new();
        for volume in spec.volumes.unwrap().iter().filter(|one| one.secret.is_some()) {
            let secret = volume.secret.as_ref().unwrap().secret_name.as_deref().unwrap();
            let mount = mounts.iter().find(|mount| mount.name == volume.name).unwrap();
            assert_eq!(mount.mount_path, format!("/etc/{secret}"));
            let is_label = |byte| matches!(byte, b'a'..=b'z' | b'0'..=b'9' | b'-');
            assert!(
                volume.name.bytes().all(is_label) && volume.name.len() <= 63,
                "{}",
                volume.name
            );
            names.insert(volume.name.clone());
        }
        assert_eq!(names.len(), secrets.len(), "{names:?}");
        assert!(names.contains("api-example-org-volume"), "as Spark has it: {names:?}");
    }

    #[test]
    fn a_claim_on_demand_is_made_together_with_its_pod_by_class_size_and_labels() {
        let volume = "volumes.persistentVolumeClaim.spark-local-dir-1";
        let said = |what: &str| format!("{volume}.{what}");
        let (name, size) = (said("options.claimName"), said("options.sizeLimit"));
        let (class, path) = (said("options.storageClass"), said("mount.path"));
        let label = said("label.team");
        let (spec, container) = added(&[
            (&name, "OnDemand"),
            (&size, "500Gi"),
            (&class, "fast"),
            (&path, "/data"),
            (&label, "a"),
        ])
        .unwrap();
        assert_eq!(local_dirs(&container), "/data");
        let made = serde_json::to_value(&spec.volumes.unwrap()[0]).unwrap();
        let template = &made["ephemeral"]["volumeClaimTemplate"];
        assert_eq!(template["metadata"]["labels"]["spark-app-selector"], "spark-1");
        assert_eq!(template["metadata"]["labels"]["team"], "a");
        assert_eq!(template["spec"]["accessModes"][0], "ReadWriteOncePod");
        assert_eq!(template["spec"]["storageClassName"], "fast");
        assert_eq!(template["spec"]["resources"]["requests"]["storage"], "500Gi");
        let refused = added(&[(&name, "OnDemand"), (&path, "/data")]).unwrap_err().to_string();
        assert!(refused.contains("options.sizeLimit: it is not set"), "{refused}");
        let role = format!("{volume}.label.spark-role");
        let refused = added(&[(&name, "OnDemand"), (&size, "1Gi"), (&path, "/d"), (&role, "x")]);
        let refused = refused.unwrap_err().to_string();
        assert!(refused.contains("label.spark-role"), "{refused}");
    }

    #[test]
    fn volumes_that_are_none_are_refused_with_the_setting() {
        for (key, value, words) in [
            ("volumes.hostPath.a.mount.path", "/x", "a.options.path: it is not set"),
            ("volumes.emptyDir.a.options.medium", "Memory", "a.mount.path: it is not set"),
            ("volumes.cephfs.a.mount.path", "/x", "`cephfs` is not a kind"),
            ("volumes.emptyDir.a.mount.pat", "/x", "no such setting"),
            ("volumes.emptyDir.a.label.b", "c", "no such setting"),
            ("volumes.emptyDir.a.options.size", "1g", "no such option"),
            ("volumes.emptyDir.a.mount.readOnly", "yes", "neither true nor false"),
            ("volumes.emptyDir", "/x", "KIND.NAME.mount.path"),
        ] {
            let path = [("volumes.emptyDir.a.mount.path", "/x")];
            let path = path.iter().filter(|_| key.ends_with("readOnly")).copied();
            let settings: Vec<_> = path.chain([(key, value)]).collect();
            let refused = added(&settings).unwrap_err().to_string();
            assert!(
                refused.contains(words) && refused.starts_with("spark.kubernetes.executor."),
                "{refused}"
            );
        }
    }
}
