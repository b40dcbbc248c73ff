//! What is left when all applications have ended: processes, files, ports, open files; and whether master and workers grow.

use std::{
    collections::BTreeMap,
    fs,
    path::Path,
    process::Command,
    time::{Duration, Instant},
};

use super::{
    cluster::{Cluster, HOSTS, MASTER, WORKERS, host_name},
    disks::files,
};
use crate::cluster::processes::megabytes;

/// A process may have so many more files open than at its start.
const MORE_FILES: usize = 30;
/// Master and workers may grow by so much.
const MEGABYTES_PER_MINUTE: f64 = 1.0;
/// A process grows while it starts: that is not looked at.
const WARM: Duration = Duration::from_secs(30);
/// Less than this says nothing about growth.
const SAMPLES: usize = 12;

/// What there was when nothing had happened yet.
#[derive(Debug)]
pub(crate) struct Baseline {
    ports: Vec<usize>,
    open_files: Vec<usize>,
}

impl Baseline {
    pub(crate) fn of(cluster: &Cluster<'_>) -> Self {
        Self {
            ports: (0..HOSTS).map(|host| listening(cluster, host)).collect(),
            open_files: (MASTER..=WORKERS).map(|host| open_files(cluster.pid(host))).collect(),
        }
    }
}

/// Everything that should be gone and is not.
pub(crate) fn find(cluster: &Cluster<'_>, baseline: &Baseline) -> Vec<String> {
    let strangers = cluster.strangers();
    let processes =
        strangers.iter().map(|process| format!("process {}: {}", process.pid, process.command));
    let ports = (0..HOSTS).filter_map(|host| {
        let (had, has) = (baseline.ports[host], listening(cluster, host));
        (has > had).then(|| format!("{} listens at {has} ports, not {had}", host_name(host)))
    });
    let open = (MASTER..=WORKERS).filter_map(|host| {
        let (had, has) = (baseline.open_files[host], open_files(cluster.pid(host)));
        let many = has > had + MORE_FILES;
        many.then(|| format!("{} has {has} files open, not about {had}", host_name(host)))
    });
    processes.chain(left_files(cluster)).chain(ports).chain(open).collect()
}

/// Of an application, its executors' output may stay; beside it, what workers cache.
fn left_files(cluster: &Cluster<'_>) -> impl Iterator<Item = String> {
    let disks = cluster.machine().disks().iter().flat_map(|disk| left_on(&disk.local()));
    let others = [cluster.drivers(), cluster.temporary()];
    let entries = disks.chain(others.into_iter().flat_map(|path| entries(&path)));
    let work = (0..WORKERS).flat_map(|worker| {
        let work = cluster.work_directory(worker);
        let all = files(&work).into_iter().map(|(path, _)| path);
        let left = all.filter(move |path| !may_stay(path.strip_prefix(&work).unwrap_or(path)));
        left.map(|path| path.display().to_string())
    });
    entries.chain(work)
}

/// A worker that runs has one directory on its disk, with nothing in it but its lock.
fn left_on(local: &Path) -> Vec<String> {
    let directories = entries(local);
    let own = |path: &String| path.contains("/firesteel-worker-");
    if directories.len() > 1 || !directories.iter().all(own) {
        return directories;
    }
    let inside = directories.iter().flat_map(|path| entries(path.as_ref()));
    inside.filter(|path| !path.ends_with("/owner.lock")).collect()
}

/// By its path in the worker's work directory: the cache of executables, and what executors and drivers have printed.
fn may_stay(path: &Path) -> bool {
    let output = |name| name == "stdout" || name == "stderr";
    path.starts_with("cache") || path.file_name().is_some_and(output)
}

fn entries(path: &Path) -> Vec<String> {
    let Ok(entries) = fs::read_dir(path) else { return vec![] };
    entries.flatten().map(|entry| entry.path().display().to_string()).collect()
}

fn open_files(pid: i32) -> usize {
    fs::read_dir(format!("/proc/{pid}/fd")).map_or(0, Iterator::count)
}

/// Ports of a host on which somebody listens. Without networks of their own, hosts cannot be told apart.
fn listening(cluster: &Cluster<'_>, host: usize) -> usize {
    let Some(networks) = cluster.machine().networks() else { return 0 };
    let mut command: Command = networks.host(host).command("cat".as_ref());
    command.args(["/proc/net/tcp", "/proc/net/tcp6"]);
    let output = command.output().map(|output| output.stdout).unwrap_or_default();
    count_listening(&String::from_utf8_lossy(&output))
}

/// The state of a socket is the fourth word of its line.
fn count_listening(table: &str) -> usize {
    table.lines().filter(|line| line.split_whitespace().nth(3) == Some("0A")).count()
}

/// Resident memory of master and workers over time, for each process by itself.
#[derive(Debug, Default)]
pub(crate) struct Memory {
    lives: BTreeMap<i32, Life>,
}

#[derive(Debug)]
struct Life {
    host: usize,
    began: Instant,
    /// Minutes and megabytes.
    samples: Vec<(f64, f64)>,
    most: f64,
}

impl Memory {
    pub(crate) fn sample(&mut self, cluster: &Cluster<'_>) {
        for host in cluster.running() {
            let pid = cluster.pid(host);
            let Ok(size) = megabytes(pid) else { continue };
            let began = Instant::now();
            let life =
                self.lives.entry(pid).or_insert(Life { host, began, samples: vec![], most: 0.0 });
            life.most = life.most.max(size);
            let age = life.began.elapsed();
            if age >= WARM {
                life.samples.push((age.as_secs_f64() / 60.0, size));
            }
        }
    }

    /// Prints what was seen; those that grow too fast.
    pub(crate) fn report(&self) -> Vec<String> {
        let mut growing = Vec::new();
        for (name, is_master) in [("master", true), ("workers", false)] {
            let lives = || self.lives.values().filter(|life| (life.host == MASTER) == is_master);
            let most = lives().map(|life| life.most).fold(0.0, f64::max);
            let samples: Vec<&[(f64, f64)]> = lives().map(|life| &life.samples[..]).collect();
            let slope = slope(&samples);
            let shown = slope.map_or("not lived long enough to tell".to_owned(), |slope| {
                format!("{slope:+.3} MB a minute")
            });
            println!("memory of {name}: at most {most:.1} MB, slope {shown}");
            if slope.is_some_and(|slope| slope > MEGABYTES_PER_MINUTE) {
                growing.push(format!("memory of {name} grows: {shown}"));
            }
        }
        growing
    }
}

/// How fast all of them grow together, each from where it started: least squares within each life.
fn slope(lives: &[&[(f64, f64)]]) -> Option<f64> {
    let (mut count, mut together, mut square) = (0, 0.0, 0.0);
    for life in lives.iter().filter(|life| !life.is_empty()) {
        let mean =
            |of: fn(&(f64, f64)) -> f64| life.iter().map(of).sum::<f64>() / life.len() as f64;
        let (x, y) = (mean(|sample| sample.0), mean(|sample| sample.1));
        count += life.len();
        together += life.iter().map(|sample| (sample.0 - x) * (sample.1 - y)).sum::<f64>();
        square += life.iter().map(|sample| (sample.0 - x).powi(2)).sum::<f64>();
    }
    (count >= SAMPLES && square > 0.1).then(|| together / square)
}

#[cfg(test)]
mod tests {
    use super::{count_listening, left_on, may_stay, slope};

    #[test]
    fn growth_is_seen_across_restarts_and_a_restart_is_no_growth() {
        let life = |start: f64, slope: f64| -> Vec<(f64, f64)> {
            (0..10).map(|i| f64::from(i) / 5.0).map(|x| (x, start + slope * x)).collect()
        };
        let (first, second) = (life(5.0, 2.0), life(9.0, 2.0));
        let found = slope(&[&first, &second]).unwrap();
        assert!((found - 2.0).abs() < 1e-9, "{found}");
        let (first, second) = (life(5.0, 0.0), life(9.0, 0.0));
        assert_eq!(slope(&[&first, &second]), Some(0.0));
        assert_eq!(slope(&[&first[..3]]), None, "too short to tell");
    }

    #[test]
    fn only_output_and_the_cache_may_stay() {
        let may_stay = |path: &str| may_stay(path.as_ref());
        assert!(may_stay("app-1/3/stderr") && may_stay("cache/00ff"));
        assert!(!may_stay("app-1/local/firesteel-local-1/shuffle-1"));
        assert!(!may_stay("app-1/cache/00ff"), "whatever else is called a cache");
    }

    #[test]
    fn a_disk_may_have_the_directory_of_its_worker_and_nothing_else() {
        let local = std::env::temp_dir().join(format!("firesteel-left-{}", std::process::id()));
        let make = |path: &str| std::fs::create_dir_all(local.join(path)).unwrap();
        make("firesteel-worker-1-1");
        std::fs::write(local.join("firesteel-worker-1-1/owner.lock"), "").unwrap();
        assert_eq!(left_on(&local), Vec::<String>::new());
        make("firesteel-worker-1-1/app-1");
        assert_eq!(left_on(&local).len(), 1);
        make("firesteel-worker-2-2");
        assert_eq!(left_on(&local).len(), 2);
        std::fs::remove_dir_all(local).unwrap();
    }

    #[test]
    fn sockets_that_listen_are_counted() {
        let table = "  sl  local_address rem_address   st tx_queue\n   0: 0100007F:1F90 00000000:0000 0A 00000000\n   \
                     1: 0100007F:1F90 0100007F:9999 01 00000000\n";
        assert_eq!(count_listening(table), 1);
    }
}
