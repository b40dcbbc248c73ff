//! Credentials that are read again, beside everything else: a plugin of a kubeconfig file is a program, which may hang.

use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use kube::Client;

use super::requests::Requests;
use crate::Error;

/// So long one attempt is waited for before another one is made. What comes later is used all the same.
const PATIENCE: Duration = Duration::from_secs(60);

/// The last attempt to read them.
#[derive(Debug, Default)]
pub(super) struct Credentials {
    reading: Option<(Instant, JoinHandle<()>)>,
}

impl Credentials {
    /// Reads them, unless that is under way. The requests have the new ones as soon as they are there.
    pub(super) fn read(
        &mut self,
        requests: Requests,
        client: impl FnOnce() -> Result<Client, Error> + Send + 'static,
    ) {
        let is_read = |(since, reading): &(Instant, JoinHandle<()>)| {
            since.elapsed() < PATIENCE && !reading.is_finished()
        };
        if self.reading.as_ref().is_some_and(is_read) {
            return;
        }
        // Not a thread of the runtime: its end would wait for this one.
        let reads = move || match client() {
            Ok(client) => requests.use_client(client),
            Err(error) => tracing::warn!(%error, "credentials could not be read again"),
        };
        match std::thread::Builder::new().name("credentials".to_owned()).spawn(reads) {
            Ok(reading) => self.reading = Some((Instant::now(), reading)),
            Err(error) => tracing::warn!(%error, "credentials could not be read again"),
        }
    }
}

#[cfg(test)]
mod tests {
    use std::sync::mpsc::channel;

    use super::*;
    use crate::fake::{ApiServer, refuses};

    #[tokio::test(flavor = "current_thread")]
    async fn nobody_waits_for_credentials_and_they_are_used_when_they_come() {
        let old = ApiServer::start(|_| refuses(401, "Unauthorized")).await;
        let new = ApiServer::start(|_| refuses(404, "pods \"d\" not found")).await;
        let requests = Requests::new(old.client.clone(), "jobs", "spark-1", PATIENCE);
        let (sender, hangs) = channel::<Client>();
        let mut credentials = Credentials::default();
        credentials.read(requests.clone(), move || Ok(hangs.recv().unwrap()));
        credentials.read(requests.clone(), || unreachable!("it is under way"));
        requests.get("d").await.unwrap_err();
        assert_eq!((old.asked().len(), new.asked().len()), (1, 0));
        sender.send(new.client.clone()).unwrap();
        credentials.reading.take().unwrap().1.join().unwrap();
        requests.get("d").await.unwrap_err();
        assert_eq!((old.asked().len(), new.asked().len()), (1, 1));
    }
}
