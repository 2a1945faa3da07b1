//! The way to a store is the way to the Hub: its proxies, whose certificates are trusted, and how far a run is.

use serde_json::Value;

use crate::hub::certified;
use crate::hub::http::{Reply, Server as Web};
use crate::hub::proxy::Proxy;
use crate::runs::World;
use crate::sandbox::Sandbox;
use crate::servers::moto;

#[test]
fn a_proxy_is_asked_for_a_store_unless_none_is_needed() {
    let Some(store) = moto("a_proxy_is_asked_for_a_store_unless_none_is_needed") else {
        return;
    };
    let world = World::new(store);
    store.bucket("proxied");
    let proxy = Proxy::start();
    let address = format!("http://{}", proxy.host());
    let host = store.url.strip_prefix("http://").unwrap().to_owned();
    for (direct, is_asked) in [("", true), ("127.0.0.1", false)] {
        let before = proxy.targets().len();
        for line in [
            "texts.txt -o s3://proxied/texts.jsonl --keep text --force",
            "s3://proxied/texts.jsonl -o out.parquet --force",
        ] {
            let mut command = world.command(line);
            command.env("HTTP_PROXY", &address).env("NO_PROXY", direct);
            let run = world.sandbox.finish(&mut command);
            assert_eq!(run.code, Some(0), "{line}: {run}");
        }
        let asked = proxy.targets()[before..].contains(&host);
        assert_eq!(asked, is_asked, "NO_PROXY={direct}");
    }
}

#[test]
fn a_certificate_must_be_trusted_and_the_size_of_an_object_tells_how_far_a_run_is() {
    const TEXTS: &str = "one\ntwo\n";
    let (config, issuer) = certified();
    let server = Web::start(Some(config), |_| {
        Reply::new(200).body(TEXTS).with("ETag", "\"1\"")
    });
    let sandbox = Sandbox::new();
    sandbox.write("issuer.pem", issuer);
    let line = format!(
        "https://{}/texts.txt -o out.jsonl --stats stats.json",
        server.host()
    );
    let run = sandbox.embed(&line);
    assert_eq!(run.code, Some(1), "{run}");
    assert!(run.stderr.contains("is not trusted"), "{run}");
    assert!(run.stderr.contains("SSL_CERT_FILE"), "{run}");
    let mut command = sandbox.embed_command(&line);
    let run = sandbox.finish(command.env("SSL_CERT_FILE", "issuer.pem"));
    assert_eq!(run.code, Some(0), "{run}");
    let stats = std::fs::read(sandbox.path("stats.json")).unwrap();
    let stats: Value = serde_json::from_slice(&stats).unwrap();
    let progress = &stats["progress"];
    assert_eq!(progress["bytes"], TEXTS.len(), "{stats}");
    assert_eq!(progress["bytes_read"], TEXTS.len(), "{stats}");
}
