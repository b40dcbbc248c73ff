//! Refused: records without serde's traits that would have to travel.

use firesteel::prelude::*;

#[derive(Clone, Debug)]
struct Visit {
    pages: u64,
}

fn main() -> Result<()> {
    let ctx = Context::new()?;
    let visits = ctx.range(0..10u64).map(|pages| Visit { pages });
    visits.collect()?;
    let by_key = visits.map(|visit| (visit.pages % 2, visit));
    by_key.reduce_by_key(|a, _| a).count()?;
    Ok(())
}
