//! The first page: how it stands, what to look at, where the time went.

use firesteel_status::{AppStatus, JobState, JobStatus, Order, Paging, StageState, StageStatus};
use firesteel_types::{ExecutorId, Tick};
use maud::{Markup, html};

use super::times::Times;
use super::{facts, job_name, named, said, task_time_ms, volumes};
use super::{insights, stages as all_stages};
use crate::chart::{gauge, load, progress, stacked};
use crate::frame::{Frame, Tab};
use crate::text::{bytes, count, counted, millis, short, time};

/// So many stages and jobs are named.
const NAMED: usize = 6;

pub(crate) fn main(frame: &Frame<'_>, status: &AppStatus) -> Markup {
    let until = frame.until(None);
    html! {
        h1 { (named(&status.application().name)) }
        (gaps(status))
        (summary(frame, status, until))
        (strip(frame, status))
        (time_spent(&Times::of_application(status, until)))
        (insights::of_application(frame, status))
        (failures(frame, status))
        (running(frame, status))
        section aria-labelledby="cores" { h2 #cores { "Cores in use" } (load::draw(status, until)) }
        (slowest(frame, status))
    }
}

/// What the lists below do not have.
fn gaps(status: &AppStatus) -> Markup {
    let started = status.totals().jobs_started;
    let listed = status.jobs(|_| true, Order::Descending, Paging { offset: 0, length: 0 }).total;
    let lost = status.lost_events();
    html! {
        @if started > listed as u64 {
            p.note { "Lists have the last " (count(listed as u64)) " of " (counted(started, "job")) "; numbers up here are of all." }
        }
        @if lost > 0 {
            p.note { strong.bad { "✕ " (counted(lost, "event")) " lost" } " on the way here: what they told is missing in lists and numbers." }
        }
    }
}

fn summary(frame: &Frame<'_>, status: &AppStatus, until: Tick) -> Markup {
    let application = status.application();
    let executors: Vec<_> = status
        .executors()
        .filter(|it| it.executor != ExecutorId::DRIVER || it.info.cores > 0)
        .collect();
    let alive = executors.iter().filter(|it| it.is_active()).count();
    let lost = status.totals().executors_removed;
    let cores: u64 =
        executors.iter().filter(|it| it.is_active()).map(|it| u64::from(it.info.cores)).sum();
    let mut all = vec![
        ("Duration", said(millis(until.since_ms(application.started)))),
        ("Started", time(application.started)),
        ("User", said(named(&application.user))),
        (
            "Executors",
            html! {
                a href=(frame.tab(Tab::Executors)) { (count(alive as u64)) " alive" }
                @if lost > 0 { " · " a.bad href=(frame.tab(Tab::Executors)) { "✕ " (count(lost)) " lost" } }
            },
        ),
        ("Cores", said(count(cores))),
    ];
    let metrics = &status.totals().metrics;
    all.extend(volumes(metrics).into_iter().map(|(name, number)| (name, said(bytes(number)))));
    let cached = status.rdds().fold(0u64, |sum, rdd| sum.saturating_add(rdd.memory_bytes()));
    if cached > 0 {
        all.push(("Cached", html! { a href=(frame.tab(Tab::Storage)) { (bytes(cached)) } }));
    }
    facts(&all)
}

/// How far all that runs is, in one line.
fn strip(frame: &Frame<'_>, status: &AppStatus) -> Markup {
    let (mut jobs, mut done, mut active, mut failed, mut total) = (0u64, 0, 0, 0, 0);
    for job in status.active_jobs() {
        jobs += 1;
        done += u64::from(job.completed_indices);
        active += u64::from(job.tasks.active);
        failed += u64::from(job.tasks.failed);
        total += u64::from(job.tasks_total.saturating_sub(job.skipped_tasks));
    }
    html! {
        @if jobs > 0 {
            div.strip { a href=(frame.tab(Tab::Jobs)) { (counted(jobs, "job")) " running" } (progress(done, active, failed, total)) }
        }
    }
}

fn time_spent(times: &Times) -> Markup {
    let segments = times.segments();
    html! {
        section aria-labelledby="time" {
            h2 #time { "Where the time went" }
            (times.idle())
            @if segments.iter().any(|it| it.value > 0) { (stacked("Time of tasks", &segments)) }
        }
    }
}

/// The jobs that failed last, with why.
fn failures(frame: &Frame<'_>, status: &AppStatus) -> Markup {
    let failed = |job: &JobStatus| matches!(job.state, JobState::Failed { .. });
    let page = status.jobs(failed, Order::Descending, Paging { offset: 0, length: 3 });
    html! {
        @if page.total > 0 {
            section.alert aria-labelledby="failed" {
                h2 #failed { "✕ " (counted(page.total as u64, "job")) " failed" }
                @for job in page.items {
                    @if let JobState::Failed { reason } = &job.state {
                        details data-key=(format!("failure-{}", job.job)) {
                            summary { "Job " (job.job) ": " (short(reason.lines().next().unwrap_or_default(), 200)) }
                            pre tabindex="0" { (short(reason, 8000)) }
                            p { a href=(frame.job(job.job)) { "To job " (job.job) } }
                        }
                    }
                }
            }
        }
    }
}

fn running(frame: &Frame<'_>, status: &AppStatus) -> Markup {
    let jobs: Vec<&JobStatus> = status.active_jobs().collect();
    html! {
        @if !jobs.is_empty() {
            section aria-labelledby="running" {
                h2 #running { "Running" }
                @for job in jobs.iter().take(NAMED) {
                    div.run {
                        p { a href=(frame.job(job.job)) { "Job " (job.job) } " " (named(job_name(job))) " " span.dim { (millis(frame.until(job.completed).since_ms(job.submitted))) } }
                        (progress(job.completed_indices.into(), job.tasks.active.into(), job.tasks.failed.into(), job.tasks_total.saturating_sub(job.skipped_tasks).into()))
                    }
                }
                @if jobs.len() > NAMED { p { a href=(frame.tab(Tab::Jobs)) { (counted((jobs.len() - NAMED) as u64, "more job")) } } }
                @for stage in status.active_stages().take(NAMED) {
                    div.run.inner {
                        p { a href=(frame.stage(stage.info.stage)) { "Stage " (stage.info.stage.stage) } " " (named(&stage.info.name)) }
                        (progress(stage.completed_indices().into(), stage.tasks.active.into(), stage.tasks.failed.into(), stage.info.tasks.into()))
                    }
                }
            }
        }
    }
}

fn slowest(frame: &Frame<'_>, status: &AppStatus) -> Markup {
    let ran =
        |stage: &StageStatus| !matches!(stage.state, StageState::Pending | StageState::Skipped);
    let mut stages = status.stages(ran, Order::Ascending, Paging::ALL).items;
    stages.sort_by_key(|stage| std::cmp::Reverse(task_time_ms(stage)));
    let most = stages.first().map_or(0, |stage| task_time_ms(stage));
    html! {
        @if !stages.is_empty() {
            section aria-labelledby="slowest" {
                h2 #slowest { "Stages that took most" }
                table aria-label="Stages that took most" {
                    thead { tr { th scope="col" { "Stage" } th scope="col" { "Name" } th.num scope="col" { "Duration" } th.num scope="col" { "Task time" } th.wide scope="col" { "Share" } th scope="col" { "Data" } } }
                    tbody { @for stage in stages.iter().take(NAMED) {
                        @let took = task_time_ms(stage);
                        @let lasted = all_stages::duration(frame, stage).unwrap_or(0);
                        tr {
                            td data-label="Stage" { a href=(frame.stage(stage.info.stage)) { "Stage " (stage.info.stage.stage) } @if stage.info.stage.attempt > 0 { " (attempt " (stage.info.stage.attempt) ")" } }
                            td data-label="Name" { (named(&stage.info.name)) }
                            td.num data-label="Duration" { (millis(lasted)) }
                            td.num data-label="Task time" { (millis(took)) }
                            td.wide data-label="Share" { (gauge(took, most, &format!("{} of {}", millis(took), millis(most)))) }
                            td data-label="Data" { (data(stage)) }
                        }
                    } }
                }
            }
        }
    }
}

/// What it read and wrote, in a few words.
pub(crate) fn data(stage: &StageStatus) -> Markup {
    let words: Vec<String> = volumes(&stage.metrics)
        .iter()
        .map(|(name, number)| format!("{} {}", name.to_lowercase(), bytes(*number)))
        .collect();
    html! { @if words.is_empty() { span.dim { "–" } } @else { (words.join(", ")) } }
}
