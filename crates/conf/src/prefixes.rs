//! Beginnings of keys that go on with a name of the user's: they cannot be registered one by one.

/// Beginnings of keys that go on with a name of the user's, and what they are read for.
pub(crate) const PREFIXES: [(&str, &str); 19] = [
    (
        EXECUTOR_ENV_PREFIX,
        "An environment variable of executors, `NAME=value`, on a cluster. Refused: names that begin with \
         `FIRESTEEL_`, `SPARK_LOCAL_DIRS` and `_SPARK_AUTH_SECRET`.",
    ),
    (
        "spark.metrics.conf.",
        "A line of `metrics.properties`, such as `spark.metrics.conf.driver.sink.csv.class=org.apache.spark.metrics.sink.CsvSink`: \
         see [monitoring.md](monitoring.md#metrics).",
    ),
    ("spark.hadoop.fs.", "Settings of object stores, with Hadoop's names: see [rdd.md](rdd.md)."),
    ("spark.kubernetes.driverEnv.", "An environment variable of a driver that runs on Kubernetes."),
    ("spark.kubernetes.driver.label.", "A label of the driver's pod."),
    ("spark.kubernetes.driver.annotation.", "An annotation of the driver's pod."),
    ("spark.kubernetes.driver.service.label.", "A label of the driver's service."),
    ("spark.kubernetes.driver.service.annotation.", "An annotation of the driver's service."),
    ("spark.kubernetes.executor.label.", "A label of executors' pods."),
    ("spark.kubernetes.executor.annotation.", "An annotation of executors' pods."),
    ("spark.kubernetes.node.selector.", "A label that nodes of the driver and of executors have."),
    ("spark.kubernetes.driver.node.selector.", "A label that the driver's node has."),
    ("spark.kubernetes.executor.node.selector.", "A label that executors' nodes have."),
    (
        "spark.kubernetes.driver.secrets.",
        "A secret, and the directory in which the driver finds it.",
    ),
    (
        "spark.kubernetes.executor.secrets.",
        "A secret, and the directory in which executors find it.",
    ),
    (
        "spark.kubernetes.driver.secretKeyRef.",
        "A variable of the driver whose value is a key of a secret: `secret:key`.",
    ),
    (
        "spark.kubernetes.executor.secretKeyRef.",
        "A variable of executors whose value is a key of a secret: `secret:key`.",
    ),
    (
        "spark.kubernetes.driver.volumes.",
        "A volume of the driver's pod: see [kubernetes.md](kubernetes.md).",
    ),
    (
        "spark.kubernetes.executor.volumes.",
        "A volume of executors' pods: see [kubernetes.md](kubernetes.md).",
    ),
];

/// What the name of an environment variable of executors follows.
pub(crate) const EXECUTOR_ENV_PREFIX: &str = "spark.executorEnv.";
