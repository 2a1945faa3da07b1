//! Details of a failed operation. `object_store` hides a server's message in a text of its own, so the message is
//! captured from the response.

use std::cell::RefCell;
use std::future::Future;

use object_store::client::{HttpError, HttpErrorKind, HttpResponse};

use embedctl_common::error::Error;
use embedctl_common::secrets::Secrets;

/// Maximum bytes of a refusal's body that are read.
pub(super) const LARGEST_REFUSAL: u64 = 64 << 10;

tokio::task_local! {
    /// How an operation's last request ended.
    static LAST: RefCell<LastRequest>;
    /// Set while a part of a file is asked for, which nothing else can take the place of.
    static IN_PARTS: ();
    /// Set for requests that an interrupt does not end.
    static TO_THE_END: ();
}

/// Runs an operation that asks for a part of a file: an answer with all of it is a [`Refusal`] with `no_parts`.
pub(super) async fn in_parts<T>(operation: impl Future<Output = T>) -> T {
    IN_PARTS.scope((), operation).await
}

/// Whether the request at hand is one of [`in_parts`].
pub(super) fn is_in_parts() -> bool {
    IN_PARTS.try_with(|()| ()).is_ok()
}

/// Runs an operation whose requests an interrupt does not end.
pub(super) async fn to_the_end<T>(operation: impl Future<Output = T>) -> T {
    TO_THE_END.scope((), operation).await
}

/// Whether the request at hand is one of [`to_the_end`].
pub(super) fn is_to_the_end() -> bool {
    TO_THE_END.try_with(|()| ()).is_ok()
}

/// How a request ended.
#[derive(Debug, Default)]
enum LastRequest {
    /// There was none yet.
    #[default]
    None,
    /// Refused, or without an answer.
    Refused(Refusal),
    /// A server has answered it.
    Answered,
}

/// An operation of `object_store` that failed, and the words it was refused with.
#[derive(Debug)]
pub(super) struct Failure {
    pub error: object_store::Error,
    pub refusal: Option<Refusal>,
    /// Whether a server has answered as if all were well: its answer is to blame then.
    pub answered: bool,
}

/// A server has answered the operation's last request.
pub(super) fn note_answer() {
    let _ = LAST.try_with(|last| *last.borrow_mut() = LastRequest::Answered);
}

/// A server's refusal.
#[derive(Debug, Clone, Default)]
pub(super) struct Refusal {
    /// The host.
    pub host: String,
    /// HTTP's word for it; 0 where no answer came.
    pub status: u16,
    /// The store's own word: `NoSuchBucket`.
    pub code: Option<String>,
    /// The store's own sentence.
    pub message: Option<String>,
    /// Where the bucket is, if the server says so.
    pub region: Option<String>,
    /// Whether credentials were asked for where only machines in a cloud get any.
    pub no_credentials: bool,
    /// Whether a part of a file was asked for, and all of it was sent.
    pub no_parts: bool,
    /// The connection failure, if the server was not reached.
    pub error: Option<String>,
    /// Secrets of the request, which no message may show: a server may echo them in its message.
    pub secrets: Secrets,
}

impl Refusal {
    /// Stores a server's refusal and returns it.
    pub(super) async fn answered(self, response: HttpResponse) -> Result<HttpResponse, HttpError> {
        let (parts, body) = response.into_parts();
        let body = body.bytes().await.unwrap_or_default();
        let text = String::from_utf8_lossy(&body);
        let header = |name| Some(parts.headers.get(name)?.to_str().ok()?.to_owned());
        let element = |name: &str| {
            let (_, rest) = text.split_once(&format!("<{name}>"))?;
            let (value, _) = rest.split_once(&format!("</{name}>"))?;
            Some(value.trim().to_owned()).filter(|value| !value.is_empty())
        };
        Self {
            status: parts.status.as_u16(),
            code: element("Code")
                .or_else(|| header("x-ms-error-code"))
                .or_else(|| header("x-error-code")),
            message: element("Message").or_else(|| header("x-error-message")),
            region: element("Region").or_else(|| header("x-amz-bucket-region")),
            ..self
        }
        .note();
        Ok(HttpResponse::from_parts(parts, body.into()))
    }

    /// Stores a connection failure and returns it.
    pub(super) fn unanswered(self, error: HttpError) -> HttpError {
        let own = std::error::Error::source(&error)
            .and_then(|source| source.downcast_ref::<Error>())
            .map(|own| match error.kind() {
                HttpErrorKind::Interrupted | HttpErrorKind::Timeout if own.remedy().is_none() => {
                    format!("{own}; try again later")
                }
                _ => own.to_string(),
            });
        Self { error: own, ..self }.note();
        error
    }

    fn note(mut self) {
        let texts = [
            &mut self.code,
            &mut self.message,
            &mut self.region,
            &mut self.error,
        ];
        for text in texts.into_iter().flatten() {
            *text = self.secrets.redact(text).into_owned();
        }
        let _ = LAST.try_with(|last| *last.borrow_mut() = LastRequest::Refused(self));
    }
}

/// Whether the connection was cut, or silent for too long, when the request may have been carried out.
pub(super) fn was_cut(failure: &Failure) -> bool {
    let mut cause: Option<&dyn std::error::Error> = Some(&failure.error);
    while let Some(error) = cause {
        if let Some(error) = error.downcast_ref::<HttpError>() {
            return matches!(
                error.kind(),
                HttpErrorKind::Interrupted | HttpErrorKind::Timeout
            );
        }
        cause = error.source();
    }
    false
}

/// Runs an operation; a failure comes with how its last request ended.
pub(super) async fn watched<T>(
    operation: impl Future<Output = object_store::Result<T>>,
) -> Result<T, Failure> {
    watched_from(LastRequest::None, operation).await
}

/// The same for a part of the body of an answer.
pub(super) async fn watched_body<T>(
    operation: impl Future<Output = object_store::Result<T>>,
) -> Result<T, Failure> {
    watched_from(LastRequest::Answered, operation).await
}

async fn watched_from<T>(
    before: LastRequest,
    operation: impl Future<Output = object_store::Result<T>>,
) -> Result<T, Failure> {
    let noted = async {
        let result = operation.await;
        result.map_err(|error| {
            let last = LAST.with(RefCell::take);
            let answered = matches!(last, LastRequest::Answered);
            let refusal = match last {
                LastRequest::Refused(refusal) => Some(refusal),
                LastRequest::None | LastRequest::Answered => None,
            };
            Failure {
                error,
                refusal,
                answered,
            }
        })
    };
    LAST.scope(RefCell::new(before), noted).await
}
