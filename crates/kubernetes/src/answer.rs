//! What became of a request: an answer within its time, or a class of refusal. Retries nothing: that is the allocator's decision.

use std::error::Error;
use std::time::Duration;

use firesteel_kubernetes_core::api::ApiError;
use kube::core::Status;

/// The answer to a request if it comes in time.
pub(crate) async fn within<T>(
    limit: Duration,
    request: impl Future<Output = kube::Result<T>>,
) -> Result<T, ApiError> {
    match tokio::time::timeout(limit, request).await {
        Ok(answer) => answer.map_err(|error| classify(&error)),
        Err(_) => {
            Err(ApiError::Unreachable(format!("no answer came within {} ms", limit.as_millis())))
        }
    }
}

/// The class of a failed request.
pub(crate) fn classify(error: &kube::Error) -> ApiError {
    match error {
        kube::Error::Api(status) => refusal(status),
        kube::Error::Auth(error) => ApiError::Unauthorized(chain(error)),
        kube::Error::BuildRequest(error) => ApiError::Invalid(chain(error)),
        other => ApiError::Unreachable(chain(other)),
    }
}

/// The class of a status that says no.
pub(crate) fn refusal(status: &Status) -> ApiError {
    let details = status.details.as_ref();
    let causes = details.map(|details| &details.causes[..]).unwrap_or_default();
    let causes: Vec<&str> = causes.iter().map(|cause| cause.reason.as_str()).collect();
    let seconds = details.map(|details| details.retry_after_seconds).filter(|after| *after > 0);
    ApiError::from_status(status.code, &status.message, &causes, seconds.map(u64::from))
}

/// An error with all its sources: the last one says what really happened.
pub(crate) fn chain(error: &dyn Error) -> String {
    let mut text = error.to_string();
    let mut source = error.source();
    while let Some(cause) = source {
        let words = cause.to_string();
        if !text.contains(&words) {
            text = format!("{text}: {words}");
        }
        source = cause.source();
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_status_keeps_its_class_and_the_time_after_which_to_ask_again() {
        let text = r#"{"kind":"Status","status":"Failure","code":429,"message":"later","reason":"TooManyRequests",
                       "details":{"retryAfterSeconds":7}}"#;
        let status: Status = serde_json::from_str(text).unwrap();
        let throttled =
            ApiError::Throttled { retry_after_ms: Some(7000), message: "later".to_owned() };
        assert_eq!(refusal(&status), throttled);
        assert_eq!(classify(&kube::Error::Api(Box::new(status))), throttled);
        let gone = Status::failure("too old resource version", "Expired").with_code(410);
        assert_eq!(refusal(&gone), ApiError::Expired);
    }

    #[tokio::test(flavor = "current_thread", start_paused = true)]
    async fn a_request_without_an_answer_is_unreachable_after_its_time() {
        let never = std::future::pending::<kube::Result<()>>();
        let answer = within(Duration::from_millis(250), never).await;
        assert!(matches!(answer, Err(ApiError::Unreachable(words)) if words.contains("250 ms")));
    }
}
