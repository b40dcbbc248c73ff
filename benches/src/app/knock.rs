//! Jobs of `./bench k8s`: tasks that tell who runs them, and a driver that does nothing.

use std::io::Write;
use std::net::TcpStream;
use std::time::Duration;

use firesteel::prelude::*;

/// How long a task takes.
const PAUSE: Duration = Duration::from_millis(20);

fn context(name: &str) -> Result<Context> {
    let builder = Context::builder().app_name(name).config("spark.ui.enabled", false);
    builder.arguments([] as [&str; 0]).build()
}

/// Two tasks at a time, again and again, until nobody listens at the address any more.
pub(crate) fn knock(address: &str) -> Result<()> {
    let ctx = context("knock")?;
    loop {
        let two = ctx.parallelize_in(2, 0..2u64).with(address.to_owned());
        if two.map(|address, _| tell(address)).sum()? < 2 {
            return Ok(());
        }
    }
}

/// 1 if somebody listened.
fn tell(address: &str) -> u64 {
    let host = std::env::var("HOSTNAME").unwrap_or_default();
    let told = TcpStream::connect(address).and_then(|mut all| all.write_all(host.as_bytes()));
    std::thread::sleep(PAUSE);
    u64::from(told.is_ok())
}

/// One job, and then nothing until it is killed.
pub(crate) fn idle() -> Result<()> {
    let ctx = context("idle")?;
    println!("RESULT idle {}", ctx.parallelize_in(2, 0..1000u32).count()?);
    loop {
        std::thread::sleep(Duration::from_secs(3600));
    }
}
