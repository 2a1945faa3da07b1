//! Graphs of every architecture on the providers that `EMBEDCTL_TEST_PROVIDERS` names, as `tests/parity.rs` has them.

use std::io::Write;
use std::process::Command;

use super::tests::states_of;
use crate::built::{self, GraphForm};
use crate::runtime::RuntimeOptions;
use crate::runtime::registration::{ProviderSettings, register, session_builder};
use crate::runtime::selection::LibrarySelection;
use embedctl_common::cancel::CancelToken;
use embedctl_engine::Provider;

/// How much farther from the reference than on the CPU a state may be.
const SLACK: f32 = 2.5;

/// One provider with its library, for the test that runs in a process of its own.
const ONE: &str = "EMBEDCTL_TEST_ONE_PROVIDER";

/// A process has one library of ONNX Runtime.
#[test]
fn every_architecture_gives_the_references_states_on_other_providers() {
    let list = std::env::var("EMBEDCTL_TEST_PROVIDERS").unwrap_or_default();
    let providers: Vec<&str> = (list.split(','))
        .filter(|one| one.contains(':') && !one.contains("+plugin"))
        .collect();
    if providers.is_empty() {
        let _ = writeln!(
            std::io::stderr(),
            "skipped: architectures on other providers need EMBEDCTL_TEST_PROVIDERS"
        );
    }
    for one in providers {
        let program = std::env::current_exe().unwrap();
        let test = format!("{}::architectures_on_one_provider", module_path!());
        let test = test.split_once("::").map_or("", |(_, test)| test);
        let output = Command::new(program)
            .args(["--ignored", "--exact", test])
            .env(ONE, one)
            // OpenVINO 2025.4 crashes with AVX-512 where heads are as narrow as in these cases.
            .env("ONEDNN_MAX_CPU_ISA", "AVX2")
            .output()
            .unwrap();
        let said = String::from_utf8_lossy(&output.stdout);
        assert!(output.status.success(), "{one}: {said}");
        assert!(said.contains("1 passed"), "{one}: {said}");
    }
}

#[test]
#[ignore = "the test above runs it, in a process of its own for each provider"]
fn architectures_on_one_provider() {
    let one = std::env::var(ONE).unwrap();
    let (provider, library) = one.split_once(':').unwrap();
    let provider: Provider = provider.parse().unwrap();
    let runtime = RuntimeOptions {
        library: Some(library.into()),
        ..RuntimeOptions::default()
    };
    let cancel = CancelToken::new();
    let library = LibrarySelection::new(&runtime, 0, true, &cancel)
        .library(provider)
        .unwrap();
    let mut wrong = Vec::new();
    for case in built::tests::cases() {
        let builder = session_builder(&library.environment).unwrap();
        let settings = ProviderSettings::default();
        let builder = register(builder, &library.environment, None, provider, &settings);
        let states = states_of(&case, GraphForm::default(), builder.unwrap());
        let (network, _) = case.built(GraphForm::default());
        let layers = &network.architecture().layers;
        let is_mixed = layers.iter().any(|layer| layer.experts);
        match states.map(|states| case.apart(&states)) {
            Ok(apart) if apart <= built::tests::TOLERANCE * SLACK => {}
            // OpenVINO 2025.4 takes a product with several matrices at once for one of another shape.
            Err(_) if is_mixed && provider == Provider::OpenVino => {}
            other => wrong.push(format!("{}: {other:?}", case.name)),
        }
    }
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
}
