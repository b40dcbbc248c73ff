//! Where a task panicked, with what message and, if `RUST_BACKTRACE` is set, through which calls: caught by a process-wide panic hook that keeps quiet
//! for task threads, because the job's error tells it.

use std::any::Any;
use std::backtrace::{Backtrace, BacktraceStatus};
use std::cell::{Cell, RefCell};
use std::panic::{AssertUnwindSafe, PanicHookInfo, catch_unwind};
use std::sync::Once;

use firesteel_types::TaskFailure;

thread_local! {
    static IN_TASK: Cell<bool> = const { Cell::new(false) };
    static PLACE: RefCell<Option<Place>> = const { RefCell::new(None) };
}

/// Where a panic happened.
struct Place {
    location: Option<String>,
    stack: Backtrace,
}

/// Runs `work`; a panic or a typed failure in it becomes a [`TaskFailure`].
pub fn catch<R>(work: impl FnOnce() -> R) -> Result<R, TaskFailure> {
    let before = enter();
    // A task that unwinds is thrown away whole: nothing it left half done is looked at again.
    let result = catch_unwind(AssertUnwindSafe(work));
    leave(before);
    result.map_err(caught)
}

/// Panics are remembered from now on; whether they were before.
fn enter() -> bool {
    install_hook();
    PLACE.set(None);
    IN_TASK.replace(true)
}

fn leave(before: bool) {
    IN_TASK.set(before);
}

fn caught(payload: Box<dyn Any + Send>) -> TaskFailure {
    failure_of(payload, PLACE.take())
}

/// Drops something of the user's where nobody waits for it: a panic in its `Drop` is told and goes no further.
pub fn drop_guarded<T>(value: T) {
    if let Err(failure) = catch(|| drop(value)) {
        tracing::error!(%failure, "a value could not be dropped");
    }
}

fn install_hook() {
    static INSTALLED: Once = Once::new();
    INSTALLED.call_once(|| {
        let others = std::panic::take_hook();
        std::panic::set_hook(Box::new(move |info| {
            if IN_TASK.get() {
                remember(info);
            } else {
                others(info);
            }
        }));
    });
}

fn remember(info: &PanicHookInfo<'_>) {
    let location = info.location().map(ToString::to_string);
    // Costs nothing unless RUST_BACKTRACE asks for it.
    PLACE.set(Some(Place { location, stack: Backtrace::capture() }));
}

fn failure_of(payload: Box<dyn Any + Send>, place: Option<Place>) -> TaskFailure {
    let payload = match payload.downcast::<TaskFailure>() {
        Ok(failure) => return *failure,
        Err(payload) => payload,
    };
    let failure = panicked(&*payload, place);
    let dropped = catch_unwind(AssertUnwindSafe(|| drop(payload)));
    // A payload that panics when it is dropped may bring another one that does.
    std::mem::forget(dropped);
    failure
}

fn panicked(payload: &(dyn Any + Send), place: Option<Place>) -> TaskFailure {
    let message = match (payload.downcast_ref::<&str>(), payload.downcast_ref::<String>()) {
        (Some(text), _) => (*text).to_owned(),
        (_, Some(text)) => text.clone(),
        _ => "a panic whose payload is not text".to_owned(),
    };
    let captured = |place: &&Place| place.stack.status() == BacktraceStatus::Captured;
    let stack_trace = place.as_ref().filter(captured).map(|place| place.stack.to_string());
    let location = place.and_then(|place| place.location);
    TaskFailure::Panicked {
        message,
        location: location.unwrap_or_else(|| "unknown location".to_owned()),
        stack_trace: stack_trace.unwrap_or_default(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_panic_is_told_with_its_message_and_place() {
        let failure = catch(|| panic!("no more {}", "coal")).unwrap_err();
        let TaskFailure::Panicked { message, location, stack_trace } = failure else {
            panic!("{failure}")
        };
        assert_eq!(message, "no more coal");
        let asked = Backtrace::capture().status() == BacktraceStatus::Captured;
        assert_eq!(asked, stack_trace.contains("a_panic_is_told"), "{stack_trace}");
        assert!(location.contains("panics.rs:"), "{location}");
    }

    #[test]
    fn a_payload_that_panics_when_it_is_dropped_is_a_failure_like_any_other() {
        struct Grenade;
        impl Drop for Grenade {
            fn drop(&mut self) {
                panic!("twice");
            }
        }
        let failure = catch(|| std::panic::panic_any(Grenade)).unwrap_err();
        assert!(failure.to_string().contains("payload is not text"), "{failure}");
        drop_guarded(Grenade);
    }

    #[test]
    fn a_typed_failure_keeps_its_type() {
        let killed = TaskFailure::Killed { reason: "test".into() };
        let found = catch(|| firesteel_task::fail(killed.clone())).unwrap_err();
        assert_eq!(found, killed);
    }
}
