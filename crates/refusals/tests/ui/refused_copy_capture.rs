//! Refused: a number captured by move.

use firesteel::prelude::*;

fn main() -> Result<()> {
    let ctx = Context::new()?;
    let factor = std::env::args().count() as u64;
    ctx.range(0..10u64).map(move |x| x * factor).count()?;
    Ok(())
}
