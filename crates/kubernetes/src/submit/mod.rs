//! Drivers that the cluster runs: `submit`, `--status` and `--kill`.
//!
//! | file | owns |
//! |---|---|
//! | `trial` | whether the API server would take the pods of executors |
//! | `create` | a driver's pod and what goes with it: all of it, or nothing |
//! | `follow` | how far a driver is, to its end |
//! | `patience` | how long a driver may take to start |
//! | `find` | drivers by `namespace:name*` |

mod create;
mod find;
mod follow;
mod patience;
mod trial;

use std::time::Duration;

use firesteel_conf::{Conf, entries};
use kube::Client;

use crate::connect::{Caller, Connection};
use crate::pod::DriverPod;
pub use crate::unique;
use crate::{Error, labels};
pub use find::{kill, status};
use patience::Patience;

/// The longest name of a driver's pod: its service's has `-svc` more.
const LONGEST_NAME: usize = 63 - "-svc".len();

/// An application to be run by the cluster.
#[derive(Debug)]
pub struct Submission {
    /// The executable, a path in its image; only its name counts if pods fetch it (`spark.firesteel.kubernetes.fetch`).
    pub program: String,
    pub arguments: Vec<String>,
    /// The settings of the application.
    pub conf: Conf,
}

/// How a driver ended, or how far it is.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Outcome {
    /// The application's exit code; `None`: it is not over, or nobody knows.
    pub exit_code: Option<i32>,
    pub succeeded: bool,
    /// Whether it ended, as far as anybody can tell.
    pub is_over: bool,
}

/// An API server, and a namespace.
pub(crate) struct Cluster {
    pub(crate) client: Client,
    pub(crate) namespace: String,
    pub(crate) url: String,
    pub(crate) limit: Duration,
}

impl Cluster {
    async fn connect(url: &str, conf: &Conf) -> Result<Self, Error> {
        let connection = Connection::new(url, conf, Caller::Submission)?;
        Ok(Cluster {
            client: connection.client().await?,
            namespace: conf.get(&entries::KUBERNETES_NAMESPACE)?,
            url: url.to_owned(),
            limit: connection.request_timeout(),
        })
    }

    /// What `--status` and `--kill` call a driver.
    fn id(&self, name: &str) -> String {
        format!("{}:{name}", self.namespace)
    }

    fn refused(&self, what: String, error: firesteel_kubernetes_core::api::ApiError) -> Error {
        Error::Refused { url: self.url.clone(), what, error }
    }
}

/// A driver that can be created: settings and templates make sense, and the API server would take its executors' pods.
pub struct Prepared {
    cluster: Cluster,
    app: String,
    name: String,
    plan: DriverPod,
    /// How often it is looked at, and how long it may take to start; `None`: its end is not waited for.
    follows: Option<(Duration, Patience)>,
}

/// Finds out what can be found out before anything is created or uploaded.
pub async fn prepare(url: &str, submission: &Submission) -> Result<Prepared, Error> {
    let Submission { program, arguments, conf } = submission;
    let cluster = Cluster::connect(url, conf).await?;
    let (app, name) = names(conf)?;
    let plan = DriverPod::new(conf, (&app, &name), program, arguments)?;
    let follows = match conf.get(&entries::KUBERNETES_WAIT_APP_COMPLETION)? {
        true => Some((conf.get(&entries::KUBERNETES_REPORT_INTERVAL)?, Patience::of(conf)?)),
        false => None,
    };
    if conf.get(&entries::KUBERNETES_SUBMISSION_DRY_RUN)? {
        trial::of_executor(&cluster, &plan.trial).await?;
    }
    Ok(Prepared { cluster, app, name, plan, follows })
}

impl Prepared {
    /// Has the cluster run the driver, and waits for its end if the settings say so. `tell` hears what users should know.
    pub async fn submit(self, tell: &mut dyn FnMut(&str)) -> Result<Outcome, Error> {
        let Prepared { cluster, app, name, plan, follows } = self;
        let driver = create::create(&cluster, plan, &name).await?;
        tell(&format!("{}:{name} submitted as {app}", cluster.namespace));
        let Some((interval, patience)) = follows else {
            return Ok(Outcome { exit_code: None, succeeded: true, is_over: false });
        };
        follow::to_the_end(&cluster, &driver, interval, &patience, tell).await
    }
}

/// The application's id, and the name of its driver's pod.
fn names(conf: &Conf) -> Result<(String, String), Error> {
    let unique = unique();
    let app = conf.get(&entries::APP_ID)?.unwrap_or_else(|| format!("spark-{unique}"));
    let entry = &entries::KUBERNETES_DRIVER_POD_NAME;
    let name = match conf.get(entry)? {
        Some(name) => {
            labels::check_name(entry.key(), &name, LONGEST_NAME)?;
            name
        }
        None => {
            let longest = firesteel_kubernetes_core::names::LONGEST_PREFIX - unique.len() - 1;
            let application = conf.get(&entries::APP_NAME)?.unwrap_or_default();
            format!("{}-{unique}-driver", labels::as_name(&application, longest))
        }
    };
    Ok((app, name))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_driver_is_called_after_its_application_and_another_one_otherwise() {
        let mut conf = Conf::new();
        conf.set("spark.app.name", "Word Count");
        let (one, other) = (names(&conf).unwrap(), names(&conf).unwrap());
        assert!(one.1.starts_with("word-count-") && one.1.ends_with("-driver"), "{one:?}");
        assert!(one != other && one.1.len() <= LONGEST_NAME);
        conf.set("spark.kubernetes.driver.pod.name", "mine");
        assert_eq!(names(&conf).unwrap().1, "mine");
        conf.set("spark.kubernetes.driver.pod.name", "x".repeat(60));
        assert!(names(&conf).unwrap_err().to_string().contains("59 at most"));
    }
}
