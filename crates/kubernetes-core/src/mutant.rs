//! Mistakes that the simulator plants to show that it would find them. Without the feature `mutants` none of them
//! can be chosen, and the compiler removes the questions.

/// One mistake of the pod allocator. Most are what Spark's does, or what an earlier state of this one did.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Mutant {
    /// Pods that were asked for and not seen yet do not count.
    CountsSeenPodsOnly,
    /// A request to create a pod that is never answered is waited for for ever.
    AwaitsLostCreates,
    /// When a request to create a pod is not answered, the next one asks for another executor.
    TakesNewNumbers,
    /// A pod that was created and is gone before any list or watch shows it counts for ever.
    AwaitsUnseenPods,
    /// A list that is older than what was seen before is believed.
    TrustsStaleLists,
    /// A pod whose node a watch told last is taken for one that its node does not take, though the watch may have left it out.
    TrustsWatchesAlone,
    /// A watch that expired is opened again at the same version.
    ResumesExpiredWatches,
    /// A watch that ended is not opened again; Spark's, after a 410.
    WatchesOnce,
    /// Pods are listed once, however much the watch may have left out.
    ListsOnce,
    /// A pod that is about to end counts as an executor; Spark's.
    CountsTerminatingPods,
    /// What the platform ends counts as a failure of the application; Spark's.
    BlamesApplication,
    /// What the application ends does not count.
    ForgivesApplication,
    /// A used up quota counts as an executor's failure; Spark's.
    CountsQuota,
    /// The time after which to ask again is not waited for.
    IgnoresRetryAfter,
    /// A driver process that follows another one begins with the first number.
    ReusesNumbers,
    /// Pods of the driver process before are left alone.
    LeavesPreviousGeneration,
    /// An executor that runs and never registers is waited for for ever, by the registry as well; Spark's.
    AwaitsRegistration,
    /// A request to delete a pod is made once.
    DeletesOnce,
    /// A pod on a node that is gone is never deleted by force.
    NeverForces,
    /// When fewer executors are wanted, those that work go first.
    EndsWorkingExecutors,
    /// All that is missing is asked for at once.
    IgnoresBatches,
    /// However many pods are pending, more are asked for.
    IgnoresPendingLimit,
    /// Pods that the application ended are deleted.
    KeepsNoPods,
    /// The end is not waited for of requests that may yet create a pod.
    EndsBeforeAnswers,
    /// The user does not hear why executors are missing.
    SaysNothing,
    /// A node on which no executor starts is used again and again; Spark's.
    ForgivesNodes,
    /// A missing right is waited for.
    AwaitsRights,
    /// A pod that has the name of one that is asked for is this application's, or is in its way; so is another driver's pod whose
    /// application was given the same id.
    TakesPodsOfOthers,
    /// A node of which nothing is heard gets pods as any other; Spark's.
    TrustsSilentNodes,
    /// A pod whose node does not take it is waited for as one that starts; Spark's.
    AwaitsKubelets,
    /// What a pod tells of its executor's end after the registry has removed it is not heard.
    ForgetsReasons,
    /// A claim is mounted again while the pod that had it may still be there.
    SharesClaims,
}

/// The mistake that an allocator makes, if any.
#[derive(Clone, Copy, Debug, Default)]
pub struct Planted(Option<Mutant>);

impl Planted {
    pub fn only(mutant: Mutant) -> Self {
        Planted(Some(mutant))
    }

    /// Whether the allocator makes this mistake: never, without the feature.
    pub fn is(self, mutant: Mutant) -> bool {
        cfg!(feature = "mutants") && self.0 == Some(mutant)
    }
}
