//! The registry, continued: applications on Kubernetes.

use std::time::Duration;

use crate::entry::{AnyEntry, Entry};
use crate::{ByteSize, ByteUnit, PullPolicy, RollPolicy, TimeUnit, Unschedulable};

entries! {
    /// Of applications on Kubernetes.
    pub(super) KUBERNETES:
    "Kubernetes: the API server" {
        /// The namespace of the driver and its executors.
        KUBERNETES_NAMESPACE: String = Entry::new("spark.kubernetes.namespace", "default")
            .since("2.3.0").for_cluster();

        /// The context of the kubeconfig file that says how to reach the API server and who asks. When it is not set: the current
        /// one.
        KUBERNETES_CONTEXT: Option<String> = Entry::optional("spark.kubernetes.context")
            .example("minikube").since("3.0.0").for_cluster();

        /// Whether the API server's certificate is not looked at. Anybody between here and there can read the token then.
        KUBERNETES_TRUST_CERTIFICATES: bool =
            Entry::new("spark.kubernetes.trust.certificates", "false")
            .since("3.2.0").for_cluster();

        /// The certificates of authorities that the driver trusts when it asks the API server.
        KUBERNETES_CA_CERT_FILE: Option<String> =
            Entry::optional("spark.kubernetes.authenticate.caCertFile")
            .example("/etc/kubernetes/ca.crt").since("2.4.0").for_cluster();

        /// The key that the driver proves its identity to the API server with.
        KUBERNETES_CLIENT_KEY_FILE: Option<String> =
            Entry::optional("spark.kubernetes.authenticate.clientKeyFile")
            .example("/etc/kubernetes/me.key").since("2.4.0").for_cluster();

        /// The certificate that goes with it.
        KUBERNETES_CLIENT_CERT_FILE: Option<String> =
            Entry::optional("spark.kubernetes.authenticate.clientCertFile")
            .example("/etc/kubernetes/me.crt").since("2.4.0").for_cluster();

        /// The token that the driver proves its identity to the API server with.
        KUBERNETES_OAUTH_TOKEN: Option<String> =
            Entry::optional("spark.kubernetes.authenticate.oauthToken")
            .example("eyJhbGciOi").since("2.4.0").for_cluster();

        /// The file that holds such a token. It is read again when the API server refuses the token, and once a minute.
        KUBERNETES_OAUTH_TOKEN_FILE: Option<String> =
            Entry::optional("spark.kubernetes.authenticate.oauthTokenFile")
            .example("/var/run/secrets/tokens/api").since("2.4.0").for_cluster();

        /// The same for `submit` in cluster mode: authorities.
        KUBERNETES_SUBMISSION_CA_CERT_FILE: Option<String> =
            Entry::optional("spark.kubernetes.authenticate.submission.caCertFile")
            .example("/etc/kubernetes/ca.crt").since("2.3.0").for_cluster();

        /// The same for `submit` in cluster mode: a key.
        KUBERNETES_SUBMISSION_CLIENT_KEY_FILE: Option<String> =
            Entry::optional("spark.kubernetes.authenticate.submission.clientKeyFile")
            .example("/etc/kubernetes/me.key").since("2.3.0").for_cluster();

        /// The same for `submit` in cluster mode: its certificate.
        KUBERNETES_SUBMISSION_CLIENT_CERT_FILE: Option<String> =
            Entry::optional("spark.kubernetes.authenticate.submission.clientCertFile")
            .example("/etc/kubernetes/me.crt").since("2.3.0").for_cluster();

        /// The same for `submit` in cluster mode: a token.
        KUBERNETES_SUBMISSION_OAUTH_TOKEN: Option<String> =
            Entry::optional("spark.kubernetes.authenticate.submission.oauthToken")
            .example("eyJhbGciOi").since("2.3.0").for_cluster();

        /// The same for `submit` in cluster mode: the file of a token.
        KUBERNETES_SUBMISSION_OAUTH_TOKEN_FILE: Option<String> =
            Entry::optional("spark.kubernetes.authenticate.submission.oauthTokenFile")
            .example("/var/run/secrets/tokens/api").since("2.3.0").for_cluster();

        /// How long a request of the driver waits for the API server's answer.
        KUBERNETES_DRIVER_REQUEST_TIMEOUT: Duration =
            Entry::new("spark.kubernetes.driver.requestTimeout", "10000")
            .positive().since("3.0.0").for_cluster();

        /// How long the driver tries to connect to the API server.
        KUBERNETES_DRIVER_CONNECTION_TIMEOUT: Duration =
            Entry::new("spark.kubernetes.driver.connectionTimeout", "10000")
            .positive().since("3.0.0").for_cluster();

        /// How long a request of `submit` waits for the API server's answer.
        KUBERNETES_SUBMISSION_REQUEST_TIMEOUT: Duration =
            Entry::new("spark.kubernetes.submission.requestTimeout", "10000")
            .positive().since("3.0.0").for_cluster();

        /// How long `submit` tries to connect to the API server.
        KUBERNETES_SUBMISSION_CONNECTION_TIMEOUT: Duration =
            Entry::new("spark.kubernetes.submission.connectionTimeout", "10000")
            .positive().since("3.0.0").for_cluster();
    }

    "Kubernetes: pods" {
        /// The application's id: the label by which its pods are found. `submit` sets it for drivers that the cluster runs. When it is not
        /// set: another one for each process.
        APP_ID: Option<String> = Entry::optional("spark.app.id")
            .example("spark-0123456789abcdef").since("1.3.0").for_cluster();

        /// The image of the driver's and the executors' containers: one that has the application's executable.
        KUBERNETES_CONTAINER_IMAGE: Option<String> =
            Entry::optional("spark.kubernetes.container.image")
            .example("registry.example.org/pi:1").since("2.3.0").for_cluster();

        /// The image of the driver's container. When it is not set: `spark.kubernetes.container.image`.
        KUBERNETES_DRIVER_CONTAINER_IMAGE: Option<String> =
            Entry::following("spark.kubernetes.driver.container.image", &KUBERNETES_CONTAINER_IMAGE)
            .since("2.3.0").for_cluster();

        /// The image of the executors' containers. When it is not set: `spark.kubernetes.container.image`.
        KUBERNETES_EXECUTOR_CONTAINER_IMAGE: Option<String> =
            Entry::following("spark.kubernetes.executor.container.image", &KUBERNETES_CONTAINER_IMAGE)
            .since("2.3.0").for_cluster();

        /// When images are pulled.
        KUBERNETES_IMAGE_PULL_POLICY: PullPolicy =
            Entry::new("spark.kubernetes.container.image.pullPolicy", "IfNotPresent")
            .since("2.3.0").for_cluster();

        /// Secrets to pull images with, separated by commas.
        KUBERNETES_IMAGE_PULL_SECRETS: Vec<String> =
            Entry::new("spark.kubernetes.container.image.pullSecrets", "")
            .example("registry").since("2.4.0").for_cluster();

        /// A directory for executables and files that are where `submit` runs: of an object store (`s3a://`, `gs://`, `abfs://`), or a `file://`
        /// one that pods have as a volume. `submit` in cluster mode copies them into a directory of their own below it, and an init container of
        /// every pod fetches them with the command `firesteel` of the image. When it is not set, they have to be in the image.
        KUBERNETES_FILE_UPLOAD_PATH: Option<String> =
            Entry::optional("spark.kubernetes.file.upload.path")
            .example("s3a://bucket/uploads").since("3.0.0").for_cluster();

        /// What every pod of the application fetches before it starts, separated by commas, the executable first. `submit` sets it.
        KUBERNETES_FETCH: Vec<String> = Entry::new("spark.firesteel.kubernetes.fetch", "")
            .example("s3a://bucket/uploads/pi,s3a://bucket/uploads/words.txt").since("Firesteel 0.1.0").for_cluster();

        /// Memory of an executor's pod beyond `spark.executor.memory`. When it is not set: a part of that
        /// (`spark.executor.memoryOverheadFactor`), 384 MiB at least.
        EXECUTOR_MEMORY_OVERHEAD: Option<ByteSize> =
            Entry::optional("spark.executor.memoryOverhead")
            .byte_unit(ByteUnit::Mebi).example("1g").since("2.3.0").for_cluster();

        /// How large that part is, of drivers and executors.
        KUBERNETES_MEMORY_OVERHEAD_FACTOR: f64 =
            Entry::new("spark.kubernetes.memoryOverheadFactor", "0.1")
            .between(0.0, 100.0).since("2.4.0").for_cluster();

        /// How large that part is, of executors.
        EXECUTOR_MEMORY_OVERHEAD_FACTOR: f64 =
            Entry::following("spark.executor.memoryOverheadFactor", &KUBERNETES_MEMORY_OVERHEAD_FACTOR)
            .since("3.3.0").for_cluster();

        /// Memory of the driver's pod beyond `spark.driver.memory`. When it is not set: a part of that
        /// (`spark.driver.memoryOverheadFactor`), 384 MiB at least.
        DRIVER_MEMORY_OVERHEAD: Option<ByteSize> = Entry::optional("spark.driver.memoryOverhead")
            .byte_unit(ByteUnit::Mebi).example("1g").since("2.3.0").for_cluster();

        /// How large that part is, of drivers.
        DRIVER_MEMORY_OVERHEAD_FACTOR: f64 =
            Entry::following("spark.driver.memoryOverheadFactor", &KUBERNETES_MEMORY_OVERHEAD_FACTOR)
            .since("3.3.0").for_cluster();

        /// The driver's pod. `submit` in cluster mode creates it; when it is not set, it is called after the application and the time.
        /// A driver that runs in a pod without having been submitted names its pod here: executors go with it then.
        KUBERNETES_DRIVER_POD_NAME: Option<String> =
            Entry::optional("spark.kubernetes.driver.pod.name")
            .example("pi-driver").since("2.3.0").for_cluster();

        /// The service account of the driver's pod. It may create, list, watch, change and delete pods.
        KUBERNETES_DRIVER_SERVICE_ACCOUNT: Option<String> =
            Entry::optional("spark.kubernetes.authenticate.driver.serviceAccountName")
            .example("spark").since("2.3.0").for_cluster();

        /// The service account of the executors' pods. When it is not set: the namespace's default, without a token.
        KUBERNETES_EXECUTOR_SERVICE_ACCOUNT: Option<String> =
            Entry::optional("spark.kubernetes.authenticate.executor.serviceAccountName")
            .example("executors").since("3.1.0").for_cluster();

        /// A file with a pod (YAML or JSON) that the driver's pod is made from.
        KUBERNETES_DRIVER_POD_TEMPLATE_FILE: Option<String> =
            Entry::optional("spark.kubernetes.driver.podTemplateFile")
            .example("driver.yaml").since("3.0.0").for_cluster();

        /// The container of that pod in which the driver runs. When it is not set: the first.
        KUBERNETES_DRIVER_POD_TEMPLATE_CONTAINER: Option<String> =
            Entry::optional("spark.kubernetes.driver.podTemplateContainerName")
            .example("driver").since("3.0.0").for_cluster();

        /// A file with a pod (YAML or JSON) that the executors' pods are made from.
        KUBERNETES_EXECUTOR_POD_TEMPLATE_FILE: Option<String> =
            Entry::optional("spark.kubernetes.executor.podTemplateFile")
            .example("executor.yaml").since("3.0.0").for_cluster();

        /// The container of that pod in which the executor runs. When it is not set: the first.
        KUBERNETES_EXECUTOR_POD_TEMPLATE_CONTAINER: Option<String> =
            Entry::optional("spark.kubernetes.executor.podTemplateContainerName")
            .example("executor").since("3.0.0").for_cluster();

        /// How much processor time the driver's pod asks for, such as `500m`. When it is not set: `spark.driver.cores`.
        KUBERNETES_DRIVER_REQUEST_CORES: Option<String> =
            Entry::optional("spark.kubernetes.driver.request.cores")
            .example("500m").since("3.0.0").for_cluster();

        /// How much processor time the driver's pod gets at most. When it is not set: as much as its node has.
        KUBERNETES_DRIVER_LIMIT_CORES: Option<String> =
            Entry::optional("spark.kubernetes.driver.limit.cores")
            .example("2").since("2.3.0").for_cluster();

        /// How much processor time an executor's pod asks for, such as `500m`; how many tasks it runs at once is
        /// `spark.executor.cores`. When it is not set: as many.
        KUBERNETES_EXECUTOR_REQUEST_CORES: Option<String> =
            Entry::optional("spark.kubernetes.executor.request.cores")
            .example("500m").since("2.4.0").for_cluster();

        /// How much processor time an executor's pod gets at most. When it is not set: as much as its node has.
        KUBERNETES_EXECUTOR_LIMIT_CORES: Option<String> =
            Entry::optional("spark.kubernetes.executor.limit.cores")
            .example("2").since("2.3.0").for_cluster();

        /// What the names of executors' pods begin with. When it is not set: the application's name and a number.
        KUBERNETES_EXECUTOR_POD_NAME_PREFIX: Option<String> =
            Entry::optional("spark.kubernetes.executor.podNamePrefix")
            .example("pi").since("2.3.0").for_cluster();

        /// Whether `submit` in cluster mode waits for the driver's end, and ends as it did.
        KUBERNETES_WAIT_APP_COMPLETION: bool =
            Entry::new("spark.kubernetes.submission.waitAppCompletion", "true")
            .since("2.3.0").for_cluster();

        /// How often it asks for the driver's pod meanwhile.
        KUBERNETES_REPORT_INTERVAL: Duration = Entry::new("spark.kubernetes.report.interval", "1s")
            .positive().since("2.3.0").for_cluster();

        /// How long a pod that `submit --kill` ends has to end by itself. When it is not set: what the pod says.
        KUBERNETES_SUBMIT_GRACE_PERIOD: Option<Duration> =
            Entry::optional("spark.kubernetes.appKillPodDeletionGracePeriod")
            .time_unit(TimeUnit::Seconds).example("60s").since("3.0.0").for_cluster();
    }

    "Kubernetes: keeping executors" {
        /// How many pods are asked for at once.
        KUBERNETES_ALLOCATION_BATCH_SIZE: u32 =
            Entry::new("spark.kubernetes.allocation.batch.size", "20")
            .positive().since("2.3.0").for_cluster();

        /// The pause between two such rounds.
        KUBERNETES_ALLOCATION_BATCH_DELAY: Duration =
            Entry::new("spark.kubernetes.allocation.batch.delay", "1s")
            .positive().since("2.3.0").for_cluster();

        /// How long a pod that has a node may take until its container runs. Then another one takes its place.
        KUBERNETES_ALLOCATION_EXECUTOR_TIMEOUT: Duration =
            Entry::new("spark.kubernetes.allocation.executor.timeout", "600s")
            .positive().since("3.1.0").for_cluster();

        /// How many pods may be pending before no more are asked for. When it is not set: any number.
        KUBERNETES_MAX_PENDING_PODS: Option<u32> =
            Entry::optional("spark.kubernetes.allocation.maxPendingPods")
            .positive().example("50").since("3.2.0").for_cluster();

        /// How often all pods are listed, whatever the watch said.
        KUBERNETES_API_POLLING_INTERVAL: Duration =
            Entry::new("spark.kubernetes.executor.apiPollingInterval", "30s")
            .positive().since("2.4.0").for_cluster();

        /// How long a pod that was created may be missing in lists before it counts as gone.
        KUBERNETES_MISSING_POD_DETECT_DELTA: Duration =
            Entry::new("spark.kubernetes.executor.missingPodDetectDelta", "30s")
            .positive().since("3.1.1").for_cluster();

        /// Whether pods of executors that are over are deleted. When it is not set: all but the last ten that failed by
        /// themselves, which stay for people to look at. Spark deletes all.
        KUBERNETES_DELETE_EXECUTORS: Option<bool> =
            Entry::optional("spark.kubernetes.executor.deleteOnTermination")
            .example("true").since("3.0.0").for_cluster();

        /// How long an executor that is told to end may finish its tasks before it is killed.
        KUBERNETES_EXECUTOR_GRACE_PERIOD: Duration =
            Entry::new("spark.kubernetes.executor.terminationGracePeriodSeconds", "30s")
            .time_unit(TimeUnit::Seconds).since("3.3.0").for_cluster();

        /// How often one executor is told to end and replaced by another one, so that none grows old. It takes no more tasks, and may finish those
        /// it has within its grace period. Left out while executors are missing. `0`: never.
        KUBERNETES_EXECUTOR_ROLL_INTERVAL: Duration =
            Entry::new("spark.kubernetes.executor.rollInterval", "0s")
            .time_unit(TimeUnit::Seconds).since("3.3.0").for_cluster();

        /// Which one: `ID` (the smallest) or `ADD_TIME` (the one that registered first). Spark has more, and `OUTLIER` as its default.
        KUBERNETES_EXECUTOR_ROLL_POLICY: RollPolicy =
            Entry::new("spark.kubernetes.executor.rollPolicy", "ADD_TIME")
            .since("3.3.0").for_cluster();

        /// Whether any container of a pod that fails ends its executor, or only the executor's own.
        KUBERNETES_CHECK_ALL_CONTAINERS: bool =
            Entry::new("spark.kubernetes.executor.checkAllContainers", "true")
            .since("3.1.0").for_cluster();

        /// What happens about a pod that no node can take for ten minutes: `wait` for a node, `shrink` (try again now and then),
        /// or `fail` if there is no executor at all. The log says why in any case.
        KUBERNETES_UNSCHEDULABLE: Unschedulable =
            Entry::new("spark.firesteel.kubernetes.unschedulable", "wait")
            .since("Firesteel 0.1.0").for_cluster();

        /// Whether `submit` in cluster mode has the API server judge the pod of an executor before it creates anything. Set it to `false`
        /// where policies refuse to the user who submits what they allow the driver's account.
        KUBERNETES_SUBMISSION_DRY_RUN: bool =
            Entry::new("spark.firesteel.kubernetes.submission.dryRun", "true")
            .since("Firesteel 0.1.0").for_cluster();

        /// How long an executor whose container runs may take to register with the driver.
        KUBERNETES_REGISTRATION_TIMEOUT: Duration =
            Entry::new("spark.firesteel.kubernetes.registrationTimeout", "100s")
            .positive().since("Firesteel 0.1.0").for_cluster();

        /// How long an image that cannot be pulled is waited for.
        KUBERNETES_IMAGE_TIMEOUT: Duration =
            Entry::new("spark.firesteel.kubernetes.imageTimeout", "120s")
            .positive().since("Firesteel 0.1.0").for_cluster();

        /// Whether the driver's pod owns the claims of volumes that are made on demand
        /// (`spark.kubernetes.executor.volumes.persistentVolumeClaim.NAME.options.claimName=OnDemand`): they stay until the application
        /// ends. Otherwise, and without a driver's pod, each executor's pod owns its own, and they go with it.
        KUBERNETES_DRIVER_OWN_CLAIMS: bool =
            Entry::new("spark.kubernetes.driver.ownPersistentVolumeClaim", "true")
            .since("3.2.0").for_cluster();

        /// Whether a new executor gets the claims of one whose pod is gone. Only of claims that the driver's pod owns.
        KUBERNETES_DRIVER_REUSE_CLAIMS: bool =
            Entry::new("spark.kubernetes.driver.reusePersistentVolumeClaim", "true")
            .since("3.2.0").for_cluster();

        /// Whether there are never more such claims of a volume than executors are wanted: a new executor waits for the claim of one that
        /// ends.
        KUBERNETES_DRIVER_WAIT_TO_REUSE_CLAIMS: bool =
            Entry::new("spark.kubernetes.driver.waitToReusePersistentVolumeClaim", "false")
            .since("3.4.0").for_cluster();

        /// Whether claims are made with the access mode `ReadWriteOnce`, for storage that does not know `ReadWriteOncePod`.
        KUBERNETES_READ_WRITE_ONCE: bool =
            Entry::new("spark.kubernetes.legacy.useReadWriteOnceAccessMode", "false")
            .since("3.4.3").for_cluster();

        /// How long a volume that another executor had may take to come to a pod. Then another pod with another claim takes its place.
        KUBERNETES_CLAIM_TIMEOUT: Duration =
            Entry::new("spark.firesteel.kubernetes.claimTimeout", "120s")
            .positive().since("Firesteel 0.1.0").for_cluster();

        /// How many executors may fail by the application's fault before it ends. When it is not set: twice as many as
        /// there are executors, and 3 at least.
        EXECUTOR_MAX_NUM_FAILURES: Option<u32> = Entry::optional("spark.executor.maxNumFailures")
            .example("10").since("3.5.0").for_cluster();

        /// How long such a failure counts. When it is not set: for ever.
        EXECUTOR_FAILURES_VALIDITY_INTERVAL: Option<Duration> =
            Entry::optional("spark.executor.failuresValidityInterval")
            .positive().example("1h").since("3.5.0").for_cluster();
    }
}
