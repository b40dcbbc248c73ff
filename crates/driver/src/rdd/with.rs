//! An RDD together with an environment: how values that a closure needs are passed in the open.

use std::sync::Arc;

use firesteel_closure::{Closure, Data, Pure, Shared};

use crate::Rdd;

/// An RDD together with an environment; see [`Rdd::with`]. Its adapters and actions are those of [`Rdd`] that take
/// closures, with `&E` as the closures' first argument.
#[must_use = "`with` only begins: call an adapter on it"]
pub struct With<T, P, E> {
    pub(super) rdd: Rdd<T, P>,
    pub(super) environment: Arc<E>,
}

impl<T, P, E: Data> With<T, P, E> {
    pub(super) fn rdd(&self) -> &Rdd<T, P> {
        &self.rdd
    }

    pub(super) fn ship<F: Closure>(&self, f: F) -> Shared<E, F> {
        Shared::new(self.environment.clone(), f)
    }

    /// A function of two that stays on the driver.
    pub(super) fn here<U>(&self, f: impl Fn(&E, U, U) -> U) -> impl Fn(U, U) -> U {
        move |left, right| f(&self.environment, left, right)
    }
}

impl<T, P> Rdd<T, P> {
    pub(super) fn rdd(&self) -> &Self {
        self
    }

    pub(super) fn ship<F: Closure>(&self, f: F) -> Pure<F> {
        Pure::new(f)
    }

    /// A function of two that stays on the driver.
    pub(super) fn here<U>(&self, f: impl Fn(U, U) -> U) -> impl Fn(U, U) -> U {
        f
    }
}

/// The type of a closure that is sent: `code!(plain F)` has no environment, `code!(shared F)` that of [`With`].
macro_rules! code {
    (plain $f:ident) => { firesteel_closure::Pure<$f> };
    (shared $f:ident) => { firesteel_closure::Shared<E, $f> };
}
pub(super) use code;
