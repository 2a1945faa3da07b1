//! `GET /`: a page for browsers, on which a person sees what the model makes of a text.
//!
//! The page is one file without anything from elsewhere. It says nothing about the model itself: its script asks the routes
//! that all clients have. The policy allows the page's own script and style, by their hashes, and requests to this server.

use std::sync::LazyLock;

use axum::http::{HeaderName, HeaderValue, header};
use axum::response::{IntoResponse, Response};
use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use embedctl_common::hash;

const STYLE: &str = include_str!("page.css");
const SCRIPT: &str = include_str!("page.js");

/// The page, with places for both.
const FRAME: &str = include_str!("page.html");

/// The page, and the policy for it.
static PAGE: LazyLock<(String, HeaderValue)> = LazyLock::new(|| {
    let page = FRAME.replace("{style}", STYLE).replace("{script}", SCRIPT);
    let policy = format!(
        "default-src 'none'; script-src '{}'; style-src '{}'; connect-src 'self'; img-src data:; base-uri 'none'; \
         form-action 'none'; frame-ancestors 'none'; require-trusted-types-for 'script'",
        source(SCRIPT),
        source(STYLE)
    );
    let policy = HeaderValue::try_from(policy).expect("hashes are visible ASCII characters");
    (page, policy)
});

/// `GET /`.
pub(crate) async fn page() -> Response {
    let (page, policy) = &*PAGE;
    let fixed = HeaderValue::from_static;
    let headers: [(HeaderName, HeaderValue); 5] = [
        (header::CONTENT_TYPE, fixed("text/html; charset=utf-8")),
        (header::CONTENT_SECURITY_POLICY, policy.clone()),
        (header::X_CONTENT_TYPE_OPTIONS, fixed("nosniff")),
        (header::REFERRER_POLICY, fixed("no-referrer")),
        // The next version of the program has another page.
        (header::CACHE_CONTROL, fixed("no-cache")),
    ];
    (headers, page.as_str()).into_response()
}

/// How a policy names an element's content.
fn source(content: &str) -> String {
    let digits = hash::of(content);
    let bytes = (0..digits.len()).step_by(2);
    let bytes = bytes.filter_map(|at| u8::from_str_radix(&digits[at..at + 2], 16).ok());
    format!("sha256-{}", STANDARD.encode(bytes.collect::<Vec<u8>>()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_policy_names_a_content_by_its_hash() {
        // That of an empty content is in all manuals.
        assert_eq!(
            source(""),
            "sha256-47DEQpj8HBSa+/TImW+5JCeuQeRkm5NMpJWZG3hSuFU="
        );
    }

    #[test]
    fn the_page_is_one_file_that_asks_nobody_else() {
        let (page, policy) = &*PAGE;
        assert!(page.ends_with("</html>\n"), "{page}");
        assert!(!page.contains("{style}") && !page.contains("{script}"));
        for elsewhere in [
            "http:",
            "https:",
            " src=",
            "@import",
            "url(",
            "innerHTML",
            "eval(",
        ] {
            assert!(!page.contains(elsewhere), "{elsewhere}");
        }
        let policy = policy.to_str().unwrap();
        assert!(policy.starts_with("default-src 'none'"), "{policy}");
        assert!(!policy.contains("unsafe"), "{policy}");
    }
}
