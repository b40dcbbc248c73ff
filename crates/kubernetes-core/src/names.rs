//! Pods by name. An executor's pod always has the same name, so that a request made twice creates one pod.

use firesteel_types::ExecutorId;

use crate::{ClaimName, PodName};

/// The longest prefix such that a name of any executor is a host name, too.
pub const LONGEST_PREFIX: usize = 63 - "-exec-".len() - 10;

/// The pod of an executor: `<prefix>-exec-<id>`, as Spark has it.
pub fn pod_name(prefix: &str, executor: ExecutorId) -> PodName {
    PodName::new(&format!("{prefix}-exec-{executor}"))
}

/// The claim of a pod's volume, if none is reused: `<pod>-pvc-<index>`, as Spark has it.
pub fn claim_name(pod: &PodName, index: usize) -> ClaimName {
    ClaimName::new(&format!("{pod}-pvc-{index}"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_name_of_the_last_executor_there_can_be_is_a_host_name() {
        let longest = pod_name(&"p".repeat(LONGEST_PREFIX), ExecutorId(u32::MAX - 1));
        assert_eq!(longest.0.len(), 63);
        let pod = pod_name("pi-1", ExecutorId(7));
        assert_eq!(pod.0.as_ref(), "pi-1-exec-7");
        assert_eq!(claim_name(&pod, 0).0.as_ref(), "pi-1-exec-7-pvc-0");
    }
}
