//! Which logs go: those that were not changed for long, and the oldest of too many or too large ones.

use firesteel_types::Tick;

use super::CleanerOptions;
use crate::log::LogSource;

/// The logs to remove, the oldest first. Of too many, and of too many bytes, those that are being written stay. What is the log of no
/// application goes when it is old, as with Spark, and counts for nothing else.
pub(super) fn outdated(
    (mut logs, others): (Vec<LogSource>, Vec<LogSource>),
    options: &CleanerOptions,
    now: Tick,
) -> Vec<LogSource> {
    logs.sort_by_key(|log| log.modified);
    let age = u64::try_from(options.max_age.as_millis()).unwrap_or(u64::MAX);
    let is_old = |log: &LogSource| now.since_ms(log.modified) > age;
    let (mut outdated, fresh): (Vec<_>, Vec<_>) = logs.into_iter().partition(is_old);
    outdated.extend(others.into_iter().filter(is_old));
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
