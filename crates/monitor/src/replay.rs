//! The status of an application from the lines of its log.

use firesteel_status::{AppStatus, Retention};
use firesteel_types::Event;

use crate::spark::Decoder;

/// A status that grows line by line.
#[derive(Debug)]
pub struct Replay {
    status: AppStatus,
    decoder: Decoder,
    events: Vec<Event>,
    unreadable: u64,
}

impl Replay {
    /// Of a log without lines so far.
    pub fn new(retention: Retention) -> Self {
        Replay {
            status: AppStatus::new(retention),
            decoder: Decoder::default(),
            events: Vec::new(),
            unreadable: 0,
        }
    }

    /// Of a log that was read to its end.
    pub(crate) fn of(status: AppStatus) -> Self {
        Replay { status, decoder: Decoder::default(), events: Vec::new(), unreadable: 0 }
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
        self.events.drain(..).for_each(|event| self.status.take(event));
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
