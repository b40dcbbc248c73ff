//! The registry: every configuration key this engine knows, documented once, in place.
//!
//! The comment of an entry is its text in the API documentation and on the page of keys. To add a
//! key, add it here; [`all`], validation and the page follow.

use std::time::Duration;

use crate::entry::{AnyEntry, Entry};
use crate::redaction::Redaction;
use crate::{
    ByteSize, ByteUnit, CompressionCodec, DeployMode, LocalTransport, LogLevel, Master, ProxyUrl,
    RestFilter, SchedulingMode,
};

/// Declares the entries of each category with their documentation, and collects them in a list.
macro_rules! entries {
    ($(#[$about:meta])* $visible:vis $all:ident: $($category:literal {
        $($(#[doc = $doc:literal])+ $name:ident: $type:ty = $entry:expr;)+
    })+) => {
        $($(
            $(#[doc = $doc])+
            pub const $name: Entry<$type> = $entry.documented($category, &[$($doc),+]);
        )+)+

        $(#[$about])*
        $visible static $all: &[&dyn AnyEntry] = &[$($(&$name,)+)+];
    };
}

mod cluster;
mod kubernetes;

pub use cluster::*;
pub use kubernetes::*;

/// Every entry, in the order of the documentation page.
pub fn all() -> impl Iterator<Item = &'static dyn AnyEntry> {
    ENGINE.iter().chain(cluster::CLUSTER).chain(kubernetes::KUBERNETES).copied()
}

entries! {
    /// Of every application.
    ENGINE:
    "Application" {
        /// The application's name in the UI, in logs and in the list of applications.
        APP_NAME: Option<String> = Entry::optional("spark.app.name")
            .example("word count").since("0.9.0");

        /// Which attempt of the application this is, as the cluster manager counts that starts its driver. Told to
        /// listeners.
        APP_ATTEMPT_ID: Option<String> = Entry::optional("spark.app.attempt.id")
            .example("2").since("3.2.0");

        /// Where the application runs: `local`, `local[N]`, `local[*]`, `local[N,F]`, `local[*,F]`
        /// (F: how often a task may fail), `local-cluster[workers,cores,memoryMB]`,
        /// `spark://h1:p1,h2:p2` or `k8s://URL`.
        MASTER: Option<Master> = Entry::optional("spark.master")
            .example("local[*]").since("0.9.0");

        /// Whether the driver of a submitted application runs in the submitting process or in the
        /// cluster.
        SUBMIT_DEPLOY_MODE: DeployMode = Entry::new("spark.submit.deployMode", "client")
            .since("1.5.0").for_cluster();

        /// Whether the settings are logged at INFO when the application starts, redacted.
        LOG_CONF: bool = Entry::new("spark.logConf", "false").since("0.9.0");

        /// What is told on standard error: by executors, `WARN` when it is not set; by a driver whose program has no subscriber of
        /// the crate `tracing`, nothing when it is not set; by `firesteel master`, `worker` and `history`, `INFO` when it is not
        /// set. `FATAL` is `ERROR`, `ALL` is `TRACE`.
        LOG_LEVEL: Option<LogLevel> = Entry::optional("spark.log.level")
            .example("DEBUG").since("3.5.0");

        /// Values are hidden in logs and in the UI when this regular expression is found in their
        /// key or in themselves.
        REDACTION_REGEX: Redaction =
            Entry::new("spark.redaction.regex", "(?i)secret|password|token|access[.]?key")
            .since("2.1.2");

        /// Whether Ctrl-C cancels the running jobs, cleans up and exits with status 130. Set it to
        /// false when the program has its own handler.
        HANDLE_INTERRUPT: bool = Entry::new("spark.firesteel.handleInterrupt", "true")
            .since("Firesteel 0.1.0");
    }

    "Execution" {
        /// The number of partitions of `parallelize` and of shuffles such as `reduce_by_key` when
        /// the program gives none. When it is not set: the largest number of partitions of the
        /// parents for a shuffle, and the number of cores otherwise.
        DEFAULT_PARALLELISM: Option<u32> = Entry::optional("spark.default.parallelism")
            .positive().example("8").since("0.5.0");

        /// Directories for temporary data such as shuffle files, separated by commas; best on fast
        /// disks of this machine. The environment variable `SPARK_LOCAL_DIRS` sets it too. A worker's own
        /// setting counts for its executors; below its work directory when it has none.
        LOCAL_DIR: Vec<String> = Entry::new("spark.local.dir", "/tmp").since("0.5.0");

        /// How many bytes of files at most are read by one partition.
        FILES_MAX_PARTITION_BYTES: ByteSize = Entry::new("spark.files.maxPartitionBytes", "128m")
            .positive().since("2.1.0");

        /// Whether saving to a directory that exists already is refused. When false, the old
        /// directory is replaced once the new one is written completely; nothing of it stays.
        /// Spark writes the new files among the old ones instead.
        VALIDATE_OUTPUT_SPECS: bool = Entry::new("spark.hadoop.validateOutputSpecs", "true")
            .since("1.0.1");

        /// How many partitions the first job of `take` reads.
        RDD_LIMIT_INITIAL_NUM_PARTITIONS: u32 =
            Entry::new("spark.rdd.limit.initialNumPartitions", "1").positive().since("3.4.0");

        /// By how much `take` multiplies the number of partitions it reads when those so far had
        /// too few elements.
        RDD_LIMIT_SCALE_UP_FACTOR: u32 = Entry::new("spark.rdd.limit.scaleUpFactor", "4")
            .at_least(2).since("2.1.0");

        /// The limit for the results of all partitions of one action together. A job whose
        /// results are larger is aborted before they fill the driver's memory. 0: no limit.
        DRIVER_MAX_RESULT_SIZE: ByteSize = Entry::new("spark.driver.maxResultSize", "1g")
            .since("1.2.0");

        /// Results of a task up to this size travel with the report of its end; larger ones wait on the
        /// executor until the driver fetches them.
        TASK_MAX_DIRECT_RESULT_SIZE: ByteSize =
            Entry::new("spark.task.maxDirectResultSize", "1m")
            .between(512.0, 67_108_864.0).since("2.0.0").for_cluster();

        /// How the tasks of a local master reach the threads that run them, for tests: `direct` (as
        /// they are), `encoded` (through encode and decode, so that a value that cannot travel is
        /// found without a cluster) or `process` (in child processes of the same executable).
        LOCAL_TRANSPORT: LocalTransport = Entry::new("spark.firesteel.local.transport", "direct")
            .since("Firesteel 0.1.0");
    }

    "Scheduling" {
        /// How often one task may fail before its job is aborted. With a local master F of
        /// `local[N,F]` is used instead, and 1 when there is no F.
        TASK_MAX_FAILURES: u32 = Entry::new("spark.task.maxFailures", "4")
            .positive().since("0.8.0");

        /// How many cores each task takes.
        TASK_CPUS: u32 = Entry::new("spark.task.cpus", "1").positive().since("0.5.0");

        /// Pipelined tasks: how much work may queue at an executor beyond its cores, by how long the
        /// tasks of its stage took so far. For very short tasks, whose report and next launch take
        /// longer than they do. At most 50 ms, and 32 tasks for each that runs; `0`: none.
        TASK_PIPELINED: Duration = Entry::new("spark.firesteel.task.pipelined", "5ms")
            .formerly(&["spark.firesteel.task.ahead"])
            .since("Firesteel 0.1.0").for_cluster();

        /// How often in a row a stage may be attempted, because map outputs were lost, before its
        /// job is aborted.
        STAGE_MAX_CONSECUTIVE_ATTEMPTS: u32 = Entry::new("spark.stage.maxConsecutiveAttempts", "4")
            .positive().since("2.2.0");

        /// Whether jobs of one application get cores first come first served (`FIFO`) or share them
        /// between pools (`FAIR`).
        SCHEDULER_MODE: SchedulingMode = Entry::new("spark.scheduler.mode", "FIFO").since("0.8.0");

        /// The XML file that describes the pools of the `FAIR` mode. A file that cannot be read or
        /// has an invalid value is refused.
        SCHEDULER_ALLOCATION_FILE: Option<String> =
            Entry::optional("spark.scheduler.allocation.file")
            .example("conf/fairscheduler.xml").since("0.8.1");

        /// The pool of jobs whose thread chose none with `set_pool`, in the `FAIR` mode; `default` when it
        /// is not set. Spark knows it as a local property of threads only.
        SCHEDULER_POOL: Option<String> = Entry::optional("spark.scheduler.pool")
            .example("default").since("0.8.0");

        /// How many events may wait for a listener. When it is too slow, newer events are dropped and
        /// counted instead of slowing down the jobs.
        LISTENER_BUS_CAPACITY: u32 =
            Entry::new("spark.scheduler.listenerbus.eventqueue.capacity", "10000")
            .formerly(&["spark.scheduler.listenerbus.eventqueue.size"]).positive().since("2.3.0");

        /// How many events may wait for the event log.
        LISTENER_BUS_EVENT_LOG_CAPACITY: u32 = Entry::following(
            "spark.scheduler.listenerbus.eventqueue.eventLog.capacity", &LISTENER_BUS_CAPACITY)
            .positive().since("3.0.0");

        /// How many events may wait for each listener that the program added.
        LISTENER_BUS_SHARED_CAPACITY: u32 = Entry::following(
            "spark.scheduler.listenerbus.eventqueue.shared.capacity", &LISTENER_BUS_CAPACITY)
            .positive().since("3.0.0");

        /// How long a task waits for a core close to its data before it takes one farther away;
        /// the wait is repeated at each level (process, node).
        LOCALITY_WAIT: Duration = Entry::new("spark.locality.wait", "3s")
            .since("0.5.0").for_cluster();

        /// The wait for a core of the executor that has the data.
        LOCALITY_WAIT_PROCESS: Duration =
            Entry::following("spark.locality.wait.process", &LOCALITY_WAIT).since("0.8.0");

        /// The wait for a core of a node that has the data.
        LOCALITY_WAIT_NODE: Duration =
            Entry::following("spark.locality.wait.node", &LOCALITY_WAIT).since("0.8.0");
    }

    "Speculation" {
        /// Whether slow tasks are started a second time; the copy that ends first wins.
        SPECULATION: bool = Entry::new("spark.speculation", "false").since("0.6.0").for_cluster();

        /// How often running tasks are checked for slowness.
        SPECULATION_INTERVAL: Duration = Entry::new("spark.speculation.interval", "100ms")
            .positive().since("0.6.0").for_cluster();

        /// How many times slower than the median a task has to be.
        SPECULATION_MULTIPLIER: f64 = Entry::new("spark.speculation.multiplier", "3")
            .positive().since("0.6.0").for_cluster();

        /// Which fraction of a stage's tasks has to be finished before any is considered slow.
        SPECULATION_QUANTILE: f64 = Entry::new("spark.speculation.quantile", "0.9")
            .between(0.0, 1.0).since("0.6.0").for_cluster();

        /// How long a task has to run at least before it is considered slow.
        SPECULATION_MIN_TASK_RUNTIME: Duration =
            Entry::new("spark.speculation.minTaskRuntime", "100ms")
            .since("3.2.0").for_cluster();
    }

    "Exclusion of failing executors" {
        /// Whether executors and nodes on which tasks keep failing get no more tasks for a while.
        EXCLUDE_ENABLED: bool = Entry::new("spark.excludeOnFailure.enabled", "false")
            .formerly(&["spark.blacklist.enabled"]).since("3.1.0").for_cluster();

        /// How long an executor or node stays excluded for the whole application.
        EXCLUDE_TIMEOUT: Duration = Entry::new("spark.excludeOnFailure.timeout", "1h")
            .formerly(&["spark.blacklist.timeout"]).positive().since("3.1.0").for_cluster();

        /// How often one task may be tried on an executor before that executor is excluded for it.
        EXCLUDE_TASK_ATTEMPTS_PER_EXECUTOR: u32 =
            Entry::new("spark.excludeOnFailure.task.maxTaskAttemptsPerExecutor", "1")
            .formerly(&["spark.blacklist.task.maxTaskAttemptsPerExecutor"])
            .positive().since("3.1.0").for_cluster();

        /// How often one task may be tried on a node before that node is excluded for it. Has to be
        /// smaller than `spark.task.maxFailures`.
        EXCLUDE_TASK_ATTEMPTS_PER_NODE: u32 =
            Entry::new("spark.excludeOnFailure.task.maxTaskAttemptsPerNode", "2")
            .formerly(&["spark.blacklist.task.maxTaskAttemptsPerNode"])
            .positive().since("3.1.0").for_cluster();

        /// How many different tasks of a stage may fail on an executor before it is excluded for the
        /// stage.
        EXCLUDE_STAGE_FAILED_TASKS_PER_EXECUTOR: u32 =
            Entry::new("spark.excludeOnFailure.stage.maxFailedTasksPerExecutor", "2")
            .formerly(&["spark.blacklist.stage.maxFailedTasksPerExecutor"])
            .positive().since("3.1.0").for_cluster();

        /// How many executors of a node may be excluded for a stage before the node is.
        EXCLUDE_STAGE_FAILED_EXECUTORS_PER_NODE: u32 =
            Entry::new("spark.excludeOnFailure.stage.maxFailedExecutorsPerNode", "2")
            .formerly(&["spark.blacklist.stage.maxFailedExecutorsPerNode"])
            .positive().since("3.1.0").for_cluster();

        /// How many different tasks may fail on an executor, in stages that succeeded, before it is
        /// excluded for the application.
        EXCLUDE_APPLICATION_FAILED_TASKS_PER_EXECUTOR: u32 =
            Entry::new("spark.excludeOnFailure.application.maxFailedTasksPerExecutor", "2")
            .formerly(&["spark.blacklist.application.maxFailedTasksPerExecutor"])
            .positive().since("3.1.0").for_cluster();

        /// How many executors of a node may be excluded for the application before the node is.
        EXCLUDE_APPLICATION_FAILED_EXECUTORS_PER_NODE: u32 =
            Entry::new("spark.excludeOnFailure.application.maxFailedExecutorsPerNode", "2")
            .formerly(&["spark.blacklist.application.maxFailedExecutorsPerNode"])
            .positive().since("3.1.0").for_cluster();
    }

    "Pages and REST API" {
        /// Whether a running application shows its pages and answers requests of Spark's REST API, on this machine. Needs the
        /// library's feature `monitor`.
        UI_ENABLED: bool = Entry::new("spark.ui.enabled", "true").since("1.1.1");

        /// The port for that; 0: any. If it is taken, the next ones are tried, up to `spark.port.maxRetries`.
        UI_PORT: u32 = Entry::new("spark.ui.port", "4040").between(0.0, 65_535.0).since("0.7.0");

        /// Where the output of executors is to be read, instead of where their cluster manager says: `{{APP_ID}}`,
        /// `{{EXECUTOR_ID}}` and `{{NAME}}` of an attribute (`SPARK_EXECUTOR_ATTRIBUTE_NAME`) are replaced, and `{{FILE_NAME}}`
        /// by `stdout` and `stderr`, or by the names in the attribute `LOG_FILES`. If one is not known, it has no effect.
        UI_CUSTOM_EXECUTOR_LOG_URL: Option<String> = Entry::optional("spark.ui.custom.executor.log.url")
            .example("https://logs.example.org/{{APP_ID}}/{{EXECUTOR_ID}}/{{FILE_NAME}}").since("3.0.0");

        /// Whether jobs and stages can be killed from the pages of the application, and applications and drivers from the page of
        /// the master: when it is not set, only by the user of that process, who opens the page on its own machine.
        UI_KILL_ENABLED: bool = Entry::new("spark.ui.killEnabled", "true").since("1.0.0");

        /// Whether the master shows the pages of applications and workers below its own, at `/proxy/APP-ID/` and `/proxy/WORKER-ID/`, for
        /// those who reach only the master. To be set for masters, workers and applications. An application then shows its pages to the
        /// master's network, at the address that executors reach, and has jobs killed from there only where `spark.ui.killEnabled` is set.
        UI_REVERSE_PROXY: bool = Entry::new("spark.ui.reverseProxy", "false").since("2.1.0");

        /// Where another proxy in front of the master shows the master's page, if one does: a URL, or its path. To be set for masters and workers.
        UI_REVERSE_PROXY_URL: Option<ProxyUrl> = Entry::optional("spark.ui.reverseProxyUrl")
            .example("https://spark.example.org/cluster").since("2.1.0");

        /// Where a proxy shows the pages of an application or of the history server that does not say so in each request
        /// (`X-Forwarded-Context`): a path, or a URL that has one. Links lead there.
        UI_PROXY_BASE: Option<ProxyUrl> = Entry::optional("spark.ui.proxyBase")
            .example("/gateway/nightly-report").since("1.2.0");

        /// Where the pages of an application are, as the master is told. When it is not set: with `spark.ui.reverseProxy`, the
        /// driver's address and the port of its pages; else the master is told nothing.
        DRIVER_APP_UI_ADDRESS: Option<String> = Entry::optional("spark.driver.appUIAddress")
            .example("http://driver.example.org:4040").since("2.0.0");

        /// What looks at requests for the pages and the REST API of a running application, of the history server, and of masters and workers first:
        /// `org.apache.spark.ui.JWSFilter`, or nothing. The filter asks for `Authorization: Bearer` and a JWS, signed with
        /// `spark.org.apache.spark.ui.JWSFilter.param.secretKey`; the claim `sub` names the user who asks.
        UI_FILTERS: Option<RestFilter> = Entry::optional("spark.ui.filters")
            .example("org.apache.spark.ui.JWSFilter").since("1.0.0");

        /// Whether only users in the lists below see the pages, the metrics and the REST API of a running application, or kill its jobs and
        /// stages; of a master or a worker, its pages, or kill applications and drivers and decommission workers. Who asks is told by
        /// `spark.ui.filters`: unlike Spark, a request that names nobody is refused. Without that filter, masters and workers know
        /// their own user on their machine.
        ACLS_ENABLE: bool = Entry::new("spark.acls.enable", "false")
            .formerly(&["spark.ui.acls.enable"]).since("1.1.0");

        /// Users who see an application, a master or a worker and kill there, besides the one who runs it; `*`: everybody. The history
        /// server takes the list from the application's log.
        ADMIN_ACLS: Vec<String> = Entry::new("spark.admin.acls", "")
            .example("alice,bob").since("1.1.0");

        /// Users who see an application, a master or a worker, besides the one who runs it and those of `spark.admin.acls`; `*`: everybody. The history
        /// server takes the list from the application's log.
        UI_VIEW_ACLS: Vec<String> = Entry::new("spark.ui.view.acls", "")
            .example("carol").since("1.0.0");

        /// Users who kill jobs and stages of an application, or applications, drivers and workers from a master's page, besides the one who runs it and those of `spark.admin.acls`; `*`:
        /// everybody. They see nothing unless they are in `spark.ui.view.acls` too.
        MODIFY_ACLS: Vec<String> = Entry::new("spark.modify.acls", "")
            .example("dave").since("1.1.0");

        /// Groups whose users are as those of `spark.admin.acls`. Groups are those that the system knows where the pages are made
        /// (`spark.user.groups.mapping`).
        ADMIN_ACLS_GROUPS: Vec<String> = Entry::new("spark.admin.acls.groups", "")
            .example("operators").since("2.0.0");

        /// Groups whose users are as those of `spark.ui.view.acls`.
        UI_VIEW_ACLS_GROUPS: Vec<String> = Entry::new("spark.ui.view.acls.groups", "")
            .example("analysts").since("2.0.0");

        /// Groups whose users are as those of `spark.modify.acls`.
        MODIFY_ACLS_GROUPS: Vec<String> = Entry::new("spark.modify.acls.groups", "")
            .example("engineers").since("2.0.0");

        /// Who knows the groups of users: the system, which is asked with `id -Gn`. There is no other one.
        USER_GROUPS_MAPPING: String = Entry::new(
            "spark.user.groups.mapping",
            "org.apache.spark.security.ShellBasedGroupsMappingProvider",
        ).since("2.0.0");
    }

    "Metrics" {
        /// The file that says which sinks get the metrics of a process; `metrics.properties` in `SPARK_CONF_DIR` when it is not set. Of
        /// applications, it needs the library's feature `monitor`.
        METRICS_CONF: Option<String> = Entry::optional("spark.metrics.conf")
            .example("/etc/spark/metrics.properties").since("0.8.0");

        /// What the names of an application's metrics begin with; its id when it is not set.
        METRICS_NAMESPACE: Option<String> = Entry::optional("spark.metrics.namespace")
            .example("nightly-report").since("2.1.0");

        /// Whether a running application tells Prometheus of its executors at `/metrics/executors/prometheus`.
        UI_PROMETHEUS_ENABLED: bool =
            Entry::new("spark.ui.prometheus.enabled", "true").since("3.0.0");

        /// The collector of OpenTelemetry that is told jobs, stages and tasks as spans, by OTLP over HTTP at `/v1/traces` below this
        /// address; nobody, when it is not set. Spans that it does not take in time are dropped. Needs the library's feature `monitor`.
        OTLP_ENDPOINT: Option<String> = Entry::optional("spark.firesteel.otlp.endpoint")
            .example("http://127.0.0.1:4318").since("Firesteel 0.1.0");
    }

    "Event log" {
        /// Whether the application writes an event log, which `firesteel history` and Spark's history server read. Needs the
        /// library's feature `monitor`.
        EVENT_LOG_ENABLED: bool = Entry::new("spark.eventLog.enabled", "false").since("1.0.0");

        /// Where logs are written to: a local directory, which has to be there, or one of an object store (`s3a://`, `gs://`, `abfss://`;
        /// the library's feature `object-store`).
        EVENT_LOG_DIR: String = Entry::new("spark.eventLog.dir", "file:///tmp/spark-events")
            .since("1.0.0");

        /// Whether logs are compressed.
        EVENT_LOG_COMPRESS: bool = Entry::new("spark.eventLog.compress", "true").since("1.0.0");

        /// How logs are compressed, if they are.
        EVENT_LOG_CODEC: CompressionCodec =
            Entry::new("spark.eventLog.compression.codec", "zstd").since("3.0.0");

        /// Whether a log is a directory of files, none of which becomes much larger than
        /// `spark.eventLog.rolling.maxFileSize`, or one file.
        EVENT_LOG_ROLLING: bool = Entry::new("spark.eventLog.rolling.enabled", "true").since("3.0.0");

        /// How large a file of a rolling log becomes before the next one is begun.
        EVENT_LOG_ROLLING_SIZE: ByteSize =
            Entry::new("spark.eventLog.rolling.maxFileSize", "128m")
            .byte_unit(ByteUnit::Byte).positive().since("3.0.0");

        /// Whether a log replaces another one of the same name. If not, and there is one, the application has no log.
        EVENT_LOG_OVERWRITE: bool = Entry::new("spark.eventLog.overwrite", "false").since("1.0.0");

        /// How much of what tasks tell is gathered before it is written. Everything else is written at once.
        EVENT_LOG_BUFFER: ByteSize = Entry::new("spark.eventLog.buffer.kb", "100k")
            .byte_unit(ByteUnit::Kibi).since("1.0.0");

        /// Whether the log tells of every cached block that comes or goes: cached RDDs are shown by the history server then.
        EVENT_LOG_BLOCK_UPDATES: bool =
            Entry::new("spark.eventLog.logBlockUpdates.enabled", "false").since("2.3.0");

        /// Whether the log tells the most memory that executors used, by stages.
        EVENT_LOG_EXECUTOR_METRICS: bool =
            Entry::new("spark.eventLog.logStageExecutorMetrics", "false").since("3.0.0");
    }

    "History server" {
        /// The directory whose logs `firesteel history` shows, local or of an object store.
        HISTORY_LOG_DIRECTORY: String =
            Entry::new("spark.history.fs.logDirectory", "file:///tmp/spark-events").since("1.1.0");

        /// How often the directory is looked at.
        HISTORY_UPDATE_INTERVAL: Duration =
            Entry::new("spark.history.fs.update.interval", "10s").positive().since("1.4.0");

        /// The port of the history server; 0: any.
        HISTORY_UI_PORT: u32 = Entry::new("spark.history.ui.port", "18080")
            .between(0.0, 65_535.0).since("1.0.0");

        /// Whether users see only applications that they ran, or in whose lists (`spark.admin.acls`, `spark.ui.view.acls`) they are,
        /// whatever those applications had `spark.acls.enable` set to. Every user sees the list of applications. Who asks is told by
        /// `spark.ui.filters`: a request that names nobody is refused.
        HISTORY_UI_ACLS_ENABLE: bool =
            Entry::new("spark.history.ui.acls.enable", "false").since("1.0.1");

        /// Users who see every application of the history server; `*`: everybody.
        HISTORY_UI_ADMIN_ACLS: Vec<String> = Entry::new("spark.history.ui.admin.acls", "")
            .example("alice,bob").since("2.1.1");

        /// Groups whose users are as those of `spark.history.ui.admin.acls`.
        HISTORY_UI_ADMIN_ACLS_GROUPS: Vec<String> =
            Entry::new("spark.history.ui.admin.acls.groups", "").example("operators").since("2.1.1");

        /// How many applications are held in memory. Others are read again when somebody asks for them.
        HISTORY_RETAINED_APPLICATIONS: u32 =
            Entry::new("spark.history.retainedApplications", "50").positive().since("1.0.0");

        /// How much memory the applications take that are held there, roughly. One is held however large it is. Spark knows it
        /// for its store in memory.
        HISTORY_STORE_MAX_MEMORY: ByteSize =
            Entry::new("spark.history.store.hybridStore.maxMemoryUsage", "2g")
            .byte_unit(ByteUnit::Byte).since("3.1.0");

        /// Where the history server stores what it has read of logs: the list, and applications whose logs are whole. It reads them
        /// again from there instead of from their logs. Nowhere, when it is not set.
        HISTORY_STORE_PATH: Option<String> = Entry::optional("spark.history.store.path")
            .example("/var/lib/firesteel/history").since("2.3.0");

        /// How much of a disk that takes. What was used longest ago is removed.
        HISTORY_STORE_MAX_DISK: ByteSize =
            Entry::new("spark.history.store.maxDiskUsage", "10g")
            .byte_unit(ByteUnit::Byte).since("2.3.0");

        /// Whether the history server removes old logs.
        HISTORY_CLEANER_ENABLED: bool =
            Entry::new("spark.history.fs.cleaner.enabled", "false").since("1.4.0");

        /// How often it looks for logs to remove.
        HISTORY_CLEANER_INTERVAL: Duration =
            Entry::new("spark.history.fs.cleaner.interval", "1d").positive().since("1.4.0");

        /// Logs that were not changed for so long are removed.
        HISTORY_CLEANER_MAX_AGE: Duration =
            Entry::new("spark.history.fs.cleaner.maxAge", "7d").positive().since("1.4.0");

        /// Of more bytes of logs than this, the oldest that are whole are removed; none, when it is not set.
        HISTORY_CLEANER_MAX_SIZE: Option<ByteSize> =
            Entry::optional("spark.firesteel.history.fs.cleaner.maxSize")
            .byte_unit(ByteUnit::Byte).example("100g").since("Firesteel 0.1.0");

        /// Of more logs than this, the oldest that are whole are removed.
        HISTORY_CLEANER_MAX_NUM: u32 =
            Entry::new("spark.history.fs.cleaner.maxNum", "2147483647").positive().since("3.0.0");
    }

    "Console" {
        /// Whether a progress bar of the running stages is shown when standard error is a terminal.
        /// Spark's default is false outside its shells.
        SHOW_CONSOLE_PROGRESS: bool = Entry::new("spark.ui.showConsoleProgress", "true")
            .since("1.2.1");

        /// How often the progress bar is drawn.
        CONSOLE_PROGRESS_INTERVAL: Duration =
            Entry::new("spark.ui.consoleProgress.update.interval", "200ms")
            .positive().since("2.1.0");

        /// How many jobs that are over the status remembers.
        UI_RETAINED_JOBS: u32 = Entry::new("spark.ui.retainedJobs", "1000").since("1.2.0");

        /// How many stage attempts that are over the status remembers.
        UI_RETAINED_STAGES: u32 = Entry::new("spark.ui.retainedStages", "1000").since("0.9.0");

        /// How many tasks that are over the status remembers, of each stage attempt.
        UI_RETAINED_TASKS: u32 = Entry::new("spark.ui.retainedTasks", "100000").since("2.0.1");

        /// How many executors that are lost the status remembers.
        UI_RETAINED_DEAD_EXECUTORS: u32 =
            Entry::new("spark.ui.retainedDeadExecutors", "100").since("2.0.0");
    }

    "Memory and temporary files" {
        /// Memory of the driver, which with a local master is where tasks run. When it is not set:
        /// what the control group, or else the machine, has.
        DRIVER_MEMORY: Option<ByteSize> = Entry::optional("spark.driver.memory")
            .byte_unit(ByteUnit::Mebi).example("4g").since("1.1.1");

        /// The part of the memory that tasks and cached data share. The rest is for the program itself
        /// and for everything that is not counted.
        MEMORY_FRACTION: f64 = Entry::new("spark.memory.fraction", "0.6")
            .between(0.01, 0.95).since("1.6.0");

        /// The part of that memory from which tasks cannot evict cached data.
        MEMORY_STORAGE_FRACTION: f64 = Entry::new("spark.memory.storageFraction", "0.5")
            .between(0.0, 1.0).since("1.6.0");

        /// How shuffle and spill files, and cached data that is on disk or encoded, are compressed.
        IO_COMPRESSION_CODEC: CompressionCodec = Entry::new("spark.io.compression.codec", "lz4")
            .since("0.8.0");

        /// How hard zstd tries, from 1 (quick) to 22 (small).
        IO_COMPRESSION_ZSTD_LEVEL: u32 = Entry::new("spark.io.compression.zstd.level", "1")
            .positive().since("2.3.0");

        /// Whether shuffle and spill files, and partitions cached on disk, are compressed.
        SHUFFLE_COMPRESS: bool = Entry::new("spark.shuffle.compress", "true").since("0.6.0");

        /// Whether partitions that are cached encoded in memory (`MEMORY_ONLY_SER` and the like) are
        /// compressed: less memory, more work.
        RDD_COMPRESS: bool = Entry::new("spark.rdd.compress", "false").since("0.6.0");
    }

    "Checkpoints" {
        /// The directory for checkpoints, a path or the URL of an object store, unless `set_checkpoint_dir` names one.
        CHECKPOINT_DIR: Option<String> = Entry::optional("spark.checkpoint.dir")
            .example("/data/checkpoints").since("4.0.0");

        /// Whether checkpoint files are compressed.
        CHECKPOINT_COMPRESS: bool = Entry::new("spark.checkpoint.compress", "false")
            .since("2.2.0");

        /// Whether the files of a checkpoint are removed when nothing refers to its RDD any more.
        CLEAN_CHECKPOINTS: bool =
            Entry::new("spark.cleaner.referenceTracking.cleanCheckpoints", "false")
            .since("1.4.0");
    }
}

/// The entry of a key; `None`: it is not registered.
pub fn find(key: &str) -> Option<&'static dyn AnyEntry> {
    all().find(|entry| entry.about().key == key)
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use super::*;

    #[test]
    fn every_default_and_every_example_is_a_value_of_its_entry() {
        for entry in all() {
            let about = entry.about();
            assert_eq!(entry.check(about.example()), Ok(()), "{}", about.key);
            assert_eq!(about.default.map_or(Ok(()), |text| entry.check(text)), Ok(()));
            assert!(!about.example().is_empty(), "{} has no example", about.key);
        }
    }

    #[test]
    fn every_entry_is_a_spark_key_of_its_own_with_a_version_and_a_text() {
        let mut keys = BTreeSet::new();
        for entry in all() {
            let about = entry.about();
            assert!(about.key.starts_with("spark."), "{}", about.key);
            assert!(keys.insert(about.key), "{} is there twice", about.key);
            for old_name in about.formerly {
                assert!(keys.insert(old_name), "{old_name} is there twice");
            }
            assert!(!about.since.is_empty(), "{}", about.key);
            assert!(about.doc_text().ends_with('.'), "{}", about.key);
        }
    }

    #[test]
    fn an_entry_is_found_by_its_key() {
        assert_eq!(find("spark.task.cpus").unwrap().about().key, TASK_CPUS.key());
        assert!(find("spark.task.cpu").is_none());
    }
}
