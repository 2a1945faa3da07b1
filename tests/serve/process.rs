//! The server as a process: addresses, keys, signals, limits.

use serde_json::json;

#[cfg(unix)]
use crate::sandbox::REAL_MODEL;
use crate::sandbox::{Sandbox, in_repository};
use crate::server::Server;

fn model() -> String {
    in_repository("fixtures/parity/dense-two-layers/model")
        .display()
        .to_string()
}

#[test]
fn an_address_in_use_and_wrong_options_are_refused_before_the_model_is_opened() {
    let sandbox = Sandbox::new();
    let taken = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
    let address = taken.local_addr().unwrap().to_string();
    sandbox.write("empty.txt", "# no key\n");
    let port = taken.local_addr().unwrap().port();
    let by_port = format!("--port {port}");
    let by_both = format!("--host 127.0.0.1 --port {port}");
    let by_host = "--host 127.0.0.1:80".to_owned();
    let told = |options: &str| format!("{options}: cannot listen there");
    let (told_port, told_both) = (told(&by_port), told(&by_both));
    for (options, words) in [
        (format!("--listen {address}"), "choose another port"),
        (by_port, told_port.as_str()),
        (by_both, told_both.as_str()),
        (by_host, "--host 127.0.0.1:80: "),
        ("--served-model-name=".to_owned(), "it is empty"),
        ("--allow-host http://x".to_owned(), "without a scheme"),
        ("--allow-host x:80".to_owned(), "without a scheme"),
        ("--allow-host=".to_owned(), "without a scheme"),
        ("--listen 8080".to_owned(), "expected HOST:PORT"),
        ("--api-key-file missing.txt".to_owned(), "missing.txt"),
        ("--api-key-file empty.txt".to_owned(), "it has no key"),
        ("--verify 3".to_owned(), "--like"),
        ("--max-queue 0".to_owned(), "at least 1"),
        ("--timeout 0".to_owned(), "seconds"),
    ] {
        let run = sandbox.run(&format!("serve -m no/such-model {options}"));
        assert!(matches!(run.code, Some(1 | 2)), "{options}: {run}");
        assert!(run.stderr.contains(words), "{options}: {run}");
    }
}

#[test]
fn a_projects_file_cannot_open_a_port() {
    let sandbox = Sandbox::new();
    sandbox.write("embedctl.toml", "[serve]\nlisten = \"0.0.0.0:8080\"\n");
    let mut command = sandbox.command(["serve", "-m", "no/such-model"]);
    let run = sandbox.finish(command.env_remove("EMBEDCTL_NO_CONFIG"));
    assert_eq!(run.code, Some(2), "{run}");
    assert!(run.stderr.contains("may not set listen"), "{run}");
}

#[test]
fn limits_and_keys_of_the_command_line_hold() {
    let sandbox = Sandbox::new();
    sandbox.write("keys.txt", "secret\n");
    let server = Server::start(
        &sandbox,
        &[
            "-m",
            &model(),
            "--api-key-file",
            "keys.txt",
            "--max-inputs",
            "2",
            "--max-body-bytes",
            "1KiB",
        ],
    );
    assert_eq!(server.get("/health").0, 200);
    assert_eq!(server.get("/info").0, 401);
    let key = "Authorization: Bearer secret\r\n";
    let ask = |inputs| {
        server
            .post_with("/embed", &json!({"inputs": inputs}), key)
            .0
    };
    assert_eq!(ask(json!(["a", "b"])), 200);
    assert_eq!(ask(json!(["a", "b", "c"])), 413);
    assert_eq!(ask(json!("a".repeat(2000))), 413);
    assert_eq!(server.post("/embed", &json!({"inputs": "a"})).0, 401);
}

#[cfg(unix)]
#[test]
fn a_signal_ends_the_server_with_success() {
    for signal in [libc::SIGTERM, libc::SIGINT] {
        let sandbox = Sandbox::new();
        let model = in_repository(REAL_MODEL).display().to_string();
        let server = Server::start(&sandbox, &["-m", &model, "-v"]);
        assert_eq!(server.post("/embed", &json!({"inputs": "a"})).0, 200);
        let (code, messages) = server.signal(signal);
        assert_eq!(code, Some(0), "{messages}");
        assert!(
            messages.contains("POST \"/embed\" 200") && messages.ends_with("stopped\n"),
            "{messages}"
        );
    }
}

#[cfg(unix)]
#[test]
fn a_socket_in_the_file_system_is_served_and_removed() {
    let sandbox = Sandbox::new();
    let server = Server::start(&sandbox, &["-m", &model(), "--listen", "unix:socket"]);
    assert_eq!(server.address, "unix:socket");
    let mut stream = std::os::unix::net::UnixStream::connect(sandbox.path("socket")).unwrap();
    let request = "GET /health HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n";
    assert_eq!(crate::server::answer(&mut stream, request).0, 200);
    let (code, messages) = server.signal(libc::SIGTERM);
    assert_eq!(code, Some(0), "{messages}");
    assert!(!sandbox.path("socket").exists());
}
