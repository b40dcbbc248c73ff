//! The master URL: where an application runs.
//!
//! Parsing only says what was asked for; it never resolves a host or counts the machine's cores.

use std::fmt;
use std::num::NonZeroU32;
use std::str::FromStr;

/// Where an application runs.
///
/// ```
/// use firesteel_conf::Master;
/// let master: Master = "local[4,2]".parse()?;
/// assert_eq!(master.to_string(), "local[4,2]");
/// assert_eq!(master.local_max_failures(), Some(2));
/// # Ok::<(), firesteel_conf::MasterError>(())
/// ```
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Master {
    /// `local`, `local[N]`, `local[*]`, `local[N,F]`, `local[*,F]`: threads of this process.
    Local {
        /// How many tasks run at once.
        threads: Threads,
        /// F: how often one task may fail before its job is aborted; 1 when it is not given.
        max_failures: Option<NonZeroU32>,
    },
    /// `local-cluster[workers,cores,memoryMB]`: a standalone cluster of processes on this machine.
    LocalCluster {
        /// How many worker processes.
        workers: NonZeroU32,
        /// Cores of each worker.
        cores: NonZeroU32,
        /// Memory of each worker in MiB.
        memory_mb: NonZeroU32,
    },
    /// `spark://h1:p1,h2:p2`: a standalone cluster and its standby masters.
    Standalone {
        /// The masters, as they were written; never empty.
        masters: Vec<HostPort>,
    },
    /// `k8s://URL`: a Kubernetes API server.
    Kubernetes {
        /// The server's URL; `https://` was added when no scheme was written.
        url: String,
    },
    /// `scheme://...` of any other scheme: a cluster manager that is plugged in may know it.
    External {
        /// As it was written.
        url: String,
    },
}

/// The N of `local[N]`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Threads {
    /// `*`: as many as the machine has cores.
    All,
    /// This many threads.
    Count(NonZeroU32),
}

impl Threads {
    /// The number, given the machine's number of cores.
    pub fn resolve(self, cores: NonZeroU32) -> NonZeroU32 {
        match self {
            Self::All => cores,
            Self::Count(count) => count,
        }
    }
}

/// A host (name, IPv4 address or bracketed IPv6 address) and its port.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct HostPort {
    /// The host as it was written.
    pub host: String,
    /// Never 0.
    pub port: u16,
}

/// Why a text is not a master URL.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum MasterError {
    /// An empty text, or spaces only.
    #[error("the master URL is empty: write {POSSIBLE}")]
    Empty,
    /// The N of `local[N]`.
    #[error("`{text}` is not a number of threads: write 1 or more, or `*` for all cores")]
    Threads {
        /// The N as written.
        text: String,
    },
    /// The F of `local[N,F]`.
    #[error("`{text}` is not a number of task failures: in local[N,F], F is 1 or more")]
    MaxFailures {
        /// The F as written.
        text: String,
    },
    /// The numbers of `local-cluster[...]`.
    #[error(
        "`{text}` does not describe a local cluster: write local-cluster[workers,cores,memoryMB] \
         with three numbers of 1 or more, such as local-cluster[2,1,1024]"
    )]
    LocalCluster {
        /// What was written between the brackets.
        text: String,
    },
    /// An address of `spark://`.
    #[error(
        "`{text}` is not the address of a standalone master: write spark://host:port, with \
         standby masters separated by commas, such as spark://h1:7077,h2:7077"
    )]
    Address {
        /// The one address of several that is wrong, as written.
        text: String,
    },
    /// The URL of `k8s://`.
    #[error(
        "`{text}` is not the URL of a Kubernetes API server: write k8s://https://host:port or \
         k8s://host:port"
    )]
    Kubernetes {
        /// What was written after `k8s://`.
        text: String,
    },
    /// A cluster manager Spark has or had and we have not.
    #[error("{manager} is not supported: write {POSSIBLE}")]
    Unsupported {
        /// Its name for people, such as YARN.
        manager: &'static str,
    },
    /// A text that no other variant explains.
    #[error("`{text}` is not a master URL: write {POSSIBLE}")]
    Unknown {
        /// The whole text as written.
        text: String,
    },
}

const POSSIBLE: &str = "local, local[N], local[*], local[N,F], local[*,F], \
     local-cluster[workers,cores,memoryMB], spark://host:port or k8s://URL";

impl Master {
    /// How often one task may fail before its job is aborted, when the master decides that: F of
    /// `local[N,F]`, and 1 for the other local masters. `None` leaves it to `spark.task.maxFailures`.
    pub fn local_max_failures(&self) -> Option<u32> {
        match self {
            Self::Local { max_failures, .. } => Some(max_failures.map_or(1, NonZeroU32::get)),
            _ => None,
        }
    }

    /// Whether tasks run in this process.
    pub fn is_local(&self) -> bool {
        matches!(self, Self::Local { .. })
    }
}

impl FromStr for Master {
    type Err = MasterError;

    fn from_str(text: &str) -> Result<Self, MasterError> {
        let text = text.trim();
        if text == "local" {
            return Ok(Self::Local {
                threads: Threads::Count(NonZeroU32::MIN),
                max_failures: None,
            });
        }
        if let Some(inside) = bracketed(text, "local") {
            return parse_local(inside);
        }
        if let Some(inside) = bracketed(text, "local-cluster") {
            return parse_local_cluster(inside);
        }
        if let Some(addresses) = text.strip_prefix("spark://") {
            let masters = addresses.split(',').map(parse_address).collect::<Result<_, _>>()?;
            return Ok(Self::Standalone { masters });
        }
        if let Some(url) = text.strip_prefix("k8s://") {
            return parse_kubernetes(url);
        }
        match is_url(text) {
            true => Ok(Self::External { url: text.to_owned() }),
            false => Err(refuse(text)),
        }
    }
}

/// The text between the brackets of `name[...]`.
fn bracketed<'a>(text: &'a str, name: &str) -> Option<&'a str> {
    text.strip_prefix(name)?.strip_prefix('[')?.strip_suffix(']')
}

fn parse_local(inside: &str) -> Result<Master, MasterError> {
    let (threads, failures) = match inside.split_once(',') {
        Some((threads, failures)) => (threads, Some(failures)),
        None => (inside, None),
    };
    Ok(Master::Local {
        threads: parse_threads(threads.trim())?,
        max_failures: failures.map(parse_max_failures).transpose()?,
    })
}

fn parse_threads(text: &str) -> Result<Threads, MasterError> {
    if text == "*" {
        return Ok(Threads::All);
    }
    let count = text.parse().map_err(|_| MasterError::Threads { text: text.to_owned() })?;
    Ok(Threads::Count(count))
}

fn parse_max_failures(text: &str) -> Result<NonZeroU32, MasterError> {
    text.trim().parse().map_err(|_| MasterError::MaxFailures { text: text.trim().to_owned() })
}

fn parse_local_cluster(inside: &str) -> Result<Master, MasterError> {
    let refused = || MasterError::LocalCluster { text: inside.to_owned() };
    let numbers: Vec<NonZeroU32> = inside
        .split(',')
        .map(|number| number.trim().parse().map_err(|_| refused()))
        .collect::<Result<_, _>>()?;
    match numbers[..] {
        [workers, cores, memory_mb] => Ok(Master::LocalCluster { workers, cores, memory_mb }),
        _ => Err(refused()),
    }
}

fn parse_address(text: &str) -> Result<HostPort, MasterError> {
    let refused = || MasterError::Address { text: text.to_owned() };
    let (host, port) = text.trim().rsplit_once(':').ok_or_else(refused)?;
    let port = port.parse().ok().filter(|port| *port > 0).ok_or_else(refused)?;
    if is_host(host) { Ok(HostPort { host: host.to_owned(), port }) } else { Err(refused()) }
}

/// Only what could be mistaken for another part of the URL is refused; resolving is for others.
fn is_host(host: &str) -> bool {
    let name = match host.strip_prefix('[').and_then(|rest| rest.strip_suffix(']')) {
        Some(address) => return address.parse::<std::net::Ipv6Addr>().is_ok(),
        None => host,
    };
    let forbidden = |c: char| c.is_whitespace() || c.is_control() || "/:@[],?#".contains(c);
    !name.is_empty() && !name.contains(forbidden)
}

fn parse_kubernetes(text: &str) -> Result<Master, MasterError> {
    let refused = || MasterError::Kubernetes { text: text.to_owned() };
    let (scheme, rest) = text.split_once("://").unwrap_or(("https", text));
    let usable = ["http", "https"].contains(&scheme)
        && !rest.is_empty()
        && !rest.starts_with([':', '/'])
        && !rest.contains(|c: char| c.is_whitespace() || c.is_control());
    if usable {
        Ok(Master::Kubernetes { url: format!("{scheme}://{rest}") })
    } else {
        Err(refused())
    }
}

/// Whether it is a URL of a scheme that nobody else has.
fn is_url(text: &str) -> bool {
    let Some((scheme, rest)) = text.split_once("://") else { return false };
    let taken = ["spark", "k8s", "local", "yarn", "mesos", "zk", "http", "https"];
    let sound = |c: char| c.is_ascii_lowercase() || c.is_ascii_digit() || "+-.".contains(c);
    scheme.starts_with(|c: char| c.is_ascii_lowercase())
        && scheme.chars().all(sound)
        && !taken.contains(&scheme)
        && !rest.is_empty()
        && !rest.contains(|c: char| c.is_whitespace() || c.is_control())
}

fn refuse(text: &str) -> MasterError {
    if text.is_empty() {
        return MasterError::Empty;
    }
    match text.split([':', '-']).next() {
        Some("yarn") => MasterError::Unsupported { manager: "YARN" },
        Some("mesos" | "zk") => MasterError::Unsupported { manager: "Mesos" },
        _ => MasterError::Unknown { text: text.to_owned() },
    }
}

impl fmt::Display for Master {
    /// A URL that parses to the same master; `local` is written `local[1]`, which it means.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Local { threads, max_failures: None } => write!(f, "local[{threads}]"),
            Self::Local { threads, max_failures: Some(failures) } => {
                write!(f, "local[{threads},{failures}]")
            }
            Self::LocalCluster { workers, cores, memory_mb } => {
                write!(f, "local-cluster[{workers},{cores},{memory_mb}]")
            }
            Self::Standalone { masters } => {
                let addresses: Vec<String> = masters.iter().map(HostPort::to_string).collect();
                write!(f, "spark://{}", addresses.join(","))
            }
            Self::Kubernetes { url } => write!(f, "k8s://{url}"),
            Self::External { url } => f.write_str(url),
        }
    }
}

impl fmt::Display for Threads {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::All => f.write_str("*"),
            Self::Count(count) => count.fmt(f),
        }
    }
}

impl fmt::Display for HostPort {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}:{}", self.host, self.port)
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn parse(text: &str) -> Result<Master, MasterError> {
        text.parse()
    }

    fn host(host: &str, port: u16) -> HostPort {
        HostPort { host: host.to_owned(), port }
    }

    fn local(threads: u32, max_failures: Option<u32>) -> Master {
        let threads = NonZeroU32::new(threads).map_or(Threads::All, Threads::Count);
        Master::Local { threads, max_failures: max_failures.and_then(NonZeroU32::new) }
    }

    #[test]
    fn every_form_of_master_is_understood_and_written_back() {
        let one = NonZeroU32::MIN;
        let cluster = Master::LocalCluster { workers: one, cores: one, memory_mb: one };
        for (text, master, written) in [
            ("local", local(1, None), "local[1]"),
            (" local[3] ", local(3, None), "local[3]"),
            ("local[*]", local(0, None), "local[*]"),
            ("local[2, 4]", local(2, Some(4)), "local[2,4]"),
            ("local[*,4]", local(0, Some(4)), "local[*,4]"),
            ("local-cluster[ 1, 1 ,1]", cluster, "local-cluster[1,1,1]"),
            (
                "spark://h1:7077,h2:7078",
                Master::Standalone { masters: vec![host("h1", 7077), host("h2", 7078)] },
                "spark://h1:7077,h2:7078",
            ),
            (
                "spark://[::1]:7077",
                Master::Standalone { masters: vec![host("[::1]", 7077)] },
                "spark://[::1]:7077",
            ),
            (
                "k8s://https://api:6443",
                Master::Kubernetes { url: "https://api:6443".to_owned() },
                "k8s://https://api:6443",
            ),
            (
                "k8s://api",
                Master::Kubernetes { url: "https://api".to_owned() },
                "k8s://https://api",
            ),
            (
                "nomad://dc1:4646/jobs",
                Master::External { url: "nomad://dc1:4646/jobs".to_owned() },
                "nomad://dc1:4646/jobs",
            ),
        ] {
            assert_eq!(parse(text), Ok(master.clone()), "{text}");
            assert_eq!(master.to_string(), written);
            assert_eq!(parse(written), Ok(master));
        }
    }

    #[test]
    fn a_bad_master_says_what_is_possible() {
        for (text, part) in [
            ("", "the master URL is empty: write local, local[N]"),
            ("  ", "the master URL is empty"),
            ("local[0]", "`0` is not a number of threads: write 1 or more, or `*`"),
            ("local[-1]", "`-1` is not a number of threads"),
            ("local[abc]", "`abc` is not a number of threads"),
            ("local[]", "`` is not a number of threads"),
            ("local[2,0]", "`0` is not a number of task failures: in local[N,F], F is 1 or more"),
            ("local[2,*]", "`*` is not a number of task failures"),
            ("local[2", "`local[2` is not a master URL: write local, "),
            ("local-cluster[2,1]", "write local-cluster[workers,cores,memoryMB] with three"),
            ("local-cluster[2,0,1024]", "`2,0,1024` does not describe a local cluster"),
            ("spark://", "`` is not the address of a standalone master: write spark://host:port"),
            ("spark://h1", "`h1` is not the address of a standalone master"),
            ("spark://h1:7077,", "`` is not the address"),
            ("spark://h1:0", "`h1:0` is not the address"),
            ("spark://h1:70777", "`h1:70777` is not the address"),
            ("spark://::1:7077", "`::1:7077` is not the address"),
            ("k8s://", "is not the URL of a Kubernetes API server: write k8s://https://"),
            ("k8s://ftp://api", "`ftp://api` is not the URL"),
            ("yarn", "YARN is not supported: write local, "),
            ("yarn-client", "YARN is not supported"),
            ("mesos://zk:5050", "Mesos is not supported: write local, "),
            ("http://h1", "`http://h1` is not a master URL: write local, "),
            ("nomad://", "`nomad://` is not a master URL"),
            ("Local", "`Local` is not a master URL"),
        ] {
            let error = parse(text).unwrap_err().to_string();
            assert!(error.contains(part), "{text}: {error}");
        }
    }

    #[test]
    fn only_a_local_master_decides_how_often_a_task_may_fail() {
        let failures = |text: &str| parse(text).unwrap().local_max_failures();
        assert_eq!(failures("local[4]"), Some(1));
        assert_eq!(failures("local[4,3]"), Some(3));
        assert_eq!(failures("local-cluster[1,1,512]"), None);
        assert_eq!(failures("spark://h:1"), None);
    }

    fn any_master() -> impl Strategy<Value = Master> {
        let positive = || (1u32..).prop_map(|n| NonZeroU32::new(n).unwrap());
        let address = ("[a-z0-9.-]{1,9}", 1u16..).prop_map(|(host, port)| HostPort { host, port });
        prop_oneof![
            (0u32.., proptest::option::of(1u32..)).prop_map(|(n, f)| local(n, f)),
            (positive(), positive(), positive()).prop_map(|(workers, cores, memory_mb)| {
                Master::LocalCluster { workers, cores, memory_mb }
            }),
            proptest::collection::vec(address, 1..4)
                .prop_map(|masters| Master::Standalone { masters }),
            "https?://[a-z0-9.]{1,9}(:[0-9]{1,4})?".prop_map(|url| Master::Kubernetes { url }),
        ]
    }

    proptest! {
        #[test]
        fn any_text_is_read_or_refused(text in "(local|local-cluster|spark://|k8s://|)\\PC*") {
            if let Ok(master) = parse(&text) {
                prop_assert_eq!(parse(&master.to_string()), Ok(master));
            }
        }

        #[test]
        fn a_written_master_reads_back(master in any_master()) {
            prop_assert_eq!(parse(&master.to_string()), Ok(master));
        }
    }
}
