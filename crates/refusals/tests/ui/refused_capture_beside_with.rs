//! Refused: a capture in a closure that is given an environment.

use firesteel::prelude::*;

fn main() -> Result<()> {
    let ctx = Context::new()?;
    let (factor, offset) = (2u64, std::env::args().count() as u64);
    ctx.range(0..10u64).with(factor).map(move |factor, x| x * factor + offset).count()?;
    Ok(())
}
