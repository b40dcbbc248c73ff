//! Claims of volumes that executors' pods mount, reduced to what decisions need. Only those of volumes whose claims are made on
//! demand: `spark.kubernetes.executor.volumes.persistentVolumeClaim.NAME.options.claimName=OnDemand`.

use firesteel_backend::named_id;

use crate::Version;

named_id!(
    /// The name of a claim, unique in its namespace as long as the claim exists.
    ClaimName
);
named_id!(
    /// What the settings call a volume: the `NAME` in them.
    VolumeName
);

/// A claim of this application.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Claim {
    pub name: ClaimName,
    /// Which volume of the settings it was made for: a label of it says so.
    pub volume: VolumeName,
    /// Whether it has a `deletionTimestamp`, or has lost its volume (phase `Lost`).
    pub unusable: bool,
}

/// All claims of the application.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ClaimList {
    pub version: Version,
    pub claims: Vec<Claim>,
}

/// A volume of a pod and the claim that it mounts.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Mount {
    pub volume: VolumeName,
    pub claim: ClaimName,
    /// The API server may not have it yet: it is created before the pod. One that is there already does.
    pub is_new: bool,
    /// Another pod had it before.
    pub reused: bool,
}
