//! Plug-ins: broken ones beside a library that works, made here with the C compiler, and real ones where
//! `EMBEDCTL_TEST_PROVIDERS` names them (`tests/parity.rs` says how).
#![cfg(target_os = "linux")]

mod support;

#[path = "support/fakes.rs"]
mod fakes;

use std::fs;
use std::os::unix::fs::symlink;
use std::path::{Path, PathBuf};
use std::time::Duration;

use embedctl::Embedder;
use embedctl::cancel::CancelToken;
use embedctl::engine::{self, EngineOptions, Provider, Resolved};
use embedctl::model::ModelOptions;
use embedctl::runtime::ProbeCommand;
use embedctl::runtime::probe::{LibraryReport, survey};
use embedctl::runtime::{PluginReport, RuntimeOptions};
use tempfile::TempDir;

fn command() -> ProbeCommand {
    let program = env!("CARGO_BIN_EXE_embedctl").into();
    ProbeCommand::new(program, vec!["__probe".into()])
}

const RELEASES: &str = "void *ReleaseEpFactory(void *factory) { return 0; }";

/// A folder with ONNX Runtime in it, and a plug-in beside it that is called like WebGPU's and does `code` when it
/// is asked for its providers.
fn plugged(folder: &TempDir, code: &str, test: &str) -> Option<PathBuf> {
    let core = support::onnxruntime(test)?;
    let code = format!("{RELEASES}\n{code}");
    let made = fakes::fake(folder.path(), "made", &code, test)?;
    let here = folder.path().join("here");
    fs::create_dir_all(&here).unwrap();
    let library = here.join("libonnxruntime.so");
    let _ = fs::remove_file(&library);
    symlink(core, &library).unwrap();
    fs::rename(made, here.join("libonnxruntime_providers_webgpu.so")).unwrap();
    Some(library)
}

fn ask(command: &ProbeCommand, library: &Path) -> LibraryReport {
    let mut reports = survey(command, Some(library), &CancelToken::new());
    assert_eq!(reports.len(), 1, "{reports:?}");
    let report = reports.remove(0);
    assert_eq!(report.unusable, None);
    assert!(report.provider(Provider::Cpu).unwrap().works, "{report:?}");
    report
}

fn only(report: &LibraryReport) -> &PluginReport {
    let [plugin] = &report.plugins[..] else {
        panic!("{report:?}");
    };
    plugin
}

#[test]
fn a_plugin_that_crashes_or_refuses_leaves_its_library_alone() {
    let folder = TempDir::new().unwrap();
    for (code, words) in [
        (
            "void *CreateEpFactories(void) { *(volatile int *)8 = 1; return 0; }",
            "it crashed (SIGSEGV)",
        ),
        (
            "#include <stdlib.h>\nvoid *CreateEpFactories(void) { exit(7); }",
            "exit status: 7",
        ),
        (
            "__attribute__((constructor)) static void at_load(void) { __builtin_trap(); }\nvoid *CreateEpFactories(void) { return 0; }",
            "it crashed (SIG",
        ),
        (
            "int missing(void);\nint CreateEpFactories(void) { return missing(); }",
            "undefined symbol: missing",
        ),
    ] {
        let Some(library) = plugged(&folder, code, "plug-ins that crash") else {
            return;
        };
        let report = ask(&command(), &library);
        let plugin = only(&report);
        assert!(
            plugin
                .unusable
                .as_ref()
                .is_some_and(|reason| reason.contains(words)),
            "{words}: {report:?}"
        );
        // Its name says whose it would have been.
        let webgpu = report.provider(Provider::WebGpu).unwrap();
        assert!(
            !webgpu.works
                && webgpu
                    .reason
                    .as_ref()
                    .is_some_and(|reason| reason.contains(words)),
            "{webgpu:?}"
        );
        assert_eq!(webgpu.plugin.as_ref(), Some(&plugin.path));
    }
}

#[test]
fn a_plugin_that_hangs_is_stopped() {
    let folder = TempDir::new().unwrap();
    let code = "#include <unistd.h>\nvoid *CreateEpFactories(void) { for (;;) pause(); }";
    let Some(library) = plugged(&folder, code, "plug-ins that hang") else {
        return;
    };
    let command = ProbeCommand {
        time_limit: Duration::from_secs(8),
        ..command()
    };
    let report = ask(&command, &library);
    let reason = only(&report).unusable.clone().unwrap();
    assert_eq!(reason, "it was still busy after 8 s and was stopped");
}

/// The real plug-ins that are named: providers, and the library around which they lie.
fn real(test: &str) -> Vec<(Provider, PathBuf)> {
    let list = std::env::var("EMBEDCTL_TEST_PROVIDERS").unwrap_or_default();
    let named: Vec<(Provider, PathBuf)> = list
        .split(',')
        .filter_map(|one| one.trim().split_once("+plugin:"))
        .map(|(provider, library)| (provider.parse().unwrap(), library.into()))
        .collect();
    if named.is_empty() {
        // No plug-in is known to offer a device everywhere, so none is required.
        let _: Option<()> = support::skip(test, "plugins", "EMBEDCTL_TEST_PROVIDERS with +plugin");
    }
    named
}

#[test]
fn a_real_plugin_tells_its_version_and_its_devices() {
    for (provider, library) in real("a real plug-in") {
        let report = ask(&command(), &library);
        let tried = report.provider(provider).unwrap();
        assert!(tried.works, "{tried:?}");
        let file = tried.plugin.as_ref().unwrap();
        let plugin = report.plugins.iter().find(|one| one.path == *file).unwrap();
        assert!(
            plugin
                .version
                .as_ref()
                .is_some_and(|version| version.contains('.'))
        );
        assert!(!plugin.devices.is_empty());
        assert!(report.provider(Provider::Cpu).unwrap().plugin.is_none());
    }
}

/// Also that the library's own provider stays itself: it would be given to a plug-in that offers the processor.
#[test]
fn one_library_serves_its_plugins_and_itself_in_one_process() {
    let texts = ["A cat sits on a mat.", "On a rug there is a cat."];
    let vectors = |provider: &str, library: &Path| {
        let model = ModelOptions {
            model: "fixtures/parity/bert-mean-legacy/model".into(),
            ..ModelOptions::default()
        };
        let engine = EngineOptions {
            providers: provider.parse().unwrap(),
            batch_tokens: Some(512),
            runtime: RuntimeOptions {
                library: Some(library.into()),
                probe: Some(command()),
            },
            ..EngineOptions::default()
        };
        let cancel = CancelToken::new();
        let resolved = Resolved::of(&model, &engine, engine::installed(), &cancel).unwrap();
        let mut embedder = Embedder::open(resolved, &cancel).unwrap();
        let info = embedder.engine().clone();
        (embedder.embed(&texts).unwrap(), info)
    };
    let all = real("one library for several providers");
    let Some((_, library)) = all.first() else {
        return;
    };
    let (before, _) = vectors("cpu", library);
    for (provider, _) in all.iter().filter(|(_, other)| other == library) {
        // The program sets this as its first act; here other threads run.
        let emulated = std::env::var_os("ORT_WEBGPU_EP_ALLOW_SOFTWARE_ADAPTER").is_some();
        if *provider == Provider::WebGpu && !emulated {
            continue;
        }
        let (ours, info) = vectors(provider.name(), library);
        let plugin = info.plugin.unwrap();
        assert!(plugin.version.is_some());
        assert_eq!(info.placement[0].provider, provider.name());
        for (ours, cpu) in ours.iter().zip(&before) {
            assert!(support::npy::cosine(ours, cpu) > 0.999_99);
        }
    }
    let (after, info) = vectors("cpu", library);
    assert_eq!((before, info.plugin), (after, None));
}

/// OpenVINO's own build of ONNX Runtime is older than its plug-in, which then offers no device.
#[test]
fn where_a_plugin_offers_no_device_the_librarys_own_provider_of_that_name_is_taken() {
    let test = "a plug-in without a device beside a provider of its name";
    let list = std::env::var("EMBEDCTL_TEST_PROVIDERS").unwrap_or_default();
    let own = list
        .split(',')
        .find_map(|one| one.trim().strip_prefix("openvino:"));
    let plugin = real(test)
        .into_iter()
        .find(|(provider, _)| *provider == Provider::OpenVino);
    let (Some(own), Some((_, plugin))) = (own, plugin) else {
        return;
    };
    // As in one Python environment: …/onnxruntime/capi/LIBRARY and …/onnxruntime_ep_openvino.
    let own = Path::new(own);
    let packages = TempDir::new().unwrap();
    let core = own.parent().and_then(Path::parent).unwrap();
    symlink(core, packages.path().join("onnxruntime")).unwrap();
    let site = plugin.ancestors().nth(3).unwrap();
    let name = "onnxruntime_ep_openvino";
    symlink(site.join(name), packages.path().join(name)).unwrap();
    let capi = packages.path().join("onnxruntime/capi");
    let report = ask(&command(), &capi.join(own.file_name().unwrap()));

    let passed_over = only(&report);
    assert!(
        passed_over.path.starts_with(packages.path().join(name)),
        "{report:?}"
    );
    assert!(passed_over.devices.is_empty(), "{report:?}");
    let mut tried = report
        .providers
        .iter()
        .filter(|tried| tried.provider == Provider::OpenVino);
    let (first, then) = (tried.next().unwrap(), tried.next().unwrap());
    assert!(
        !first.works && first.plugin.as_ref() == Some(&passed_over.path),
        "{first:?}"
    );
    assert!(
        first
            .reason
            .as_ref()
            .is_some_and(|reason| reason.contains("it looks for Intel's"))
    );
    assert!(then.works && then.plugin.is_none(), "{then:?}");
}
