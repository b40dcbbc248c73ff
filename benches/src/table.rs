//! Tables for people: medians with their spread, ratios, targets.

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
    pub(crate) fn show(self, value: f64) -> String {
        match self {
            Unit::Seconds if value < 1.0 => format!("{:.1} ms", value * 1e3),
            Unit::Seconds => format!("{value:.2} s"),
            Unit::Megabytes => format!("{value:.1} MB"),
        }
    }

    pub(crate) fn show_spread(self, spread: Option<Spread>) -> String {
        let Some(Spread { median, least, most }) = spread else {
            return "not measured".to_owned();
        };
        let [median, least, most] = [median, least, most].map(|value| self.show(value));
        format!("{median} ({least} - {most})")
    }
}

/// One line: what was measured on two sides.
#[derive(Debug)]
pub(crate) struct Row {
    pub(crate) name: String,
    pub(crate) unit: Unit,
    pub(crate) other_name: &'static str,
    pub(crate) other: Option<Spread>,
    pub(crate) ours: Option<Spread>,
    /// The ratio a bar speaks of, in words with its target; empty where no bar hangs on the row.
    pub(crate) verdict: String,
}

impl Row {
    /// The head over rows of this kind.
    pub(crate) const HEAD: [&str; 5] =
        ["", "compared with", "median (least - most)", "Firesteel", "ratio, wanted"];

    pub(crate) fn cells(&self) -> Vec<String> {
        let show = |spread| self.unit.show_spread(spread);
        vec![
            self.name.clone(),
            self.other_name.to_owned(),
            show(self.other),
            show(self.ours),
            self.verdict.clone(),
        ]
    }
}

/// Rows under a head, in aligned columns.
#[derive(Debug)]
pub(crate) struct Table {
    rows: Vec<Vec<String>>,
}

impl Table {
    pub(crate) fn new(head: &[&str]) -> Self {
        Self { rows: vec![head.iter().map(|cell| (*cell).to_owned()).collect()] }
    }

    pub(crate) fn push(&mut self, cells: Vec<String>) {
        assert_eq!(cells.len(), self.rows[0].len(), "a cell for each column");
        self.rows.push(cells);
    }
}

impl fmt::Display for Table {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let width = |i: usize| self.rows.iter().map(|row| row[i].len()).max().unwrap_or(0);
        let widths: Vec<usize> = (0..self.rows[0].len()).map(width).collect();
        for row in &self.rows {
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
        let mut table = Table::new(&Row::HEAD);
        table.push(row("trivial", Spread::of([4.5]), Spread::of([0.02])).cells());
        table.push(row("tasks10000", None, None).cells());
        let text = table.to_string();
        let lines: Vec<&str> = text.lines().collect();
        assert_eq!(
            lines[1],
            "trivial     Spark          4.50 s (4.50 s - 4.50 s)  20.0 ms (20.0 ms - 20.0 ms)"
        );
        assert_eq!(lines[2], "tasks10000  Spark          not measured              not measured");
    }
}
