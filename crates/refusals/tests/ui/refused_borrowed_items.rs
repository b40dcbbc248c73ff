//! `"a"` is borrowed: it cannot be sent and come back.

use firesteel::prelude::*;

fn main() -> Result<()> {
    let ctx = Context::builder().master("local").build()?;
    ctx.parallelize(["a", "b"]).count()?;
    Ok(())
}
