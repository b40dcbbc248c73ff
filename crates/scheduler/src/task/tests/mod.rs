//! Tests of the task scheduler: a rig that drives it and writes down what it does, rules one by
//! one, and lives drawn at random.

mod ahead;
mod model;
mod placement;
mod poison;
mod properties;
mod rig;
mod rules;
mod trouble;
