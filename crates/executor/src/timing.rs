//! How long something took, and how much processor time of it.
//!
//! The processor time of a thread costs a system call, which an empty task does not take as long as. So it is not asked
//! for where the answer is known: a thread that had so much a few microseconds ago has run since then.

use std::cell::Cell;
use std::sync::OnceLock;
use std::time::{Duration, Instant};

/// Nanoseconds in which a thread that gives its processor away is hardly back.
const BRIEF: u64 = 10_000;
/// For so many nanoseconds at most what was asked for is reckoned on: errors do not add up beyond it.
const TRUSTED: u64 = 200_000;

/// When something began, and how much processor time this thread had used then.
#[derive(Clone, Copy)]
pub(crate) struct Started(Moment);

impl Started {
    pub(crate) fn now() -> Self {
        Started(Moment::now())
    }

    /// Time since then in microseconds, and processor time in nanoseconds.
    pub(crate) fn elapsed(&self) -> (u64, u64) {
        let (now, then) = (Moment::now(), self.0);
        ((now.at - then.at) / 1000, now.cpu.saturating_sub(then.cpu))
    }
}

/// A moment, and the processor time of this thread until then; in nanoseconds.
#[derive(Clone, Copy)]
struct Moment {
    at: u64,
    cpu: u64,
    /// When the thread's clock was read last.
    read: u64,
}

thread_local! {
    static LAST: Cell<Option<Moment>> = const { Cell::new(None) };
}

impl Moment {
    fn now() -> Self {
        static START: OnceLock<Instant> = OnceLock::new();
        let at = START.get_or_init(Instant::now).elapsed().as_nanos() as u64;
        let moment = match LAST.get() {
            Some(last) if at - last.at < BRIEF && at - last.read < TRUSTED => {
                Moment { at, cpu: last.cpu + (at - last.at), read: last.read }
            }
            _ => Moment { at, cpu: thread_cpu_time().as_nanos() as u64, read: at },
        };
        LAST.set(Some(moment));
        moment
    }
}

fn thread_cpu_time() -> Duration {
    let time = rustix::time::clock_gettime(rustix::time::ClockId::ThreadCPUTime);
    Duration::new(time.tv_sec as u64, time.tv_nsec as u32)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn spin(time: Duration) {
        let start = Instant::now();
        while start.elapsed() < time {
            std::hint::spin_loop();
        }
    }

    #[test]
    fn processor_time_is_that_of_the_thread_not_of_the_clock() {
        let started = Started::now();
        std::thread::spawn(|| spin(Duration::from_millis(30))).join().unwrap();
        let (time, cpu) = started.elapsed();
        assert!(time >= 30_000 && cpu / 1000 < time / 2, "{cpu} of {time}");
    }

    #[test]
    fn many_brief_pieces_add_up_to_what_the_thread_used() {
        let before = thread_cpu_time();
        let mut sum = 0;
        for _ in 0..2_000 {
            let started = Started::now();
            spin(Duration::from_micros(5));
            sum += started.elapsed().1 / 1000;
        }
        let used = (thread_cpu_time() - before).as_micros() as u64;
        assert!(sum <= used + used / 4 && sum >= used / 4, "{sum} of {used}");
    }
}
