//! What happened how often.

crate::counters::counters! {
    /// How often each thing happened to pods.
    PodCounters
    /// Requests that never came to the API server.
    requests_lost,
    /// Requests that were carried out and whose answer was lost.
    answers_lost,
    /// Requests that nobody answered, not even with an error.
    requests_unanswered,
    /// Requests that were carried out after nobody waited for them any longer.
    requests_late,
    /// Pods that were there already when they were asked for.
    pods_adopted,
    /// Pods of another application that had the name of one that was asked for.
    names_taken,
    /// Lists that were out of date.
    lists_stale,
    /// Changes that a watch left out.
    changes_skipped,
    /// Watches that the server closed.
    watches_closed,
    /// Watches of which nothing was heard any more.
    watches_stalled,
    /// Watches that began before what the server remembers.
    watches_expired,
    /// Words between registry and allocator that came late.
    words_late,
    /// Requests while the API server was down.
    server_down,
    /// Requests that it was too busy for.
    requests_throttled,
    /// Requests with credentials that had expired.
    credentials_expired,
    /// Pods that a quota did not allow.
    quota_exceeded,
    /// Pods that an admission webhook did not allow.
    pods_denied,
    /// Pods that nobody may create.
    rights_missing,
    /// Pods that no API server would take.
    pods_invalid,
    /// Pods that lost their labels.
    pods_relabelled,
    /// Pods that found no node.
    pods_unschedulable,
    /// Pods that a node refused.
    pods_refused,
    /// Images that could not be pulled.
    image_errors,
    /// Containers that could not be created.
    config_errors,
    /// Containers that never started.
    stuck_starts,
    /// Executors that ran and never registered.
    mute_executors,
    /// Executors that ended as soon as they ran.
    false_starts,
    /// Ends that kubelets told later than the registry waits for them.
    kubelets_late,
    /// Executors that crashed.
    crashes,
    /// Executors that ended with code 0.
    zero_exits,
    /// Executors out of memory.
    out_of_memory,
    /// Executors evicted for a limit of their own.
    own_limits,
    /// Executors that stood still.
    hung,
    /// Connections of executors that broke.
    connections_broken,
    /// Pods that somebody deleted.
    pods_deleted,
    /// Pods that somebody deleted by force.
    pods_forced,
    /// Pods deleted before anybody could see them.
    pods_deleted_unseen,
    /// Pods that were drained, preempted or evicted under pressure.
    pods_disrupted,
    /// Nodes that vanished with their processes.
    nodes_rebooted,
    /// Nodes that could not be reached for a while.
    nodes_unreachable,
    /// Nodes that never came back.
    nodes_gone,
    /// Kubelets that died while their pods ran on.
    kubelets_dead,
    /// Pods that the allocator deleted by force.
    forced_deletes,
    /// Driver processes that died and were followed by another one.
    drivers_restarted,
    /// Pods of a process before that were deleted.
    previous_pods,
    /// Other numbers of executors that were wanted.
    targets_changed,
    /// Executors that the driver released.
    executors_released,
    executors_registered,
    /// Executors that were lost.
    executors_lost,
    /// Executors about to end that got no more tasks.
    executors_decommissioned,
    /// Pods kept for people.
    pods_kept,
    /// Nodes that pods avoided.
    nodes_avoided,
    /// Nodes that were the last choice for a pod.
    nodes_last_choice,
    /// Nodes that vanished in the quiet.
    nodes_vanished,
    /// Logs of executors that failed.
    logs_fetched,
    /// Claims of volumes that were made.
    claims_created,
    /// Claims that a pod mounted which another pod had before.
    claims_reused,
    /// Claims that were deleted.
    claims_deleted,
    /// Applications that ended for what stood in their way.
    apps_failed,
    /// Applications that heard why executors were missing.
    shortages_told,
    /// What allocators dropped as out of date.
    stale_for_allocators,
}
