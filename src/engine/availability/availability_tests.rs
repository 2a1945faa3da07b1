//! From libraries' reports and hardware to the statuses of providers.

use super::*;
use crate::device::{Gpu, NvidiaDriver, Vendor};

const LINUX: Platform = Platform {
    os: "linux",
    arch: "x86_64",
};

/// A usable library with providers tried: a provider and why it does not work, if so.
fn library(name: &str, tried: &[(Provider, Option<&str>)]) -> LibraryReport {
    let providers: Vec<ProviderReport> = tried
        .iter()
        .map(|(provider, reason)| {
            let mut report = ProviderReport::refused(*provider, "");
            report.works = reason.is_none();
            report.reason = reason.map(str::to_owned);
            report.remedy = reason.map(|_| "the library's advice".to_owned());
            report
        })
        .collect();
    let text = serde_json::json!({
        "path": format!("/lib/{name}"), "origin": "in a test", "unusable": null, "remedy": null,
        "version": "1.31.1", "build": null, "available": [], "providers": providers,
    });
    serde_json::from_value(text).unwrap()
}

fn broken(reason: &str) -> LibraryReport {
    let mut report = library("broken", &[]);
    report.unusable = Some(reason.into());
    report.version = None;
    report
}

fn with_card() -> Hardware {
    Hardware {
        gpus: vec![Gpu {
            number: Some(0),
            ..Gpu::new(Vendor::Nvidia, "NVIDIA L4".into())
        }],
        nvidia: Some(NvidiaDriver {
            cuda: Some("13.0".into()),
            ..NvidiaDriver::default()
        }),
        ..Hardware::default()
    }
}

#[test]
fn the_first_library_in_which_it_works_counts() {
    let libraries = [
        library("first", &[(Provider::Cuda, Some("crashed by signal 11"))]),
        library("second", &[(Provider::Cuda, None)]),
        library("third", &[(Provider::Cuda, None)]),
    ];
    let status = status(Provider::Cuda, &with_card(), &libraries, LINUX);
    assert_eq!(status.status, AvailabilityState::Works);
    assert_eq!(status.library.as_deref(), Some(Path::new("/lib/second")));
    assert_eq!((status.reason, status.remedy), (None, None));
}

#[test]
fn a_real_device_counts_before_a_played_one() {
    let mut played = library("first", &[(Provider::WebGpu, None)]);
    played.providers[0].software = true;
    let libraries = [
        played.clone(),
        library("second", &[(Provider::WebGpu, None)]),
    ];
    let of = |libraries: &[_]| status(Provider::WebGpu, &with_card(), libraries, LINUX);
    assert_eq!(
        of(&libraries).library.as_deref(),
        Some(Path::new("/lib/second"))
    );
    let alone = of(&[played]);
    assert!(alone.status == AvailabilityState::Works && alone.software);
}

#[test]
fn the_hardware_says_whether_a_librarys_advice_is_apt() {
    let words = "libcublasLt.so.13: cannot open shared object file";
    let libraries = [library("gpu", &[(Provider::Cuda, Some(words))])];
    let with = status(Provider::Cuda, &with_card(), &libraries, LINUX);
    assert_eq!(with.status, AvailabilityState::Unusable);
    assert_eq!(with.reason.as_deref(), Some(words));
    assert_eq!(with.remedy.as_deref(), Some("the library's advice"));
    let without = status(Provider::Cuda, &Hardware::default(), &libraries, LINUX);
    assert_eq!(without.status, AvailabilityState::Unusable);
    assert_eq!(without.reason.as_deref(), Some("no NVIDIA GPU was found"));
    assert_eq!(without.detail.as_deref(), Some(words));
    assert_eq!(without.remedy, None);
}

#[test]
fn a_missing_provider_is_told_with_its_package() {
    let libraries = [library("cpu", &[(Provider::Cpu, None)])];
    let status = status(Provider::OpenVino, &Hardware::default(), &libraries, LINUX);
    assert_eq!(status.status, AvailabilityState::Absent);
    assert_eq!(
        status.reason.as_deref(),
        Some("no ONNX Runtime library here has it")
    );
    assert_eq!(
        status.remedy.as_deref(),
        Some("pip install onnxruntime-openvino")
    );
    assert_eq!(status.library, None);
}

#[test]
fn a_broken_library_is_the_reason_for_the_cpu_provider_alone() {
    let libraries = [broken("it is cut short")];
    let of = |provider| status(provider, &with_card(), &libraries, LINUX);
    let cpu = of(Provider::Cpu);
    assert_eq!(cpu.status, AvailabilityState::Unusable);
    assert_eq!(cpu.reason.as_deref(), Some("it is cut short"));
    assert_eq!(cpu.remedy.as_deref(), Some("pip install onnxruntime"));
    let openvino = of(Provider::OpenVino);
    assert_eq!(openvino.status, AvailabilityState::Absent);
    assert!(openvino.reason.unwrap().contains("no usable"));
    let none = status(Provider::Cpu, &with_card(), &[], LINUX);
    assert_eq!(none.status, AvailabilityState::Absent);
    assert!(none.reason.unwrap().contains("was found"));
}

#[test]
fn what_no_package_has_is_said_so() {
    let libraries = [library("cpu", &[(Provider::Cpu, None)])];
    let status = status(Provider::Xnnpack, &Hardware::default(), &libraries, LINUX);
    assert!(status.reason.unwrap().contains("no package"));
    assert_eq!(status.remedy, None);
}

#[test]
fn as_json_providers_stand_under_their_names() {
    let libraries = [library("cpu", &[(Provider::Cpu, None)])];
    let hardware = with_card();
    let report = DeviceReport {
        schema: 1,
        version: "0.0.0",
        os: "linux",
        arch: "x86_64",
        providers: [Provider::Cpu, Provider::Cuda]
            .map(|provider| status(provider, &hardware, &libraries, LINUX))
            .into(),
        hardware,
        libraries: libraries.into(),
    };
    let json = serde_json::to_value(&report).unwrap();
    assert_eq!(json["providers"]["cpu"]["status"], "works");
    assert_eq!(json["providers"]["cuda"]["status"], "absent");
    assert_eq!(json["hardware"]["gpus"][0]["vendor"], "nvidia");
    assert_eq!(json["libraries"][0]["version"], "1.31.1");
    assert!(json["hardware"]["vulkan"].is_null());
}
