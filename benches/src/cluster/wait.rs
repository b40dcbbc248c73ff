//! Waiting for something that other processes bring about.

use std::{
    thread,
    time::{Duration, Instant},
};

use anyhow::{Result, bail};

/// How often to look.
const LOOK: Duration = Duration::from_millis(2);

/// Looks until there is something; an error that names `what` when that takes longer than `limit`.
pub(crate) fn until<T>(
    what: &str,
    limit: Duration,
    mut look: impl FnMut() -> Option<T>,
) -> Result<T> {
    let started = Instant::now();
    loop {
        if let Some(found) = look() {
            return Ok(found);
        }
        if started.elapsed() > limit {
            bail!("{what} did not come within {limit:?}");
        }
        thread::sleep(LOOK);
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::until;

    #[test]
    fn what_does_not_come_is_named() {
        let mut looks = 0;
        let third = || {
            looks += 1;
            (looks == 3).then_some("there")
        };
        assert_eq!(until("it", Duration::from_secs(60), third).unwrap(), "there");
        let error = until("rain", Duration::ZERO, || None::<()>).unwrap_err();
        assert_eq!(error.to_string(), "rain did not come within 0ns");
    }
}
