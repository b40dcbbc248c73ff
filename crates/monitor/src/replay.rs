//! The status of an application from the lines of its log.

use firesteel_status::{AppStatus, Retention};
use firesteel_types::Event;

use crate::spark::Decoder;

/// What was read is weighed when it may have come to so many bytes more.
const WEIGHED_EVERY: usize = 16 << 20;
/// An event, and a stage that a job may need, come to so many bytes, with what the line has of texts.
const EVENT: usize = 1000;
const STAGE: usize = 2000;

/// A status that grows line by line.
#[derive(Debug)]
pub struct Replay {
    status: AppStatus,
    decoder: Decoder,
    events: Vec<Event>,
    unreadable: u64,
    /// What may have come since the status was weighed.
    unweighed: usize,
}

impl Replay {
    /// Of a log without lines so far.
    pub fn new(retention: Retention) -> Self {
        Replay {
            status: AppStatus::new(retention),
            decoder: Decoder::default(),
            events: Vec::new(),
            unreadable: 0,
            unweighed: 0,
        }
    }

    /// The same of a status that takes no more than so many bytes of memory, roughly.
    #[must_use]
    pub fn within(mut self, bytes: usize) -> Self {
        self.status.set_limit(bytes);
        self
    }

    /// Of a log that was read to its end.
    pub(crate) fn of(status: AppStatus) -> Self {
        let decoder = Decoder::default();
        Replay { status, decoder, events: Vec::new(), unreadable: 0, unweighed: 0 }
    }

    /// Takes one line, without its end. One that cannot be read is counted, and changes nothing.
    pub fn line(&mut self, line: &[u8]) {
        if line.iter().all(u8::is_ascii_whitespace) {
            return;
        }
        self.events.clear();
        if self.decoder.decode(line, &mut self.events).is_err() {
            self.unreadable += 1;
            self.events.clear();
        }
        for (executor, name) in self.decoder.take_names() {
            self.status.name_executor(executor, &name);
        }
        let stages = self.events.iter().map(|event| match event {
            Event::JobStart { stages, .. } => stages.len(),
            _ => 0,
        });
        self.unweighed += line.len() + EVENT * self.events.len() + STAGE * stages.sum::<usize>();
        self.events.drain(..).for_each(|event| self.status.take(event));
        if self.unweighed >= WEIGHED_EVERY {
            self.unweighed = 0;
            self.status.trim();
            // A long line may have made it large.
            self.events = Vec::new();
        }
    }

    /// The status so far.
    pub fn status(&self) -> &AppStatus {
        &self.status
    }

    /// Lines that said nothing that could be understood.
    pub fn unreadable(&self) -> u64 {
        self.unreadable
    }
}
