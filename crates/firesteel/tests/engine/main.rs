//! The engine as its users see it: every operation against a plain-Rust oracle, in every transport;
//! failures, cancellation, listeners and shared variables from outside.
//!
//! One executable, because each one that links is an executable which the process transport starts.

mod actions;
mod caching;
mod cancellation;
mod external;
mod failures;
mod joins;
mod listening;
mod losses;
mod narrow;
mod numbers;
mod pairs;
mod properties;
mod rig;
mod sampling;
mod shared;
mod shuffles;
mod sorting;
mod sources;
