//! Which logs go: those that were not changed for long, and the oldest of too many or too large ones.

use firesteel_types::Tick;

use super::CleanerOptions;
use crate::log::LogSource;

/// Whether it was not changed for so long that it goes in any case: what is the log of no application as well, as with Spark.
pub(super) fn is_old(log: &LogSource, options: &CleanerOptions, now: Tick) -> bool {
    let age = u64::try_from(options.max_age.as_millis()).unwrap_or(u64::MAX);
    now.since_ms(log.modified) > age
}

/// The logs of applications to remove, the oldest first. Of too many, and of too many bytes, those that are being written stay.
pub(super) fn outdated(
    mut logs: Vec<LogSource>,
    options: &CleanerOptions,
    now: Tick,
) -> Vec<LogSource> {
    logs.sort_by_key(|log| log.modified);
    let (mut outdated, fresh): (Vec<_>, Vec<_>) =
        logs.into_iter().partition(|log| is_old(log, options, now));
    let mut too_many = fresh.len().saturating_sub(options.max_number);
    let bytes = fresh.iter().fold(0, |sum: u64, log| sum.saturating_add(log.bytes));
    let mut too_large = bytes.saturating_sub(options.max_bytes.unwrap_or(u64::MAX));
    for log in fresh.into_iter().filter(|log| !log.in_progress) {
        if too_many == 0 && too_large == 0 {
            break;
        }
        too_many = too_many.saturating_sub(1);
        too_large = too_large.saturating_sub(log.bytes);
        outdated.push(log);
    }
    outdated
}
