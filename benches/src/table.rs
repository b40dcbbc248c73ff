//! The table for people: medians of both sides with their spread, the ratio, the wish.

use std::fmt;

/// Median and range of one side's runs.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(crate) struct Spread {
    pub(crate) median: f64,
    least: f64,
    most: f64,
}

impl Spread {
    /// The spread of `values`; none for no values.
    pub(crate) fn of(values: impl IntoIterator<Item = f64>) -> Option<Self> {
        let mut sorted: Vec<f64> = values.into_iter().collect();
        sorted.sort_by(f64::total_cmp);
        let (least, most) = (*sorted.first()?, *sorted.last()?);
        let middle = sorted.len() / 2;
        let median = match sorted.len() % 2 {
            0 => (sorted[middle - 1] + sorted[middle]) / 2.0,
            _ => sorted[middle],
        };
        Some(Self { median, least, most })
    }
}

/// What the numbers of a row count.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(crate) enum Unit {
    Seconds,
    Megabytes,
}

impl Unit {
    fn show(self, value: f64) -> String {
        match self {
            Unit::Seconds if value < 1.0 => format!("{:.1} ms", value * 1e3),
            Unit::Seconds => format!("{value:.2} s"),
            Unit::Megabytes => format!("{value:.1} MB"),
        }
    }
}

/// One line: what was measured on the two sides.
#[derive(Debug)]
pub(crate) struct Row {
    pub(crate) name: String,
    pub(crate) unit: Unit,
    pub(crate) other_name: &'static str,
    pub(crate) other: Option<Spread>,
    pub(crate) ours: Option<Spread>,
    /// The ratio a bar speaks of, in words with the wish; empty where no bar hangs on the row.
    pub(crate) verdict: String,
}

/// Rows under a head, in aligned columns.
#[derive(Debug, Default)]
pub(crate) struct Table(pub(crate) Vec<Row>);

impl Table {
    fn cells(&self) -> Vec<[String; 5]> {
        let head = ["", "compared with", "median (least - most)", "Firesteel", "ratio, wanted"];
        let rows = self.0.iter().map(|row| {
            let show = |spread: Option<Spread>| match spread {
                None => "not measured".to_owned(),
                Some(s) => {
                    let [median, least, most] =
                        [s.median, s.least, s.most].map(|v| row.unit.show(v));
                    format!("{median} ({least} - {most})")
                }
            };
            let other_name = row.other_name.to_owned();
            [row.name.clone(), other_name, show(row.other), show(row.ours), row.verdict.clone()]
        });
        std::iter::once(head.map(str::to_owned)).chain(rows).collect()
    }
}

impl fmt::Display for Table {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let cells = self.cells();
        let widths: Vec<usize> =
            (0..5).map(|i| cells.iter().map(|row| row[i].len()).max().unwrap_or(0)).collect();
        for row in &cells {
            let line: String =
                row.iter().zip(&widths).map(|(cell, width)| format!("{cell:<width$}  ")).collect();
            writeln!(f, "{}", line.trim_end())?;
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::{Row, Spread, Table, Unit};

    #[test]
    fn the_median_of_an_even_count_lies_between_the_middle_two() {
        assert_eq!(Spread::of([3.0, 1.0, 2.0]).unwrap().median, 2.0);
        assert_eq!(Spread::of([4.0, 1.0, 2.0, 3.0]).unwrap().median, 2.5);
        assert_eq!(Spread::of([]), None);
    }

    #[test]
    fn rows_are_aligned_and_gaps_are_named() {
        let row = |name: &str, other, ours| Row {
            name: name.to_owned(),
            unit: Unit::Seconds,
            other_name: "Spark",
            other,
            ours,
            verdict: String::new(),
        };
        let table = Table(vec![
            row("trivial", Spread::of([4.5]), Spread::of([0.02])),
            row("tasks10000", None, None),
        ]);
        let text = table.to_string();
        let lines: Vec<&str> = text.lines().collect();
        assert_eq!(
            lines[1],
            "trivial     Spark          4.50 s (4.50 s - 4.50 s)  20.0 ms (20.0 ms - 20.0 ms)"
        );
        assert_eq!(lines[2], "tasks10000  Spark          not measured              not measured");
    }
}
