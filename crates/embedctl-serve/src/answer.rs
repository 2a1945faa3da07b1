//! Errors of requests, in the shape of each protocol.

use axum::body::Body;
use axum::http::{HeaderValue, StatusCode, header};
use axum::response::{IntoResponse, Response};
use embedctl_common::error::Cause;
use serde::Serialize;
use serde_json::json;

use crate::model::MissingHead;
use crate::queue::RowFailure;

/// Why a request is refused.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum ApiRefusal {
    /// Its content is wrong.
    Invalid,
    /// Its body, or the number of its inputs, is beyond a limit.
    TooLarge,
    /// It has no key, or a wrong one.
    Key,
    /// It calls the server by a name that may be another site's.
    Host,
    /// It asks for rows of a corpus that anybody on the network could ask for.
    Open,
    /// The length of its body is told in two ways.
    Ambiguous,
    /// There is no such route.
    Route,
    /// The route takes another method.
    Method,
    /// The body is of another type than JSON.
    MediaType,
    /// The model that it names is not this one.
    Model,
    /// The model has no such head.
    Head,
    /// The queue is full.
    Full,
    /// The server is stopping, or its engine fails.
    Unready,
    /// It took too long.
    Late,
    /// The body came too slowly.
    Slow,
    /// The engine failed.
    Engine,
}

impl ApiRefusal {
    /// In metrics.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Invalid => "invalid",
            Self::TooLarge => "too_large",
            Self::Key => "key",
            Self::Host => "host",
            Self::Open => "no_keys",
            Self::Ambiguous => "ambiguous_length",
            Self::Route => "route",
            Self::Method => "method",
            Self::MediaType => "media_type",
            Self::Model => "model",
            Self::Head => "head",
            Self::Full => "queue_full",
            Self::Unready => "not_ready",
            Self::Late => "timeout",
            Self::Slow => "slow_body",
            Self::Engine => "engine",
        }
    }

    const fn status(self, is_openai: bool) -> StatusCode {
        match self {
            Self::Ambiguous => StatusCode::BAD_REQUEST,
            Self::Invalid if is_openai => StatusCode::BAD_REQUEST,
            Self::Invalid => StatusCode::UNPROCESSABLE_ENTITY,
            Self::TooLarge => StatusCode::PAYLOAD_TOO_LARGE,
            Self::Key => StatusCode::UNAUTHORIZED,
            Self::Host | Self::Open => StatusCode::FORBIDDEN,
            Self::Route | Self::Model => StatusCode::NOT_FOUND,
            Self::Method => StatusCode::METHOD_NOT_ALLOWED,
            Self::MediaType => StatusCode::UNSUPPORTED_MEDIA_TYPE,
            Self::Full => StatusCode::TOO_MANY_REQUESTS,
            Self::Unready | Self::Late => StatusCode::SERVICE_UNAVAILABLE,
            Self::Slow => StatusCode::REQUEST_TIMEOUT,
            Self::Engine if is_openai => StatusCode::INTERNAL_SERVER_ERROR,
            // As text-embeddings-inference has it.
            Self::Engine | Self::Head => StatusCode::FAILED_DEPENDENCY,
        }
    }

    /// `error_type` of text-embeddings-inference.
    const fn tei_type(self) -> &'static str {
        match self {
            Self::Invalid | Self::Ambiguous | Self::TooLarge | Self::MediaType | Self::Slow => {
                "validation"
            }
            Self::Key | Self::Host | Self::Open => "unauthorized",
            Self::Route | Self::Method | Self::Model => "not_found",
            Self::Full => "overloaded",
            Self::Unready | Self::Late => "unhealthy",
            Self::Engine | Self::Head => "backend",
        }
    }

    /// `type` and `code` of OpenAI.
    const fn openai_type(self) -> (&'static str, Option<&'static str>) {
        match self {
            Self::Key => ("authentication_error", Some("invalid_api_key")),
            Self::Model => ("invalid_request_error", Some("model_not_found")),
            Self::Full => ("rate_limit_error", Some("rate_limit_exceeded")),
            Self::Unready | Self::Late | Self::Engine => ("server_error", None),
            _ => ("invalid_request_error", None),
        }
    }
}

/// An error of a request. It becomes an answer where the protocol is known.
#[derive(Debug, Clone)]
pub(crate) struct ApiError {
    pub refusal: ApiRefusal,
    pub message: String,
    /// The wrong member of the request.
    pub param: Option<&'static str>,
    /// Seconds after which it may be tried again.
    pub retry_after: Option<u64>,
}

impl From<MissingHead> for ApiError {
    fn from(MissingHead(reason): MissingHead) -> Self {
        Self::new(ApiRefusal::Head, reason)
    }
}

impl ApiError {
    pub fn new(refusal: ApiRefusal, message: impl Into<String>) -> Self {
        Self {
            refusal,
            message: message.into(),
            param: None,
            retry_after: None,
        }
    }

    pub fn invalid(message: impl Into<String>) -> Self {
        Self::new(ApiRefusal::Invalid, message)
    }

    /// The same, of this member of the request.
    pub fn about(self, param: &'static str) -> Self {
        Self {
            param: Some(param),
            ..self
        }
    }

    pub fn retry_after(self, seconds: u64) -> Self {
        Self {
            retry_after: Some(seconds),
            ..self
        }
    }

    /// An input that has no numbers.
    pub fn input(index: usize, cause: &Cause) -> Self {
        Self::invalid(format!("input {index}: {cause}"))
    }

    /// The answer in the shape of OpenAI, or of text-embeddings-inference.
    pub fn answer(&self, is_openai: bool) -> Response {
        let status = self.refusal.status(is_openai);
        let body = if is_openai {
            let (kind, code) = self.refusal.openai_type();
            json!({"error": {
                "message": self.message,
                "type": kind,
                "param": self.param,
                "code": code,
            }})
        } else {
            json!({"error": self.message, "error_type": self.refusal.tei_type()})
        };
        let mut answer = json_answer(&body);
        *answer.status_mut() = status;
        let headers = answer.headers_mut();
        if let Some(seconds) = self.retry_after {
            headers.insert(header::RETRY_AFTER, HeaderValue::from(seconds));
        }
        if self.refusal == ApiRefusal::Key {
            let scheme = HeaderValue::from_static("Bearer");
            headers.insert(header::WWW_AUTHENTICATE, scheme);
        }
        answer
    }
}

impl From<RowFailure> for ApiError {
    fn from(failure: RowFailure) -> Self {
        match failure {
            RowFailure::Input(index, cause) => Self::input(index, &cause),
            RowFailure::Engine(reason) => Self::new(ApiRefusal::Engine, reason),
        }
    }
}

impl IntoResponse for ApiError {
    /// Not an answer yet: [`ApiError::answer`] makes it one, where the route's protocol is known.
    fn into_response(self) -> Response {
        let mut response = Response::new(Body::empty());
        response.extensions_mut().insert(self);
        response
    }
}

/// An answer in JSON.
pub(crate) fn json_answer(value: &impl Serialize) -> Response {
    // Numbers are finite and keys are strings: nothing in an answer fails.
    let bytes = serde_json::to_vec(value).unwrap_or_default();
    let kind = [(header::CONTENT_TYPE, "application/json")];
    (kind, bytes).into_response()
}
