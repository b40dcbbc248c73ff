//! Accepted: closures that capture nothing, and values passed in the open.

use firesteel::prelude::*;

fn main() -> Result<()> {
    let ctx = Context::builder().master("local[1]").arguments([""; 0]).build()?;
    let factor = std::env::args().count() as u64;
    let prefix = String::from("x");
    let named = ctx.range(0..3u64).with((factor, prefix)).map(|(f, p), x| format!("{p}{}", x * f));
    assert_eq!(named.collect()?, ["x0", "x1", "x2"]);
    Ok(())
}
