//! Pod templates: files with a pod that users write, in YAML or JSON.

use std::path::{Path, PathBuf};

use firesteel_conf::{Conf, Entry};
use k8s_openapi::api::core::v1::{Container, Pod, PodSpec};

use crate::Error;

/// A pod to start from, and the container in it that is the application's.
#[derive(Debug, Default)]
pub(super) struct Template {
    pub(super) pod: Pod,
    /// Where in the pod's containers; there is none yet if it is their number.
    pub(super) container: usize,
}

impl Template {
    /// The template that the settings name, or an empty one.
    pub(super) fn from_conf(
        conf: &Conf,
        file: &Entry<Option<String>>,
        container: &Entry<Option<String>>,
    ) -> Result<Self, Error> {
        let Some(path) = conf.get(file)? else { return Ok(Template::default()) };
        let path = PathBuf::from(path.strip_prefix("file://").unwrap_or(&path));
        let text = std::fs::read_to_string(&path).map_err(|source| Error::File {
            key: file.key(),
            path: path.clone(),
            source,
        })?;
        let refused =
            |reason: String| Error::Template { key: file.key(), path: path.clone(), reason };
        let pod = parse(&path, &text).map_err(refused)?;
        let containers = pod.spec.as_ref().map(|spec| &spec.containers[..]).unwrap_or_default();
        let index = match conf.get(container)? {
            None => 0,
            Some(name) => {
                let found = containers.iter().position(|container| container.name == name);
                let missing =
                    || refused(format!("it has no container {name} ({})", container.key()));
                found.ok_or_else(missing)?
            }
        };
        Ok(Template { pod, container: index })
    }

    /// The pod without that container, and the container.
    pub(super) fn split(self) -> (Pod, Container) {
        let Template { mut pod, container } = self;
        let spec = pod.spec.get_or_insert_with(PodSpec::default);
        let own = match container < spec.containers.len() {
            true => spec.containers.remove(container),
            false => Container::default(),
        };
        (pod, own)
    }
}

/// Errors have a line and a column.
fn parse(path: &Path, text: &str) -> Result<Pod, String> {
    let pod: Pod = match path.extension().is_some_and(|extension| extension == "json") {
        true => serde_json::from_str(text).map_err(|error| error.to_string())?,
        false => serde_saphyr::from_str(text).map_err(|error| error.to_string())?,
    };
    Ok(pod)
}

#[cfg(test)]
mod tests {
    use firesteel_conf::entries;

    use super::*;

    fn template(text: &str, container: Option<&str>) -> Result<(Pod, Container), Error> {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("executor.yaml");
        std::fs::write(&path, text).unwrap();
        let mut conf = Conf::new();
        conf.set("spark.kubernetes.executor.podTemplateFile", path.display());
        if let Some(container) = container {
            conf.set("spark.kubernetes.executor.podTemplateContainerName", container);
        }
        let (file, container) = (
            &entries::KUBERNETES_EXECUTOR_POD_TEMPLATE_FILE,
            &entries::KUBERNETES_EXECUTOR_POD_TEMPLATE_CONTAINER,
        );
        Template::from_conf(&conf, file, container).map(Template::split)
    }

    #[test]
    fn the_named_container_is_the_executors_and_the_others_stay() {
        let text = "spec:\n  containers:\n  - name: proxy\n  - name: mine\n  tolerations:\n  - key: gpu\n    operator: Exists\n";
        let (pod, own) = template(text, Some("mine")).unwrap();
        let spec = pod.spec.unwrap();
        assert_eq!((own.name.as_str(), spec.containers.len()), ("mine", 1));
        assert_eq!(spec.tolerations.unwrap()[0].key.as_deref(), Some("gpu"));
        assert_eq!(template(text, None).unwrap().1.name, "proxy", "the first");
        assert_eq!(template("metadata: {}\n", None).unwrap().1.name, "", "none");
        let refused = template(text, Some("other")).unwrap_err().to_string();
        assert!(refused.contains("no container other"), "{refused}");
    }

    #[test]
    fn a_template_that_is_no_pod_is_refused_with_file_and_line() {
        let refused = template("spec:\n  containers: 7\n", None).unwrap_err().to_string();
        assert!(refused.contains("executor.yaml") && refused.contains("line 2"), "{refused}");
    }
}
