//! Pages about applications and clusters, made on the server: functions of a status and a request, as HTML and SVG.
//!
//! | module | owns |
//! |---|---|
//! | `site` | which page a path is, headers, refusals |
//! | `app` | the pages of one application, running or from a log |
//! | `history` | the list of applications, two runs side by side |
//! | `report` | one file with everything of an application |
//! | `sheet` | pages of tables: those of a master and a worker |
//! | `live`, `recent`, `known`, `album` | what tells open pages that something changed; what was made, found out or drawn before |
//! | `chart` | pictures |
//! | `frame`, `list`, `badge`, `text`, `assets` | what all pages share |
//!
//! Nothing here reads a clock, a file or a socket. Everything that a page shows is escaped by the macro that writes it;
//! pages work without their script, which only asks for them again when something changed.

mod album;
mod app;
mod assets;
mod badge;
mod chart;
mod frame;
mod history;
mod known;
mod list;
mod live;
mod recent;
mod report;
mod sheet;
mod site;
mod text;

pub use report::report;
pub use sheet::{
    SheetCell, SheetColumn, SheetKill, SheetLive, SheetOrder, SheetPage, SheetPages, SheetSearch,
    SheetTable, asset, sheet,
};
pub use site::Pages;
