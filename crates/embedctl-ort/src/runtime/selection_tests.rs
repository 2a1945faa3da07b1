use std::fs;

use tempfile::TempDir;

use super::*;
use crate::provider::ProviderReport;
use embedctl_common::error::ErrorKind;

/// The options of a search.
type Options = (RuntimeOptions, CancelToken);

/// A machine with nothing on it but `folder`, as a folder for libraries of the system's.
fn selection<'a>(options: &'a Options, folder: &TempDir) -> LibrarySelection<'a> {
    let here = SearchPath {
        option: options.0.library.clone(),
        variables: Vec::new(),
        executable: None,
        path: Vec::new(),
        system_folders: vec![folder.path().to_path_buf()],
        system: System::Linux,
        stop: CancelToken::new(),
    };
    LibrarySelection {
        options: &options.0,
        device: 0,
        cancel: &options.1,
        software: true,
        named: NamedLibrary::of(&here),
        here,
        found: OnceCell::new(),
        plugged: OnceCell::new(),
        unusable_reason: |_| None,
    }
}

fn refusal(selection: &LibrarySelection, provider: Provider) -> (ErrorKind, String) {
    let error = selection.take_first(provider).unwrap_err();
    (error.kind(), error.to_string())
}

#[test]
fn finding_nothing_says_where_and_what_to_do() {
    let folder = TempDir::new().unwrap();
    fs::write(folder.path().join("libonnxruntime.so"), "not a library").unwrap();
    let options = Options::default();
    let selection = selection(&options, &folder);
    let (kind, text) = refusal(&selection, Provider::Cpu);
    assert_eq!(kind, ErrorKind::NoLibrary, "{text}");
    for part in [
        "libonnxruntime.so",
        "it is not a shared library",
        folder.path().to_str().unwrap(),
        "pip install onnxruntime",
        "--ort-lib",
    ] {
        assert!(text.contains(part), "{part} is missing in: {text}");
    }
}

#[test]
fn a_provider_in_a_file_of_its_own_is_missed_without_loading_anything() {
    let folder = TempDir::new().unwrap();
    fs::write(folder.path().join("libonnxruntime.so"), "not a library").unwrap();
    let options = Options::default();
    let mut selection = selection(&options, &folder);
    assert!(!selection.may_have(Provider::Cuda));
    assert!(selection.may_have(Provider::WebGpu));
    let (kind, text) = refusal(&selection, Provider::Cuda);
    assert_eq!(kind, ErrorKind::Provider, "{text}");
    assert!(text.contains("onnxruntime-gpu[cuda,cudnn]"), "{text}");
    selection.unusable_reason = |_| Some(Cause::of("no NVIDIA GPU was found"));
    let (_, text) = refusal(&selection, Provider::Cuda);
    assert!(
        text.contains("no NVIDIA GPU was found, and no library"),
        "{text}"
    );
    assert!(!text.contains("pip install"), "{text}");
    assert!(text.contains("choose another provider"), "{text}");
    let part = System::HERE.provider_library("cuda");
    fs::write(folder.path().join(part), "").unwrap();
    assert!(selection.may_have(Provider::Cuda));
}

#[test]
fn what_was_named_and_cannot_be_used_is_named_again() {
    let folder = TempDir::new().unwrap();
    for (path, part) in [
        (folder.path().join("gone.so"), "gone.so"),
        (
            folder.path().to_path_buf(),
            "there is no ONNX Runtime library in",
        ),
    ] {
        let options = (
            RuntimeOptions {
                library: Some(path),
                probe: None,
            },
            CancelToken::new(),
        );
        let (kind, text) = refusal(&selection(&options, &folder), Provider::Cpu);
        assert_eq!(kind, ErrorKind::NamedLibrary, "{text}");
        assert!(text.contains("--ort-lib") && text.contains(part), "{text}");
    }
}

#[test]
fn an_answer_is_a_verdict() {
    let folder = TempDir::new().unwrap();
    let options = Options::default();
    let mut selection = selection(&options, &folder);
    let provider = Provider::WebGpu;
    let candidate = Candidate {
        path: "libonnxruntime.so".into(),
        origin: "here".into(),
        doubt: None,
        plugin: None,
    };
    let report = |works: bool, software: bool, reason: Option<&str>| {
        let mut report = LibraryReport::new(&candidate);
        report.version = Some("1.27.0".into());
        report.available = vec!["CPUExecutionProvider".into()];
        report.providers = vec![ProviderReport {
            works,
            software,
            reason: reason.map(str::to_owned),
            device: Some("llvmpipe".into()),
            ..ProviderReport::refused(provider, "")
        }];
        report
    };
    let words = |verdict: Result<ChosenLibrary, RefusedCandidate>| match verdict {
        Ok(chosen) => chosen.version,
        Err(RefusedCandidate::Untold) => "untold".into(),
        Err(RefusedCandidate::Library(cause)) => format!("library: {}", cause.reason),
        Err(RefusedCandidate::Lacks(words)) => format!("lacks: {words}"),
        Err(RefusedCandidate::Provider(cause)) => format!("provider: {}", cause.reason),
    };
    let emulated = || report(true, true, None);
    assert_eq!(
        words(selection.verdict(&candidate, emulated(), provider)),
        "1.27.0"
    );
    selection.software = false;
    assert_eq!(
        words(selection.verdict(&candidate, emulated(), provider)),
        "provider: it would run on llvmpipe, which the processor emulates"
    );
    let mut without = report(false, false, None);
    without.providers = vec![ProviderReport::not_built_in(provider)];
    assert_eq!(
        words(selection.verdict(&candidate, without, provider)),
        "lacks: it has cpu"
    );
    let failing = report(false, false, Some("no adapter"));
    assert_eq!(
        words(selection.verdict(&candidate, failing, provider)),
        "provider: no adapter"
    );
    let mut broken = LibraryReport::new(&candidate);
    broken.unusable = Some("it crashed (SIGSEGV)".into());
    assert_eq!(
        words(selection.verdict(&candidate, broken, provider)),
        "library: it crashed (SIGSEGV)"
    );
}
