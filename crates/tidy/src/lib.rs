//! House rules that neither rustc nor clippy knows, checked over the workspace's own sources.
//!
//! [`Source`] is one file, read once and cut into what the rules need: its lines as written, its code
//! with comments and literals blanked out, and which lines belong to tests. [`check`] applies every
//! rule to one source and returns [`Complaint`]s; it never reads a file. `tests/workspace.rs` walks
//! the workspace and fails with the complaints, one `file:line: message` each. [`check_settings`] and [`check_guides`]
//! look at all sources together. [`table`] and [`with_part`] render the parts of guides that are generated.
//!
//! ```
//! use firesteel_tidy::{Source, check};
//!
//! let source = Source::new("crates/scheduler/src/core.rs", "//! Decides.\nuse std::fs;\n");
//! let complaints: Vec<String> = check(&source).iter().map(ToString::to_string).collect();
//! assert_eq!(complaints, ["crates/scheduler/src/core.rs:2: a pure core must not use `std::fs`"]);
//! ```

mod code;
mod docs;
mod fields;
mod figures;
mod generated;
mod guides;
mod rules;
mod settings;
mod source;
mod uses;
mod words;

pub use figures::{Results, table};
pub use generated::{as_section, with_part};
pub use guides::check_guides;
pub use rules::{Complaint, PURE_CORES, check};
pub use settings::{Registered, check_settings, registered};
pub use source::Source;
