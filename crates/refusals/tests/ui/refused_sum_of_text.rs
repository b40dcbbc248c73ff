//! Text is not added up.

use firesteel::prelude::*;

fn main() -> Result<()> {
    let ctx = Context::builder().master("local").build()?;
    ctx.range(0..10u64).map(|n| n.to_string()).sum()?;
    Ok(())
}
