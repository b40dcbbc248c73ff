//! Mistakes that the simulator plants to show that it would find them. Without the feature `mutants`
//! none of them can be chosen, and the compiler removes the questions.

/// One mistake in a core.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Mutant {
    /// The master never says a launch again that the worker has not heard of.
    ForgetsLostLaunches,
    /// The worker takes orders that were given under an older registration.
    ObeysOldRegistrations,
    /// The worker says an executor's end once, whether the master heard it or not.
    ReportsEndsOnce,
    /// The driver takes an executor back that it had declared dead.
    TakesLostExecutorsBack,
    /// The driver never declares an executor dead for its silence.
    IgnoresSilence,
    /// The executor lives on without a word from its driver.
    OutlivesDriver,
    /// A started executor makes the application's failures forgotten, as Spark has it.
    ForgivesOnStart,
    /// The master gives a registration the number of the one before.
    ReusesRegistrations,
    /// The master goes on with applications whose driver is silent.
    KeepsSilentApplications,
    /// The driver counts an executor that exits with 0 against nobody.
    ClearsTasksByExitZero,
    /// The driver counts a silent executor against nobody.
    ClearsTasksBySilence,
    /// The driver cancels its jobs before it refuses new ones, when its application ends.
    CancelsBeforeItEnds,
    /// The driver sends heartbeats as often as it likes, whatever the master's timeout.
    IgnoresMastersTimeout,
    /// The driver's provider tells its cluster manager once which executors shall end, whether that was heard or not.
    ReleasesOnce,
    /// The driver's provider lets a master that takes it in again begin with the first number.
    ReusesNumbers,
    /// The master counts launches that fail on one worker against all of them.
    CountsLaunchesGlobally,
    /// The master starts another executor at once, however many crashed before.
    RelaunchesAtOnce,
    /// The master keeps the epoch that its clock gave it, though others obeyed a later one (cluster review 6).
    TrustsItsClock,
    /// The driver judges the silence of executors before it has read what came while it stood still (cluster review 14).
    JudgesBacklog,
    /// The master judges the silence of workers in the same way (confirmed case 8).
    JudgesWorkersBacklog,
    /// The driver takes executors that nobody can read from (cluster review 13).
    TakesExecutorsWithoutAddress,
    /// The driver counts exit codes that executors have of their own against nobody (cluster review 4, confirmed N2).
    ClearsTasksByOwnCodes,
    /// Executors that the driver removes in one moment get each other's tasks (found by the simulator).
    RemovesOneByOne,
    /// The worker removes an application's files though its executors run (cluster review 15).
    RemovesFilesInUse,
    /// The worker cleans up the directories of drivers that run (cluster review 17).
    CleansUpRunningDrivers,
    /// The driver declares an executor dead for not coming while its node fetches what it needs (cluster review 10).
    IgnoresPreparing,
    /// The master is elected into the term of the leader before it.
    KeepsItsTerm,
    /// The master that finds its store empty takes the term after the last one it heard of (ha review 5).
    LeavesNoRoomForTerms,
    /// The master acts though its lease ran out while it stood still.
    IgnoresItsLease,
    /// The master goes on though it was deposed, or a write failed.
    IgnoresDeposition,
    /// The master persists after it has sent what follows from that.
    PersistsLast,
    /// The master persists applications without their executors.
    PersistsNoExecutors,
    /// The master persists applications without the limit of their executors.
    PersistsNoLimits,
    /// The master that recovers turns the queue of applications around.
    ForgetsTheQueue,
    /// The master that recovers drops at once those that have not answered yet.
    DropsTheUnknown,
    /// The master that recovers waits for ever for those that do not answer.
    WaitsForTheUnknown,
    /// The master that starts with nothing kills executors that it does not know (cluster review 5).
    KillsTheUnknown,
    /// The master declares a worker dead as soon as its connection breaks (cluster review 7).
    LosesWorkersAtOnce,
    /// The master that starts with nothing adopts executors that their driver released or lost, and the driver does not say so
    /// (found by the simulator).
    AdoptsTheReleased,
    /// The master spares workers whose connections broke for as long as it recovers, which an application that does not answer
    /// makes long.
    SparesTheCutOff,
    /// The master lets any connection speak for an application (cluster review 11).
    TrustsAnyApplication,
    /// The master starts a supervised driver anew as soon as it declares its worker dead, which may only be cut off.
    RelaunchesDriversAtOnce,
    /// The master starts executors on workers that were decommissioned.
    UsesDecommissionedWorkers,
    /// A worker that was decommissioned does not tell so the next master.
    ForgetsItWasDecommissioned,
    /// The driver never lets go of an executor that was decommissioned and has nothing to do.
    KeepsDecommissionedExecutors,
    /// An executor believes where map outputs lie, whatever the epoch in which its task was launched.
    KeepsOldLocations,
    /// A reader asks for no output again that did not come with an answer (cluster review 22).
    ForgetsWhatDidNotCome,
    /// An executor that cannot serve one of several outputs serves none, and its reader blames the first (cluster review 2).
    AnswersAllOrNothing,
    /// A reader gives up an executor that stands still for a moment (cluster review 3).
    NeverAsksAgain,
    /// The worker lets supervised drivers run, and starts them, though no master has answered it for long.
    RunsDriversWithoutLease,
}

/// The mistake a core makes, if any.
#[derive(Clone, Copy, Debug, Default)]
pub struct Planted(Option<Mutant>);

impl Planted {
    pub fn only(mutant: Mutant) -> Self {
        Planted(Some(mutant))
    }

    /// Whether the core makes this mistake: never, without the feature.
    pub fn is(self, mutant: Mutant) -> bool {
        cfg!(feature = "mutants") && self.0 == Some(mutant)
    }
}
