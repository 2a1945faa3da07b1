//! Explains failed requests to the Hub, in sentences with a remedy.

use ureq::http::StatusCode;

use super::settings::HubSettings;
use embedctl_common::error::{Error, ErrorKind};

/// An answer that refuses.
pub(super) struct RefusedAnswer<'a> {
    pub(super) model: &'a str,
    /// The requested file, if it was a file.
    pub(super) file: &'a str,
    pub(super) status: StatusCode,
    /// Host and status.
    pub(super) reason: &'a str,
    /// Whether the Hub itself answered, not the storage it redirects to.
    pub(super) by_hub: bool,
    /// The Hub's own word for it, `X-Error-Code`.
    pub(super) code: Option<&'a str>,
    /// The Hub's own sentence, `X-Error-Message`.
    pub(super) message: Option<&'a str>,
    pub(super) settings: &'a HubSettings,
}

/// The error for an answer that will not change by asking again.
pub(super) fn error(refused: &RefusedAnswer) -> Error {
    let RefusedAnswer {
        model,
        status,
        reason,
        settings,
        ..
    } = refused;
    let endpoint = &settings.endpoint;
    let (id, revision) = model.split_once('@').unwrap_or((model, "main"));
    if !refused.by_hub {
        let reason = format!(
            "{}: the storage that {endpoint} redirects to refuses it ({reason})",
            refused.file
        );
        return Error::model(model, reason).with_remedy("try again later");
    }
    let token = settings.token.as_ref().map(|token| token.origin.as_str());
    // The Hub gives 401 for repositories that don't exist, too, and for tokens it doesn't know.
    let about_the_token = status.as_u16() == 401 && is_about_the_token(refused.message);
    let not_accepted = |origin: &str| {
        (
            format!(
                "{endpoint} does not accept the token from {origin} ({status}): it is mistyped, expired or revoked"
            ),
            format!(
                "make a new one at {endpoint}/settings/tokens, or remove it to download without one"
            ),
        )
    };
    const PASS: &str = "HF_TOKEN=hf_…, or `hf auth login`";
    let (reason, remedy) = match (refused.code, status.as_u16(), token) {
        (None | Some("RepoNotFound"), _, Some(origin)) if about_the_token => not_accepted(origin),
        (Some("GatedRepo"), ..) | (None, 403, _) => (
            format!("is gated ({status}): its owners ask you to accept their conditions"),
            match token {
                Some(origin) => format!(
                    "ask for access at {endpoint}/{id} in a browser: the token from {origin} was sent, but its \
                     account has no access yet, or the token may not read gated repositories"
                ),
                None => format!(
                    "ask for access at {endpoint}/{id} in a browser, then pass a token of that account: {PASS}"
                ),
            },
        ),
        (Some("RevisionNotFound"), ..) => (
            format!("has no revision '{revision}'"),
            "name a branch, a tag or a full commit, or leave it out for the newest".into(),
        ),
        (Some("EntryNotFound"), ..) => (
            format!("lacks {}, which its own list names", refused.file),
            "try again".into(),
        ),
        (Some("RepoNotFound"), _, None) | (None, 404, None) => (
            format!("is not a repository that {endpoint} shows publicly"),
            format!(
                "check the spelling (org/name); if it is private, pass a token of an account that may read it: {PASS}"
            ),
        ),
        (Some("RepoNotFound"), _, Some(origin)) | (None, 404, Some(origin)) => (
            format!(
                "is not a repository that {endpoint} shows to the account of the token from {origin}"
            ),
            "check the spelling (org/name) and that the token may read it".into(),
        ),
        (_, 401, None) => (
            format!("is open to signed-in accounts only ({status}), or does not exist"),
            format!("check the spelling, and pass a token: {PASS}"),
        ),
        (_, 401, Some(origin)) => not_accepted(origin),
        _ => {
            let said = refused
                .message
                .map_or_else(String::new, |message| format!(" ({message})"));
            return Error::model(model, format!("{reason}{said}"));
        }
    };
    let unknown = matches!(
        (refused.code, status.as_u16()),
        (Some("RepoNotFound"), _) | (None, 401 | 404)
    );
    if unknown && !about_the_token {
        return Error::new(ErrorKind::NoRepository, model, reason).with_remedy(remedy);
    }
    Error::model(model, reason).with_remedy(remedy)
}

fn is_about_the_token(message: Option<&str>) -> bool {
    message.is_some_and(|message| {
        let message = message.to_ascii_lowercase();
        message.contains("credentials") || message.contains("token")
    })
}
