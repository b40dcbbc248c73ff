//! Entries whose values are a few words, each an enumeration of its own.

use std::fmt;
use std::time::Duration;

use crate::value::{Refusal, Rules, Value};

/// An enumeration that is written as one of a few words, in any case.
pub trait Choice: Copy + PartialEq + 'static {
    /// Every variant with its word.
    const WORDS: &'static [(&'static str, Self)];

    /// The word of this variant.
    fn word(self) -> &'static str {
        let found = Self::WORDS.iter().find(|(_, choice)| *choice == self);
        found.expect("every variant has a word").0
    }
}

impl<T: Choice> Value for T {
    fn parse(text: &str, rules: &Rules) -> Result<Self, Refusal> {
        let found = T::WORDS.iter().find(|(word, _)| word.eq_ignore_ascii_case(text));
        found.map(|(_, choice)| *choice).ok_or_else(|| Refusal::of_kind::<Self>(rules))
    }

    fn kind(_: &Rules) -> String {
        let words: Vec<&str> = T::WORDS.iter().map(|(word, _)| *word).collect();
        match words.split_last() {
            Some((last, [])) => (*last).to_owned(),
            Some((last, others)) => format!("{} or {last}", others.join(", ")),
            None => "nothing".to_owned(),
        }
    }
}

/// In which order the jobs of an application, or of one pool, get free cores.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum SchedulingMode {
    /// First come, first served.
    Fifo,
    /// Shared by weight and minimum share.
    Fair,
}

impl Choice for SchedulingMode {
    const WORDS: &'static [(&'static str, Self)] = &[("FIFO", Self::Fifo), ("FAIR", Self::Fair)];
}

/// When a new file of output begins.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum RollingStrategy {
    /// When one is full.
    Size,
    /// When an hour, a day or the like is over.
    Time,
}

impl Choice for RollingStrategy {
    const WORDS: &'static [(&'static str, Self)] = &[("size", Self::Size), ("time", Self::Time)];
}

/// What a process tells on standard error.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum LogLevel {
    /// Nothing.
    Off,
    /// What failed.
    Error,
    /// What may become a failure.
    Warn,
    /// What happens.
    Info,
    /// What happens, in detail.
    Debug,
    /// Everything.
    Trace,
}

/// Spark's names; there is nothing worse than an error here.
impl Choice for LogLevel {
    const WORDS: &'static [(&'static str, Self)] = &[
        ("OFF", Self::Off),
        ("ERROR", Self::Error),
        ("FATAL", Self::Error),
        ("WARN", Self::Warn),
        ("INFO", Self::Info),
        ("DEBUG", Self::Debug),
        ("TRACE", Self::Trace),
        ("ALL", Self::Trace),
    ];
}

/// For how long one file of output is written to.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct RollingInterval(pub Duration);

impl RollingInterval {
    /// Spark's shortest.
    const SHORTEST: Duration = Duration::from_secs(60);
}

impl Value for RollingInterval {
    fn parse(text: &str, rules: &Rules) -> Result<Self, Refusal> {
        let seconds = match text.to_ascii_lowercase().as_str() {
            "daily" => 86_400,
            "hourly" => 3600,
            "minutely" => 60,
            number => number.parse::<u32>().map_err(|_| Refusal::of_kind::<Self>(rules))?,
        };
        let interval = Duration::from_secs(seconds.into());
        match interval < Self::SHORTEST {
            true => Err(Refusal { reason: "expected 60 seconds or more".to_owned() }),
            false => Ok(RollingInterval(interval)),
        }
    }

    fn kind(_: &Rules) -> String {
        "daily, hourly, minutely or a number of seconds".to_owned()
    }
}

/// What looks at requests over HTTP before anything else does.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum RestFilter {
    /// Asks for a token that is signed (JSON Web Signature).
    Jws,
}

impl Choice for RestFilter {
    const WORDS: &'static [(&'static str, Self)] = &[("org.apache.spark.ui.JWSFilter", Self::Jws)];
}

/// How files of shuffles and spills are compressed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum CompressionCodec {
    /// Little CPU time, larger files.
    Lz4,
    /// More CPU time, smaller files.
    Zstd,
}

impl Choice for CompressionCodec {
    const WORDS: &'static [(&'static str, Self)] = &[("lz4", Self::Lz4), ("zstd", Self::Zstd)];
}

/// Where the driver of a submitted application runs.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum DeployMode {
    /// In the process that submits.
    Client,
    /// On a machine of the cluster.
    Cluster,
}

impl Choice for DeployMode {
    const WORDS: &'static [(&'static str, Self)] =
        &[("client", Self::Client), ("cluster", Self::Cluster)];
}

/// Where a master's state outlives it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum RecoveryMode {
    /// Nowhere.
    None,
    /// In a directory.
    FileSystem,
    /// In a ZooKeeper ensemble, which elects one of several masters.
    ZooKeeper,
    /// In an etcd cluster, which does the same.
    Etcd,
    /// In a store of the program that starts the master.
    Custom,
}

impl Choice for RecoveryMode {
    const WORDS: &'static [(&'static str, Self)] = &[
        ("NONE", Self::None),
        ("FILESYSTEM", Self::FileSystem),
        ("ZOOKEEPER", Self::ZooKeeper),
        ("ETCD", Self::Etcd),
        ("CUSTOM", Self::Custom),
    ];
}

/// When a node pulls an image.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum PullPolicy {
    /// For every container.
    Always,
    /// Unless it has it.
    IfNotPresent,
    /// Never: it has it, or the container does not start.
    Never,
}

impl Choice for PullPolicy {
    const WORDS: &'static [(&'static str, Self)] =
        &[("Always", Self::Always), ("IfNotPresent", Self::IfNotPresent), ("Never", Self::Never)];
}

/// What happens about a pod that no node can take.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Unschedulable {
    /// The pod waits until a node takes it.
    Wait,
    /// It is withdrawn, and tried again now and then.
    Shrink,
    /// The same, and an application without executors ends.
    Fail,
}

impl Choice for Unschedulable {
    const WORDS: &'static [(&'static str, Self)] =
        &[("wait", Self::Wait), ("shrink", Self::Shrink), ("fail", Self::Fail)];
}

/// Which executor is replaced by another one now and then.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum RollPolicy {
    /// The one with the smallest id.
    Id,
    /// The one that registered first.
    AddTime,
}

impl Choice for RollPolicy {
    const WORDS: &'static [(&'static str, Self)] = &[("ID", Self::Id), ("ADD_TIME", Self::AddTime)];
}

/// How the tasks of a local master reach the threads that run them.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum LocalTransport {
    /// By reference: nothing is encoded.
    Direct,
    /// Encoded and decoded, as if they had travelled.
    Encoded,
    /// To child processes of the same executable.
    Process,
}

impl Choice for LocalTransport {
    const WORDS: &'static [(&'static str, Self)] =
        &[("direct", Self::Direct), ("encoded", Self::Encoded), ("process", Self::Process)];
}

macro_rules! display_as_word {
    ($($type:ty),*) => {$(
        impl fmt::Display for $type {
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str(self.word())
            }
        }
    )*};
}

display_as_word!(SchedulingMode, DeployMode, LocalTransport, PullPolicy, RecoveryMode);

#[cfg(test)]
mod tests {
    use super::*;

    fn every_word_reads_back<T: Choice + fmt::Debug>() {
        for (word, choice) in T::WORDS {
            assert_eq!(T::parse(&word.to_uppercase(), &Rules::NONE), Ok(*choice));
            assert_eq!(choice.word(), *word);
        }
    }

    #[test]
    fn every_choice_reads_back_in_any_case() {
        every_word_reads_back::<SchedulingMode>();
        every_word_reads_back::<DeployMode>();
        every_word_reads_back::<LocalTransport>();
    }

    #[test]
    fn another_word_is_refused_with_the_possible_ones() {
        let refusal = SchedulingMode::parse("fairish", &Rules::NONE).unwrap_err();
        assert_eq!(refusal.reason, "expected FIFO or FAIR");
        let refusal = LocalTransport::parse("thread", &Rules::NONE).unwrap_err();
        assert_eq!(refusal.reason, "expected direct, encoded or process");
    }
}
