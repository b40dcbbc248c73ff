//! An application's code in a shared library, with the hook before `main`: the test `shared_library` loads it.

use firesteel_closure::{ExecutableHash, before_main};

fn never() -> bool {
    false
}

fn take_over() -> ! {
    unreachable!("this is no executor")
}

before_main!(if never => take_over);

/// Whether executors are refused, with the name of this library: copies of the executable would not have its code.
#[unsafe(no_mangle)]
pub extern "C" fn refuses_executors() -> bool {
    ExecutableHash::current().is_err_and(|error| error.to_string().contains("libplugin.so"))
}
