//! Refused: a string captured by move.

use firesteel::prelude::*;

fn main() -> Result<()> {
    let ctx = Context::new()?;
    let prefix = String::from("x");
    ctx.range(0..10u64).map(move |x| format!("{prefix}{x}")).count()?;
    Ok(())
}
