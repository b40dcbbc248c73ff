//! Which logs go: those that were not changed for long, and the oldest of too many.

use firesteel_types::Tick;

use super::CleanerOptions;
use crate::log::LogSource;

/// The logs to remove, the oldest first. Of too many, those that are being written stay.
pub(super) fn outdated(
    mut logs: Vec<LogSource>,
    options: &CleanerOptions,
    now: Tick,
) -> Vec<LogSource> {
    logs.sort_by_key(|log| log.modified);
    let age = u64::try_from(options.max_age.as_millis()).unwrap_or(u64::MAX);
    let (mut outdated, fresh): (Vec<_>, Vec<_>) =
        logs.into_iter().partition(|log| now.since_ms(log.modified) > age);
    let too_many = fresh.len().saturating_sub(options.max_number);
    outdated.extend(fresh.into_iter().filter(|log| !log.in_progress).take(too_many));
    outdated
}
