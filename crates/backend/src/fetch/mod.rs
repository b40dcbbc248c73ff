//! How a task gets the map outputs that it reads: which lie here and which elsewhere, whom to ask for which next, when to ask
//! again, and what a failure blames. Sockets, bytes and pauses are the shell's.
//!
//! ```text
//!   Heard ──► Located ──► Source ──► here, lost or nowhere: at once
//!                           └──────► a lane of Plan ──► Question ──► Serving, at the holder ──► a first few of them come
//!                                                           └──────► no answer: Tries ──► again, or Located::broken
//! ```

mod locations;
mod plan;
mod serving;
mod tries;

pub use locations::{Heard, Located, Source};
pub use plan::{Plan, Question};
pub use serving::{Offered, Part, Serving};
pub use tries::Tries;
