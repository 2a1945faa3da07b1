//! `object_store`'s requests, made by ureq with the connections of the Hub's client: the same proxies, certificates,
//! time limits and interruption, and no second TLS.
//!
//! ```text
//!  object_store (signs, retries) ──► Service ──thread──► ureq ──► the store
//!                                     ▲  status, headers │
//!                                     └──── body in chunks, by a bounded channel
//! ```

mod exchange;

use std::future::Future;
use std::pin::Pin;
use std::sync::{Arc, Mutex};

use http::{StatusCode, Uri};
use object_store::ClientOptions;
use object_store::client::{
    HttpClient, HttpConnector, HttpError, HttpErrorKind, HttpRequest, HttpResponse, HttpService,
};
use tokio::sync::oneshot;

use self::exchange::{Exchange, SentRequests};
use super::failure::{Refusal, is_in_parts, is_to_the_end, note_answer};
use super::version::keep_besides;
use embedctl_common::cancel::CancelToken;
use embedctl_common::error::Error;
use embedctl_common::threads::{locked, spawn};
use embedctl_hub::HubSettings;
use embedctl_net::{Agents, UrlOrigin};

/// Metadata services of cloud machines, which give credentials; elsewhere they do not answer.
const METADATA: [&str; 4] = [
    "169.254.169.254",
    "169.254.170.2",
    "fd00:ec2::254",
    "metadata.google.internal",
];

/// The connections of a run.
#[derive(Debug)]
pub(super) struct StoreConnections {
    agents: Agents,
    /// For requests that an interrupt does not end.
    lasting: Agents,
    settings: HubSettings,
    cancel: CancelToken,
    hub: Option<UrlOrigin>,
    no_metadata: bool,
}

impl StoreConnections {
    pub(super) fn new(mut settings: HubSettings, cancel: CancelToken) -> Self {
        let direct = METADATA.iter().map(|&host| host.to_owned());
        settings.net.proxies.add_direct(direct);
        let disabled = std::env::var("AWS_EC2_METADATA_DISABLED");
        Self {
            agents: Agents::new(settings.net.clone(), cancel.clone()),
            lasting: Agents::new(settings.net.clone(), CancelToken::new()),
            hub: (settings.endpoint.parse().ok()).and_then(|uri| UrlOrigin::of(&uri)),
            no_metadata: disabled.is_ok_and(|value| value.eq_ignore_ascii_case("true")),
            settings,
            cancel,
        }
    }

    /// Ends all requests except for those that an interrupt does not end.
    pub(super) fn stop(&self) {
        self.agents.stop();
    }
}

/// The rules for redirects and tokens of a service.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum ServiceKind {
    /// A store's: every request is signed for one address, so redirects are answers.
    Store,
    /// A web server's: redirects are followed.
    Web,
    /// The Hub's: the same, and its own origin gets the token.
    Hub,
}

/// Makes services for `object_store`.
#[derive(Debug, Clone)]
pub(super) struct Connector {
    pub connections: Arc<StoreConnections>,
    pub kind: ServiceKind,
}

impl HttpConnector for Connector {
    fn connect(&self, _: &ClientOptions) -> object_store::Result<HttpClient> {
        Ok(HttpClient::new(Service(self.clone())))
    }
}

#[derive(Debug, Clone)]
struct Service(Connector);

impl HttpService for Service {
    fn call<'a, 'b>(
        &'a self,
        request: HttpRequest,
    ) -> Pin<Box<dyn Future<Output = Result<HttpResponse, HttpError>> + Send + 'b>>
    where
        'a: 'b,
        Self: 'b,
    {
        let service = self.clone();
        let asked = request.uri().clone();
        Box::pin(async move {
            let (head, answer) = oneshot::channel();
            let sent: Arc<Mutex<SentRequests>> = Arc::default();
            let exchange = Exchange {
                connections: Arc::clone(&service.0.connections),
                kind: service.0.kind,
                is_part: is_in_parts() && service.0.kind != ServiceKind::Store,
                is_lasting: is_to_the_end(),
            };
            let log = Arc::clone(&sent);
            let work = move || exchange.run(request, head, &log);
            if let Err(error) = spawn("storage request", work) {
                return Err(HttpError::new(HttpErrorKind::Unknown, error));
            }
            let refusal = || {
                let sent = locked(&sent).clone();
                Refusal {
                    host: sent.host,
                    no_credentials: is_metadata(&asked),
                    no_parts: sent.no_parts,
                    secrets: sent.secrets,
                    ..Refusal::default()
                }
            };
            let answer = answer.await.unwrap_or_else(|_| {
                let error = Error::internal("a request ended without an answer");
                Err(HttpError::new(HttpErrorKind::Unknown, error))
            });
            match answer {
                Ok(mut response) if is_fine(response.status()) => {
                    note_answer();
                    if service.0.kind == ServiceKind::Web {
                        let mut extensions = std::mem::take(response.extensions_mut());
                        keep_besides(response.headers_mut(), &mut extensions);
                        *response.extensions_mut() = extensions;
                    }
                    Ok(response)
                }
                Ok(response) => refusal().answered(response).await,
                Err(error) => Err(refusal().unanswered(error)),
            }
        })
    }
}
/// Statuses that need no explanation.
fn is_fine(status: StatusCode) -> bool {
    status.is_success() || status == StatusCode::NOT_MODIFIED
}

fn is_metadata(uri: &Uri) -> bool {
    let host = uri.host().unwrap_or_default().trim_matches(['[', ']']);
    METADATA.contains(&host)
}
