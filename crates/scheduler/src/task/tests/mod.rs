//! Tests of the task scheduler: a rig that drives it and writes down what it does, rules one by
//! one, and runs drawn at random.

mod model;
mod pipelining;
mod placement;
mod poison;
mod properties;
mod rig;
mod rules;
mod trouble;
