//! A standalone cluster of real processes: how it comes together, what it refuses, what it survives, and
//! that nothing of it is left.

mod application;
mod daemon;
mod joining;
mod leaving;
mod logs;
mod pages;
mod replay;
mod rest;
mod running;
mod safe;
mod shipping;
mod slow_shipping;
mod submitting;
