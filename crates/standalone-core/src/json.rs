//! A master's state as its `/json/` page shows it: Spark's keys, order and layout.

use serde::Serialize;
use serde_json::ser::{Formatter, Serializer};

use crate::date;
use crate::master::{ApplicationView, DriverView, MasterView, WorkerStatus, WorkerView};
use firesteel_types::Tick;

/// Resources beyond cores and memory: none are given out.
#[derive(Serialize)]
struct NoResources {}

const NONE: NoResources = NoResources {};

#[derive(Serialize)]
struct WorkerJson<'a> {
    id: &'a str,
    host: &'a str,
    port: u16,
    webuiaddress: &'a str,
    cores: u32,
    coresused: u32,
    coresfree: u32,
    memory: u64,
    memoryused: u64,
    memoryfree: u64,
    resources: NoResources,
    resourcesused: NoResources,
    resourcesfree: NoResources,
    state: &'static str,
    lastheartbeat: u64,
}

#[derive(Serialize)]
struct ApplicationJson<'a> {
    id: &'a str,
    starttime: u64,
    name: &'a str,
    cores: u32,
    user: &'a str,
    memoryperexecutor: u64,
    memoryperslave: u64,
    resourcesperexecutor: [NoResources; 0],
    resourcesperslave: [NoResources; 0],
    submitdate: String,
    state: &'static str,
    duration: u64,
}

#[derive(Serialize)]
struct DriverJson<'a> {
    id: &'a str,
    starttime: String,
    state: &'static str,
    cores: u32,
    memory: u64,
    resources: NoResources,
    submitdate: String,
    worker: &'a str,
    mainclass: &'a str,
}

#[derive(Serialize)]
struct MasterJson<'a> {
    url: &'a str,
    workers: Vec<WorkerJson<'a>>,
    aliveworkers: usize,
    cores: u32,
    coresused: u32,
    memory: u64,
    memoryused: u64,
    resources: Vec<NoResources>,
    resourcesused: Vec<NoResources>,
    activeapps: Vec<ApplicationJson<'a>>,
    completedapps: Vec<ApplicationJson<'a>>,
    activedrivers: Vec<DriverJson<'a>>,
    completeddrivers: Vec<DriverJson<'a>>,
    status: &'static str,
    /// The URL of the leader, if that is another master. Not of Spark's.
    #[serde(skip_serializing_if = "Option::is_none")]
    leader: Option<&'a str>,
}

fn worker_json(view: &WorkerView) -> WorkerJson<'_> {
    let WorkerView { worker, status, cores_used, memory_used_mb, last_heartbeat } = view;
    WorkerJson {
        id: &worker.id.0,
        host: &worker.address.host.0,
        port: worker.address.port,
        webuiaddress: &worker.web_ui,
        cores: worker.cores,
        coresused: *cores_used,
        coresfree: worker.cores.saturating_sub(*cores_used),
        memory: worker.memory_mb,
        memoryused: *memory_used_mb,
        memoryfree: worker.memory_mb.saturating_sub(*memory_used_mb),
        resources: NONE,
        resourcesused: NONE,
        resourcesfree: NONE,
        state: status.name(),
        lastheartbeat: last_heartbeat.0,
    }
}

fn application_json(view: &ApplicationView, now: Tick) -> ApplicationJson<'_> {
    ApplicationJson {
        id: &view.app.0,
        starttime: view.submitted.0,
        name: &view.description.name,
        cores: view.cores,
        user: &view.description.user,
        memoryperexecutor: view.description.memory_per_executor_mb,
        memoryperslave: view.description.memory_per_executor_mb,
        resourcesperexecutor: [],
        resourcesperslave: [],
        submitdate: date::readable(view.submitted),
        state: view.state.name(),
        duration: view.ended.unwrap_or(now).since_ms(view.submitted),
    }
}

fn driver_json(view: &DriverView) -> DriverJson<'_> {
    DriverJson {
        id: &view.driver.0,
        starttime: view.submitted.0.to_string(),
        state: view.state.name(),
        cores: view.description.cores,
        memory: view.description.memory_mb,
        resources: NONE,
        submitdate: date::readable(view.submitted),
        worker: view.worker.as_ref().map_or("None", |worker| &worker.0),
        mainclass: &view.description.name,
    }
}

/// What `GET /json/` answers.
pub fn master_json(view: &MasterView, now: Tick) -> String {
    let alive = || view.workers.iter().filter(|worker| worker.status == WorkerStatus::Alive);
    let page = MasterJson {
        url: &view.url,
        workers: view.workers.iter().map(worker_json).collect(),
        aliveworkers: alive().count(),
        cores: alive().map(|worker| worker.worker.cores).sum(),
        coresused: alive().map(|worker| worker.cores_used).sum(),
        memory: alive().map(|worker| worker.worker.memory_mb).sum(),
        memoryused: alive().map(|worker| worker.memory_used_mb).sum(),
        resources: alive().map(|_| NONE).collect(),
        resourcesused: alive().map(|_| NONE).collect(),
        activeapps: view.active_apps.iter().map(|app| application_json(app, now)).collect(),
        completedapps: view.completed_apps.iter().map(|app| application_json(app, now)).collect(),
        activedrivers: view.active_drivers.iter().map(driver_json).collect(),
        completeddrivers: view.completed_drivers.iter().map(driver_json).collect(),
        status: view.status.name(),
        leader: view.leader.as_deref(),
    };
    render(&page)
}

/// Data in Spark's layout of JSON.
pub fn render(page: &impl Serialize) -> String {
    let mut bytes = Vec::new();
    let layout = Layout { depth: 0, empty: true };
    let mut serializer = Serializer::with_formatter(&mut bytes, layout);
    page.serialize(&mut serializer).expect("plain data into memory");
    String::from_utf8(bytes).expect("JSON is UTF-8")
}

/// Spark's layout: objects line by line, arrays in one, a space before the colon.
struct Layout {
    depth: usize,
    /// Nothing was written into the object or array that is open.
    empty: bool,
}

impl Layout {
    fn line<W: ?Sized + std::io::Write>(&self, writer: &mut W) -> std::io::Result<()> {
        writer.write_all(b"\n")?;
        (0..self.depth).try_for_each(|_| writer.write_all(b"  "))
    }
}

impl Formatter for Layout {
    fn begin_object<W: ?Sized + std::io::Write>(&mut self, writer: &mut W) -> std::io::Result<()> {
        self.depth += 1;
        self.empty = true;
        writer.write_all(b"{")
    }

    fn end_object<W: ?Sized + std::io::Write>(&mut self, writer: &mut W) -> std::io::Result<()> {
        self.depth -= 1;
        if self.empty {
            writer.write_all(b" ")?
        } else {
            self.line(writer)?
        }
        self.empty = false;
        writer.write_all(b"}")
    }

    fn begin_object_key<W: ?Sized + std::io::Write>(
        &mut self,
        writer: &mut W,
        first: bool,
    ) -> std::io::Result<()> {
        if !first {
            writer.write_all(b",")?;
        }
        self.line(writer)
    }

    fn begin_object_value<W: ?Sized + std::io::Write>(
        &mut self,
        writer: &mut W,
    ) -> std::io::Result<()> {
        writer.write_all(b" : ")
    }

    fn end_object_value<W: ?Sized + std::io::Write>(
        &mut self,
        _writer: &mut W,
    ) -> std::io::Result<()> {
        self.empty = false;
        Ok(())
    }

    fn begin_array_value<W: ?Sized + std::io::Write>(
        &mut self,
        writer: &mut W,
        first: bool,
    ) -> std::io::Result<()> {
        writer.write_all(if first { b" " } else { b", " })
    }

    fn end_array<W: ?Sized + std::io::Write>(&mut self, writer: &mut W) -> std::io::Result<()> {
        writer.write_all(b" ]")
    }
}
