//! What happened how often.

macro_rules! counters {
    ($(#[doc = $of:literal])+ $all:ident $($(#[doc = $doc:literal])* $name:ident,)+) => {
        $(#[doc = $of])+
        #[derive(Clone, Debug, Default)]
        pub struct $all {
            $($(#[doc = $doc])* pub $name: u64,)+
        }

        impl $all {
            pub fn add(&mut self, other: &$all) {
                $(self.$name += other.$name;)+
            }

            /// Name and number of each.
            pub fn list(&self) -> Vec<(&'static str, u64)> {
                vec![$((stringify!($name), self.$name)),+]
            }
        }
    };
}

pub(crate) use counters;

counters! {
    /// How often each thing happened.
    Counters
    /// Messages that vanished one by one.
    messages_lost,
    /// Messages that arrived twice.
    messages_repeated,
    /// Messages that overtook others.
    messages_overtaken,
    /// Messages that went down with their connection.
    messages_cut,
    /// Connections that broke while both ends ran.
    connections_broken,
    /// Connections that stood still for a while.
    connections_stalled,
    /// Connections that could not be made.
    connections_refused,
    /// Executors' connections over which they could not say where they serve their blocks.
    introductions_lost,
    /// Words between a driver's registry and its provider that came late.
    words_late,
    /// Clocks that somebody set.
    clocks_set,
    /// Of these, clocks that show an earlier time since.
    clocks_set_back,
    /// Executors that died by themselves.
    executor_crashes,
    /// Executors that ended as soon as they ran.
    executor_false_starts,
    /// Executors whose process could not be started.
    spawn_failures,
    /// Steps of workers that fetch an executable.
    fetch_steps,
    /// Workers that were told to end.
    workers_stopped,
    /// Supervised drivers that were ended because no master had answered their worker for long.
    drivers_fenced,
    /// Applications that spoke for another one.
    impostors,
    /// Workers that died.
    worker_crashes,
    /// Machines that vanished without a word.
    machine_crashes,
    /// Workers started again.
    worker_restarts,
    /// Workers that gave up.
    worker_resignations,
    /// Masters that died and came back empty.
    master_crashes,
    /// Masters that came to lead.
    elections,
    /// Of these, with what another one had persisted.
    recoveries,
    /// Leaders that stopped leading.
    steps_down,
    /// Of these, leaders whose session was over when they asked.
    leaders_deposed,
    /// Times in which the store did not answer.
    stores_lost,
    /// Times in which it lost all that it had.
    contents_lost,
    /// Questions that it did not answer.
    store_unavailable,
    /// Writes that were not taken: the store was down, or another master leads.
    writes_refused,
    /// Workers that an operator decommissioned.
    workers_decommissioned,
    /// Writes in the middle of which, or just after which, their master died.
    writes_torn,
    /// Drivers that died.
    driver_crashes,
    /// Executors that stood still for a while.
    executor_pauses,
    /// Workers that stood still for a while.
    worker_pauses,
    /// Drivers that stood still for a while.
    driver_pauses,
    /// Masters that stood still for a while.
    master_pauses,
    /// Tasks that panicked.
    task_panics,
    /// Tasks that took their executor down.
    task_crashes,
    /// Tasks that ended their executor whenever they ran.
    poison_exits,
    /// Of these, with exit code 0.
    poison_zeros,
    /// Tasks that froze their executor whenever they ran.
    poison_freezes,
    /// Tasks that brought more than a message can hold.
    poison_reports,
    /// Jobs that such tasks ended.
    poison_jobs,
    /// Executors that a worker with a full disk could not start.
    bad_launches,
    /// Jobs submitted in the moment in which their application ended.
    jobs_at_the_end,
    /// Jobs that wanted map outputs and nothing else.
    map_stage_jobs,
    /// Tasks that missed a map output.
    fetch_failures,
    /// Map outputs that rotted while their executor ran.
    outputs_spoilt,
    /// Map outputs that came out different when they were computed again.
    outputs_changed,
    /// Map outputs that executors were told to drop.
    outputs_dropped,
    /// Map outputs were dropped at once: another attempt came first, or nobody wants their stage.
    outputs_discarded,
    /// Shuffles whose last handle was dropped, some of them while jobs read them.
    shuffles_removed,
    /// Jobs that failed because results were delivered of outputs that came out different.
    jobs_rolled_back,
    /// Partitions that tasks cached.
    partitions_cached,
    /// Executors refused a cached partition that is outdated, or older than theirs.
    partitions_refused,
    /// Cached partitions that were evicted.
    partitions_evicted,
    /// Cached partitions that tasks read from another executor.
    cached_remote_reads,
    /// Cached partitions that were not where the driver said.
    cached_gone,
    /// Messages about cached partitions that found no room.
    block_updates_lost,
    /// Cached partitions that drivers learnt of by a heartbeat.
    blocks_healed,
    /// Replicas of cached partitions.
    replicas_made,
    /// Replicas that drivers ordered after others were lost.
    replicas_ordered,
    /// RDDs unpersisted by their user.
    rdds_unpersisted,
    /// RDDs whose cached partitions nobody wants, or were computed from outputs that came out different.
    cached_rolled_back,
    /// Orders about cached partitions that came later than tasks from after them.
    orders_late,
    /// A holder was told to drop outdated partitions that it told of.
    outdated_blocks,
    /// Questions of tasks for memory that were granted.
    memory_granted,
    /// Tasks that waited for others to give memory back.
    memory_waits,
    /// Tasks that were refused memory, and spilled.
    memory_spills,
    /// Tasks that had the right to memory beyond their share.
    last_resorts,
    /// Questions where map outputs lie.
    locations_asked,
    /// Locations of map outputs that were used though there were newer ones.
    locations_outdated,
    /// Pieces of broadcast values that drivers served.
    pieces_from_driver,
    /// Pieces that executors served.
    pieces_from_executors,
    /// Pieces that were not where the driver said.
    pieces_refused,
    /// Reports that went down with their connection.
    reports_lost,
    /// Reports that came twice.
    reports_doubled,
    /// Results that drivers fetched from executors before their task counts as ended.
    results_fetched,
    /// Of these, results that were gone.
    results_gone,
    /// Copies of slow tasks.
    copies_launched,
    /// Of these, copies that were faster.
    copies_won,
    /// Executors that got no tasks of a stage, or none at all, after tasks failed there.
    executors_excluded,
    /// Nodes that got none.
    nodes_excluded,
    /// Tasks told to stop.
    task_kills,
    /// Tasks that waited at an executor for its cores.
    tasks_pipelined,
    /// Of these, tasks that waited for too long and were given back.
    tasks_given_back,
    /// Stage attempts after the first.
    stage_reruns,
    /// Jobs cancelled by their user.
    jobs_cancelled,
    jobs_failed,
    /// Jobs that ended with the right result.
    jobs_finished,
    executors_registered,
    /// Executors that a driver declared dead.
    executors_lost,
    /// Executors that their application wanted no more.
    executors_released,
    /// Other numbers of executors that applications wanted.
    targets_changed,
    /// Executors that a driver did not take.
    executors_refused,
    /// Applications ended because their executors failed in a row.
    apps_failed,
    /// Applications that ended because no master answered.
    apps_without_master,
    /// Applications that registered with a second master.
    apps_reregistered,
    /// Applications told that there is too little for them.
    starvation_warnings,
    /// Drivers run by the cluster.
    submitted_drivers,
    /// Of these, processes that failed and were started again.
    driver_restarts,
    /// Files of applications removed.
    removals,
    /// Looks for directories that are old.
    clean_ups,
    /// Messages that masters dropped as stale.
    stale_for_masters,
    /// Messages that workers dropped as stale.
    stale_for_workers,
    /// Messages that drivers dropped as stale.
    stale_for_drivers,
    /// Tasks that read map outputs from one executor after the other.
    tasks_stepwise,
    /// Questions for map outputs.
    outputs_asked,
    /// Of these, questions that were put again because nobody answered.
    outputs_asked_again,
    /// Answers that had only some of the outputs asked for.
    answers_in_part,
    /// Readers under whose hands outputs were lost or computed again.
    outputs_moved,
    /// Connections of workers that broke: each came back or was missed within a heartbeat.
    workers_cut_off,
    /// Dead workers that were noticed in time.
    noticed_workers,
    /// Dead executors that were noticed in time.
    noticed_executors,
}
