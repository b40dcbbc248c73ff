//! Ending a job or a stage from its page: a form with a reason, sent once, with a token that only pages of ours have.

use firesteel_monitor::rest::{Applications, Query};
use firesteel_types::{JobId, StageId};
use maud::{Markup, html};

use crate::frame::Frame;
use crate::text::short;

/// The longest reason that is passed on.
const REASON: usize = 200;

/// What was asked for, and where to go then.
pub(crate) enum Outcome {
    Done { to: String },
    Refused { status: u16, why: &'static str },
}

/// A form, folded, so that no stray click ends anything; nothing where nobody may.
pub(crate) fn form(frame: &Frame<'_>, what: &str, id: u32) -> Markup {
    let Some(token) = frame.token.filter(|_| frame.is_live()) else { return html! {} };
    html! {
        details.kill data-key="kill" {
            summary { "Kill this " (what) "…" }
            form method="post" action=(format!("{}/{what}s/{what}/kill/", frame.home)) {
                input type="hidden" name="id" value=(id);
                input type="hidden" name="token" value=(token);
                label { "Reason, for those who wonder " input type="text" name="reason" required maxlength=(REASON) size="40"; }
                button.danger type="submit" { "Kill " (what) " " (id) }
            }
        }
    }
}

/// Why there is nothing to be ended.
fn not_running(served: &dyn Applications, what: &str, id: u32) -> Option<(u16, &'static str)> {
    let mut found = Some((404, "There is no application that runs."));
    let entry = served.list().into_iter().next()?;
    served.with_status(&entry.id, None, &mut |status| {
        let runs = match what {
            "job" => status.job(JobId(id)).map(|job| job.completed.is_none()),
            _ => status.last_attempt(StageId(id)).map(|stage| stage.completed.is_none()),
        };
        found = match (runs, what) {
            (Some(true), _) => None,
            (Some(false), "job") => Some((409, "This job is over: it cannot be killed any more.")),
            (Some(false), _) => Some((409, "This stage is over: it cannot be killed any more.")),
            (None, "job") => Some((404, "There is no such job, or it is over and forgotten.")),
            (None, _) => Some((404, "There is no such stage, or it is over and forgotten.")),
        };
    });
    found
}

/// Carries out a form. `what` is `job` or `stage`.
pub(crate) fn carry_out(
    served: &dyn Applications,
    home: &str,
    what: &str,
    form: &Query,
    token: Option<&str>,
) -> Outcome {
    let refused = |status, why| Outcome::Refused { status, why };
    let Some(control) = served.control() else {
        return refused(
            403,
            "Nothing can be killed here: spark.ui.killEnabled is false, or the application is over.",
        );
    };
    if token.is_none() || form.get("token") != token {
        return refused(
            403,
            "This form was not made by a page of this application as it runs now. Load the page again.",
        );
    }
    let Some(id) = form.get("id").and_then(|id| id.parse::<u32>().ok()) else {
        return refused(400, "The id has to be a number.");
    };
    if let Some((status, why)) = not_running(served, what, id) {
        return refused(status, why);
    }
    let said = form.get("reason").map(str::trim).filter(|reason| !reason.is_empty());
    let Some(said) = said else { return refused(400, "Say why: others will wonder.") };
    let reason = format!("killed from its page: {}", short(said, REASON));
    match what {
        "job" => control.kill_job(JobId(id), &reason),
        _ => control.kill_stage(StageId(id), &reason),
    }
    Outcome::Done { to: format!("{home}/{what}s/{what}/?id={id}") }
}
