//! `firesteel top`: how an application stands, live in a terminal, for those on ssh. It asks the REST API of the application, or of a
//! history server, and nobody else.
//!
//! | file | owns |
//! |---|---|
//! | `client` | requests, within limits of time and size |
//! | `model` | what is shown, out of what the API answers |
//! | `view` | the screen: a function of the model and of its size |

mod client;
mod model;
mod view;

use std::io::IsTerminal;
use std::path::PathBuf;
use std::process::ExitCode;
use std::sync::mpsc::{self, Receiver, RecvTimeoutError, Sender};
use std::time::Duration;

use clap::Args;
use ratatui::Terminal;
use ratatui::backend::TestBackend;
use ratatui::crossterm::event::{self, Event, KeyCode, KeyEventKind, KeyModifiers};

use crate::proof::Proof;
use crate::{Failure, daemons};
use client::Client;
use model::Overview;
use view::Screen;

#[derive(Args)]
pub(crate) struct TopFlags {
    /// Where the application, or a history server, answers [default: http://localhost:4040].
    address: Option<String>,
    /// The application's id [default: the one that runs there, or the last one].
    #[arg(long, value_name = "ID")]
    app: Option<String>,
    /// Seconds from one look to the next.
    #[arg(long, default_value_t = 2.0)]
    interval: f64,
    /// Prints one look as text, for files and scripts.
    #[arg(long)]
    once: bool,
    /// A file with the token that says who asks, for a server that wants to know [default: one made with the key of spark.ui.filters].
    /// It is sent only to an address that is given.
    #[arg(long, value_name = "FILE")]
    token_file: Option<PathBuf>,
    /// A file of settings, instead of spark-defaults.conf.
    #[arg(long, value_name = "FILE")]
    properties_file: Option<PathBuf>,
    /// A setting; can be repeated.
    #[arg(long = "conf", value_name = "KEY=VALUE")]
    settings: Vec<String>,
}

/// Where an application is looked for that nobody names.
const HERE: &str = "http://localhost:4040";

/// What is printed with `--once` where nobody says how large a terminal is.
const WIDTH: u16 = 120;
const HEIGHT: u16 = 40;

pub(crate) fn run(flags: TopFlags) -> Result<ExitCode, Failure> {
    let interval = Duration::try_from_secs_f64(flags.interval)
        .ok()
        .filter(|it| (Duration::from_millis(100)..=Duration::from_secs(3600)).contains(it))
        .ok_or("--interval takes seconds, from 0.1 to 3600")?;
    let address = flags.address.as_deref().unwrap_or(HERE);
    let client = Client::of(address)?.proving(proof(&flags)?);
    let first = model::look(&client, flags.app.as_deref())?;
    if flags.once {
        print!("{}", printed(&first, address)?);
        return Ok(ExitCode::SUCCESS);
    }
    if !std::io::stdout().is_terminal() {
        return Err("standard output is no terminal: add --once to get one look as text".into());
    }
    let (stop, stopped) = mpsc::channel();
    let (looks, seen) = mpsc::channel();
    let app = flags.app.clone().or(Some(first.id.clone()));
    let asking = std::thread::Builder::new().name("firesteel-top".to_owned());
    asking.spawn(move || ask(&client, app.as_deref(), interval, &looks, &stopped))?;
    let ended = show(Screen::new(address, first), &seen);
    drop(stop);
    ended?;
    Ok(ExitCode::SUCCESS)
}

/// Who asks. Whatever may answer where nobody named an address is told nothing.
fn proof(flags: &TopFlags) -> Result<Proof, Failure> {
    let conf = daemons::load(flags.properties_file.as_deref(), &flags.settings)?;
    conf.validate()?;
    match (&flags.address, &flags.token_file) {
        (None, Some(_)) => Err("--token-file needs the address that the token is for".into()),
        (None, None) => Ok(Proof::None),
        (Some(_), file) => Proof::of(&conf, file.as_deref()),
    }
}

/// What one look came to, or why there was none.
type Look = Result<Overview, String>;

/// Asks again and again, until nobody wants to know.
fn ask(
    client: &Client,
    app: Option<&str>,
    every: Duration,
    looks: &Sender<Look>,
    stopped: &Receiver<()>,
) {
    while stopped.recv_timeout(every) == Err(RecvTimeoutError::Timeout) {
        let look = model::look(client, app).map_err(|failure| failure.to_string());
        if looks.send(look).is_err() {
            return;
        }
    }
}

/// Draws until a key ends it. The terminal is left as it was, whatever happens.
fn show(mut screen: Screen, seen: &Receiver<Look>) -> Result<(), Failure> {
    let mut terminal = ratatui::try_init()?;
    let outcome = loop {
        seen.try_iter().for_each(|look| screen.take(look));
        if let Err(error) = terminal.draw(|frame| screen.draw(frame)) {
            break Err(error.into());
        }
        match ends(Duration::from_millis(250)) {
            Ok(true) => break Ok(()),
            Ok(false) => {}
            Err(error) => break Err(error.into()),
        }
    };
    ratatui::restore();
    outcome
}

/// Whether somebody pressed a key that ends it, within this time. Anything else, such as another size, has the screen drawn again.
fn ends(within: Duration) -> std::io::Result<bool> {
    if !event::poll(within)? {
        return Ok(false);
    }
    let Event::Key(key) = event::read()? else { return Ok(false) };
    let is_interrupt =
        key.modifiers.contains(KeyModifiers::CONTROL) && key.code == KeyCode::Char('c');
    let is_end = matches!(key.code, KeyCode::Char('q' | 'Q') | KeyCode::Esc);
    Ok(key.kind == KeyEventKind::Press && (is_end || is_interrupt))
}

/// One look as text.
fn printed(look: &Overview, address: &str) -> Result<String, Failure> {
    let size = |variable: &str, otherwise: u16| {
        let told = std::env::var(variable).ok().and_then(|text| text.parse().ok());
        told.filter(|it| (20..=1000).contains(it)).unwrap_or(otherwise)
    };
    let backend = TestBackend::new(size("COLUMNS", WIDTH), size("LINES", HEIGHT));
    let mut terminal = Terminal::new(backend)?;
    let screen = Screen::new(address, look.clone());
    terminal.draw(|frame| screen.draw(frame))?;
    Ok(view::text(terminal.backend().buffer()))
}

#[cfg(test)]
mod tests;
