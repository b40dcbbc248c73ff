//! The screen: a function of what was seen last and of its size. Colours say nothing that words do not.

use ratatui::Frame;
use ratatui::buffer::Buffer;
use ratatui::layout::{Constraint, Layout, Rect};
use ratatui::style::{Modifier, Style};
use ratatui::text::{Line, Span};
use ratatui::widgets::{Block, Borders, Gauge, Paragraph, Row, Table};

use super::Look;
use super::model::{Executor, Overview, Work};

/// What is shown, and of whom.
pub(super) struct Screen {
    address: String,
    last: Overview,
    /// Why the last look failed, if it did: what is shown is older then.
    failure: Option<String>,
}

fn bold() -> Style {
    Style::new().add_modifier(Modifier::BOLD)
}

impl Screen {
    pub(super) fn new(address: &str, first: Overview) -> Self {
        Screen { address: address.to_owned(), last: first, failure: None }
    }

    pub(super) fn take(&mut self, look: Look) {
        match look {
            Ok(overview) => (self.last, self.failure) = (overview, None),
            Err(failure) => self.failure = Some(failure),
        }
    }

    pub(super) fn draw(&self, frame: &mut Frame<'_>) {
        let Overview { jobs, stages, executors, insights, .. } = &self.last;
        let said = insights.len().min(3) as u16;
        // A heading, a rule and what there is, but for executors, which take the rest.
        let rows = |count: usize| Constraint::Length(2 + count.clamp(1, 6) as u16);
        let parts = Layout::vertical([
            Constraint::Length(2),
            Constraint::Length(1),
            Constraint::Length(said),
            rows(jobs.len()),
            rows(stages.len()),
            Constraint::Min(3),
            Constraint::Length(1),
        ]);
        let [head, cores, notes, job_part, stage_part, executor_part, foot] =
            parts.areas(frame.area());
        frame.render_widget(self.head(), head);
        self.cores(frame, cores);
        frame.render_widget(Paragraph::new(self.insights(said)), notes);
        frame.render_widget(self.work("Running jobs", jobs, job_part, false), job_part);
        frame.render_widget(self.work("Active stages", stages, stage_part, true), stage_part);
        frame.render_widget(table(executors), executor_part);
        frame.render_widget(Paragraph::new(self.foot()), foot);
    }

    fn head(&self) -> Paragraph<'_> {
        let Overview { name, id, user, is_over, duration_ms, .. } = &self.last;
        let state = if *is_over { "over" } else { "running" };
        let second = match &self.failure {
            Some(failure) => Line::styled(format!("Not answering: {failure}"), bold()),
            None => Line::raw(format!(
                "{state} for {} · user {user} · {}",
                time(*duration_ms),
                self.address
            )),
        };
        let first =
            Line::from(vec![Span::styled(name.clone(), bold()), Span::raw(format!("  {id}"))]);
        Paragraph::new(vec![first, second])
    }

    fn cores(&self, frame: &mut Frame<'_>, area: Rect) {
        let alive = || self.last.executors.iter().filter(|it| it.lost.is_none());
        let cores: u64 = alive().map(|it| it.cores).sum();
        let active: u64 = alive().map(|it| it.active).sum();
        let [left, right] =
            Layout::horizontal([Constraint::Percentage(50), Constraint::Percentage(50)])
                .areas(area);
        gauge(frame, left, active, cores, &format!("{active} of {cores} cores in use"));
        let used: u64 = alive().fold(0, |sum, it| sum.saturating_add(it.memory_used));
        let memory: u64 = alive().fold(0, |sum, it| sum.saturating_add(it.memory));
        gauge(
            frame,
            right,
            used,
            memory,
            &format!("{} of {} for blocks", bytes(used), bytes(memory)),
        );
    }

    fn insights(&self, count: u16) -> Vec<Line<'_>> {
        let shown = self.last.insights.iter().take(count.into());
        shown.map(|it| Line::raw(format!("! {it}"))).collect()
    }

    /// Jobs or stages; of more than fit, the first ones, and how many there are in the heading.
    fn work(&self, heading: &str, all: &[Work], area: Rect, has_bytes: bool) -> Table<'_> {
        let room = usize::from(area.height.saturating_sub(2));
        let row = |work: &Work| {
            let mut cells = vec![
                work.id.clone(),
                progress(work, 20),
                format!("{}/{}", work.done, work.total),
                work.active.to_string(),
                work.failed.to_string(),
            ];
            if has_bytes {
                cells.extend([bytes(work.read), bytes(work.written), bytes(work.spilled)]);
            }
            cells.push(work.name.clone());
            Row::new(cells)
        };
        let mut titles = vec!["Id", "Progress", "Done", "Running", "Failed"];
        let mut widths = vec![
            Constraint::Length(7),
            Constraint::Length(20),
            Constraint::Length(13),
            Constraint::Length(8),
            Constraint::Length(7),
        ];
        if has_bytes {
            titles.extend(["Read", "Written", "Spilled"]);
            widths.extend([Constraint::Length(9); 3]);
        }
        titles.push("Name");
        widths.push(Constraint::Fill(1));
        let rows: Vec<Row<'_>> = match all.is_empty() {
            true => vec![Row::new(vec!["–"])],
            false => all.iter().take(room).map(row).collect(),
        };
        let heading = format!("{heading} ({})", all.len());
        Table::new(rows, widths).header(Row::new(titles).style(bold())).block(block(heading))
    }

    fn foot(&self) -> Line<'_> {
        Line::raw("q quits · the pages have more: skew, failures, what differs")
    }
}

fn block(title: String) -> Block<'static> {
    Block::new().borders(Borders::TOP).title(Span::styled(title, bold()))
}

fn gauge(frame: &mut Frame<'_>, area: Rect, part: u64, whole: u64, label: &str) {
    let ratio = if whole == 0 { 0.0 } else { (part as f64 / whole as f64).clamp(0.0, 1.0) };
    frame.render_widget(Gauge::default().ratio(ratio).label(label.to_owned()), area);
}

/// Those that were lost last, and why: nobody looks for them further down.
fn table(all: &[Executor]) -> Table<'static> {
    let mut sorted: Vec<&Executor> =
        all.iter().filter(|it| it.cores > 0 || it.lost.is_some()).collect();
    sorted.sort_by_key(|it| (it.lost.is_none(), std::cmp::Reverse(it.active)));
    let row = |it: &&Executor| {
        let state = it.lost.as_ref().map_or_else(
            || format!("{} of {}", bytes(it.memory_used), bytes(it.memory)),
            |why| format!("LOST: {why}"),
        );
        Row::new(vec![
            it.id.clone(),
            format!("{}/{}", it.active, it.cores),
            it.tasks.to_string(),
            it.failed.to_string(),
            it.host.clone(),
            state,
        ])
    };
    let widths = [
        Constraint::Length(8),
        Constraint::Length(9),
        Constraint::Length(9),
        Constraint::Length(7),
        Constraint::Length(28),
        Constraint::Fill(1),
    ];
    let titles =
        ["Executor", "In use", "Tasks", "Failed", "Host", "Memory of blocks, or why it was lost"];
    let rows: Vec<Row<'static>> = sorted.iter().map(row).collect();
    let heading = format!("Executors ({})", rows.len());
    Table::new(rows, widths).header(Row::new(titles).style(bold())).block(block(heading))
}

/// `#####==....`: done, running, to come.
fn progress(work: &Work, width: u64) -> String {
    let whole = work.total.max(work.done.saturating_add(work.active)).max(1);
    let part = |count: u64| (u128::from(count) * u128::from(width) / u128::from(whole)) as usize;
    let (done, width) = (part(work.done), width as usize);
    let active = part(work.active).max(usize::from(work.active > 0)).min(width - done);
    format!("{}{}{}", "#".repeat(done), "=".repeat(active), ".".repeat(width - done - active))
}

fn bytes(number: u64) -> String {
    let (mut value, mut unit) = (number as f64, "B");
    for larger in ["KiB", "MiB", "GiB", "TiB", "PiB", "EiB"] {
        if value < 1024.0 {
            break;
        }
        (value, unit) = (value / 1024.0, larger);
    }
    if value < 10.0 && unit != "B" {
        format!("{value:.1} {unit}")
    } else {
        format!("{value:.0} {unit}")
    }
}

fn time(ms: u64) -> String {
    match ms / 1000 {
        seconds @ 0..60 => format!("{seconds} s"),
        seconds @ 60..3600 => format!("{} min {} s", seconds / 60, seconds % 60),
        seconds => format!("{} h {} min", seconds / 3600, seconds / 60 % 60),
    }
}

/// The screen as lines of text, without blanks at their ends.
pub(super) fn text(buffer: &Buffer) -> String {
    let area = buffer.area;
    let line = |y: u16| {
        let cells = (area.left()..area.right()).map(|x| buffer[(x, y)].symbol());
        format!("{}\n", cells.collect::<String>().trim_end())
    };
    let all: String = (area.top()..area.bottom()).map(line).collect();
    format!("{}\n", all.trim_end())
}
