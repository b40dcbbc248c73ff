//! Which spans an application is made of: a function of its events. The application is the trace; its jobs are below it, their stages
//! below them, tasks below stages. Only what runs is remembered.

use std::collections::BTreeMap;
use std::hash::{DefaultHasher, Hash, Hasher};

use firesteel_types::{Event, JobId, StageId, StageInfo, StageRef, TaskFailure, TaskInfo, Tick};
use serde_json::{Value, json};

/// So many jobs and stages run at once, for all we know: ends of others were lost.
const RUNNING: usize = 10_000;
/// The longest text that is told.
const LONGEST: usize = 1000;

/// Something that is over.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Span {
    id: u64,
    parent: Option<u64>,
    pub(super) name: String,
    start: Tick,
    end: Tick,
    attributes: Vec<(&'static str, Attribute)>,
    /// Why it failed, if it did.
    failure: Option<String>,
}

#[derive(Clone, Debug, PartialEq, Eq)]
enum Attribute {
    Text(String),
    Number(u64),
}

/// A job or a stage that runs.
struct Open {
    name: String,
    parent: u64,
    start: Tick,
}

/// The application, and the spans that are still open.
#[derive(Default)]
pub(super) struct Spans {
    app_id: String,
    app_name: String,
    user: String,
    started: Option<Tick>,
    jobs: BTreeMap<JobId, Open>,
    stages: BTreeMap<StageRef, Open>,
    /// The job that a stage was first announced by, of those that run.
    owners: BTreeMap<StageId, JobId>,
}

/// The id of a span: the same for the same thing of an application, and never 0.
fn id_of(kind: &str, of: impl Hash) -> u64 {
    let mut hasher = DefaultHasher::new();
    (kind, of).hash(&mut hasher);
    hasher.finish().max(1)
}

fn insert<K: Ord, V>(all: &mut BTreeMap<K, V>, key: K, value: V) {
    if all.len() >= RUNNING {
        all.pop_first();
    }
    all.insert(key, value);
}

impl Spans {
    fn application(&self) -> u64 {
        id_of("application", &self.app_id)
    }

    /// The span that ends with an event, if one does.
    pub(super) fn take(&mut self, event: &Event) -> Option<Span> {
        match event {
            Event::ApplicationStart { name, app_id, user, at, .. } => {
                (self.app_id, self.app_name) = (app_id.clone(), name.clone());
                (self.user, self.started) = (user.clone(), Some(*at));
                None
            }
            Event::ApplicationEnd { exit_code, at } => self.application_ended(*exit_code, *at),
            Event::JobStart { job, properties, stages, at } => {
                let site = properties.description().unwrap_or(properties.call_site());
                let (name, parent) = (format!("job {job}: {site}"), self.application());
                insert(&mut self.jobs, *job, Open { name, parent, start: *at });
                for stage in stages.iter().map(|stage| stage.stage.stage) {
                    if !self.owners.contains_key(&stage) {
                        insert(&mut self.owners, stage, *job);
                    }
                }
                None
            }
            Event::JobEnd { job, result, at } => {
                self.owners.retain(|_, owner| owner != job);
                let open = self.jobs.remove(job)?;
                let failure = result.as_ref().err().map(ToString::to_string);
                let attributes = vec![("spark.job.id", Attribute::Number(job.0.into()))];
                Some(open.ended(id_of("job", job), *at, attributes, failure))
            }
            Event::StageSubmitted { stage, at, .. } => {
                self.stage_submitted(stage, *at);
                None
            }
            Event::StageCompleted { stage, failure, at } => {
                let open = self.stages.remove(&stage.stage)?;
                let id = id_of("stage", stage.stage);
                let mut attributes = of_stage(stage.stage);
                attributes.push(("spark.stage.tasks", Attribute::Number(stage.tasks.into())));
                Some(open.ended(id, *at, attributes, failure.clone()))
            }
            Event::TaskEnd { task, failure, at, .. } => {
                Some(task_ended(task, failure.as_ref(), *at))
            }
            _ => None,
        }
    }

    fn application_ended(&mut self, exit_code: Option<i32>, at: Tick) -> Option<Span> {
        let start = self.started.take()?;
        let failed = exit_code.filter(|code| *code != 0);
        Some(Span {
            id: self.application(),
            parent: None,
            name: format!("application {}", self.app_name),
            start,
            end: at,
            attributes: vec![("spark.user", Attribute::Text(self.user.clone()))],
            failure: failed.map(|code| format!("the program ended with {code}")),
        })
    }

    fn stage_submitted(&mut self, stage: &StageInfo, at: Tick) {
        let StageRef { stage: id, attempt } = stage.stage;
        let owner = self.owners.get(&id).map(|job| id_of("job", job));
        let parent = owner.unwrap_or(self.application());
        let name = format!("stage {id}.{attempt}: {}", stage.name);
        insert(&mut self.stages, stage.stage, Open { name, parent, start: at });
    }

    /// A request of OTLP with these spans, in JSON.
    pub(super) fn request(&self, spans: &[Span]) -> Vec<u8> {
        let [high, low] = ["trace", "of"].map(|half| id_of(half, &self.app_id));
        let trace = format!("{high:016x}{low:016x}");
        let resource = [
            ("service.name", Attribute::Text(self.app_name.clone())),
            ("spark.app.id", Attribute::Text(self.app_id.clone())),
        ];
        let spans: Vec<Value> = spans.iter().map(|span| span.told(&trace)).collect();
        let request = json!({"resourceSpans": [{
            "resource": {"attributes": resource.iter().map(pair).collect::<Vec<_>>()},
            "scopeSpans": [{
                "scope": {"name": "firesteel", "version": env!("CARGO_PKG_VERSION")},
                "spans": spans,
            }],
        }]});
        request.to_string().into_bytes()
    }
}

impl Open {
    fn ended(
        self,
        id: u64,
        end: Tick,
        attributes: Vec<(&'static str, Attribute)>,
        failure: Option<String>,
    ) -> Span {
        let Open { name, parent, start } = self;
        Span { id, parent: Some(parent), name, start, end, attributes, failure }
    }
}

fn of_stage(stage: StageRef) -> Vec<(&'static str, Attribute)> {
    vec![
        ("spark.stage.id", Attribute::Number(stage.stage.0.into())),
        ("spark.stage.attempt", Attribute::Number(stage.attempt.into())),
    ]
}

fn task_ended(task: &TaskInfo, failure: Option<&TaskFailure>, at: Tick) -> Span {
    let mut attributes = of_stage(task.stage);
    attributes.extend([
        ("spark.task.id", Attribute::Text(task.task.to_string())),
        ("spark.task.partition", Attribute::Number(task.partition.into())),
        ("spark.task.attempt", Attribute::Number(task.attempt.into())),
        ("spark.executor.id", Attribute::Text(task.executor.to_string())),
        ("host.name", Attribute::Text(task.host.to_string())),
    ]);
    Span {
        id: id_of("task", task.task),
        parent: Some(id_of("stage", task.stage)),
        name: format!("task {}.{} of stage {}", task.index, task.attempt, task.stage.stage),
        start: task.launched,
        end: at,
        attributes,
        failure: failure.map(ToString::to_string),
    }
}

fn short(text: &str) -> String {
    text.chars().take(LONGEST).collect()
}

/// Numbers of 64 bits are texts in OTLP's JSON.
fn pair((key, value): &(&'static str, Attribute)) -> Value {
    match value {
        Attribute::Text(text) => json!({"key": key, "value": {"stringValue": short(text)}}),
        Attribute::Number(number) => json!({"key": key, "value": {"intValue": number.to_string()}}),
    }
}

impl Span {
    fn told(&self, trace: &str) -> Value {
        let nanoseconds = |at: Tick| (u128::from(at.0) * 1_000_000).to_string();
        // 1 is well, 2 is an error.
        let status = match &self.failure {
            None => json!({"code": 1}),
            Some(why) => json!({"code": 2, "message": short(why)}),
        };
        json!({
            "traceId": trace,
            "spanId": format!("{:016x}", self.id),
            "parentSpanId": self.parent.map(|id| format!("{id:016x}")).unwrap_or_default(),
            "name": short(&self.name),
            // Internal.
            "kind": 1,
            "startTimeUnixNano": nanoseconds(self.start),
            "endTimeUnixNano": nanoseconds(self.end.max(self.start)),
            "attributes": self.attributes.iter().map(pair).collect::<Vec<_>>(),
            "status": status,
        })
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use firesteel_types::event::Locality;
    use firesteel_types::{ExecutorId, Host, Properties, TaskId};

    use super::*;

    fn started() -> Spans {
        let mut spans = Spans::default();
        let event = Event::ApplicationStart {
            name: "words".to_owned(),
            app_id: "app-1".to_owned(),
            attempt_id: None,
            user: "ada".to_owned(),
            driver_log_urls: BTreeMap::new(),
            driver_attributes: BTreeMap::new(),
            at: Tick(1000),
        };
        assert_eq!(spans.take(&event), None);
        spans
    }

    const STAGE: StageRef = StageRef { stage: StageId(4), attempt: 0 };

    fn stage() -> StageInfo {
        StageInfo {
            stage: STAGE,
            name: "count at main.rs:3".into(),
            tasks: 1,
            parents: Vec::new(),
            rdds: Vec::new().into(),
            shuffle_map: false,
            submitted: None,
            completed: None,
            details: None,
            resource_profile: 0,
        }
    }

    fn task() -> TaskInfo {
        TaskInfo {
            task: TaskId(9),
            stage: STAGE,
            partition: 0,
            index: 0,
            attempt: 1,
            executor: ExecutorId(2),
            host: Host::new("node-1"),
            speculative: false,
            locality: Locality::Any,
            launched: Tick(1300),
        }
    }

    #[test]
    fn tasks_are_below_stages_below_jobs_below_the_application() {
        let mut spans = started();
        let job = JobId(7);
        let stages = vec![stage()];
        let events = [
            Event::JobStart { job, properties: Arc::default(), stages, at: Tick(1100) },
            Event::StageSubmitted { stage: stage(), properties: Arc::default(), at: Tick(1200) },
            Event::TaskEnd { task: task(), failure: None, metrics: None, at: Tick(1400) },
            Event::StageCompleted { stage: stage(), failure: None, at: Tick(1500) },
            Event::JobEnd { job, result: Ok(()), at: Tick(1600) },
            Event::ApplicationEnd { exit_code: Some(3), at: Tick(1700) },
        ];
        let ended: Vec<Span> = events.iter().filter_map(|event| spans.take(event)).collect();
        let names: Vec<&str> = ended.iter().map(|span| span.name.as_str()).collect();
        assert_eq!(names[..2], ["task 0.1 of stage 4", "stage 4.0: count at main.rs:3"]);
        assert!(names[2].starts_with("job 7") && names[3] == "application words", "{names:?}");
        let parents: Vec<Option<u64>> = ended.iter().map(|span| span.parent).collect();
        let ids: Vec<Option<u64>> = ended.iter().map(|span| Some(span.id)).collect();
        assert_eq!(parents, [ids[1], ids[2], ids[3], None]);
        assert!(spans.jobs.is_empty() && spans.stages.is_empty() && spans.owners.is_empty());
        let told: Value = serde_json::from_slice(&spans.request(&ended)).unwrap();
        let scope = &told["resourceSpans"][0]["scopeSpans"][0]["spans"];
        assert_eq!(scope.as_array().unwrap().len(), 4);
        assert_eq!(scope[0]["startTimeUnixNano"], "1300000000");
        assert_eq!(scope[0]["traceId"].as_str().unwrap().len(), 32);
        assert_eq!(scope[0]["parentSpanId"], scope[1]["spanId"]);
        assert_eq!(
            (&scope[0]["status"]["code"], &scope[3]["status"]["code"]),
            (&json!(1), &json!(2))
        );
        assert_eq!(scope[3]["parentSpanId"], "");
        let service = &told["resourceSpans"][0]["resource"]["attributes"][0];
        assert_eq!(*service, json!({"key": "service.name", "value": {"stringValue": "words"}}));
    }

    #[test]
    fn ends_of_what_never_began_are_nothing() {
        let mut spans = started();
        assert_eq!(spans.take(&Event::JobEnd { job: JobId(1), result: Ok(()), at: Tick(1) }), None);
        let completed = Event::StageCompleted { stage: stage(), failure: None, at: Tick(1) };
        assert_eq!(spans.take(&completed), None);
        let described = Properties::default().with(Properties::DESCRIPTION, "nightly");
        let (job, properties) = (JobId(2), Arc::new(described));
        spans.take(&Event::JobStart { job, properties, stages: Vec::new(), at: Tick(9) });
        // Clocks may go back.
        let ended = spans.take(&Event::JobEnd { job, result: Ok(()), at: Tick(3) }).unwrap();
        assert_eq!(ended.name, "job 2: nightly");
        (0..2 * RUNNING as u32).map(JobId).for_each(|job| {
            let (properties, stages) = (Arc::default(), Vec::new());
            spans.take(&Event::JobStart { job, properties, stages, at: Tick(9) });
        });
        assert_eq!(spans.jobs.len(), RUNNING, "whatever is lost on the way");
        let told: Value = serde_json::from_slice(&spans.request(&[ended])).unwrap();
        let span = &told["resourceSpans"][0]["scopeSpans"][0]["spans"][0];
        assert_eq!(span["startTimeUnixNano"], span["endTimeUnixNano"]);
    }
}
