//! What settings mean for the allocator.

use std::time::Duration;

use firesteel_backend::AppId;
use firesteel_conf::{Conf, Unschedulable as Policy, entries};
use firesteel_kubernetes_core::Generation;
use firesteel_kubernetes_core::names::LONGEST_PREFIX;
use firesteel_kubernetes_core::options::{
    AllocatorOptions, ClaimOptions, Keep, Roll, RollPolicy, Unschedulable,
};

use crate::pod::owned_by_driver;
use crate::{Error, labels, unique};

/// So many pods that failed are kept for people.
const KEPT: usize = 10;
/// So many numbers one process of a driver has for its executors.
const NUMBERS: u32 = 100_000;

/// What the names of executors' pods begin with.
pub(super) fn prefix(conf: &Conf) -> Result<String, Error> {
    let entry = &entries::KUBERNETES_EXECUTOR_POD_NAME_PREFIX;
    if let Some(prefix) = conf.get(entry)? {
        labels::check_name(entry.key(), &prefix, LONGEST_PREFIX)?;
        return Ok(prefix);
    }
    let unique = unique();
    let name = conf.get(&entries::APP_NAME)?.unwrap_or_else(firesteel_engine::executable_name);
    Ok(format!("{}-{unique}", labels::as_name(&name, LONGEST_PREFIX - unique.len() - 1)))
}

/// The allocator's rules; `process`: the how-manieth process of its driver this is, if that is known.
pub(super) fn of(
    conf: &Conf,
    app: AppId,
    prefix: &str,
    process: Option<u32>,
) -> Result<AllocatorOptions, Error> {
    let millis = |duration: Duration| u64::try_from(duration.as_millis()).unwrap_or(u64::MAX);
    let (generation, first_number) = match process {
        Some(process) => {
            let before = process.saturating_sub(1).saturating_mul(NUMBERS);
            (Generation(u64::from(process)), before.saturating_add(1))
        }
        None => (Generation(since_epoch_ms()), 1),
    };
    let mut options = AllocatorOptions::new(app, prefix, generation);
    options.first_number = first_number;
    options.batch_size = conf.get(&entries::KUBERNETES_ALLOCATION_BATCH_SIZE)?;
    options.batch_delay_ms = millis(conf.get(&entries::KUBERNETES_ALLOCATION_BATCH_DELAY)?);
    options.max_pending = conf.get(&entries::KUBERNETES_MAX_PENDING_PODS)?.unwrap_or(u32::MAX);
    options.polling_ms = millis(conf.get(&entries::KUBERNETES_API_POLLING_INTERVAL)?);
    options.grace_ms = millis(conf.get(&entries::KUBERNETES_EXECUTOR_GRACE_PERIOD)?);
    options.all_containers = conf.get(&entries::KUBERNETES_CHECK_ALL_CONTAINERS)?;
    options.keep = match conf.get(&entries::KUBERNETES_DELETE_EXECUTORS)? {
        Some(true) => Keep::None,
        Some(false) => Keep::All(usize::MAX),
        None => Keep::Failures(KEPT),
    };
    options.unschedulable = match conf.get(&entries::KUBERNETES_UNSCHEDULABLE)? {
        Policy::Wait => Unschedulable::Wait,
        Policy::Shrink => Unschedulable::Shrink,
        Policy::Fail => Unschedulable::Fail,
    };
    let interval_ms = millis(conf.get(&entries::KUBERNETES_EXECUTOR_ROLL_INTERVAL)?);
    let policy = match conf.get(&entries::KUBERNETES_EXECUTOR_ROLL_POLICY)? {
        firesteel_conf::RollPolicy::Id => RollPolicy::Id,
        firesteel_conf::RollPolicy::AddTime => RollPolicy::AddTime,
    };
    options.roll = (interval_ms > 0).then_some(Roll { interval_ms, policy });
    options.max_failures = conf.get(&entries::EXECUTOR_MAX_NUM_FAILURES)?;
    options.failures_validity_ms =
        conf.get(&entries::EXECUTOR_FAILURES_VALIDITY_INTERVAL)?.map(millis);
    options.claims = claims(conf, process)?;
    let deadlines = &mut options.deadlines;
    deadlines.attached_ms = millis(conf.get(&entries::KUBERNETES_CLAIM_TIMEOUT)?);
    deadlines.request_ms = millis(conf.get(&entries::KUBERNETES_DRIVER_REQUEST_TIMEOUT)?);
    deadlines.seen_ms = millis(conf.get(&entries::KUBERNETES_MISSING_POD_DETECT_DELTA)?);
    deadlines.started_ms = millis(conf.get(&entries::KUBERNETES_ALLOCATION_EXECUTOR_TIMEOUT)?);
    deadlines.image_ms = millis(conf.get(&entries::KUBERNETES_IMAGE_TIMEOUT)?);
    deadlines.registered_ms = millis(conf.get(&entries::KUBERNETES_REGISTRATION_TIMEOUT)?);
    Ok(options)
}

/// Without a pod of its own a driver makes no claims: nothing would collect them.
fn claims(conf: &Conf, process: Option<u32>) -> Result<ClaimOptions, Error> {
    let volumes = match process {
        Some(_) => owned_by_driver(conf)?,
        None => Vec::new(),
    };
    let reuse = conf.get(&entries::KUBERNETES_DRIVER_REUSE_CLAIMS)?;
    let wait_to_reuse = reuse && conf.get(&entries::KUBERNETES_DRIVER_WAIT_TO_REUSE_CLAIMS)?;
    Ok(ClaimOptions { volumes, reuse, wait_to_reuse })
}

fn since_epoch_ms() -> u64 {
    let since = std::time::SystemTime::now().duration_since(std::time::UNIX_EPOCH);
    since.map_or(1, |since| u64::try_from(since.as_millis()).unwrap_or(1))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_process_of_a_driver_has_numbers_of_its_own() {
        let of = |process| of(&Conf::new(), AppId::new("a"), "p", process).unwrap();
        assert_eq!((of(Some(1)).generation, of(Some(1)).first_number), (Generation(1), 1));
        assert_eq!((of(Some(3)).generation, of(Some(3)).first_number), (Generation(3), 200_001));
        assert!(of(None).generation > Generation(1_600_000_000_000), "by the clock");
    }

    #[test]
    fn claims_are_the_drivers_where_its_pod_can_own_them_and_it_may() {
        let mut conf = Conf::new();
        let volume = "spark.kubernetes.executor.volumes.persistentVolumeClaim.data";
        conf.set(format!("{volume}.options.claimName"), "OnDemand");
        conf.set(format!("{volume}.options.sizeLimit"), "1Gi");
        conf.set(format!("{volume}.mount.path"), "/data");
        let volumes = |conf: &Conf, process| claims(conf, process).unwrap().volumes.len();
        assert_eq!((volumes(&conf, Some(1)), volumes(&conf, None)), (1, 0));
        assert!(claims(&conf, Some(1)).unwrap().reuse);
        conf.set("spark.kubernetes.driver.ownPersistentVolumeClaim", "false");
        assert_eq!(volumes(&conf, Some(1)), 0);
    }

    #[test]
    fn names_of_pods_begin_with_the_applications_and_are_short_enough() {
        let mut conf = Conf::new();
        conf.set("spark.app.name", "A very long name of an application, which nobody reads twice");
        let made = prefix(&conf).unwrap();
        assert!(made.starts_with("a-very-long-name") && made.len() <= LONGEST_PREFIX, "{made}");
        conf.set("spark.kubernetes.executor.podNamePrefix", "x".repeat(LONGEST_PREFIX + 1));
        assert!(prefix(&conf).unwrap_err().to_string().contains("47 at most"));
    }
}
