//! Brings faults about, and undoes them when their time is over.

use std::time::{Duration, Instant};

use anyhow::{Context, Result};
use rustix::process::Signal;

use super::{
    applications::Applications,
    cluster::{Cluster, DRIVERS, HOSTS, MASTER, WORKERS, driver_host, host_name},
    disks::{Medium, damage},
    recovery::Recoveries,
    schedule::{Kind, Planned},
};

/// What has to be done when a fault is over.
#[derive(Debug, Clone, PartialEq)]
enum Undo {
    /// The process goes on.
    Continue(i32),
    /// The supervisor of its host starts it again.
    Nothing(usize),
    Heal(usize, usize),
    Hurry(usize),
    Free(usize),
    Thaw(usize),
    SetClock(usize),
}

/// A fault that lasts.
#[derive(Debug)]
struct Active {
    until: Instant,
    undo: Undo,
    /// Takes away what executors need to be replaced.
    disturbs: bool,
}

/// What a fault struck, and what is to be undone.
struct Struck {
    what: String,
    undo: Option<Undo>,
    disturbs: bool,
}

impl Struck {
    fn once(what: String) -> Self {
        Self { what, undo: None, disturbs: false }
    }

    fn until(undo: Undo, what: String) -> Self {
        Self { what, undo: Some(undo), disturbs: true }
    }
}

/// What faults act on.
pub(crate) struct Scene<'a, 'b> {
    pub(crate) cluster: &'a mut Cluster<'b>,
    pub(crate) applications: &'a mut Applications,
    pub(crate) recoveries: &'a mut Recoveries,
    /// Since the run began.
    pub(crate) now: Duration,
}

/// The faults that last.
#[derive(Debug, Default)]
pub(crate) struct Faults(Vec<Active>);

impl Faults {
    /// Brings one about; what it struck, or nothing if nobody is there whom it could strike.
    pub(crate) fn strike(
        &mut self,
        planned: &Planned,
        scene: &mut Scene<'_, '_>,
    ) -> Result<Option<String>> {
        let Some(struck) = self.bring_about(planned, scene)? else { return Ok(None) };
        let Some(undo) = struck.undo else { return Ok(Some(struck.what)) };
        let lasting = Duration::from_millis(planned.lasting_ms);
        let until = Instant::now() + lasting;
        self.0.push(Active { until, undo, disturbs: struck.disturbs });
        Ok(Some(format!("{} for {:.1} s", struck.what, lasting.as_secs_f64())))
    }

    fn bring_about(&self, planned: &Planned, scene: &mut Scene<'_, '_>) -> Result<Option<Struck>> {
        match planned.kind {
            Kind::ExecutorKill => self.kill_executor(planned, scene),
            Kind::ExecutorStop => self.stop_executor(planned, scene),
            Kind::WorkerKill => self.kill_worker(planned, scene),
            Kind::MasterKill => self.kill_master(planned, scene),
            Kind::WorkerStop => self.stop_daemon(planned, scene, 1..=WORKERS),
            Kind::MasterStop => self.stop_daemon(planned, scene, MASTER..=MASTER),
            Kind::DriverKill => self.kill_driver(planned, scene),
            Kind::DriverStop => self.stop_driver(planned, scene),
            Kind::NetworkCut => self.cut(planned, scene),
            Kind::NetworkDelay => self.delay(planned, scene),
            Kind::DiskFull => self.fill_disk(planned, scene),
            Kind::DiskSlow => self.freeze_disk(planned, scene),
            Kind::BlockDamage => damage_block(planned, scene),
            Kind::ClockJump => self.move_clock(planned, scene),
        }
    }

    /// Is a fault at work that takes executors or their replacements away?
    pub(crate) fn disturb(&self) -> bool {
        self.0.iter().any(|active| active.disturbs)
    }

    fn is_active(&self, undo: &Undo) -> bool {
        self.0.iter().any(|active| active.undo == *undo)
    }

    /// Undoes those whose time is over, or all.
    pub(crate) fn undo(&mut self, cluster: &Cluster<'_>, all: bool) -> Result<()> {
        let now = Instant::now();
        let over = self.0.extract_if(.., |active| all || active.until <= now);
        for active in over.collect::<Vec<_>>() {
            undo(&active.undo, cluster)
                .with_context(|| format!("cannot undo {:?}", active.undo))?;
        }
        Ok(())
    }

    fn kill_executor(
        &self,
        planned: &Planned,
        scene: &mut Scene<'_, '_>,
    ) -> Result<Option<Struck>> {
        let executors = scene.cluster.executors();
        let Some(victim) = planned.choose(&executors) else { return Ok(None) };
        let replaceable = !self.disturb() && scene.cluster.spare_cores(None).is_ok_and(|n| n > 0);
        if !scene.cluster.signal(victim.pid, Signal::KILL) {
            return Ok(None);
        }
        let app = scene.applications.number_of(&victim.app);
        if let Some(app) = app {
            scene.recoveries.died(app, scene.now);
        }
        if !replaceable {
            scene.recoveries.disturbed();
        }
        Ok(Some(Struck::once(format!("{} of {}", victim.number, victim.app))))
    }

    fn stop_executor(
        &self,
        planned: &Planned,
        scene: &mut Scene<'_, '_>,
    ) -> Result<Option<Struck>> {
        let mut executors = scene.cluster.executors();
        executors.retain(|executor| !self.is_active(&Undo::Continue(executor.pid)));
        let Some(victim) = planned.choose(&executors) else { return Ok(None) };
        if !scene.cluster.signal(victim.pid, Signal::STOP) {
            return Ok(None);
        }
        let what = format!("{} of {}", victim.number, victim.app);
        Ok(Some(Struck::until(Undo::Continue(victim.pid), what)))
    }

    /// The executors of a worker die with it.
    fn kill_worker(&self, planned: &Planned, scene: &mut Scene<'_, '_>) -> Result<Option<Struck>> {
        let workers: Vec<usize> = scene.cluster.running().filter(|host| *host != MASTER).collect();
        let Some(&host) = planned.choose(&workers) else { return Ok(None) };
        let mut victims = scene.cluster.executors();
        victims.retain(|executor| executor.host == host);
        let spare = || scene.cluster.spare_cores(Some(host));
        let replaceable = !self.disturb() && spare().is_ok_and(|n| n >= victims.len() as u64);
        scene.recoveries.disturbed();
        let lasting = Duration::from_millis(planned.lasting_ms);
        scene.cluster.kill(host, Instant::now() + lasting)?;
        for app in victims.iter().filter_map(|one| scene.applications.number_of(&one.app)) {
            scene.recoveries.died(app, scene.now);
        }
        if !replaceable {
            scene.recoveries.disturbed();
        }
        let what = format!("{} with {} executor(s)", host_name(host), victims.len());
        Ok(Some(Struck { what, undo: Some(Undo::Nothing(host)), disturbs: !replaceable }))
    }

    fn kill_master(&self, planned: &Planned, scene: &mut Scene<'_, '_>) -> Result<Option<Struck>> {
        if !scene.cluster.running().any(|host| host == MASTER) {
            return Ok(None);
        }
        let lasting = Duration::from_millis(planned.lasting_ms);
        scene.cluster.kill(MASTER, Instant::now() + lasting)?;
        Ok(Some(Struck::until(Undo::Nothing(MASTER), host_name(MASTER))))
    }

    fn stop_daemon(
        &self,
        planned: &Planned,
        scene: &mut Scene<'_, '_>,
        hosts: std::ops::RangeInclusive<usize>,
    ) -> Result<Option<Struck>> {
        let mut running: Vec<usize> =
            scene.cluster.running().filter(|host| hosts.contains(host)).collect();
        running.retain(|host| !self.is_active(&Undo::Continue(scene.cluster.pid(*host))));
        let Some(&host) = planned.choose(&running) else { return Ok(None) };
        let pid = scene.cluster.pid(host);
        if !scene.cluster.signal(pid, Signal::STOP) {
            return Ok(None);
        }
        Ok(Some(Struck::until(Undo::Continue(pid), host_name(host))))
    }

    fn kill_driver(&self, planned: &Planned, scene: &mut Scene<'_, '_>) -> Result<Option<Struck>> {
        let drivers = scene.applications.running();
        let Some(victim) = planned.choose(&drivers) else { return Ok(None) };
        if !scene.cluster.signal(victim.pid, Signal::KILL) {
            return Ok(None);
        }
        scene.applications.killed(victim.slot);
        Ok(Some(Struck::once(victim.what.clone())))
    }

    fn stop_driver(&self, planned: &Planned, scene: &mut Scene<'_, '_>) -> Result<Option<Struck>> {
        let mut drivers = scene.applications.running();
        drivers.retain(|driver| !self.is_active(&Undo::Continue(driver.pid)));
        let Some(victim) = planned.choose(&drivers) else { return Ok(None) };
        if !scene.cluster.signal(victim.pid, Signal::STOP) {
            return Ok(None);
        }
        Ok(Some(Struck::until(Undo::Continue(victim.pid), victim.what.clone())))
    }

    /// Between any two hosts but those of two drivers, which have nothing to say to each other.
    fn cut(&self, planned: &Planned, scene: &mut Scene<'_, '_>) -> Result<Option<Struck>> {
        let networks = scene.cluster.machine().networks().context("no networks")?;
        let pairs = (0..HOSTS).flat_map(|one| (one + 1..HOSTS).map(move |other| (one, other)));
        let mut pairs: Vec<(usize, usize)> = pairs.filter(|(one, _)| *one <= WORKERS).collect();
        pairs.retain(|(one, other)| !self.is_active(&Undo::Heal(*one, *other)));
        let Some(&(one, other)) = planned.choose(&pairs) else { return Ok(None) };
        networks.cut(one, other)?;
        let what = format!("{} from {}", host_name(one), host_name(other));
        Ok(Some(Struck::until(Undo::Heal(one, other), what)))
    }

    fn delay(&self, planned: &Planned, scene: &mut Scene<'_, '_>) -> Result<Option<Struck>> {
        let machine = scene.cluster.machine();
        let networks = machine.networks().context("no networks")?;
        let discipline = machine.discipline().context("no delays")?;
        let mut hosts: Vec<usize> = (0..HOSTS).collect();
        hosts.retain(|host| !self.is_active(&Undo::Hurry(*host)));
        let Some(&host) = planned.choose(&hosts) else { return Ok(None) };
        networks.delay(host, discipline)?;
        Ok(Some(Struck::until(Undo::Hurry(host), host_name(host))))
    }

    fn fill_disk(&self, planned: &Planned, scene: &mut Scene<'_, '_>) -> Result<Option<Struck>> {
        let disk = self.disk(planned, scene, Medium::Memory, Undo::Free);
        let Some(disk) = disk else { return Ok(None) };
        scene.cluster.machine().disks()[disk].fill()?;
        Ok(Some(Struck::until(Undo::Free(disk), format!("disk of worker-{disk}"))))
    }

    fn freeze_disk(&self, planned: &Planned, scene: &mut Scene<'_, '_>) -> Result<Option<Struck>> {
        let disk = self.disk(planned, scene, Medium::Image, Undo::Thaw);
        let Some(disk) = disk else { return Ok(None) };
        scene.cluster.machine().disks()[disk].freeze()?;
        Ok(Some(Struck::until(Undo::Thaw(disk), format!("disk of worker-{disk}"))))
    }

    fn disk(
        &self,
        planned: &Planned,
        scene: &Scene<'_, '_>,
        medium: Medium,
        undo: fn(usize) -> Undo,
    ) -> Option<usize> {
        let disks = scene.cluster.machine().disks();
        let mut found: Vec<usize> = (0..disks.len()).collect();
        found.retain(|disk| disks[*disk].medium() == medium && !self.is_active(&undo(*disk)));
        planned.choose(&found).copied()
    }

    /// Seconds or hours, to and fro.
    fn move_clock(&self, planned: &Planned, scene: &mut Scene<'_, '_>) -> Result<Option<Struck>> {
        let clocks = scene.cluster.machine().clocks().context("no clocks")?;
        let mut hosts: Vec<usize> = (0..HOSTS).collect();
        hosts.retain(|host| !self.is_active(&Undo::SetClock(*host)));
        let Some(&host) = planned.choose(&hosts) else { return Ok(None) };
        let size_ms =
            [700, 5_000, 60_000, 3_600_000, 86_400_000][(planned.pick >> 32) as usize % 5];
        let offset_ms: i64 = if planned.pick >> 63 == 0 { size_ms } else { -size_ms };
        clocks.set(host, offset_ms)?;
        let what = format!("{} by {:+.1} s", host_name(host), offset_ms as f64 / 1e3);
        Ok(Some(Struck { what, undo: Some(Undo::SetClock(host)), disturbs: false }))
    }
}

fn damage_block(planned: &Planned, scene: &mut Scene<'_, '_>) -> Result<Option<Struck>> {
    let disks = scene.cluster.machine().disks();
    let blocks: Vec<_> = disks.iter().flat_map(|disk| disk.blocks()).collect();
    let Some((path, length)) = planned.choose(&blocks) else { return Ok(None) };
    // It may have gone since it was found, and a full disk may not take it back.
    let place = (planned.pick >> 16) % length;
    Ok(damage(path, place).ok().map(|()| {
        let name = path.file_name().unwrap_or_default().to_string_lossy();
        Struck::once(format!("{name} of {length} bytes, at {place}"))
    }))
}

fn undo(undo: &Undo, cluster: &Cluster<'_>) -> Result<()> {
    let machine = cluster.machine();
    match undo {
        Undo::Continue(pid) => {
            cluster.signal(*pid, Signal::CONT);
            Ok(())
        }
        Undo::Nothing(_) => Ok(()),
        Undo::Heal(one, other) => machine.networks().map_or(Ok(()), |all| all.heal(*one, *other)),
        Undo::Hurry(host) => machine.networks().map_or(Ok(()), |all| all.hurry(*host)),
        Undo::Free(disk) => machine.disks()[*disk].free(),
        Undo::Thaw(disk) => machine.disks()[*disk].thaw(),
        Undo::SetClock(host) => machine.clocks().map_or(Ok(()), |clocks| clocks.set(*host, 0)),
    }
}

const _: () = assert!(driver_host(DRIVERS - 1) < HOSTS, "every driver has a host");
