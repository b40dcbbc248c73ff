//! Connections. Each direction is a queue, so what is sent in order arrives in order, as a stream of
//! bytes does; connections with masters may in savage runs lose, repeat and reorder messages, as
//! happens when processes reconnect and send requests again.

use std::collections::VecDeque;

use firesteel_backend::protocol::{ToDriver, ToExecutor};
use firesteel_standalone_core::messages::{Stamped, ToApplication, ToMaster, ToWorker};

use crate::cached::BlockMessage;
use crate::world::{Event, ProcId, World};

/// Every message that the simulated network carries.
#[derive(Clone, Debug)]
pub(crate) enum Message {
    ToMaster(ToMaster),
    ToWorker(Stamped<ToWorker>),
    ToApplication(Stamped<ToApplication>),
    /// To the client that submitted a driver; there is none in a run.
    Reply,
    ToDriver(ToDriver),
    ToExecutor(ToExecutor),
    /// Between an executor and its driver.
    Blocks(BlockMessage),
}

impl Message {
    /// Whether it tells of a task's end.
    fn is_report(&self) -> bool {
        matches!(self, Message::ToDriver(ToDriver::StatusUpdate { .. }))
    }
}

/// The end that made the connection.
pub(crate) const CLIENT: usize = 0;
/// The end that took it.
pub(crate) const SERVER: usize = 1;

#[derive(Debug)]
pub(crate) struct Connection {
    pub(crate) ends: [ProcId; 2],
    /// What the client calls the server: its number among masters, or 0 for an executor's driver.
    pub(crate) target: usize,
    pub(crate) with_master: bool,
    pub(crate) broken: bool,
    /// Which end knows that it is broken.
    pub(crate) noticed: [bool; 2],
    pub(crate) stalled_until: u64,
    pub(crate) made: u64,
    /// Whether the client could say over it where it serves its blocks.
    pub(crate) introduced: bool,
    /// What travels to each end.
    queues: [VecDeque<Message>; 2],
    /// When the last of it arrives.
    last: [u64; 2],
}

impl Connection {
    fn new(ends: [ProcId; 2], target: usize, with_master: bool, made: u64) -> Self {
        Connection {
            ends,
            target,
            with_master,
            made,
            introduced: true,
            broken: false,
            noticed: [false; 2],
            stalled_until: 0,
            queues: [VecDeque::new(), VecDeque::new()],
            last: [0; 2],
        }
    }
}

impl World {
    /// Sends from a client over its connection to a server, which is made when there is none.
    pub(crate) fn send_to(
        &mut self,
        client: ProcId,
        server: Option<ProcId>,
        target: usize,
        message: Message,
    ) {
        let open = self.procs[client].links.get(&target).copied();
        let open = open.filter(|connection| !self.connections[*connection].noticed[CLIENT]);
        let connection = match (open, server.filter(|server| self.procs[*server].alive)) {
            (Some(connection), _) => connection,
            (None, Some(server)) => self.connect(client, server, target),
            (None, None) => {
                self.counters.connections_refused += 1;
                let at = self.now + 1 + self.rng.u64(..20);
                return self.push(at, Event::Refused { client, target });
            }
        };
        self.send(connection, SERVER, message);
    }

    fn connect(&mut self, client: ProcId, server: ProcId, target: usize) -> usize {
        let with_master = !self.procs[client].is_executor();
        let id = self.connections.len();
        let mut made = Connection::new([client, server], target, with_master, self.now);
        if !with_master && self.faulty() && self.rng.u8(..64) == 0 {
            self.counters.introductions_lost += 1;
            made.introduced = false;
        }
        self.connections.push(made);
        self.procs[client].links.insert(target, id);
        self.procs[client].connections.push(id);
        self.procs[server].connections.push(id);
        id
    }

    /// Sends to one end of a connection. Into a broken one it vanishes, and the sender hears of it.
    pub(crate) fn send(&mut self, id: usize, to: usize, message: Message) {
        let Some(connection) = self.connections.get(id) else { return };
        if connection.broken {
            self.counters.messages_cut += 1;
            self.counters.reports_lost += u64::from(message.is_report());
            let at = self.now + 1 + self.rng.u64(..50);
            return self.push(at, Event::Broken { connection: id, end: 1 - to });
        }
        let savage = connection.with_master && self.faulty();
        if savage && self.rng.u8(..100) < self.plan.loss {
            self.counters.messages_lost += 1;
            return;
        }
        if savage && self.rng.u8(..100) < self.plan.repetition {
            self.counters.messages_repeated += 1;
            self.enqueue(id, to, message.clone());
        }
        self.enqueue(id, to, message);
    }

    fn enqueue(&mut self, id: usize, to: usize, message: Message) {
        let delay = 1 + self.rng.u64(..if self.faulty() { self.plan.delay_ms } else { 3 });
        let connection = &mut self.connections[id];
        let at = (self.now + delay).max(connection.last[to]);
        connection.last[to] = at;
        connection.queues[to].push_back(message);
        self.push(at, Event::Arrives { connection: id, end: to });
    }

    /// The next message for this end, if it can take one now.
    pub(crate) fn arrival(&mut self, id: usize, end: usize) -> Option<Message> {
        let connection = &self.connections[id];
        let receiver = &self.procs[connection.ends[end]];
        if !receiver.alive || connection.noticed[end] {
            self.connections[id].queues[end].clear();
            return None;
        }
        let ready = connection.stalled_until.max(receiver.paused_until);
        if ready > self.now {
            self.push(ready, Event::Arrives { connection: id, end });
            return None;
        }
        let savage = connection.with_master && self.faulty();
        let overtakes = savage && self.rng.u8(..100) < self.plan.overtaking;
        let queue = &mut self.connections[id].queues[end];
        if overtakes && queue.len() > 1 {
            self.counters.messages_overtaken += 1;
            return queue.pop_back();
        }
        queue.pop_front()
    }

    /// Breaks a connection. What is on its way is lost from some point on; each end hears of it in its
    /// own time, if at all before it sends something.
    pub(crate) fn break_connection(&mut self, id: usize, silent: bool) {
        if self.connections[id].broken {
            return;
        }
        self.connections[id].broken = true;
        for end in [CLIENT, SERVER] {
            let queue = &mut self.connections[id].queues[end];
            let kept = self.rng.usize(..=queue.len());
            self.counters.messages_cut += (queue.len() - kept) as u64;
            let reports = queue.range(kept..).filter(|message| message.is_report()).count();
            self.counters.reports_lost += reports as u64;
            queue.truncate(kept);
            let last = self.connections[id].last[end];
            let slow = self.faulty() && self.rng.u8(..4) == 0 && !self.plan.masters_only;
            let notice = match (silent, slow) {
                (true, _) => 9000,
                (false, true) => self.rng.u64(..3000),
                (false, false) => self.rng.u64(..20),
            };
            let at = last.max(self.now) + 1 + notice;
            self.push(at, Event::Broken { connection: id, end });
        }
    }
}
