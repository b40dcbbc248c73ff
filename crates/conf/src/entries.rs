//! The registry: every configuration key this engine knows, documented once, in place.
//!
//! The comment of an entry is its text in the API documentation and on the page of keys. To add a
//! key, add it here; [`ALL`], validation and the page follow.

use std::time::Duration;

use crate::entry::{AnyEntry, Entry};
use crate::redaction::Redaction;
use crate::{
    ByteSize, ByteUnit, CompressionCodec, DeployMode, LocalTransport, Master, RollingStrategy,
    SchedulingMode, TimeUnit,
};

/// Declares the entries of each category with their documentation, and collects them in [`ALL`].
macro_rules! entries {
    ($($category:literal {
        $($(#[doc = $doc:literal])+ $name:ident: $type:ty = $entry:expr;)+
    })+) => {
        $($(
            $(#[doc = $doc])+
            pub const $name: Entry<$type> = $entry.documented($category, &[$($doc),+]);
        )+)+

        /// Every entry, in the order of the documentation page.
        pub static ALL: &[&dyn AnyEntry] = &[$($(&$name,)+)+];
    };
}

entries! {
    "Application" {
        /// The application's name in the UI, in logs and in the list of applications.
        APP_NAME: Option<String> = Entry::optional("spark.app.name")
            .example("word count").since("0.9.0");

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
        /// setting counts for its executors; below their work directories when it has none.
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
            .since("1.2.0").for_cluster();

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

        /// How much work may wait at an executor for its cores, by how long the tasks of its stage
        /// took so far: very short tasks are sent before the last one is done, because the way would
        /// take longer than they do. At most 50 ms, and 32 tasks for each that runs; `0`: none.
        TASK_AHEAD: Duration = Entry::new("spark.firesteel.task.ahead", "5ms")
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

        /// How many events may wait for each group of listeners. When a listener is too slow, newer
        /// events are dropped and counted instead of slowing down the jobs.
        LISTENER_BUS_CAPACITY: u32 =
            Entry::new("spark.scheduler.listenerbus.eventqueue.capacity", "10000")
            .formerly(&["spark.scheduler.listenerbus.eventqueue.size"]).positive().since("2.3.0");

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

    "Console" {
        /// Whether a progress bar of the running stages is shown when standard error is a terminal.
        /// Spark's default is false outside its shells.
        SHOW_CONSOLE_PROGRESS: bool = Entry::new("spark.ui.showConsoleProgress", "true")
            .since("1.2.1");

        /// How often the progress bar is drawn.
        CONSOLE_PROGRESS_INTERVAL: Duration =
            Entry::new("spark.ui.consoleProgress.update.interval", "200ms")
            .positive().since("2.1.0");
    }

    "Memory and temporary files" {
        /// Memory of the driver, which with a local master is where tasks run. When it is not set:
        /// what the control group, or else the machine, has.
        DRIVER_MEMORY: Option<ByteSize> = Entry::optional("spark.driver.memory")
            .byte_unit(ByteUnit::Mebi).example("4g").since("1.1.1");

        /// The part of the memory that tasks and kept data share. The rest is for the program itself
        /// and for what is not counted.
        MEMORY_FRACTION: f64 = Entry::new("spark.memory.fraction", "0.6")
            .between(0.01, 0.95).since("1.6.0");

        /// The part of that memory which kept data does not give up to tasks.
        MEMORY_STORAGE_FRACTION: f64 = Entry::new("spark.memory.storageFraction", "0.5")
            .between(0.0, 1.0).since("1.6.0");

        /// How shuffle and spill files, and what is kept on disk or packed, are compressed.
        IO_COMPRESSION_CODEC: CompressionCodec = Entry::new("spark.io.compression.codec", "lz4")
            .since("0.8.0");

        /// How hard zstd tries, from 1 (quick) to 22 (small).
        IO_COMPRESSION_ZSTD_LEVEL: u32 = Entry::new("spark.io.compression.zstd.level", "1")
            .positive().since("2.3.0");

        /// Whether shuffle and spill files, and partitions kept on disk, are compressed.
        SHUFFLE_COMPRESS: bool = Entry::new("spark.shuffle.compress", "true").since("0.6.0");

        /// Whether partitions that are kept encoded in memory (`MEMORY_ONLY_SER` and the like) are
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

    "Executors and network" {

        /// Memory of each executor.
        EXECUTOR_MEMORY: ByteSize = Entry::new("spark.executor.memory", "1g")
            .byte_unit(ByteUnit::Mebi).positive().since("0.7.0").for_cluster();

        /// The name or address under which executors and masters reach the driver. When it is not set:
        /// the address of this machine from which the master is reached.
        DRIVER_HOST: Option<String> = Entry::optional("spark.driver.host")
            .example("driver.example.org").since("0.7.0").for_cluster();

        /// The address the driver listens at. When it is not set: `spark.driver.host`.
        DRIVER_BIND_ADDRESS: Option<String> = Entry::optional("spark.driver.bindAddress")
            .example("0.0.0.0").since("2.1.0").for_cluster();

        /// The port the driver listens at; 0 takes any that is free.
        DRIVER_PORT: u32 = Entry::new("spark.driver.port", "0")
            .between(0.0, 65_535.0).since("0.7.0").for_cluster();

        /// How many bytes of map outputs of other executors a task holds at once while it reads a
        /// shuffle. A single output that is larger goes through a temporary file.
        REDUCER_MAX_SIZE_IN_FLIGHT: ByteSize = Entry::new("spark.reducer.maxSizeInFlight", "48m")
            .formerly(&["spark.reducer.maxMbInFlight"])
            .byte_unit(ByteUnit::Mebi).positive().since("1.4.0").for_cluster();

        /// The size of the pieces in which a broadcast value goes to executors, which pass them on
        /// to each other.
        BROADCAST_BLOCK_SIZE: ByteSize = Entry::new("spark.broadcast.blockSize", "4m")
            .byte_unit(ByteUnit::Kibi).positive().since("0.5.0").for_cluster();

        /// Whether a partition that is kept by several executors (`MEMORY_ONLY_2` and the like) is
        /// copied again when one of them is lost, or when there were too few of them before.
        STORAGE_REPLICATION_PROACTIVE: bool = Entry::new("spark.storage.replication.proactive", "true")
            .since("2.2.0").for_cluster();

        /// How often a block of another executor is asked for again when the connection is in
        /// trouble, unless the driver says that the executor is lost.
        SHUFFLE_IO_MAX_RETRIES: u32 = Entry::new("spark.shuffle.io.maxRetries", "3")
            .since("1.2.0").for_cluster();

        /// The pause before a block is asked for again.
        SHUFFLE_IO_RETRY_WAIT: Duration = Entry::new("spark.shuffle.io.retryWait", "5s")
            .since("1.2.1").for_cluster();

        /// Cores of each executor. When it is not set: all cores of the worker on a standalone
        /// cluster, 1 on Kubernetes.
        EXECUTOR_CORES: Option<u32> = Entry::optional("spark.executor.cores")
            .positive().example("2").since("1.0.0").for_cluster();

        /// How many executors the application has at most; one that is lost is replaced. `spark.cores.max`
        /// may leave room for fewer. When it is not set: as many as cores and memory allow. Spark ignores it
        /// on a standalone cluster.
        EXECUTOR_INSTANCES: Option<u32> = Entry::optional("spark.executor.instances")
            .positive().example("2").since("1.0.0").for_cluster();

        /// Files that every executor gets a copy of, separated by commas.
        FILES: Vec<String> = Entry::new("spark.files", "")
            .example("words.txt,rules.json").since("1.0.0").for_cluster();

        /// How many cores the application takes of a standalone cluster; all when it is not set.
        CORES_MAX: Option<u32> = Entry::optional("spark.cores.max")
            .positive().example("8").since("0.6.0").for_cluster();

        /// How often an executor tells the driver that it lives and how far its tasks are. Has to be
        /// smaller than `spark.network.timeout`.
        EXECUTOR_HEARTBEAT_INTERVAL: Duration =
            Entry::new("spark.executor.heartbeatInterval", "10s")
            .positive().since("1.1.0").for_cluster();

        /// How long the other side of a connection may be silent before it counts as lost.
        NETWORK_TIMEOUT: Duration = Entry::new("spark.network.timeout", "120s")
            .time_unit(TimeUnit::Seconds).positive().since("1.3.0").for_cluster();

        /// How long an ask waits for its reply. When it is not set: `spark.network.timeout`.
        RPC_ASK_TIMEOUT: Duration = Entry::following("spark.rpc.askTimeout", &NETWORK_TIMEOUT)
            .formerly(&["spark.akka.askTimeout"]).since("1.4.0");

        /// How long finding an endpoint of another process may take. When it is not set:
        /// `spark.network.timeout`.
        RPC_LOOKUP_TIMEOUT: Duration = Entry::following("spark.rpc.lookupTimeout", &NETWORK_TIMEOUT)
            .formerly(&["spark.akka.lookupTimeout"]).since("1.4.0");

        /// How long making a connection may take. Spark waits as long as `spark.network.timeout`.
        RPC_CONNECTION_CREATION_TIMEOUT: Duration =
            Entry::new("spark.rpc.io.connectionCreationTimeout", "30s")
            .positive().since("3.2.0").for_cluster();

        /// The largest message between two processes, in MiB when no unit is written. Results of
        /// tasks, blocks and files are not messages: they are streamed.
        RPC_MESSAGE_MAX_SIZE: ByteSize = Entry::new("spark.rpc.message.maxSize", "128")
            .formerly(&["spark.akka.frameSize"])
            .byte_unit(ByteUnit::Mebi).between(1_048_576.0, 2_146_435_072.0)
            .since("2.0.0").for_cluster();

        /// How many bytes of messages may wait to be sent to one process before senders have to
        /// wait.
        RPC_OUTBOX_SIZE: ByteSize = Entry::new("spark.firesteel.rpc.outbox.size", "64m")
            .between(65_536.0, 1_073_741_824.0).since("Firesteel 0.1.0").for_cluster();

        /// How many messages from inside a process may wait at one endpoint before senders have to
        /// wait.
        RPC_INBOX_CAPACITY: u32 = Entry::new("spark.firesteel.rpc.inbox.capacity", "10000")
            .between(1.0, 100_000_000.0).since("Firesteel 0.1.0").for_cluster();

        /// How many streams of bulk bytes (blocks, files) run at once from one process to another.
        STREAM_CONNECTIONS_PER_PEER: u32 =
            Entry::new("spark.firesteel.stream.connectionsPerPeer", "8")
            .between(1.0, 1024.0).since("Firesteel 0.1.0").for_cluster();

        /// How many ports after the wanted one are tried when it is taken. With port 0 the system
        /// chooses a free one.
        PORT_MAX_RETRIES: u32 = Entry::new("spark.port.maxRetries", "16")
            .between(0.0, 64_000.0).since("1.1.1").for_cluster();
    }

    "Security" {
        /// Whether processes prove to each other that they know the secret before they exchange
        /// messages. Without it, ports are only opened on the loopback interface.
        AUTHENTICATE: bool = Entry::new("spark.authenticate", "false")
            .since("1.0.0").for_cluster();

        /// The secret. `openssl rand -hex 32` makes one. The environment variable
        /// `_SPARK_AUTH_SECRET` wins over it.
        AUTHENTICATE_SECRET: Option<String> = Entry::optional("spark.authenticate.secret")
            .example("2fd4e1c67a2d28fced849ee1bb76e739").since("1.0.0").for_cluster();

        /// The file that holds the secret, when `spark.authenticate.secret` is not set. Nobody else
        /// should be able to read it.
        AUTHENTICATE_SECRET_FILE: Option<String> = Entry::optional("spark.authenticate.secret.file")
            .example("/etc/spark/secret").since("3.0.0").for_cluster();

        /// How long the two sides of a new connection may take to prove who they are.
        NETWORK_AUTH_RPC_TIMEOUT: Duration = Entry::new("spark.network.auth.rpcTimeout", "30s")
            .positive().since("2.2.0").for_cluster();

        /// Whether ports may be opened beyond the loopback interface without a secret: whoever can
        /// reach them can then run programs.
        INSECURE: bool = Entry::new("spark.firesteel.insecure", "false")
            .since("Firesteel 0.1.0").for_cluster();

        /// Whether connections use TLS 1.3.
        SSL_ENABLED: bool = Entry::new("spark.ssl.enabled", "false").since("1.4.0").for_cluster();

        /// Whether connections between processes use TLS. When it is not set: `spark.ssl.enabled`,
        /// where Spark has false.
        SSL_RPC_ENABLED: bool = Entry::following("spark.ssl.rpc.enabled", &SSL_ENABLED)
            .since("4.0.0");

        /// Whether the pages of master and worker use TLS. They cannot yet: a master or worker that has a
        /// page does not start until this is false. When it is not set: `spark.ssl.enabled`.
        SSL_STANDALONE_ENABLED: bool = Entry::following("spark.ssl.standalone.enabled", &SSL_ENABLED)
            .since("1.4.0");

        /// The PEM file with the certificate of this process and those between it and the
        /// authority.
        SSL_CERT_CHAIN: Option<String> = Entry::optional("spark.ssl.certChain")
            .example("/etc/spark/cert.pem").since("4.0.0").for_cluster();

        /// The same for connections between processes. When it is not set: `spark.ssl.certChain`.
        SSL_RPC_CERT_CHAIN: Option<String> =
            Entry::following("spark.ssl.rpc.certChain", &SSL_CERT_CHAIN).since("4.0.0");

        /// The PEM file with the private key of the certificate.
        SSL_PRIVATE_KEY: Option<String> = Entry::optional("spark.ssl.privateKey")
            .example("/etc/spark/key.pem").since("4.0.0").for_cluster();

        /// The same for connections between processes. When it is not set: `spark.ssl.privateKey`.
        SSL_RPC_PRIVATE_KEY: Option<String> =
            Entry::following("spark.ssl.rpc.privateKey", &SSL_PRIVATE_KEY).since("4.0.0");

        /// The PEM file with the certificates of the authorities that are trusted. Java key stores
        /// are not read: `keytool -exportcert -rfc` writes PEM.
        SSL_TRUST_STORE: Option<String> = Entry::optional("spark.ssl.trustStore")
            .example("/etc/spark/ca.pem").since("1.4.0").for_cluster();

        /// The same for connections between processes. When it is not set: `spark.ssl.trustStore`.
        SSL_RPC_TRUST_STORE: Option<String> =
            Entry::following("spark.ssl.rpc.trustStore", &SSL_TRUST_STORE).since("4.0.0");
    }

    "Standalone cluster" {
        /// How long a worker, or an application's driver, may be silent before the master gives it up.
        /// They give a sign of life four times as often.
        WORKER_TIMEOUT: Duration = Entry::new("spark.worker.timeout", "60s")
            .time_unit(TimeUnit::Seconds).positive().since("0.6.2").for_cluster();

        /// For how many of those timeouts a dead worker stays on the master's page.
        DEAD_WORKER_PERSISTENCE: u32 = Entry::new("spark.dead.worker.persistence", "15")
            .since("0.8.0").for_cluster();

        /// Whether an application's executors are spread over as many workers as possible, rather
        /// than packed onto few.
        DEPLOY_SPREAD_OUT_APPS: bool = Entry::new("spark.deploy.spreadOutApps", "true")
            .formerly(&["spark.deploy.spreadOut"]).since("0.6.1").for_cluster();

        /// Whether drivers that the cluster runs are spread over its workers, rather than packed.
        DEPLOY_SPREAD_OUT_DRIVERS: bool = Entry::new("spark.deploy.spreadOutDrivers", "true")
            .since("4.0.0").for_cluster();

        /// How many cores an application gets that does not set `spark.cores.max`; all when it is
        /// not set.
        DEPLOY_DEFAULT_CORES: Option<u32> = Entry::optional("spark.deploy.defaultCores")
            .positive().example("4").since("0.9.0").for_cluster();

        /// How many executors in a row may end before they are of use until the master ends the
        /// application: only when none is at work and every worker has failed it. Negative: without end.
        DEPLOY_MAX_EXECUTOR_RETRIES: i64 = Entry::new("spark.deploy.maxExecutorRetries", "10")
            .since("1.6.3").for_cluster();

        /// How many completed applications the master remembers.
        DEPLOY_RETAINED_APPLICATIONS: u32 = Entry::new("spark.deploy.retainedApplications", "200")
            .since("0.8.0").for_cluster();

        /// Whether the master takes submissions over HTTP (`/v1/submissions`). They prove nothing, so
        /// a master with a secret refuses to start with it. When it is not set: if there is no
        /// secret.
        MASTER_REST_ENABLED: Option<bool> = Entry::optional("spark.master.rest.enabled")
            .example("true").since("1.3.0").for_cluster();

        /// The first port to try for that; `0`: any.
        MASTER_REST_PORT: u32 = Entry::new("spark.master.rest.port", "6066")
            .between(0.0, 65535.0).since("1.3.0").for_cluster();

        /// How many cores of a worker a driver takes that the cluster runs.
        DRIVER_CORES: u32 = Entry::new("spark.driver.cores", "1")
            .positive().since("1.3.0").for_cluster();

        /// Whether a driver that the cluster runs is started again when it fails.
        DRIVER_SUPERVISE: bool = Entry::new("spark.driver.supervise", "false")
            .since("1.3.0").for_cluster();

        /// How many completed drivers the master remembers.
        DEPLOY_RETAINED_DRIVERS: u32 = Entry::new("spark.deploy.retainedDrivers", "200")
            .since("1.1.0").for_cluster();

        /// How often a worker asks for a master in quick succession.
        WORKER_INITIAL_REGISTRATION_RETRIES: u32 =
            Entry::new("spark.worker.initialRegistrationRetries", "6")
            .positive().since("4.0.0").for_cluster();

        /// How often a worker asks for a master in all before it gives up.
        WORKER_MAX_REGISTRATION_RETRIES: u32 =
            Entry::new("spark.worker.maxRegistrationRetries", "16")
            .positive().since("4.0.0").for_cluster();

        /// How long a worker waits for a process to end that it told to (SIGTERM), before it kills it.
        /// For drivers and executors.
        WORKER_DRIVER_TERMINATE_TIMEOUT: Duration =
            Entry::new("spark.worker.driverTerminateTimeout", "10s")
            .since("2.1.0").for_cluster();

        /// How a worker keeps the output files of executors small: `size` begins a new file when one
        /// is full. When it is not set, one file has it all.
        EXECUTOR_LOGS_ROLLING_STRATEGY: Option<RollingStrategy> =
            Entry::optional("spark.executor.logs.rolling.strategy")
            .example("size").since("1.1.0").for_cluster();

        /// How large an executor's file of output gets before the next one begins.
        EXECUTOR_LOGS_ROLLING_MAX_SIZE: ByteSize =
            Entry::new("spark.executor.logs.rolling.maxSize", "1m")
            .formerly(&["spark.executor.logs.rolling.size.maxBytes"])
            .byte_unit(ByteUnit::Byte).positive().since("1.4.0").for_cluster();

        /// How many full files of output are kept, of each stream of an executor. When it is not set: all.
        EXECUTOR_LOGS_ROLLING_MAX_RETAINED_FILES: Option<u32> =
            Entry::optional("spark.executor.logs.rolling.maxRetainedFiles")
            .positive().example("5").since("1.1.0").for_cluster();

        /// Whether a worker removes the work directories of old applications.
        WORKER_CLEANUP_ENABLED: bool = Entry::new("spark.worker.cleanup.enabled", "true")
            .since("1.0.0").for_cluster();

        /// How often a worker looks for old work directories.
        WORKER_CLEANUP_INTERVAL: Duration = Entry::new("spark.worker.cleanup.interval", "1800s")
            .time_unit(TimeUnit::Seconds).positive().since("1.0.0").for_cluster();

        /// How old a work directory has to be before it is removed.
        WORKER_CLEANUP_APP_DATA_TTL: Duration =
            Entry::new("spark.worker.cleanup.appDataTtl", "604800s")
            .time_unit(TimeUnit::Seconds).positive().since("1.0.0").for_cluster();

        /// How many bytes of executables and files of applications a worker keeps, so that the next
        /// executor need not fetch them from its driver. Those not used for the longest time go first.
        WORKER_CACHE_MAX_SIZE: ByteSize = Entry::new("spark.firesteel.worker.cache.maxSize", "8g")
            .byte_unit(ByteUnit::Byte).positive().since("Firesteel 0.1.0").for_cluster();
    }
}

/// The entry of a key.
pub fn find(key: &str) -> Option<&'static dyn AnyEntry> {
    ALL.iter().copied().find(|entry| entry.about().key == key)
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use super::*;

    #[test]
    fn every_default_and_every_example_is_a_value_of_its_entry() {
        for entry in ALL {
            let about = entry.about();
            assert_eq!(entry.check(about.example()), Ok(()), "{}", about.key);
            assert_eq!(about.default.map_or(Ok(()), |text| entry.check(text)), Ok(()));
            assert!(!about.example().is_empty(), "{} has no example", about.key);
        }
    }

    #[test]
    fn every_entry_is_a_spark_key_of_its_own_with_a_version_and_a_text() {
        let mut keys = BTreeSet::new();
        for entry in ALL {
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
