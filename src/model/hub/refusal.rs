//! What went wrong between us and the Hub, in sentences with a remedy.

use std::io;

use ureq::http::{StatusCode, Uri};

use super::client::{Fault, is_transient};
use super::origin::host;
use super::settings::Settings;
use crate::error::{Error, ErrorKind};

/// An answer that refuses.
pub(super) struct Refused<'a> {
    pub(super) model: &'a str,
    /// What was asked for, if it was a file.
    pub(super) file: &'a str,
    pub(super) status: StatusCode,
    /// Who answered what.
    pub(super) reason: &'a str,
    /// Whether the Hub itself answered, not the storage it redirects to.
    pub(super) by_hub: bool,
    /// The Hub's own word for it, `X-Error-Code`.
    pub(super) code: Option<&'a str>,
    /// The Hub's own sentence, `X-Error-Message`.
    pub(super) message: Option<&'a str>,
    pub(super) settings: &'a Settings,
}

/// The error for an answer that will not change by asking again.
pub(super) fn error(refused: &Refused) -> Error {
    let Refused {
        model,
        status,
        reason,
        settings,
        ..
    } = refused;
    let endpoint = &settings.endpoint;
    let (id, revision) = model.split_once('@').unwrap_or((model, "main"));
    if !refused.by_hub {
        return Error::model(
            model,
            format!(
                "{}: the storage that {endpoint} redirects to refuses it ({reason}); try again later",
                refused.file
            ),
        );
    }
    let token = settings.token.as_ref().map(|token| &token.origin);
    // The Hub gives 401 for repositories that don't exist, too, and for tokens it doesn't know.
    let about_the_token = status.as_u16() == 401 && is_about_the_token(refused.message);
    let words = match (refused.code, status.as_u16()) {
        (None | Some("RepoNotFound"), _) if about_the_token && token.is_some() => format!(
            "{endpoint} does not accept the token from {} ({status}): it is mistyped, expired or revoked; make a new \
             one at {endpoint}/settings/tokens, or take it away to go without",
            token.map_or("", String::as_str)
        ),
        (Some("GatedRepo"), _) | (None, 403) => {
            let pass = match token {
                Some(origin) => format!(
                    "the token from {origin} was sent, but its account has no access yet, or the token may not \
                     read gated repositories"
                ),
                None => {
                    "then pass a token of that account: HF_TOKEN=hf_…, or `hf auth login`".into()
                }
            };
            format!(
                "is gated ({status}): its owners ask you to accept their conditions. Ask for access at \
                 {endpoint}/{id} in a browser; {pass}"
            )
        }
        (Some("RevisionNotFound"), _) => format!(
            "has no revision '{revision}'; name a branch, a tag or a full commit, or leave it out for the newest"
        ),
        (Some("EntryNotFound"), _) => format!(
            "lacks {}, which its own list names; try again",
            refused.file
        ),
        (Some("RepoNotFound"), _) | (None, 404) => match token {
            None => format!(
                "is no repository that {endpoint} shows to everybody: check the spelling (org/name); if it is \
                 private, pass a token of an account that may read it: HF_TOKEN=hf_…, or `hf auth login`"
            ),
            Some(origin) => format!(
                "is no repository that {endpoint} shows to the account of the token from {origin}: check the \
                 spelling (org/name) and that the token may read it"
            ),
        },
        (_, 401) => match token {
            None => format!(
                "is open to signed-in accounts only ({status}), or does not exist: check the spelling, and pass \
                 a token: HF_TOKEN=hf_…, or `hf auth login`"
            ),
            Some(origin) => format!(
                "{endpoint} does not accept the token from {origin} ({status}): it is mistyped, expired or \
                 revoked; make a new one at {endpoint}/settings/tokens, or take it away to go without"
            ),
        },
        _ => {
            let said = refused
                .message
                .map_or_else(String::new, |message| format!(" ({message})"));
            format!("{reason}{said}")
        }
    };
    let unknown = matches!(
        (refused.code, status.as_u16()),
        (Some("RepoNotFound"), _) | (None, 401 | 404)
    );
    if unknown && !about_the_token {
        return Error::new(ErrorKind::NoRepository, model, words);
    }
    Error::model(model, words)
}

fn is_about_the_token(message: Option<&str>) -> bool {
    message.is_some_and(|message| {
        let message = message.to_ascii_lowercase();
        message.contains("credentials") || message.contains("token")
    })
}

/// What it means that no answer came. `address` is what the user may have set wrongly.
pub(crate) fn unreachable(
    model: &str,
    uri: &Uri,
    proxy: Option<&'static str>,
    settings: &Settings,
    address: &str,
    error: &ureq::Error,
) -> Fault {
    let host = host(uri);
    let through = proxy.map_or_else(String::new, |variable| {
        format!(" through the proxy that {variable} names")
    });
    let fatal = |words: String| {
        let reason = format!("cannot be asked for: {words}");
        Fault::Final(Error::new(ErrorKind::Unreachable, model, reason))
    };
    match error {
        ureq::Error::HostNotFound => fatal(format!(
            "the name of {host}{through} is not known here; check the connection, {address} and, \
             behind a firewall, HTTPS_PROXY"
        )),
        ureq::Error::ConnectProxyFailed(reason) => fatal(format!(
            "the proxy that {} names refuses to connect to {host} ({}); check its address and \
             password, or list the host in NO_PROXY",
            proxy.unwrap_or("HTTPS_PROXY"),
            first_line(reason)
        )),
        ureq::Error::InvalidProxyUrl => Fault::Final(Error::model(
            model,
            format!(
                "{} holds no address of a proxy; write it as http://host:port or socks5://host:port",
                proxy.unwrap_or("HTTPS_PROXY")
            ),
        )),
        ureq::Error::Timeout(_) => Fault::Transient {
            reason: format!(
                "{host}{through} was silent for {} seconds",
                settings.idle_timeout.as_secs()
            ),
            after: None,
        },
        ureq::Error::Io(cause) => match tls(cause) {
            Some(tls) => fatal(untrusted(&host, settings, address, tls)),
            None if is_transient(cause) => Fault::Transient {
                reason: format!("the connection to {host}{through} was cut ({cause})"),
                after: None,
            },
            None => fatal(format!(
                "{host}{through} cannot be reached ({cause}); check the connection, {address} and, \
                 behind a firewall, HTTPS_PROXY"
            )),
        },
        ureq::Error::Rustls(cause) => fatal(untrusted(&host, settings, address, cause)),
        ureq::Error::Tls(cause) => fatal(format!("no encrypted connection to {host} ({cause})")),
        // What came was no HTTP, or ended in the middle of it.
        ureq::Error::Protocol(cause) => Fault::Transient {
            reason: format!("{host}{through} sent no proper answer ({cause})"),
            after: None,
        },
        other => fatal(format!("{host}{through}: {other}")),
    }
}

fn tls(error: &io::Error) -> Option<&rustls::Error> {
    error.get_ref()?.downcast_ref()
}

fn untrusted(host: &str, settings: &Settings, address: &str, error: &rustls::Error) -> String {
    let rustls::Error::InvalidCertificate(_) = error else {
        return format!(
            "no encrypted connection to {host} ({error}); check that {address} and the proxy's \
             address begin with the right one of http:// and https://"
        );
    };
    let remedy = match &settings.certificates {
        Some((variable, path)) => format!(
            "{variable} names {}: add to it the certificate (PEM) of whoever signed for {host}, or unset the variable \
             to trust what the system trusts",
            path.display()
        ),
        None => "where a firewall looks into encrypted connections, name its certificate (PEM) with SSL_CERT_FILE; \
                 else check this machine's clock and its ca-certificates package"
            .into(),
    };
    format!("the certificate of {host} is not trusted ({error}); {remedy}")
}

fn first_line(text: &str) -> &str {
    text.lines().next().unwrap_or_default().trim()
}
