//! A floating-point number is neither `Eq` nor `Ord`.

use firesteel::prelude::*;

fn main() -> Result<()> {
    let ctx = Context::builder().master("local").build()?;
    let prices = ctx.range(0..10u64).map(|n| (n as f64 / 3.0, n));
    prices.reduce_by_key(|a, b| a + b).count()?;
    prices.sort_by_key().count()?;
    prices.sort_by(|(price, _)| *price).count()?;
    Ok(())
}
