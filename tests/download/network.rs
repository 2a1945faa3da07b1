//! The way to the Hub: proxies, and whose certificates are trusted.

use std::process::Command;

use embedctl::hub::HubSettings;
use insta::assert_snapshot;

use crate::hub::proxy::Proxy;
use crate::hub::{At, Fault, Hub, certified};
use crate::sandbox::Run;
use crate::world::{ONNX, World};

/// Runs a download through what the environment names.
fn through(world: &World, environment: &[(&str, &str)]) -> Run {
    let mut command = world.command("download org/small");
    world.finish(command.envs(environment.iter().copied()))
}

// Proxies.

#[test]
fn a_proxy_is_asked_for_every_host() {
    let proxy = Proxy::start();
    let address = format!("http://{}", proxy.host());
    for variable in ["http_proxy", "HTTP_PROXY", "all_proxy", "ALL_PROXY"] {
        let world = World::new();
        let before = proxy.targets().len();
        let run = through(&world, &[(variable, &address)]);
        assert_eq!(run.code, Some(0), "{variable}: {run}");
        let targets = &proxy.targets()[before..];
        for host in world.hub.hosts() {
            assert!(targets.contains(&host), "{variable}: {targets:?}");
        }
    }
}

#[test]
fn hosts_that_need_no_proxy() {
    let proxy = Proxy::start();
    let address = format!("http://{}", proxy.host());
    for (none, storage_too) in [("127.0.0.1", true), ("*", true), ("[HUB]", false)] {
        let world = World::new();
        let [hub, storage] = world.hub.hosts();
        let none = none.replace("[HUB]", &hub);
        let before = proxy.targets().len();
        let run = through(&world, &[("http_proxy", &address), ("NO_PROXY", &none)]);
        assert_eq!(run.code, Some(0), "{none}: {run}");
        let targets = &proxy.targets()[before..];
        assert!(!targets.contains(&hub), "{none}: {targets:?}");
        assert_eq!(
            !targets.contains(&storage),
            storage_too,
            "{none}: {targets:?}"
        );
    }
}

#[test]
fn a_proxy_of_another_scheme_is_left_alone() {
    let proxy = Proxy::start();
    let world = World::new();
    let run = through(
        &world,
        &[("https_proxy", &format!("http://{}", proxy.host()))],
    );
    assert_eq!(run.code, Some(0), "{run}");
    assert_eq!(proxy.targets(), [""; 0]);
}

#[test]
fn a_proxy_that_wants_a_password() {
    // user:5ecret in base64
    let proxy = Proxy::wanting("Basic dXNlcjo1ZWNyZXQ=");
    let world = World::new();
    let host = proxy.host();
    let right = format!("http://user:5ecret@{host}");
    let run = through(&world, &[("http_proxy", &right)]);
    assert_eq!(run.code, Some(0), "{run}");
    let world = World::new();
    let wrong = format!("http://user:wr0ng@{host}");
    let run = through(&world, &[("http_proxy", &wrong)]);
    assert!(!run.stderr.contains("wr0ng"), "{run}");
    assert_snapshot!(run);
    assert_eq!(world.hub.asked().len(), 0);
}

#[test]
fn a_proxy_that_is_not_there() {
    let gone = Proxy::start().host();
    let world = World::new();
    let run = through(
        &world,
        &[("http_proxy", &format!("http://user:5ecret@{gone}"))],
    );
    assert!(!run.stderr.contains("5ecret"), "{run}");
    assert_eq!(run.code, Some(1), "{run}");
    assert!(
        run.stderr.contains("the proxy that http_proxy names"),
        "{run}"
    );
}

#[test]
fn a_proxy_that_is_no_address() {
    let world = World::new();
    assert_snapshot!(through(&world, &[("ALL_PROXY", "gopher://:5ecret@@")]));
}

#[test]
fn what_is_offline_asks_no_proxy() {
    let proxy = Proxy::start();
    let world = World::new();
    let mut command = world.command("download org/small --offline");
    let address = format!("http://{}", proxy.host());
    let run = world.finish(command.env("ALL_PROXY", address));
    assert_eq!(run.code, Some(1), "{run}");
    assert_eq!(proxy.targets(), [""; 0]);
}

// Certificates.

fn encrypted_world() -> World {
    let (config, issuer) = certified();
    let world = World::with(Hub::start_encrypted(config));
    world.sandbox.write("issuer.pem", issuer);
    world
}

fn trusting<'a>(command: &'a mut Command, variable: &str) -> &'a mut Command {
    command.env(variable, "issuer.pem")
}

#[test]
fn a_certificate_that_nobody_signed_for() {
    let world = encrypted_world();
    let run = world.run("download org/small");
    assert_eq!(run.code, Some(1), "{run}");
    assert!(
        run.stderr
            .contains("the certificate of [HUB] is not trusted"),
        "{run}"
    );
    assert!(run.stderr.contains("SSL_CERT_FILE"), "{run}");
    assert_eq!(world.hub.asked().len(), 0);
}

#[test]
fn a_certificate_that_the_environment_trusts() {
    for variable in ["SSL_CERT_FILE", "REQUESTS_CA_BUNDLE", "CURL_CA_BUNDLE"] {
        let world = encrypted_world();
        let mut command = world.command("download org/small");
        let run = world.finish(trusting(&mut command, variable));
        assert_eq!(run.code, Some(0), "{variable}: {run}");
        world.assert_whole();
    }
}

#[test]
fn a_certificate_of_somebody_else() {
    let world = encrypted_world();
    let (_, other) = certified();
    world.sandbox.write("issuer.pem", other);
    let mut command = world.command("download org/small");
    assert_snapshot!(world.finish(trusting(&mut command, "SSL_CERT_FILE")));
    assert_eq!(world.hub.asked().len(), 0);
}

#[test]
fn a_file_of_certificates_that_is_none() {
    let world = encrypted_world();
    world.sandbox.write("issuer.pem", "no certificate");
    let mut command = world.command("download org/small");
    assert_snapshot!(world.finish(trusting(&mut command, "SSL_CERT_FILE")));
    let mut command = world.command("download org/small");
    let run = world.finish(command.env("SSL_CERT_FILE", "missing.pem"));
    assert_eq!(run.code, Some(2), "{run}");
    assert!(
        run.stderr
            .contains("SSL_CERT_FILE names certificates in missing.pem"),
        "{run}"
    );
}

#[test]
fn an_encrypted_hub_through_a_proxy() {
    let world = encrypted_world();
    let proxy = Proxy::start();
    let mut command = world.command("download org/small");
    command.env("HTTPS_PROXY", format!("http://{}", proxy.host()));
    let run = world.finish(trusting(&mut command, "SSL_CERT_FILE"));
    assert_eq!(run.code, Some(0), "{run}");
    assert!(proxy.targets().contains(&world.hub.hosts()[0]));
}

#[test]
fn the_wrong_scheme() {
    let world = World::new();
    let encrypted = world.hub.url().replace("http:", "https:");
    let mut command = world.command("download org/small");
    let run = world.finish(command.env("HF_ENDPOINT", encrypted));
    assert_eq!(run.code, Some(1), "{run}");
    assert!(run.stderr.contains("HF_ENDPOINT"), "{run}");
    let world = encrypted_world();
    let settings = HubSettings {
        endpoint: world.hub.url().replace("https:", "http:"),
        ..world.settings()
    };
    let error = world.failure(&settings);
    assert!(error.contains("[HUB]"), "{error}");
}

#[test]
fn encryption_is_not_given_up_on_the_way() {
    let world = encrypted_world();
    let other = World::new();
    let target = format!("{}/org/small/resolve/main/{ONNX}", other.hub.url());
    world
        .hub
        .spoil_all(At::Hub(ONNX.into()), Fault::Redirect(302, target));
    let mut command = world.command("download org/small");
    let run = world.finish(trusting(&mut command, "SSL_CERT_FILE"));
    assert_eq!(run.code, Some(1), "{run}");
    assert!(
        run.stderr.contains("redirects to the unencrypted address"),
        "{run}"
    );
    assert_eq!(other.hub.asked().len(), 0);
    world.assert_nothing_published();
}

#[test]
fn an_endpoint_that_is_no_address() {
    let world = World::new();
    for endpoint in ["mirror.example", "ftp://mirror.example"] {
        let mut command = world.command("download org/small");
        let run = world.finish(command.env("HF_ENDPOINT", endpoint));
        assert_eq!(run.code, Some(2), "{run}");
        assert!(run.stderr.contains("HF_ENDPOINT"), "{run}");
    }
}

#[test]
fn a_slash_behind_the_endpoint() {
    let world = World::new();
    let endpoint = format!("{}/", world.hub.url());
    let mut command = world.command("download org/small");
    let run = world.finish(command.env("HF_ENDPOINT", endpoint));
    assert_eq!(run.code, Some(0), "{run}");
}
