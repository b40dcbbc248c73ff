//! Requests on their way to the API server and back, and watches.

use firesteel_kubernetes_core::allocator::{AllocatorEvent, Change, CreateAnswer, PodRequest};
use firesteel_kubernetes_core::api::ApiError;
use firesteel_kubernetes_core::pod::Pod;
use firesteel_kubernetes_core::{ClaimName, PodName, PodUid, Version};

use super::plan::REQUEST_MS;
use super::{Event, Part, World};

/// What a driver asks of the API server.
#[derive(Clone, Debug)]
pub(super) enum Request {
    Create(PodRequest),
    Delete {
        name: PodName,
        uid: PodUid,
        grace_ms: u64,
    },
    /// Label it as inactive.
    Keep(PodUid),
    List(u64),
    ListClaims(u64),
    DeleteClaim(ClaimName),
    Watch(u64, Version),
}

impl Request {
    /// What the driver hears when it fails, if it hears of it.
    fn failed(&self, error: ApiError) -> Option<AllocatorEvent> {
        Some(match self {
            Request::Create(request) => AllocatorEvent::Created {
                executor: request.executor,
                attempt: request.attempt,
                answer: Err(error),
            },
            Request::Delete { uid, .. } => {
                AllocatorEvent::Deleted { uid: uid.clone(), answer: Err(error) }
            }
            Request::Keep(_) => return None,
            Request::List(number) => AllocatorEvent::Listed { number: *number, answer: Err(error) },
            Request::ListClaims(number) => {
                AllocatorEvent::ClaimsListed { number: *number, answer: Err(error) }
            }
            Request::DeleteClaim(name) => {
                AllocatorEvent::ClaimDeleted { name: name.clone(), answer: Err(error) }
            }
            Request::Watch(number, _) => {
                AllocatorEvent::WatchEnded { number: *number, error: Some(error) }
            }
        })
    }
}

/// A watch that is open.
#[derive(Clone, Copy, Debug)]
pub(super) struct Stream {
    number: u64,
    position: usize,
    pub(super) stalled: bool,
}

impl World {
    fn in_percent(&mut self, percent: u8) -> bool {
        self.part == Part::Faults && self.rng.u8(..100) < percent
    }

    pub(super) fn delay(&mut self) -> u64 {
        1 + self.rng.u64(..self.plan.delay_ms)
    }

    /// A request leaves the driver.
    pub(super) fn send(&mut self, of: u64, request: Request) -> Result<(), String> {
        self.check_request(&request)?;
        let delay = self.delay();
        let timeout = || ApiError::Unreachable("timeout".to_owned());
        if self.in_percent(self.plan.request_loss) {
            self.counters.requests_lost += 1;
            return self.answer_after(of, REQUEST_MS, request.failed(timeout()));
        }
        let is_watch = matches!(request, Request::Watch(..));
        if self.in_percent(self.plan.silence) && !is_watch {
            self.counters.requests_unanswered += 1;
            self.after(delay, Event::RequestArrives(of, request, true));
            return Ok(());
        }
        let late = self.in_percent(self.plan.late) && !is_watch;
        if late || self.in_percent(self.plan.answer_loss) {
            let failed = request.failed(timeout());
            let wait = if late { REQUEST_MS + self.rng.u64(..REQUEST_MS * 4 / 5) } else { delay };
            self.counters.requests_late += u64::from(late);
            self.counters.answers_lost += u64::from(!late);
            self.after(wait, Event::RequestArrives(of, request, true));
            return self.answer_after(of, REQUEST_MS, failed);
        }
        self.after(delay, Event::RequestArrives(of, request, false));
        Ok(())
    }

    fn answer_after(
        &mut self,
        of: u64,
        ms: u64,
        event: Option<AllocatorEvent>,
    ) -> Result<(), String> {
        if let Some(event) = event {
            self.after(ms, Event::AnswerArrives(of, event));
        }
        Ok(())
    }

    pub(super) fn answer_arrives(&mut self, of: u64, event: AllocatorEvent) -> Result<(), String> {
        let error = match &event {
            AllocatorEvent::Created { answer, .. } => answer.as_ref().err(),
            AllocatorEvent::Deleted { answer, .. } => answer.as_ref().err(),
            AllocatorEvent::Listed { answer, .. } => answer.as_ref().err(),
            AllocatorEvent::ClaimsListed { answer, .. } => answer.as_ref().err(),
            AllocatorEvent::ClaimDeleted { answer, .. } => answer.as_ref().err(),
            AllocatorEvent::WatchEnded { error, .. } => error.as_ref(),
            _ => None,
        };
        if let Some(ApiError::Throttled { retry_after_ms: Some(ms), .. }) = error
            && of == self.generation
        {
            self.book.wait_until(self.now + ms);
        }
        if let AllocatorEvent::Created { executor, answer: Ok(answer), .. } = &event
            && self.server.is_strangers(&answer.pod.uid)
            && of == self.generation
        {
            self.book.name_taken(*executor);
        }
        self.feed_allocator(of, event)
    }

    /// A request comes to the server. If its answer is lost, what it does is done nevertheless.
    pub(super) fn request_arrives(
        &mut self,
        of: u64,
        request: Request,
        lost: bool,
    ) -> Result<(), String> {
        if let Some(error) = self.server.refusal(self.now) {
            match error {
                ApiError::Throttled { .. } => self.counters.requests_throttled += 1,
                ApiError::Unauthorized(_) => self.counters.credentials_expired += 1,
                _ => self.counters.server_down += 1,
            }
            let delay = self.delay();
            return self.answer_after(of, delay, request.failed(error).filter(|_| !lost));
        }
        let over = self.driver.as_ref().is_some_and(|driver| driver.allocator.is_over());
        if over && of != self.generation {
            // Its owner is gone: what it creates is collected.
            return Ok(());
        }
        let answer = match request {
            Request::Create(request) => Some(self.create(request)?),
            Request::Delete { name, uid, grace_ms } => Some(self.delete(&name, uid, grace_ms)?),
            Request::Keep(uid) => {
                self.server.change(&uid, |pod| pod.inactive = true);
                self.changed();
                None
            }
            Request::List(number) => Some(self.list(number)),
            Request::ListClaims(number) => {
                let answer = Ok(self.server.list_claims());
                Some(AllocatorEvent::ClaimsListed { number, answer })
            }
            Request::DeleteClaim(name) => Some(self.delete_claim(name)),
            Request::Watch(number, from) => self.watch(of, number, from, lost),
        };
        let delay = self.delay();
        self.answer_after(of, delay, answer.filter(|_| !lost))
    }

    fn create(&mut self, request: PodRequest) -> Result<AllocatorEvent, String> {
        self.create_claims(&request)?;
        let answer = match self.server.by_name(&request.name) {
            Some(pod) => {
                match self.server.is_strangers(&pod.uid) {
                    true => self.counters.names_taken += 1,
                    false => self.counters.pods_adopted += 1,
                }
                Ok(Box::new(CreateAnswer { pod: Pod::clone(pod), existed: true }))
            }
            None => match self.server.refuses_pod(self.now) {
                Some(error) => Err(self.count_refusal(error)),
                None => {
                    Ok(Box::new(CreateAnswer { pod: self.create_pod(&request), existed: false }))
                }
            },
        };
        let PodRequest { executor, attempt, .. } = request;
        Ok(AllocatorEvent::Created { executor, attempt, answer })
    }

    /// Claims come before the pod, whatever becomes of that.
    fn create_claims(&mut self, request: &PodRequest) -> Result<(), String> {
        self.check_mounts(request)?;
        for mount in &request.mounts {
            self.counters.claims_reused += u64::from(mount.reused);
            if mount.is_new {
                self.counters.claims_created +=
                    u64::from(self.server.create_claim(mount, request.generation));
            }
        }
        Ok(())
    }

    fn delete_claim(&mut self, name: ClaimName) -> AllocatorEvent {
        let there = self.server.delete_claim(&name);
        self.counters.claims_deleted += u64::from(there);
        let answer = if there { Ok(()) } else { Err(ApiError::NotFound) };
        AllocatorEvent::ClaimDeleted { name, answer }
    }

    fn count_refusal(&mut self, error: ApiError) -> ApiError {
        match &error {
            ApiError::Quota(_) => self.counters.quota_exceeded += 1,
            ApiError::Forbidden(_) => self.counters.rights_missing += 1,
            ApiError::Invalid(_) => self.counters.pods_invalid += 1,
            _ => self.counters.pods_denied += 1,
        }
        error
    }

    fn create_pod(&mut self, request: &PodRequest) -> Pod {
        let pod = self.server.create(request);
        self.counters.pods_relabelled += u64::from(pod.executor.is_none());
        self.counters.nodes_avoided += request.avoid.len() as u64;
        self.book.created(request.executor, &pod);
        self.changed();
        let delay = self.rng.u64(5..80);
        self.after(delay, Event::SchedulerLooks(pod.uid.clone()));
        Pod::clone(&pod)
    }

    fn delete(
        &mut self,
        name: &PodName,
        uid: PodUid,
        grace_ms: u64,
    ) -> Result<AllocatorEvent, String> {
        let answer = match self.server.by_name(name) {
            None => Err(ApiError::NotFound),
            Some(pod) if pod.uid != uid => Err(ApiError::Conflict),
            Some(_) => {
                self.counters.forced_deletes += u64::from(grace_ms == 0);
                self.delete_pod(&uid, grace_ms)?;
                Ok(())
            }
        };
        Ok(AllocatorEvent::Deleted { uid, answer })
    }

    fn list(&mut self, number: u64) -> AllocatorEvent {
        // A stale list that nothing seen before contradicts cannot be told from a new one. An application's last list has to
        // be new, which is why lists are read from a quorum.
        let stale = self.in_percent(self.plan.stale) && !self.app_is_over();
        let ago = if stale { self.rng.usize(1..12) } else { 0 };
        self.counters.lists_stale += u64::from(stale);
        AllocatorEvent::Listed { number, answer: Ok(self.server.list(ago)) }
    }

    fn watch(&mut self, of: u64, number: u64, from: Version, lost: bool) -> Option<AllocatorEvent> {
        let Some(position) = self.server.position_after(from) else {
            self.counters.watches_expired += 1;
            return Some(AllocatorEvent::WatchEnded { number, error: Some(ApiError::Expired) });
        };
        if let Some(driver) = self.driver.as_mut().filter(|driver| driver.generation == of && !lost)
        {
            driver.stream = Some(Stream { number, position, stalled: false });
            self.changed();
        }
        None
    }

    /// Something changed: open watches tell it.
    pub(super) fn changed(&mut self) {
        let (of, delay) = (self.generation, self.delay());
        if self.driver.as_ref().is_some_and(|driver| driver.stream.is_some()) {
            self.after(delay, Event::WatchDelivers(of));
        }
    }

    fn stream(&self, of: u64) -> Option<Stream> {
        let driver = self.driver.as_ref().filter(|driver| driver.generation == of);
        driver.and_then(|driver| driver.stream).filter(|stream| !stream.stalled)
    }

    pub(super) fn deliver_changes(&mut self, of: u64) -> Result<(), String> {
        while let Some(Stream { number, position, .. }) = self.stream(of) {
            if self.server.forgot(position) {
                self.counters.watches_expired += 1;
                return self.end_watch(Some(ApiError::Expired));
            }
            let Some(change) = self.server.change_at(position) else { break };
            if let Some(driver) = &mut self.driver {
                driver.stream = Some(Stream { number, position: position + 1, stalled: false });
            }
            let skipped = self.in_percent(self.plan.skipped);
            self.counters.changes_skipped += u64::from(skipped && change.is_some());
            if let Some(change) = change.filter(|_| !skipped) {
                self.feed_allocator(
                    of,
                    AllocatorEvent::Watched { number, change: Box::new(change) },
                )?;
            }
        }
        Ok(())
    }

    pub(super) fn deliver_bookmark(&mut self, of: u64) -> Result<(), String> {
        if of == self.generation && self.driver.is_some() {
            self.after(1000, Event::Bookmark(of));
        }
        self.deliver_changes(of)?;
        let Some(Stream { number, .. }) = self.stream(of) else { return Ok(()) };
        let change = Change::Bookmark(self.server.version());
        self.feed_allocator(of, AllocatorEvent::Watched { number, change: Box::new(change) })
    }

    /// The server ends the watch that is open.
    pub(super) fn end_watch(&mut self, error: Option<ApiError>) -> Result<(), String> {
        let of = self.generation;
        let stream = self.driver.as_mut().and_then(|driver| driver.stream.take());
        let Some(Stream { number, .. }) = stream else { return Ok(()) };
        self.feed_allocator(of, AllocatorEvent::WatchEnded { number, error })
    }
}
