//! Who may talk: secrets, and the identities that hold them.
//!
//! A secret never shows in `Debug` output. What is computed with it is in `handshake.rs`.

use std::collections::BTreeMap;
use std::fmt;
use std::sync::{Arc, RwLock};

use crate::SetupError;
use crate::address::check_name;

/// The identity of a process that has the cluster's one secret.
pub const DEFAULT_IDENTITY: &str = "cluster";
/// The identity of a process that has the secret of one application: its driver, its executors, and the
/// workers that start them.
pub const APPLICATION_IDENTITY: &str = "application";

/// A secret that both sides of a connection have. Never shown: its `Debug` hides it.
#[derive(Clone)]
pub struct Secret(Arc<[u8]>);

impl Secret {
    /// A secret from text; spaces around it do not count. `place` is for the message.
    pub fn new(text: &str, place: &str) -> Result<Self, SetupError> {
        let text = text.trim();
        if text.is_empty() {
            return Err(SetupError::EmptySecret { place: place.to_owned() });
        }
        if text.len() < 16 {
            tracing::warn!(
                place,
                "the secret is short and can be guessed; make one with `openssl rand -hex 32`"
            );
        }
        Ok(Self(text.as_bytes().into()))
    }

    /// A new random secret, for one application. As text it is what [`Secret::new`] takes.
    pub fn generate() -> Self {
        let text: String = random_bytes().iter().map(|byte| format!("{byte:02x}")).collect();
        Self(text.as_bytes().into())
    }

    /// The secret itself: to hand it to a child's environment, never to show it.
    pub fn expose(&self) -> &str {
        std::str::from_utf8(&self.0).expect("made from text")
    }

    /// A key of this secret for one purpose.
    pub(crate) fn key(&self, purpose: &str) -> [u8; 32] {
        blake3::derive_key(purpose, &self.0)
    }
}

impl fmt::Debug for Secret {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Secret(redacted)")
    }
}

/// Unpredictable bytes of the system.
pub(crate) fn random_bytes() -> [u8; 32] {
    let mut bytes = [0; 32];
    getrandom::fill(&mut bytes).expect("the system has random numbers");
    bytes
}

/// A name with its secret: what an environment proves when it dials.
#[derive(Clone, Debug)]
pub struct Identity {
    name: Arc<str>,
    secret: Secret,
}

impl Identity {
    /// The identity `name`, such as an application's id.
    pub fn new(name: &str, secret: Secret) -> Result<Self, SetupError> {
        check_name(name).map_err(|_| SetupError::InvalidIdentity { name: name.to_owned() })?;
        Ok(Self { name: name.into(), secret })
    }

    /// The name that the other side finds the secret by.
    pub fn name(&self) -> &str {
        &self.name
    }

    /// The secret that proves the name.
    pub fn secret(&self) -> &Secret {
        &self.secret
    }
}

/// The identities a server knows. Clones share them, so that an application's can be added when it
/// registers and removed when it ends.
#[derive(Clone, Debug, Default)]
pub struct Keyring(Arc<RwLock<BTreeMap<Arc<str>, Secret>>>);

impl Keyring {
    /// One that lets nobody in.
    pub fn new() -> Self {
        Self::default()
    }

    /// Lets an identity in, with this secret from now on.
    pub fn insert(&self, identity: Identity) {
        self.write().insert(identity.name, identity.secret);
    }

    /// Refuses an identity from now on. Connections it has stay.
    pub fn remove(&self, name: &str) {
        self.write().remove(name);
    }

    pub(crate) fn find(&self, name: &str) -> Option<Secret> {
        self.read().get(name).cloned()
    }

    fn read(&self) -> std::sync::RwLockReadGuard<'_, BTreeMap<Arc<str>, Secret>> {
        self.0.read().expect("no panic while it is locked")
    }

    fn write(&self) -> std::sync::RwLockWriteGuard<'_, BTreeMap<Arc<str>, Secret>> {
        self.0.write().expect("no panic while it is locked")
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_secret_is_never_shown_by_debug() {
        let identity = Identity::new("app-1", Secret::new("swordfish", "here").unwrap()).unwrap();
        let keyring = Keyring::new();
        keyring.insert(identity.clone());
        assert!(!format!("{identity:?} {keyring:?}").contains("swordfish"));
    }

    #[test]
    fn an_empty_secret_is_refused_with_the_command_that_makes_one() {
        let error = Secret::new(" \n", "in s.txt").unwrap_err().to_string();
        assert!(error.contains("in s.txt") && error.contains("openssl rand -hex 32"), "{error}");
    }

    #[test]
    fn made_secrets_differ_and_survive_a_trip_through_text() {
        let (one, other) = (Secret::generate(), Secret::generate());
        assert_ne!(one.expose(), other.expose());
        assert_eq!(Secret::new(one.expose(), "").unwrap().key("x"), one.key("x"));
    }
}
