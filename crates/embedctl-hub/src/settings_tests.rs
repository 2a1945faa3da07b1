//! Settings out of the environment.

use embedctl_common::setting::OFFLINE;
use std::ffi::OsString;
use std::path::Path;

use super::*;

fn read(variables: &[(&str, &str)]) -> Result<HubSettings> {
    let lookup = |name: &str| {
        variables
            .iter()
            .find(|(key, _)| *key == name)
            .map(|(_, value)| OsString::from(value))
    };
    HubSettings::read(&HubOptions::default(), &lookup)
}

#[test]
fn the_cache_is_where_python_keeps_it() {
    for (variables, cache) in [
        (&[("HF_HUB_CACHE", "/c"), ("HF_HOME", "/h")][..], "/c"),
        (&[("HUGGINGFACE_HUB_CACHE", "/old")], "/old"),
        (&[("HF_HOME", "/h"), ("XDG_CACHE_HOME", "/x")], "/h/hub"),
        (
            &[("XDG_CACHE_HOME", "/x"), ("HOME", "/u")],
            "/x/huggingface/hub",
        ),
        (
            &[("HOME", "/u"), ("HF_HOME", "")],
            "/u/.cache/huggingface/hub",
        ),
        (&[("HOME", "/u"), ("HF_HOME", "~/hf")], "/u/hf/hub"),
    ] {
        if cfg!(unix) {
            assert_eq!(
                read(variables).unwrap().cache,
                Path::new(cache),
                "{variables:?}"
            );
        }
    }
}

#[test]
fn an_option_goes_before_variables() {
    let options = HubOptions {
        cache_dir: Some("/given".into()),
        offline: true,
    };
    let settings = HubSettings::read(&options, &|name| {
        (name == "HF_HUB_CACHE").then(|| "/c".into())
    })
    .unwrap();
    assert_eq!(settings.cache, Path::new("/given"));
    assert_eq!(settings.offline, Some(OFFLINE.into()));
}

#[test]
fn offline_is_read_as_python_reads_it() {
    for (value, offline) in [
        ("1", true),
        ("True", true),
        ("on", true),
        ("0", false),
        ("no", false),
    ] {
        let settings = read(&[("HF_HUB_OFFLINE", value)]).unwrap();
        assert_eq!(settings.offline.is_some(), offline, "{value}");
    }
}

#[test]
fn a_token_is_never_shown() {
    let settings = read(&[("HF_TOKEN", " hf_secret \n")]).unwrap();
    let token = settings.token.as_ref().unwrap();
    assert_eq!(token.authorization(), "Bearer hf_secret");
    assert!(!format!("{settings:?}").contains("hf_secret"));
    let error = read(&[("HF_TOKEN", "hf_sec ret")]).unwrap_err().to_string();
    assert!(
        error.contains("HF_TOKEN") && !error.contains("sec"),
        "{error}"
    );
}

#[test]
fn no_message_shows_a_password() {
    for wrong in [
        "//me:pa55word@mirror",
        "ftp://me:pa55word@mirror",
        "me:pa55word@mirror",
    ] {
        let error = read(&[("HF_ENDPOINT", wrong)]).unwrap_err().to_string();
        assert!(
            error.contains("@mirror") && !error.contains("pa55"),
            "{error}"
        );
    }
    for name in [
        "HF_ENDPOINT",
        "http_proxy",
        "HTTP_PROXY",
        "https_proxy",
        "HTTPS_PROXY",
        "all_proxy",
        "ALL_PROXY",
    ] {
        let settings = read(&[(name, "http://me:pa55word@host")]).unwrap();
        let echoed = settings.secrets.redact("pa55word");
        assert_eq!(echoed, "[redacted]", "{name}");
    }
    let settings = read(&[
        ("HF_ENDPOINT", "https://me:pa55word@mirror"),
        ("https_proxy", "http://you:5ecret5@proxy"),
        ("HF_TOKEN", "hf_t0ken"),
    ])
    .unwrap();
    let echoed = settings.secrets.redact("pa55word 5ecret5 hf_t0ken");
    assert_eq!(echoed, "[redacted] [redacted] [redacted]");
    assert!(!format!("{:?}", settings.secrets).contains("5ecret5"));
}

#[test]
fn a_stored_token_is_found_unless_forbidden() {
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("token");
    std::fs::write(&file, "hf_stored\n").unwrap();
    let home = folder.path().to_str().unwrap();
    let by_home = read(&[("HF_HOME", home)]).unwrap().token.unwrap();
    assert_eq!(by_home.authorization(), "Bearer hf_stored");
    assert_eq!(by_home.origin, file.display().to_string());
    let path = file.to_str().unwrap();
    assert!(read(&[("HF_TOKEN_PATH", path)]).unwrap().token.is_some());
    let forbidden = [("HF_HOME", home), ("HF_HUB_DISABLE_IMPLICIT_TOKEN", "1")];
    assert!(read(&forbidden).unwrap().token.is_none());
}

#[test]
fn an_endpoint_must_be_an_address() {
    let settings = read(&[("HF_ENDPOINT", "http://127.0.0.1:8080/")]).unwrap();
    assert_eq!(settings.endpoint, "http://127.0.0.1:8080");
    for wrong in ["mirror.example", "ftp://mirror.example", "https://"] {
        let error = read(&[("HF_ENDPOINT", wrong)]).unwrap_err().to_string();
        assert!(error.contains("HF_ENDPOINT"), "{error}");
    }
}
