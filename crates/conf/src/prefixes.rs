//! Beginnings of keys that go on with a name of the user's: they cannot be registered one by one.

/// Beginnings of keys that go on with a name of the user's, and what they are read for.
pub(crate) const PREFIXES: [(&str, &str); 3] = [
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
];

/// What the name of an environment variable of executors follows.
pub(crate) const EXECUTOR_ENV_PREFIX: &str = "spark.executorEnv.";
