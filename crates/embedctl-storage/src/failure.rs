//! What is known of an operation that failed: `object_store` keeps a server's words in a text of its own, so they are
//! caught where they come in.

use std::cell::RefCell;
use std::future::Future;

use object_store::client::{HttpError, HttpResponse};

use embedctl_common::error::Error;
use embedctl_common::secrets::Secrets;

/// Bytes of a refusal's body that are looked at.
const LARGEST_REFUSAL: usize = 64 << 10;

tokio::task_local! {
    /// What the last request of an operation was refused with. `object_store` keeps it in a text.
    static REFUSAL: RefCell<Option<Refusal>>;
}

/// An operation of `object_store` that failed, and the words it was refused with.
#[derive(Debug)]
pub(super) struct Failure {
    pub error: object_store::Error,
    pub refusal: Option<Refusal>,
}

/// What a server said when it refused.
#[derive(Debug, Clone, Default)]
pub(super) struct Refusal {
    /// Who.
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
    /// What stood between us and it.
    pub error: Option<String>,
    /// What was sent and no message may show: a server may send it back in any of its words.
    pub secrets: Secrets,
}

impl Refusal {
    /// Keeps what a server says, and passes it on.
    pub(super) async fn answered(self, response: HttpResponse) -> Result<HttpResponse, HttpError> {
        let (parts, body) = response.into_parts();
        let body = body.bytes().await.unwrap_or_default();
        let text = String::from_utf8_lossy(&body[..body.len().min(LARGEST_REFUSAL)]);
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

    /// Keeps what stood between us and a server, and passes it on.
    pub(super) fn unanswered(self, error: HttpError) -> HttpError {
        let own = std::error::Error::source(&error)
            .and_then(|source| source.downcast_ref::<Error>())
            .map(Error::to_string);
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
        let _ = REFUSAL.try_with(|last| *last.borrow_mut() = Some(self));
    }
}

/// Keeps what the last request of an operation was refused with.
pub(super) async fn watched<T>(
    operation: impl Future<Output = object_store::Result<T>>,
) -> Result<T, Failure> {
    let noted = async {
        let result = operation.await;
        result.map_err(|error| Failure {
            error,
            refusal: REFUSAL.with(|refusal| refusal.borrow_mut().take()),
        })
    };
    REFUSAL.scope(RefCell::new(None), noted).await
}
