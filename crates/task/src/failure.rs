//! Failures inside a task travel by unwinding with a typed payload ([`fail`]): iterators stay iterators of plain
//! items, and the loop they fuse into carries no error checks.

use firesteel_closure::WireError;
use firesteel_shuffle::{ReadError, SpillError};
use firesteel_types::TaskFailure;

/// Ends the running task with a typed failure.
#[cold]
pub fn fail(failure: TaskFailure) -> ! {
    std::panic::resume_unwind(Box::new(failure))
}

/// Ends the running task because something outside of it failed; the scheduler tries again.
#[cold]
pub fn fail_with(message: impl Into<String>) -> ! {
    fail(TaskFailure::Error { message: message.into() })
}

/// Ends the running task and its job: trying again cannot help.
#[cold]
pub fn fail_for_good(message: impl Into<String>) -> ! {
    fail(TaskFailure::Fatal { message: message.into() })
}

/// Turns an error into the failure that it means for the running task.
pub trait OrFail<T> {
    /// The value, or the end of the running task.
    fn or_fail(self) -> T;
}

/// A value that does not encode or decode will not do so next time either.
impl<T> OrFail<T> for Result<T, WireError> {
    #[inline]
    fn or_fail(self) -> T {
        self.unwrap_or_else(|error| fail_on_wire(error))
    }
}

#[cold]
fn fail_on_wire(error: WireError) -> ! {
    fail_for_good(error.to_string())
}

/// A record that cannot be encoded never can; a full disk may have room next time.
impl<T> OrFail<T> for Result<T, SpillError> {
    #[inline]
    fn or_fail(self) -> T {
        self.unwrap_or_else(|error| fail_spilling(error))
    }
}

#[cold]
fn fail_spilling(error: SpillError) -> ! {
    match error {
        SpillError::Wire(error) => fail_on_wire(error),
        other => fail_with(other.to_string()),
    }
}

/// What a task spilled itself and cannot read back: try again from the start, unless the type is why.
impl<T> OrFail<T> for Result<T, ReadError> {
    #[inline]
    fn or_fail(self) -> T {
        self.unwrap_or_else(|error| fail_reading(error))
    }
}

#[cold]
fn fail_reading(error: ReadError) -> ! {
    match error {
        ReadError::Wire(error) => fail_on_wire(error),
        other => fail_with(other.to_string()),
    }
}

impl<T> OrFail<T> for Result<T, TaskFailure> {
    #[inline]
    fn or_fail(self) -> T {
        self.unwrap_or_else(|failure| fail(failure))
    }
}
