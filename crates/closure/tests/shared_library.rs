//! Code that is not in the executable: a library can be loaded, and says that executors would not have its code.

#![cfg(all(target_os = "linux", not(miri)))]

use std::ffi::{CString, c_char, c_int, c_void};
use std::os::unix::ffi::OsStrExt;

use firesteel_closure::ExecutableHash;

const RTLD_NOW: c_int = 2;

unsafe extern "C" {
    fn dlopen(path: *const c_char, flags: c_int) -> *mut c_void;
    fn dlsym(library: *mut c_void, name: *const c_char) -> *mut c_void;
}

#[test]
fn code_in_a_shared_library_is_not_taken_for_the_executables() {
    let tests = std::env::current_exe().unwrap();
    let path = tests.parent().unwrap().with_file_name("examples").join("libplugin.so");
    assert!(path.exists(), "{}: cargo test builds it with all of this crate", path.display());
    let path = CString::new(path.as_os_str().as_bytes()).unwrap();
    // SAFETY: the library is one of ours, and its constructors do nothing in this process.
    let library = unsafe { dlopen(path.as_ptr(), RTLD_NOW) };
    assert!(!library.is_null(), "it has symbols that nobody has");
    // SAFETY: the library is loaded, and never unloaded.
    let found = unsafe { dlsym(library, c"refuses_executors".as_ptr()) };
    assert!(!found.is_null());
    // SAFETY: it is this function, of the library's own copy of the crate.
    let refuses_executors: extern "C" fn() -> bool = unsafe { std::mem::transmute(found) };
    assert!(refuses_executors());
    assert!(ExecutableHash::current().is_ok(), "the code of this test is in its executable");
}
