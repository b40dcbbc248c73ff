//! The registry, continued: executors, network, security, standalone clusters.

use std::time::Duration;

use crate::entry::{AnyEntry, Entry};
use crate::{
    ByteSize, ByteUnit, RecoveryMode, RestFilter, RollingInterval, RollingStrategy, TimeUnit,
};

entries! {
    /// Of applications on a cluster, and of its master and workers.
    pub(super) CLUSTER:
    "Executors and network" {

        /// Memory of each executor.
        EXECUTOR_MEMORY: ByteSize = Entry::new("spark.executor.memory", "1g")
            .byte_unit(ByteUnit::Mebi).positive().since("0.7.0").for_cluster();

        /// The name or address under which executors and masters reach the driver. When it is not set:
        /// the address of this machine from which the master is reached, or the one from which others are where that is a loopback
        /// address, the master's name is not, and other machines are let in.
        DRIVER_HOST: Option<String> = Entry::optional("spark.driver.host")
            .example("driver.example.org").since("0.7.0").for_cluster();

        /// The address the driver listens at. When it is not set: `spark.driver.host`.
        DRIVER_BIND_ADDRESS: Option<String> = Entry::optional("spark.driver.bindAddress")
            .example("0.0.0.0").since("2.1.0").for_cluster();

        /// The port the driver listens at; 0 takes any that is free.
        DRIVER_PORT: u32 = Entry::new("spark.driver.port", "0")
            .between(0.0, 65_535.0).since("0.7.0").for_cluster();

        /// The port an executor listens at; 0 takes any that is free. Several executors of a machine take the
        /// next ones, up to `spark.port.maxRetries`. The driver serves its blocks at `spark.driver.port`.
        BLOCK_MANAGER_PORT: u32 = Entry::new("spark.blockManager.port", "0")
            .between(0.0, 65_535.0).since("1.1.0").for_cluster();

        /// How many bytes of map outputs of other executors a task holds at once while it reads a
        /// shuffle. A single output that is larger goes through a temporary file.
        REDUCER_MAX_SIZE_IN_FLIGHT: ByteSize = Entry::new("spark.reducer.maxSizeInFlight", "48m")
            .formerly(&["spark.reducer.maxMbInFlight"])
            .byte_unit(ByteUnit::Mebi).positive().since("1.4.0").for_cluster();

        /// The size of the pieces in which a broadcast value goes to executors, which pass them on
        /// to each other.
        BROADCAST_BLOCK_SIZE: ByteSize = Entry::new("spark.broadcast.blockSize", "4m")
            .byte_unit(ByteUnit::Kibi).positive().since("0.5.0").for_cluster();

        /// Whether a partition that several executors cache (`MEMORY_ONLY_2` and the like) is
        /// re-replicated when one of them is lost, or when there were too few of them before.
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

        /// Files that the driver and every executor get a copy of, separated by commas: paths, or URLs (`http`, `https`, object
        /// stores), for which a program needs the feature `object-store`.
        FILES: Vec<String> = Entry::new("spark.files", "")
            .example("words.txt,rules.json").since("1.0.0").for_cluster();

        /// Whether a file that `Context::add_file` adds may replace one of the same name that has other content. Tasks that start
        /// later see the new one.
        FILES_OVERWRITE: bool = Entry::new("spark.files.overwrite", "false").since("1.0.0");

        /// How long the download of a file or an executable by its URL may stand still.
        FILES_FETCH_TIMEOUT: Duration = Entry::new("spark.files.fetchTimeout", "60s")
            .time_unit(TimeUnit::Seconds).positive().since("1.0.0");

        /// How many bytes a file or an executable may have that is downloaded by its URL.
        FILES_MAX_SIZE: ByteSize = Entry::new("spark.firesteel.files.maxSize", "8g")
            .byte_unit(ByteUnit::Byte).positive().since("Firesteel 0.1.0");

        /// How many cores the application takes of a standalone cluster; all when it is not set.
        CORES_MAX: Option<u32> = Entry::optional("spark.cores.max")
            .positive().example("8").since("0.6.0").for_cluster();

        /// How often an executor sends a heartbeat to the driver, with what it uses and how far its tasks are. Has to be
        /// smaller than `spark.network.timeout`.
        EXECUTOR_HEARTBEAT_INTERVAL: Duration =
            Entry::new("spark.executor.heartbeatInterval", "10s")
            .positive().since("1.1.0");

        /// How often an executor looks at what it uses, for the peaks that it tells with its heartbeats; `0`: with each
        /// heartbeat.
        EXECUTOR_METRICS_POLLING_INTERVAL: Duration =
            Entry::new("spark.executor.metrics.pollingInterval", "0ms").since("3.0.0");

        /// How long the other side of a connection may be silent before it is declared dead.
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
        /// messages. Without it, ports are only opened on the loopback interface. When it is not set: if the user has a
        /// secret in `~/.config/firesteel/secret`, where a master that is started makes one.
        AUTHENTICATE: bool = Entry::new("spark.authenticate", "false")
            .since("1.0.0").for_cluster();

        /// The secret. `openssl rand -hex 32` makes one. The environment variable
        /// `_SPARK_AUTH_SECRET` wins over it.
        AUTHENTICATE_SECRET: Option<String> = Entry::optional("spark.authenticate.secret")
            .example("2fd4e1c67a2d28fced849ee1bb76e739").since("1.0.0").for_cluster();

        /// The file that holds the secret, when `spark.authenticate.secret` is not set. Nobody else
        /// should be able to read it: a process that reads one that others can read too says so, and takes it.
        AUTHENTICATE_SECRET_FILE: Option<String> = Entry::optional("spark.authenticate.secret.file")
            .example("/etc/spark/secret").since("3.0.0").for_cluster();

        /// Whether connections of two machines that share a secret are encrypted (TLS 1.3), also without certificates
        /// (`spark.ssl.rpc.enabled`). Spark has false.
        NETWORK_CRYPTO_ENABLED: bool = Entry::new("spark.network.crypto.enabled", "true")
            .since("2.2.0").for_cluster();

        /// How long the two sides of a new connection may take to prove who they are.
        NETWORK_AUTH_RPC_TIMEOUT: Duration = Entry::new("spark.network.auth.rpcTimeout", "30s")
            .positive().since("2.2.0").for_cluster();

        /// Whether ports may be opened beyond the loopback interface without a secret: anybody who can
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
        /// How long a worker, or an application's driver, may be silent before the master declares it dead.
        /// They send heartbeats four times as often.
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

        /// Where a master's state outlives it. `NONE`: nowhere; a master that is started again adopts what workers and
        /// applications tell it for as long as `spark.deploy.recoveryTimeout`. `FILESYSTEM`: in
        /// `spark.deploy.recoveryDirectory`. `ZOOKEEPER`: in an ensemble that elects one of several masters
        /// (`spark.deploy.zookeeper.url`). `ETCD`: the same in an etcd cluster (`spark.firesteel.deploy.etcd.url`).
        /// `CUSTOM`: in a store of the program that starts the master.
        DEPLOY_RECOVERY_MODE: RecoveryMode = Entry::new("spark.deploy.recoveryMode", "NONE")
            .since("0.8.1").for_cluster();

        /// The directory of `FILESYSTEM`: empty, or this master's own. Without a secret (`spark.authenticate`) no
        /// secrets are in it.
        DEPLOY_RECOVERY_DIRECTORY: Option<String> = Entry::optional("spark.deploy.recoveryDirectory")
            .example("/var/lib/firesteel/master").since("0.8.1").for_cluster();

        /// The servers of `ZOOKEEPER`, as `host:port,host:port`.
        DEPLOY_ZOOKEEPER_URL: Option<String> = Entry::optional("spark.deploy.zookeeper.url")
            .example("zk1:2181,zk2:2181").since("0.8.1").for_cluster();

        /// The node below which `ZOOKEEPER` has the election and the state of the masters of one cluster.
        DEPLOY_ZOOKEEPER_DIR: String = Entry::new("spark.deploy.zookeeper.dir", "/spark")
            .since("0.8.1").for_cluster();

        /// The servers of `ETCD`, as `http://host:2379,http://host:2379`, or `https://` with
        /// `spark.firesteel.deploy.etcd.trustStore`.
        DEPLOY_ETCD_URL: Option<String> = Entry::optional("spark.firesteel.deploy.etcd.url")
            .example("http://127.0.0.1:2379").since("Firesteel 0.1.0").for_cluster();

        /// What the keys of `ETCD` begin with: the election and the state of the masters of one cluster.
        DEPLOY_ETCD_DIR: String = Entry::new("spark.firesteel.deploy.etcd.dir", "/spark")
            .since("Firesteel 0.1.0").for_cluster();

        /// The certificate of the authority that signed those of etcd's servers, a PEM file: for `https://`.
        DEPLOY_ETCD_TRUST_STORE: Option<String> = Entry::optional("spark.firesteel.deploy.etcd.trustStore")
            .example("/etc/firesteel/etcd-ca.pem").since("Firesteel 0.1.0").for_cluster();

        /// The certificate that a master shows to etcd's servers, a PEM file with the ones that signed it. Not set: none.
        DEPLOY_ETCD_CERT_CHAIN: Option<String> = Entry::optional("spark.firesteel.deploy.etcd.certChain")
            .example("/etc/firesteel/etcd-client.pem").since("Firesteel 0.1.0").for_cluster();

        /// The key of `spark.firesteel.deploy.etcd.certChain`, a PEM file.
        DEPLOY_ETCD_PRIVATE_KEY: Option<String> = Entry::optional("spark.firesteel.deploy.etcd.privateKey")
            .example("/etc/firesteel/etcd-client.key").since("Firesteel 0.1.0").for_cluster();

        /// How long the leader among masters that share a store may be silent before another one is elected.
        DEPLOY_SESSION_TIMEOUT: Duration = Entry::new("spark.firesteel.deploy.sessionTimeout", "10s")
            .time_unit(TimeUnit::Seconds).positive().since("Firesteel 0.1.0").for_cluster();

        /// How long a worker that no master answers lets its supervised drivers run. So long, and an eighth of it more, after a
        /// lost worker was heard last, the master starts them elsewhere: never are there two of one. `0`: for ever, and the
        /// master starts them elsewhere at once, as Spark does.
        SUPERVISE_LEASE: Duration = Entry::new("spark.firesteel.supervise.lease", "2m")
            .time_unit(TimeUnit::Seconds).since("Firesteel 0.1.0").for_cluster();

        /// How long a new master waits for the workers and applications of the one before it until it declares them
        /// dead. When it is not set: `spark.worker.timeout`.
        DEPLOY_RECOVERY_TIMEOUT: Option<Duration> = Entry::optional("spark.deploy.recoveryTimeout")
            .time_unit(TimeUnit::Seconds).example("30s").since("4.0.0").for_cluster();

        /// Whether the master takes submissions over HTTP (`/v1/submissions`), and whether `submit` tries that before the
        /// master's own port. When it is not set: both, if the master can ask for a token, on this machine only: HTTP shows
        /// tokens to all who are on the way from another one.
        MASTER_REST_ENABLED: Option<bool> = Entry::optional("spark.master.rest.enabled")
            .example("true").since("1.3.0").for_cluster();

        /// Whether such a request needs a token: `Authorization: Bearer` and a JWS, signed with the key of
        /// `spark.master.rest.filters`, or with one made of the cluster's secret, as `submit` does. If not, everybody who
        /// reaches the port can run programs: Spark's own `spark-submit` has no token.
        MASTER_REST_AUTHENTICATE: bool =
            Entry::new("spark.firesteel.master.rest.authenticate", "true")
            .since("Firesteel 0.1.0").for_cluster();

        /// What looks at requests for submissions first: `org.apache.spark.ui.JWSFilter`, or nothing.
        MASTER_REST_FILTERS: Option<RestFilter> = Entry::optional("spark.master.rest.filters")
            .example("org.apache.spark.ui.JWSFilter").since("4.0.0").for_cluster();

        /// The key of that filter's tokens, and of those that `spark.ui.filters` asks for, in BASE64URL: at least 256 bits.
        JWS_SECRET_KEY: Option<String> =
            Entry::optional("spark.org.apache.spark.ui.JWSFilter.param.secretKey")
            .example("VmlzaXQgaHR0cHM6Ly9zcGFyay5hcGFjaGUub3JnIHRvIGRvd25sb2FkIEFwYWNoZSBTcGFyay4=")
            .since("4.0.0");

        /// Names besides those of its machine by which the pages and REST servers of masters, workers, applications and the
        /// history server may be asked for, such as that of a proxy; `*`: any. Requests for others are refused, so that no web page can have its own
        /// name stand for this machine.
        HTTP_ALLOWED_HOSTS: Vec<String> = Entry::new("spark.firesteel.http.allowedHosts", "")
            .example("spark.example.org").since("Firesteel 0.1.0").for_cluster();

        /// The first port to try for that; `0`: any.
        MASTER_REST_PORT: u32 = Entry::new("spark.master.rest.port", "6066")
            .between(0.0, 65535.0).since("1.3.0").for_cluster();

        /// How many cores of a worker a driver takes that the cluster runs.
        DRIVER_CORES: u32 = Entry::new("spark.driver.cores", "1")
            .positive().since("1.3.0").for_cluster();

        /// Whether a driver that the cluster runs is started again when it fails.
        DRIVER_SUPERVISE: bool = Entry::new("spark.driver.supervise", "false")
            .since("1.3.0").for_cluster();

        /// Whether `submit` waits for the end of a driver that the cluster runs, and ends as it did.
        STANDALONE_SUBMIT_WAIT_APP_COMPLETION: bool =
            Entry::new("spark.standalone.submit.waitAppCompletion", "false")
            .since("3.1.0").for_cluster();

        /// Where a master keeps the executables and files that `submit` uploads to it. When it is not set: `firesteel/store` in the
        /// user's cache directory.
        MASTER_STORE_DIR: Option<String> = Entry::optional("spark.firesteel.master.store.dir")
            .example("/var/lib/firesteel/store").since("Firesteel 0.1.0").for_cluster();

        /// How many bytes of these a master keeps. Those not used for the longest time go first; those of drivers that are not
        /// over stay.
        MASTER_STORE_MAX_SIZE: ByteSize = Entry::new("spark.firesteel.master.store.maxSize", "8g")
            .byte_unit(ByteUnit::Byte).positive().since("Firesteel 0.1.0").for_cluster();

        /// How many completed drivers the master remembers.
        DEPLOY_RETAINED_DRIVERS: u32 = Entry::new("spark.deploy.retainedDrivers", "200")
            .since("1.1.0").for_cluster();

        /// How often a worker asks for a master in quick succession.
        WORKER_INITIAL_REGISTRATION_RETRIES: u32 =
            Entry::new("spark.worker.initialRegistrationRetries", "6")
            .positive().since("4.0.0").for_cluster();

        /// How often a worker that runs nothing, and that no master answers, asks for one in all before it exits.
        WORKER_MAX_REGISTRATION_RETRIES: u32 =
            Entry::new("spark.worker.maxRegistrationRetries", "16")
            .positive().since("4.0.0").for_cluster();

        /// How long a worker waits for a process to end that it told to (SIGTERM), before it kills it.
        /// For drivers and executors.
        WORKER_DRIVER_TERMINATE_TIMEOUT: Duration =
            Entry::new("spark.worker.driverTerminateTimeout", "10s")
            .since("2.1.0").for_cluster();

        /// How a worker keeps the output files of executors and drivers small: `size` begins a new file when one
        /// is full, `time` when an interval is over. When it is not set, one file has it all.
        EXECUTOR_LOGS_ROLLING_STRATEGY: Option<RollingStrategy> =
            Entry::optional("spark.executor.logs.rolling.strategy")
            .example("size").since("1.1.0").for_cluster();

        /// How large an executor's file of output gets before the next one begins.
        EXECUTOR_LOGS_ROLLING_MAX_SIZE: ByteSize =
            Entry::new("spark.executor.logs.rolling.maxSize", "1m")
            .formerly(&["spark.executor.logs.rolling.size.maxBytes"])
            .byte_unit(ByteUnit::Byte).positive().since("1.4.0").for_cluster();

        /// When the next file of output begins, with the strategy `time`: by the clock of UTC, `daily` at midnight. Nothing
        /// shorter than a minute is taken.
        EXECUTOR_LOGS_ROLLING_INTERVAL: RollingInterval =
            Entry::new("spark.executor.logs.rolling.time.interval", "daily")
            .since("1.1.0").for_cluster();

        /// How many full files of output are kept, of each stream of an executor. When it is not set: all.
        EXECUTOR_LOGS_ROLLING_MAX_RETAINED_FILES: Option<u32> =
            Entry::optional("spark.executor.logs.rolling.maxRetainedFiles")
            .positive().example("5").since("1.1.0").for_cluster();

        /// Whether who reads output of executors and drivers at a worker's port needs a token, as for `spark.master.rest.enabled`:
        /// `firesteel logs` has it, browsers do not. When it is not set: if there is a secret or a key to sign with, and, where only
        /// this machine reaches the port, of all but the worker's own user.
        WORKER_LOGS_AUTHENTICATE: Option<bool> =
            Entry::optional("spark.firesteel.worker.logs.authenticate")
            .example("false").since("Firesteel 0.1.0").for_cluster();

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

        /// How many bytes of an executable or a file have to come to a worker in a minute from the driver or worker that serves it. A slower one is left
        /// for another that serves the same, and after three such minutes without another one the launch fails.
        WORKER_CACHE_MIN_BYTES_PER_MINUTE: ByteSize =
            Entry::new("spark.firesteel.worker.cache.minBytesPerMinute", "1m")
            .byte_unit(ByteUnit::Byte).positive().since("Firesteel 0.1.0").for_cluster();

        /// To how many workers at once a driver serves its executable and files, and a worker those it keeps. Others are told to wait
        /// for their turn, and fetch from workers meanwhile.
        MAX_DOWNLOADS: u32 = Entry::new("spark.firesteel.maxDownloads", "8")
            .positive().since("Firesteel 0.1.0").for_cluster();
    }
}
