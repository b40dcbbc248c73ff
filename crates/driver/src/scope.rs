//! Scopes around calls of the RDD API: what a front door does in one step of its own shows as one step.

use std::cell::RefCell;
use std::sync::Arc;

use firesteel_types::CallSite;
use firesteel_types::event::RddScope;

use crate::Context;

thread_local! {
    static CURRENT: RefCell<Option<Arc<RddScope>>> = const { RefCell::new(None) };
}

/// The innermost scope that this thread is in.
pub(crate) fn current() -> Option<Arc<RddScope>> {
    CURRENT.with_borrow(Clone::clone)
}

/// Gives the thread back the scope that it was in, whatever happens meanwhile.
struct Left(Option<Arc<RddScope>>);

impl Drop for Left {
    fn drop(&mut self) {
        CURRENT.set(self.0.take());
    }
}

impl Context {
    /// Makes RDDs in a scope of this name: listeners are told that the operations which `make` calls are parts of it.
    /// Scopes nest, and are the thread's own.
    pub fn with_scope<R>(&self, name: &str, make: impl FnOnce() -> R) -> R {
        let (id, parent) = (CallSite::here("with_scope").call, current());
        let _left = Left(parent.clone());
        CURRENT.set(Some(Arc::new(RddScope { id, name: name.to_owned(), parent })));
        make()
    }
}
