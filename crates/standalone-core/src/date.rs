//! Moments as people read them. A master's and a worker's ticks are milliseconds since 1970 began.

use firesteel_types::Tick;

const WEEKDAYS: [&str; 7] = ["Thu", "Fri", "Sat", "Sun", "Mon", "Tue", "Wed"];
const MONTHS: [&str; 12] =
    ["Jan", "Feb", "Mar", "Apr", "May", "Jun", "Jul", "Aug", "Sep", "Oct", "Nov", "Dec"];

struct Civil {
    year: i64,
    month: i64,
    day: i64,
    weekday: usize,
    seconds: u64,
}

fn civil(at: Tick) -> Civil {
    let seconds = at.0 / 1000;
    let days = seconds / 86_400;
    let (year, month, day) = firesteel_types::date::civil(days as i64);
    Civil { year, month, day, weekday: (days % 7) as usize, seconds: seconds % 86_400 }
}

/// As in ids: `20261115175124`.
pub fn compact(at: Tick) -> String {
    let Civil { year, month, day, seconds, .. } = civil(at);
    let (hour, minute, second) = (seconds / 3600, seconds / 60 % 60, seconds % 60);
    format!("{year:04}{month:02}{day:02}{hour:02}{minute:02}{second:02}")
}

/// As on Spark's pages: `Sun Nov 15 18:06:06 UTC 2026`.
pub fn readable(at: Tick) -> String {
    let Civil { year, month, day, weekday, seconds } = civil(at);
    let (hour, minute, second) = (seconds / 3600, seconds / 60 % 60, seconds % 60);
    let (weekday, month) = (WEEKDAYS[weekday], MONTHS[month as usize - 1]);
    format!("{weekday} {month} {day:02} {hour:02}:{minute:02}:{second:02} UTC {year}")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn moments_read_as_spark_writes_them() {
        for (ms, id, page) in [
            (0, "19700101000000", "Thu Jan 01 00:00:00 UTC 1970"),
            (1_794_765_966_138, "20261115180606", "Sun Nov 15 18:06:06 UTC 2026"),
            (951_782_399_000, "20000228235959", "Mon Feb 28 23:59:59 UTC 2000"),
            (951_782_400_000, "20000229000000", "Tue Feb 29 00:00:00 UTC 2000"),
            (4_107_542_400_000, "21000301000000", "Mon Mar 01 00:00:00 UTC 2100"),
        ] {
            assert_eq!(compact(Tick(ms)), id);
            assert_eq!(readable(Tick(ms)), page);
        }
    }
}
