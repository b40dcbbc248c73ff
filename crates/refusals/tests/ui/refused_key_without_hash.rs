//! Refused: a key that cannot be hashed.

use firesteel::prelude::*;
use serde::{Deserialize, Serialize};

#[derive(Clone, PartialEq, Eq, Serialize, Deserialize)]
struct Page(u64);

fn main() -> Result<()> {
    let ctx = Context::new()?;
    let pairs = ctx.range(0..10u64).map(|x| (Page(x % 2), x));
    pairs.reduce_by_key(|a, b| a + b).count()?;
    Ok(())
}
