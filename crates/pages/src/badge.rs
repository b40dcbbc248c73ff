//! How something stands: always a word and a sign, never a colour alone.

use firesteel_status::{Application, JobState, StageState, TaskState};
use maud::{Markup, html};

/// Classes are of the style sheet: `good`, `bad`, `busy`, `idle`.
pub(crate) fn badge(class: &str, sign: &str, word: &str) -> Markup {
    html! { span class=(format!("badge {class}")) { span aria-hidden="true" { (sign) " " } (word) } }
}

pub(crate) fn application(application: &Application, is_live: bool) -> Markup {
    match (application.ended, application.exit_code) {
        (None, _) if is_live => badge("busy", "▶", "Running"),
        (None, _) => badge("idle", "…", "No end in its log"),
        (Some(_), Some(code)) if code != 0 => badge("bad", "✕", &format!("Failed with {code}")),
        (Some(_), _) => badge("good", "✓", "Completed"),
    }
}

pub(crate) fn job(state: &JobState) -> Markup {
    match state {
        JobState::Running => badge("busy", "▶", "Running"),
        JobState::Succeeded => badge("good", "✓", "Succeeded"),
        JobState::Failed { .. } => badge("bad", "✕", "Failed"),
    }
}

pub(crate) fn stage(state: StageState) -> Markup {
    match state {
        StageState::Pending => badge("idle", "…", "Pending"),
        StageState::Active => badge("busy", "▶", "Active"),
        StageState::Complete => badge("good", "✓", "Complete"),
        StageState::Failed => badge("bad", "✕", "Failed"),
        StageState::Skipped => badge("idle", "–", "Skipped"),
    }
}

pub(crate) fn task(state: TaskState) -> Markup {
    match state {
        TaskState::Running => badge("busy", "▶", "Running"),
        TaskState::GettingResult => badge("busy", "▶", "Getting result"),
        TaskState::Success => badge("good", "✓", "Success"),
        TaskState::Failed => badge("bad", "✕", "Failed"),
        TaskState::Killed => badge("idle", "■", "Killed"),
    }
}
