//! Refused: a local variable borrowed.

use firesteel::prelude::*;

fn main() -> Result<()> {
    let ctx = Context::new()?;
    let factor = std::env::args().count() as u64;
    ctx.range(0..10u64).filter(|x| x % factor == 0).count()?;
    Ok(())
}
