//! The calendar: days since 1970 as a year, a month and a day.

/// Year, month and day of a number of days since 1970 began, by counting from a March in whose year a leap day would come last
/// (Hinnant's `civil_from_days`).
pub fn civil(days: i64) -> (i64, i64, i64) {
    let days = days.saturating_add(719_468);
    let era = days.div_euclid(146_097);
    let of_era = days.rem_euclid(146_097);
    let year_of_era = (of_era - of_era / 1460 + of_era / 36_524 - of_era / 146_096) / 365;
    let of_year = of_era - (365 * year_of_era + year_of_era / 4 - year_of_era / 100);
    let shifted = (5 * of_year + 2) / 153;
    let day = of_year - (153 * shifted + 2) / 5 + 1;
    let month = if shifted < 10 { shifted + 3 } else { shifted - 9 };
    (year_of_era + era * 400 + i64::from(month <= 2), month, day)
}

#[cfg(test)]
mod tests {
    use super::civil;

    #[test]
    fn leap_days_are_counted_as_the_calendar_has_them() {
        let table = [
            (0, (1970, 1, 1)),
            (-1, (1969, 12, 31)),
            (11_016, (2000, 2, 29)),
            (11_017, (2000, 3, 1)),
            (47_541, (2100, 3, 1)),
            (2_932_896, (9999, 12, 31)),
        ];
        for (days, date) in table {
            assert_eq!(civil(days), date, "{days}");
        }
        civil(i64::MAX);
        civil(i64::MIN);
    }
}
