//! Actions in the background: a future that can be awaited, waited for, or cancelled.

use std::future::Future;
use std::pin::Pin;
use std::sync::{Arc, Condvar, Mutex, MutexGuard};
use std::task::{Poll, Waker};

use firesteel_closure::{Closure, Data};
use firesteel_rdd::Pipe;
use firesteel_rdd::action::{Count, ForEach, OfPartition};
use firesteel_types::CallSite;

use super::background::{self, Work};
use crate::local_properties::{self, FutureJobs};
use crate::user_code::on_driver;
use crate::{Context, Error, Rdd, Result};

/// An action that runs in the background. Needs no async runtime: `.wait()` blocks, `.await` works in
/// any.
pub struct JobFuture<T> {
    shared: Arc<Shared<T>>,
    work: Arc<Work>,
    jobs: Arc<FutureJobs>,
    context: Context,
}

struct Shared<T> {
    state: Mutex<State<T>>,
    done: Condvar,
}

struct State<T> {
    result: Option<Result<T>>,
    finished: bool,
    waker: Option<Waker>,
}

impl<T> Shared<T> {
    fn lock(&self) -> MutexGuard<'_, State<T>> {
        self.state.lock().unwrap_or_else(|poisoned| poisoned.into_inner())
    }

    fn finish(&self, result: Result<T>) {
        let mut state = self.lock();
        state.result = Some(result);
        state.finished = true;
        let waker = state.waker.take();
        drop(state);
        self.done.notify_all();
        if let Some(waker) = waker {
            waker.wake();
        }
    }
}

impl<T: Send + 'static> JobFuture<T> {
    fn start(
        context: &Context,
        site: CallSite,
        action: impl FnOnce() -> Result<T> + Send + 'static,
    ) -> Self {
        let state = State { result: None, finished: false, waker: None };
        let shared = Arc::new(Shared { state: Mutex::new(state), done: Condvar::new() });
        let jobs = Arc::new(FutureJobs::default());
        let (id, mut properties) = (context.id(), local_properties::get(context.id()));
        properties.future = Some(jobs.clone());
        let target = shared.clone();
        let work = Work::new(move || {
            let own = local_properties::get(id);
            local_properties::change(id, |current| *current = properties);
            let result = on_driver(&site, action);
            local_properties::change(id, |current| *current = own);
            target.finish(result);
        });
        if let Err(source) = background::start(work.clone()) {
            let what = "a thread for an action".to_owned();
            shared.finish(Err(Error::Start { what, source: Arc::new(source) }));
        }
        JobFuture { shared, work, jobs, context: context.clone() }
    }

    /// Waits for the result. An action that waits for a thread runs on this one instead.
    pub fn wait(self) -> Result<T> {
        self.work.run_if_waiting();
        let mut state = self.shared.lock();
        while !state.finished {
            state = self.shared.done.wait(state).unwrap_or_else(|poisoned| poisoned.into_inner());
        }
        state.result.take().unwrap_or_else(taken_twice)
    }

    /// Whether the result is there.
    pub fn is_finished(&self) -> bool {
        self.shared.lock().finished
    }

    /// Cancels the action: its jobs, those that run and those that it would still start.
    pub fn cancel(&self) {
        let reason = "the future was cancelled";
        for job in self.jobs.cancel(reason) {
            self.context.0.engine.cancel_job(job, reason);
        }
    }
}

fn taken_twice<T>() -> Result<T> {
    Err(Error::Defect { message: "a future was polled after it was ready".to_owned() })
}

impl<T: Send + 'static> Future for JobFuture<T> {
    type Output = Result<T>;

    fn poll(self: Pin<&mut Self>, context: &mut std::task::Context<'_>) -> Poll<Self::Output> {
        let mut state = self.shared.lock();
        if state.finished {
            return Poll::Ready(state.result.take().unwrap_or_else(taken_twice));
        }
        state.waker = Some(context.waker().clone());
        Poll::Pending
    }
}

impl<T: 'static, P: Pipe<Item = T>> Rdd<T, P> {
    /// Any action, in the background: `rdd.in_background(|rdd| rdd.count())`.
    ///
    /// At most 256 run at a time in a program; more wait for their turn.
    #[track_caller]
    pub fn in_background<U, F>(&self, action: F) -> JobFuture<U>
    where
        U: Send + 'static,
        F: FnOnce(&Rdd<T, P>) -> Result<U> + Send + 'static,
    {
        self.start(CallSite::here("in_background"), move |rdd, _| action(rdd))
    }

    /// The action is given the call of the program that started it: its own place would be one of this file.
    fn start<U, F>(&self, site: CallSite, action: F) -> JobFuture<U>
    where
        U: Send + 'static,
        F: FnOnce(&Rdd<T, P>, CallSite) -> Result<U> + Send + 'static,
    {
        let rdd = self.clone();
        JobFuture::start(&self.context, site, move || action(&rdd, site))
    }

    /// [`Rdd::collect`] in the background.
    #[track_caller]
    pub fn collect_async(&self) -> JobFuture<Vec<T>>
    where
        T: Data,
    {
        self.start(CallSite::here("collect_async"), Rdd::collect_at)
    }

    /// [`Rdd::count`] in the background.
    #[track_caller]
    pub fn count_async(&self) -> JobFuture<u64> {
        self.start(CallSite::here("count_async"), |rdd, site| rdd.run_all(site, Count)?.sum())
    }

    /// [`Rdd::take`] in the background.
    #[track_caller]
    pub fn take_async(&self, n: usize) -> JobFuture<Vec<T>>
    where
        T: Data,
    {
        self.start(CallSite::here("take_async"), move |rdd, site| rdd.take_at(site, n))
    }

    /// [`Rdd::for_each`] in the background.
    #[track_caller]
    pub fn for_each_async<F>(&self, f: F) -> JobFuture<()>
    where
        F: Fn(T) + Closure,
    {
        let action = ForEach::new(self.ship(f));
        let site = CallSite::here("for_each_async");
        self.start(site, move |rdd, site| rdd.run_all(site, action)?.collect())
    }

    /// [`Rdd::for_each_partition`] in the background.
    #[track_caller]
    pub fn for_each_partition_async<F>(&self, f: F) -> JobFuture<()>
    where
        F: Fn(firesteel_rdd::Partition<T>) + Closure,
    {
        let action = OfPartition::new(self.ship(f));
        let site = CallSite::here("for_each_partition_async");
        self.start(site, move |rdd, site| rdd.run_all(site, action)?.collect())
    }
}
