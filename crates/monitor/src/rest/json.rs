//! JSON as Spark's REST API lays it out, and its dates.

use std::io;

use firesteel_types::Tick;
use firesteel_types::date::civil;
use serde::{Serialize, Serializer};
use serde_json::ser::Formatter;

/// Laid out as Spark's answers are; empty, and logged, if the value cannot be written as JSON.
pub(crate) fn body(value: &impl Serialize) -> Vec<u8> {
    let mut out = Vec::new();
    let layout = Layout { depth: 0, is_empty: false };
    let mut to = serde_json::Serializer::with_formatter(&mut out, layout);
    match value.serialize(&mut to) {
        Ok(()) => out,
        Err(error) => {
            tracing::error!(%error, "an answer could not be written as JSON");
            Vec::new()
        }
    }
}

/// Lists on a line, objects on lines: `[ {` and `"key" : value`.
struct Layout {
    depth: usize,
    is_empty: bool,
}

impl Layout {
    fn line<W: ?Sized + io::Write>(&self, to: &mut W) -> io::Result<()> {
        to.write_all(b"\n")?;
        (0..self.depth).try_for_each(|_| to.write_all(b"  "))
    }
}

impl Formatter for Layout {
    fn begin_array<W: ?Sized + io::Write>(&mut self, to: &mut W) -> io::Result<()> {
        self.is_empty = true;
        to.write_all(b"[")
    }

    fn end_array<W: ?Sized + io::Write>(&mut self, to: &mut W) -> io::Result<()> {
        self.is_empty = false;
        to.write_all(b" ]")
    }

    fn begin_array_value<W: ?Sized + io::Write>(
        &mut self,
        to: &mut W,
        first: bool,
    ) -> io::Result<()> {
        to.write_all(if first { b" " } else { b", " })
    }

    fn end_array_value<W: ?Sized + io::Write>(&mut self, _: &mut W) -> io::Result<()> {
        self.is_empty = false;
        Ok(())
    }

    fn begin_object<W: ?Sized + io::Write>(&mut self, to: &mut W) -> io::Result<()> {
        self.depth += 1;
        self.is_empty = true;
        to.write_all(b"{")
    }

    fn end_object<W: ?Sized + io::Write>(&mut self, to: &mut W) -> io::Result<()> {
        self.depth -= 1;
        if self.is_empty {
            self.is_empty = false;
            return to.write_all(b" }");
        }
        self.line(to)?;
        to.write_all(b"}")
    }

    fn begin_object_key<W: ?Sized + io::Write>(
        &mut self,
        to: &mut W,
        first: bool,
    ) -> io::Result<()> {
        if !first {
            to.write_all(b",")?;
        }
        self.line(to)
    }

    fn begin_object_value<W: ?Sized + io::Write>(&mut self, to: &mut W) -> io::Result<()> {
        to.write_all(b" : ")
    }

    fn end_object_value<W: ?Sized + io::Write>(&mut self, _: &mut W) -> io::Result<()> {
        self.is_empty = false;
        Ok(())
    }
}

/// A moment as Spark writes it: `2015-02-03T16:43:00.906GMT`. Of what is not over, it is one millisecond before 1970.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Date(pub(crate) i64);

impl Date {
    pub(crate) fn of(tick: Tick) -> Self {
        Date(i64::try_from(tick.0).unwrap_or(i64::MAX))
    }
}

/// A moment as the API writes it.
pub fn date_text(at: Tick) -> String {
    Date::of(at).to_string()
}

impl Serialize for Date {
    fn serialize<S: Serializer>(&self, to: S) -> Result<S::Ok, S::Error> {
        to.collect_str(self)
    }
}

const DAY: i64 = 86_400_000;
/// The last day of the year 9999, in days since 1970: later ones are not told apart.
const LAST_DAY: i64 = 2_932_896;

impl std::fmt::Display for Date {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let days = self.0.div_euclid(DAY).clamp(-LAST_DAY, LAST_DAY);
        let (year, month, day) = civil(days);
        let ms = self.0.rem_euclid(DAY);
        let (hour, minute, second) = (ms / 3_600_000, ms / 60_000 % 60, ms / 1000 % 60);
        let ms = ms % 1000;
        write!(f, "{year:04}-{month:02}-{day:02}T{hour:02}:{minute:02}:{second:02}.{ms:03}GMT")
    }
}

/// The number of days since 1970 (Hinnant's `days_from_civil`).
fn days(year: i64, month: i64, day: i64) -> i64 {
    let year = if month <= 2 { year - 1 } else { year };
    let era = year.div_euclid(400);
    let of_era = year.rem_euclid(400);
    let of_year = (153 * (if month > 2 { month - 3 } else { month + 9 }) + 2) / 5 + day - 1;
    era * 146_097 + of_era * 365 + of_era / 4 - of_era / 100 + of_year - 719_468
}

/// Milliseconds since 1970 of `yyyy-MM-dd` or `yyyy-MM-ddTHH:mm:ss.SSSz`; the zone is GMT, UTC or an offset.
pub fn parse_date(text: &str) -> Option<i64> {
    let (date, time) = text.split_at_checked(10)?;
    let mut parts = date.split('-').map(|part| part.parse::<i64>().ok().filter(|n| *n >= 0));
    let (year, month, day) = (parts.next()??, parts.next()??, parts.next()??);
    if !(1..=12).contains(&month) || !(1..=31).contains(&day) {
        return None;
    }
    let midnight = days(year, month, day) * DAY;
    match time.strip_prefix('T') {
        None if time.is_empty() => Some(midnight),
        None => None,
        Some(time) => Some(midnight + parse_time(time)?),
    }
}

fn parse_time(text: &str) -> Option<i64> {
    let (clock, zone) = text.split_at_checked(12)?;
    let (hms, ms) = clock.split_once('.')?;
    let mut parts = hms.split(':').map(|part| part.parse::<i64>().ok().filter(|n| *n >= 0));
    let (hour, minute, second) = (parts.next()??, parts.next()??, parts.next()??);
    let ms: i64 = ms.parse::<u32>().ok()?.into();
    let within = hour < 24 && minute < 60 && second < 60;
    within.then_some(((hour * 60 + minute) * 60 + second) * 1000 + ms)?.checked_sub(offset(zone)?)
}

/// Milliseconds east of Greenwich: `GMT`, `UTC`, `Z`, `+0100`, `GMT-08:00`.
fn offset(zone: &str) -> Option<i64> {
    let rest = zone.strip_prefix("GMT").or(zone.strip_prefix("UTC")).or(zone.strip_prefix('Z'));
    let rest = rest.unwrap_or(zone);
    if rest.is_empty() {
        return (!zone.is_empty()).then_some(0);
    }
    let sign = if rest.starts_with('-') { -1 } else { 1 };
    let digits: String = rest.strip_prefix(['+', '-'])?.chars().filter(|c| *c != ':').collect();
    let number: i64 = digits.parse::<u32>().ok()?.into();
    (digits.len() == 4).then_some(sign * (number / 100 * 60 + number % 100) * 60_000)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn dates_are_written_and_read_as_spark_does() {
        let table = [
            (1_422_981_780_906, "2015-02-03T16:43:00.906GMT"),
            (-1, "1969-12-31T23:59:59.999GMT"),
            (951_782_400_000, "2000-02-29T00:00:00.000GMT"),
        ];
        for (ms, text) in table {
            assert_eq!((Date(ms).to_string(), parse_date(text)), (text.to_owned(), Some(ms)));
        }
        assert_eq!(parse_date("2015-02-10"), Some(1_423_526_400_000));
        assert_eq!(parse_date("2015-02-10T01:00:00.000+0100"), Some(1_423_526_400_000));
        for bad in
            ["", "garbage", "2015-13-01", "2015-02-10x", "2015-02-10T25:00:00.000GMT", "١٢٣٤٥٦"]
        {
            assert_eq!(parse_date(bad), None, "{bad}");
        }
        assert_eq!(Date(i64::MAX).to_string().len(), 26);
    }

    #[test]
    fn json_is_laid_out_as_jackson_does() {
        let value = serde_json::json!([{"a": [1, 2], "b": {}, "c": []}, {"d": {"e": null}}]);
        let text = "[ {\n  \"a\" : [ 1, 2 ],\n  \"b\" : { },\n  \"c\" : [ ]\n}, {\n  \"d\" : {\n    \"e\" : null\n  }\n} ]";
        assert_eq!(String::from_utf8(body(&value)).unwrap(), text);
    }
}
