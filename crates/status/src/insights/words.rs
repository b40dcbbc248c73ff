//! Times, sizes and counts as people read them.

/// `740 ms`, `12.3 s`, `4 min 5 s`.
pub(super) fn time(ms: u64) -> String {
    match ms {
        0..1000 => format!("{ms} ms"),
        1000..60_000 => format!("{}.{} s", ms / 1000, ms % 1000 / 100),
        _ => format!("{} min {} s", ms / 60_000, ms / 1000 % 60),
    }
}

/// `512 B`, `1.5 GiB`.
pub(super) fn size(bytes: u64) -> String {
    let units = ["B", "KiB", "MiB", "GiB", "TiB", "PiB"];
    let (mut whole, mut tenths, mut unit) = (bytes, 0, 0);
    while whole >= 1024 && unit + 1 < units.len() {
        tenths = whole % 1024 * 10 / 1024;
        whole /= 1024;
        unit += 1;
    }
    match unit {
        0 => format!("{whole} B"),
        _ => format!("{whole}.{tenths} {}", units[unit]),
    }
}

/// `1 task`, `7 tasks`.
pub(super) fn count(number: u64, noun: &str) -> String {
    format!("{number} {noun}{}", if number == 1 { "" } else { "s" })
}

/// `35 %`
pub(super) fn percent(part: u64, whole: u64) -> String {
    format!("{} %", part.saturating_mul(100).checked_div(whole).unwrap_or(0))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_are_written_as_people_read_them() {
        assert_eq!([time(7), time(12_345), time(245_000)], ["7 ms", "12.3 s", "4 min 5 s"]);
        let sizes = [0, 1023, 1536, 3 << 30, u64::MAX].map(size);
        assert_eq!(sizes, ["0 B", "1023 B", "1.5 KiB", "3.0 GiB", "16383.9 PiB"]);
        assert_eq!([count(1, "task"), count(2, "task")], ["1 task", "2 tasks"]);
        assert_eq!([percent(1, 3), percent(1, 0)], ["33 %", "0 %"]);
    }
}
