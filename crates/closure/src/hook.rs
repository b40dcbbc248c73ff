//! Taking over before `main`: how an application's executable becomes an executor without a line of
//! the user's program having run.

/// Runs a function before `main` in every program that links the crate which says this.
///
/// The function must not panic and must be quick when there is nothing to do; it may never return.
#[macro_export]
macro_rules! before_main {
    ($function:path) => {
        const _: () = {
            extern "C" fn before_main() {
                $function()
            }

            // SAFETY: the section holds pointers to functions without arguments and result which the
            // C runtime calls in turn on the main thread, after the C library is set up and before
            // `main`; this static is exactly such a pointer, and is never unloaded.
            #[used]
            #[cfg_attr(
                not(any(target_os = "macos", target_os = "ios")),
                unsafe(link_section = ".init_array")
            )]
            #[cfg_attr(
                any(target_os = "macos", target_os = "ios"),
                unsafe(link_section = "__DATA,__mod_init_func")
            )]
            static HOOK: extern "C" fn() = before_main;
        };
    };
}
