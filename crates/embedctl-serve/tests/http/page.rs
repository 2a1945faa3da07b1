//! The page for browsers.

use embedctl_serve::ServerOptions;

use crate::model::{FakeModel, numbers};
use crate::server::{Server, key_of};

#[test]
fn the_page_is_at_the_root_beside_the_models_own_route() {
    let server = Server::usual();
    let page = server.get("/");
    assert_eq!(page.status, 200, "{page:?}");
    assert!(page.body.starts_with("<!doctype html>"), "{}", page.body);
    for header in [
        "content-type: text/html; charset=utf-8",
        "content-security-policy: default-src 'none'; script-src 'sha256-",
        "frame-ancestors 'none'",
        "x-content-type-options: nosniff",
        "referrer-policy: no-referrer",
    ] {
        assert!(page.head.contains(header), "{header}: {}", page.head);
    }
    // As Ollama's clients ask whether a server is there.
    let head = server.send("HEAD / HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n");
    assert_eq!((head.status, head.body.as_str()), (200, ""));
    let vectors = server.post("/", r#"{"inputs": "one"}"#).json();
    assert_eq!(vectors, serde_json::json!([numbers("one")]));
    let other = server.send("PUT / HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n");
    assert_eq!(other.status, 405, "{other:?}");
    assert!(
        other.body.contains("POST") && other.body.contains("GET"),
        "{other:?}"
    );
}

#[test]
fn a_browser_asks_a_person_for_the_key() {
    let options = ServerOptions {
        keys: Some(key_of("right")),
        ..ServerOptions::default()
    };
    let server = Server::start(FakeModel::new(1), options);
    let ask = |path: &str, authorization: &str| {
        server.send(format!(
            "GET {path} HTTP/1.1\r\nHost: x\r\nConnection: close\r\n{authorization}\r\n"
        ))
    };
    let refused = ask("/", "");
    assert_eq!(refused.status, 401);
    assert!(!refused.body.contains("<html"), "{}", refused.body);
    assert!(
        refused.head.contains("www-authenticate: bearer")
            && refused.head.contains("www-authenticate: basic realm="),
        "{}",
        refused.head
    );
    // Programs ask other routes: nobody is there to be asked.
    assert!(!ask("/info", "").head.contains("basic"));
    // `:right`, `anna:right`, `anna:wrong`.
    for (password, status) in [
        ("OnJpZ2h0", 200),
        ("YW5uYTpyaWdodA==", 200),
        ("YW5uYTp3cm9uZw==", 401),
    ] {
        for path in ["/", "/info"] {
            let answer = ask(path, &format!("Authorization: Basic {password}\r\n"));
            assert_eq!(answer.status, status, "{path} {password}: {}", answer.head);
        }
    }
}

#[test]
fn another_sites_name_gets_no_page() {
    let server = Server::usual();
    for path in ["/", "/api/tags", "/api/version"] {
        let answer = server.send(format!(
            "GET {path} HTTP/1.1\r\nHost: evil.example\r\nConnection: close\r\n\r\n"
        ));
        assert_eq!(answer.status, 403, "{path}: {answer:?}");
    }
}
