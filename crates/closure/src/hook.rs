//! Taking over before `main`: how an application's executable becomes an executor without a line of
//! the user's `main` having run.
//!
//! Other constructors may stand behind the hook, an allocator's among them, which works badly until it
//! was called. They run first: who takes over finds the program as its `main` would.

/// Before `main` of every program that links the crate which says this: runs a function that never
/// returns, if another one says so. That one must not panic and has to be quick.
#[macro_export]
macro_rules! before_main {
    (if $condition:path => $function:path) => {
        const _: () = {
            #[cfg(all(target_os = "linux", target_env = "gnu"))]
            unsafe extern "C" fn before_main(
                count: ::core::ffi::c_int,
                arguments: $crate::hook::Texts,
                variables: $crate::hook::Texts,
            ) {
                if $condition() {
                    // SAFETY: called by the C library as a constructor, with what it gives to all
                    // of them; the function takes over, so none is called a second time.
                    unsafe { $crate::hook::run_later(before_main, count, arguments, variables) };
                    $function()
                }
            }

            #[cfg(not(all(target_os = "linux", target_env = "gnu")))]
            unsafe extern "C" fn before_main() {
                if $condition() {
                    $function()
                }
            }

            // SAFETY: the section holds pointers to functions which the C runtime calls in turn on
            // the main thread, after the C library is set up and before `main`; this static is exactly
            // such a pointer, and is never unloaded. The C library of GNU gives them the program's
            // arguments and variables.
            #[used]
            #[cfg_attr(
                not(any(target_os = "macos", target_os = "ios")),
                unsafe(link_section = ".init_array")
            )]
            #[cfg_attr(
                any(target_os = "macos", target_os = "ios"),
                unsafe(link_section = "__DATA,__mod_init_func")
            )]
            static HOOK: $crate::hook::Constructor = before_main;
        };
    };
}

#[cfg(all(target_os = "linux", target_env = "gnu"))]
pub use linux::*;

/// What is called before `main`.
#[cfg(not(all(target_os = "linux", target_env = "gnu")))]
pub type Constructor = unsafe extern "C" fn();

#[cfg(all(target_os = "linux", target_env = "gnu"))]
mod linux {
    use std::ffi::{c_char, c_int};

    /// Texts of C, up to a null.
    pub type Texts = *const *const c_char;

    /// What the C library of GNU calls before `main`.
    pub type Constructor = unsafe extern "C" fn(c_int, Texts, Texts);

    /// Where the constructors of this program begin and end, as the linker says; two nulls in a shared library, for
    /// which not every linker does: there the symbols must be weak, or it could not be loaded.
    #[cfg(target_arch = "x86_64")]
    fn constructors() -> (*const Option<Constructor>, *const Option<Constructor>) {
        let (start, end);
        // SAFETY: reads two addresses from the table that the loader has filled before any code ran.
        unsafe {
            std::arch::asm!(
                ".weak __init_array_start",
                ".weak __init_array_end",
                "mov {start}, qword ptr [rip + __init_array_start@GOTPCREL]",
                "mov {end}, qword ptr [rip + __init_array_end@GOTPCREL]",
                start = out(reg) start,
                end = out(reg) end,
                options(nomem, nostack, preserves_flags, pure),
            );
        }
        (start, end)
    }

    #[cfg(not(target_arch = "x86_64"))]
    fn constructors() -> (*const Option<Constructor>, *const Option<Constructor>) {
        unsafe extern "C" {
            static __init_array_start: [Option<Constructor>; 0];
            static __init_array_end: [Option<Constructor>; 0];
        }
        ((&raw const __init_array_start).cast(), (&raw const __init_array_end).cast())
    }

    /// Calls the constructors that stand behind this one.
    ///
    /// # Safety
    ///
    /// Only for that constructor itself, with the arguments it got, and if it never returns: else
    /// they are called twice.
    pub unsafe fn run_later(own: Constructor, count: c_int, arguments: Texts, variables: Texts) {
        let (start, end) = constructors();
        if start.is_null() || end.is_null() {
            return;
        }
        // SAFETY: between these two symbols the linker has put one constructor after the other, and
        // all have been relocated before the first is called.
        let all = unsafe { std::slice::from_raw_parts(start, end.offset_from_unsigned(start)) };
        for constructor in later(all, own) {
            // SAFETY: the C library would have called it next, in this way.
            unsafe { constructor(count, arguments, variables) };
        }
    }

    fn later(all: &[Option<Constructor>], own: Constructor) -> impl Iterator<Item = Constructor> {
        let is_own = move |other: &Option<Constructor>| {
            other.is_some_and(|other| std::ptr::fn_addr_eq(other, own))
        };
        let behind = all.iter().position(is_own).map_or(all.len(), |position| position + 1);
        all[behind..].iter().flatten().copied()
    }

    #[cfg(test)]
    mod tests {
        use super::*;

        unsafe extern "C" fn first(count: c_int, _: Texts, _: Texts) {
            assert_eq!(count, 1);
        }

        unsafe extern "C" fn second(count: c_int, _: Texts, _: Texts) {
            assert_eq!(count, 2);
        }

        unsafe extern "C" fn third(count: c_int, _: Texts, _: Texts) {
            assert_eq!(count, 3);
        }

        #[test]
        fn those_behind_are_called_and_no_others() {
            let all: [Option<Constructor>; 5] =
                [Some(first), None, Some(second), None, Some(third)];
            let of =
                |own: Constructor, all| later(all, own).map(|it| it as usize).collect::<Vec<_>>();
            let [second_at, third_at] = [second as Constructor, third].map(|it| it as usize);
            assert_eq!(of(first, &all), [second_at, third_at]);
            assert_eq!(of(second, &all), [third_at]);
            assert!(of(third, &all).is_empty());
            assert!(of(first, &all[1..]).is_empty(), "it is not among them");
        }
    }
}
