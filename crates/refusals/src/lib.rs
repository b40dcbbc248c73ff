//! Nothing but tests: programs that must not compile, with what their authors hear (`tests/ui`).
//!
//! A crate of its own so that they are built against a small `firesteel`, without its default features.
