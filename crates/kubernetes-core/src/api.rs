//! What an API server's refusal means. Classes, because each calls for something else: a full quota is not a
//! broken network, and a missing right is nothing to wait for.

use std::fmt;

/// Why a request was not answered with success.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum ApiError {
    /// 403: a `ResourceQuota` is used up.
    Quota(String),
    /// 403: a right is missing.
    Forbidden(String),
    /// 403 or 400: an admission webhook said no. A policy chooses among 401, 403, 413 and 422, which it answers if it does not say.
    Denied(String),
    /// 400, 413, 422: it will never be accepted as it is.
    Invalid(String),
    /// The namespace is ending, or there is none.
    NoNamespace(String),
    /// 401: the credentials are not accepted; they may have expired.
    Unauthorized(String),
    /// 429, or 503 with the time after which to ask again: nothing was carried out.
    Throttled { retry_after_ms: Option<u64>, message: String },
    /// 5xx.
    Unavailable(String),
    /// No answer came. The request may have been carried out, or may yet be.
    Unreachable(String),
    /// 404: there is no such pod.
    NotFound,
    /// 409: the pod of this name is another one.
    Conflict,
    /// 410: what happened since the asked version is forgotten.
    Expired,
}

impl ApiError {
    /// From an answer's status: HTTP code, `reason` and `message` of its body, the reasons of the causes in its details and
    /// the header `Retry-After`.
    ///
    /// Quotas, webhooks and missing rights share a code and a reason; API servers tell them apart in their messages only.
    pub fn from_status(
        code: u16,
        message: &str,
        causes: &[&str],
        retry_after_s: Option<u64>,
    ) -> ApiError {
        let text = message.to_owned();
        match code {
            403 | 404 if causes.contains(&"NamespaceTerminating") => ApiError::NoNamespace(text),
            404 if message.starts_with("namespaces ") => ApiError::NoNamespace(text),
            400 | 401 | 403 | 413 | 422 if is_denied(message) => ApiError::Denied(text),
            403 if message.contains("exceeded quota") => ApiError::Quota(text),
            403 if message.contains("cannot ") || message.is_empty() => ApiError::Forbidden(text),
            403 => ApiError::Denied(text),
            401 => ApiError::Unauthorized(text),
            404 => ApiError::NotFound,
            409 => ApiError::Conflict,
            410 => ApiError::Expired,
            429 => throttled(retry_after_s, text),
            503 if retry_after_s.is_some() => throttled(retry_after_s, text),
            400..=499 => ApiError::Invalid(text),
            _ => ApiError::Unavailable(text),
        }
    }

    /// Whether it is to be asked again later.
    pub fn is_throttled(&self) -> bool {
        matches!(self, ApiError::Throttled { .. })
    }

    /// Whether nothing is known of what became of the request: a server that fails may have carried it out before.
    pub fn is_unanswered(&self) -> bool {
        matches!(self, ApiError::Unreachable(_) | ApiError::Unavailable(_))
    }
}

/// Whether an admission webhook, or a policy, did not let a request through.
fn is_denied(message: &str) -> bool {
    let by_policy = message.contains("AdmissionPolicy") && message.contains("denied request");
    message.contains("denied the request") || by_policy
}

fn throttled(retry_after_s: Option<u64>, message: String) -> ApiError {
    let retry_after_ms = retry_after_s.map(|seconds| seconds.saturating_mul(1000));
    ApiError::Throttled { retry_after_ms, message }
}

impl fmt::Display for ApiError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            ApiError::Quota(words) => write!(f, "a quota of the namespace is used up: {words}"),
            ApiError::Forbidden(words) => write!(f, "the account that asks lacks a right: {words}"),
            ApiError::Denied(words) => {
                write!(f, "an admission control of the cluster said no: {words}")
            }
            ApiError::Invalid(words) => {
                write!(f, "the API server does not accept the pod: {words}")
            }
            ApiError::NoNamespace(words) => write!(f, "the namespace is gone: {words}"),
            ApiError::Unauthorized(words) => {
                write!(f, "the API server does not accept the credentials: {words}")
            }
            ApiError::Throttled { message, .. } => {
                write!(f, "the API server is overloaded: {message}")
            }
            ApiError::Unavailable(words) => write!(f, "the API server fails: {words}"),
            ApiError::Unreachable(words) => write!(f, "the API server does not answer: {words}"),
            ApiError::NotFound => f.write_str("there is no such pod"),
            ApiError::Conflict => f.write_str("the pod of this name is another one"),
            ApiError::Expired => f.write_str("the API server has forgotten what happened since"),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_answer_of_an_api_server_has_its_class() {
        let quota = "pods \"a-exec-1\" is forbidden: exceeded quota: few, requested: pods=1, used: pods=2, limited: pods=2";
        let rights = "pods is forbidden: User \"system:serviceaccount:a:b\" cannot create resource \"pods\" in API group \"\" in \
                      the namespace \"a\"";
        let webhook = "admission webhook \"images.example\" denied the request: no";
        let policy = "pods \"a-exec-1\" is forbidden: ValidatingAdmissionPolicy 'p' with binding 'b' denied request: no";
        let terminating = "pods \"a\" is forbidden: unable to create new content in namespace a because it is being terminated";
        let violates = "pods \"a\" is forbidden: violates PodSecurity \"restricted:latest\": runAsNonRoot != true";
        let class = |code, message: &str| ApiError::from_status(code, message, &[], None);
        assert_eq!(class(403, quota), ApiError::Quota(quota.into()));
        assert_eq!(class(403, rights), ApiError::Forbidden(rights.into()));
        assert_eq!(class(403, webhook), ApiError::Denied(webhook.into()));
        assert_eq!(class(400, webhook), ApiError::Denied(webhook.into()));
        assert_eq!(class(403, violates), ApiError::Denied(violates.into()));
        for code in [401, 403, 413, 422] {
            assert_eq!(class(code, policy), ApiError::Denied(policy.into()), "{code}");
        }
        assert_eq!(class(401, "Unauthorized"), ApiError::Unauthorized("Unauthorized".into()));
        assert_eq!(class(422, "x"), ApiError::Invalid("x".into()));
        assert_eq!(class(404, "pods \"a\" not found"), ApiError::NotFound);
        assert_eq!(
            class(404, "namespaces \"a\" not found"),
            ApiError::NoNamespace("namespaces \"a\" not found".into())
        );
        assert_eq!((class(409, ""), class(410, "")), (ApiError::Conflict, ApiError::Expired));
        assert_eq!(class(500, "x"), ApiError::Unavailable("x".into()));
        assert_eq!(class(503, "x"), ApiError::Unavailable("x".into()));
        let gone = ApiError::from_status(403, terminating, &["NamespaceTerminating"], None);
        assert_eq!(gone, ApiError::NoNamespace(terminating.into()));
        for (code, seconds) in [(429, Some(7)), (429, None), (503, Some(7))] {
            let message = "later".to_owned();
            let wanted = ApiError::Throttled { retry_after_ms: seconds.map(|s| s * 1000), message };
            assert_eq!(ApiError::from_status(code, "later", &[], seconds), wanted);
        }
        let late = ApiError::from_status(504, "timeout", &[], Some(7));
        assert!(late.is_unanswered(), "it may have been carried out: {late}");
    }
}
