use super::super::preload::Missing;
use super::*;

fn prepared(cuda: u32, missing: &[&str]) -> PreparedProvider {
    let missing = missing.iter().map(|name| Missing {
        name: (*name).to_owned(),
        reason: format!("{name}: cannot open shared object file: No such file or directory"),
    });
    PreparedProvider {
        missing: missing.collect(),
        cuda: Some(cuda),
        ..PreparedProvider::default()
    }
}

/// As onnxruntime-gpu 1.31.1 says it on a machine without any of NVIDIA's files.
const REFUSED: &str = "/onnxruntime_src/onnxruntime/core/session/provider_bridge_ort.cc:2043 \
    onnxruntime::Provider& onnxruntime::ProviderLibrary::Get() [ONNXRuntimeError] : 1 : FAIL : Failed to \
    load library /x/libonnxruntime_providers_cuda.so with error: libcublasLt.so.13: cannot open shared \
    object file: No such file or directory";

#[test]
fn the_place_in_the_librarys_source_is_left_out() {
    assert!(shorten(REFUSED).starts_with("Failed to load library /x/"));
    assert_eq!(shorten("two\n lines"), "two lines");
    let webgpu = "/s/webgpu_context.cc:65 Initialize(…)::<lambda()> status == Success was false. Failed to \
                  get a WebGPU adapter";
    assert_eq!(shorten(webgpu), "Failed to get a WebGPU adapter");
    assert_eq!(missing_file(REFUSED), Some("libcublasLt.so.13"));
    assert_eq!(missing_file("something else"), None);
}

#[test]
fn a_missing_driver_and_missing_packages_are_told_apart() {
    let explain =
        |prepared: &PreparedProvider| explain(Provider::Cuda, REFUSED, prepared, "1.31.1");
    let cause = explain(&prepared(13, &[DRIVER]));
    assert!(cause.reason.starts_with("libcuda.so.1: cannot open"));
    let remedy = cause.remedy.unwrap();
    assert!(
        remedy.contains("nvidia-smi") && !remedy.contains("pip"),
        "{remedy}"
    );

    let cause = explain(&prepared(12, &["libcudart.so.12", "libcublas.so.12"]));
    assert!(
        cause.reason.ends_with("; libcublas.so.12 is missing too"),
        "{cause:?}"
    );
    let remedy = cause.remedy.unwrap();
    assert!(!remedy.contains("nvidia-smi"), "{remedy}");
    assert!(
        remedy.contains("\"onnxruntime-gpu[cuda,cudnn]==1.31.1\"") && remedy.contains("CUDA 12"),
        "{remedy}"
    );

    let cause = super::explain(
        Provider::TensorRt,
        REFUSED,
        &prepared(13, &["libnvinfer.so.10"]),
        "1.31.1",
    );
    assert_eq!(
        cause.remedy.unwrap(),
        "'pip install \"tensorrt-cu13-libs==10.*\"' brings TensorRT's libraries"
    );
}

#[test]
fn a_drivers_words_have_their_remedies() {
    for (words, sign) in [
        (
            "CUDA failure 35: CUDA driver version is insufficient for CUDA runtime version",
            "driver 525 or later",
        ),
        (
            "CUDA failure 100: no CUDA-capable device is detected",
            "CUDA_VISIBLE_DEVICES",
        ),
        (
            "CUDA failure 101: invalid device ordinal",
            "device counts from 0",
        ),
        ("CUDA failure 2: out of memory", "memory is full"),
        (
            "no kernel image is available for execution on the device",
            "1.26.0",
        ),
    ] {
        let cause = explain(Provider::Cuda, words, &prepared(12, &[]), "1.26.0");
        assert_eq!(cause.reason, words);
        let remedy = cause.remedy.unwrap_or_default();
        assert!(remedy.contains(sign), "{words}: {remedy}");
    }
    let cause = explain(
        Provider::Cuda,
        "an unknown message",
        &prepared(12, &[]),
        "1.26.0",
    );
    assert_eq!(cause.remedy, None);
}

/// As onnxruntime-gpu words a number without a device, when a session is made.
const ORDINAL: &str = "/onnxruntime_src/onnxruntime/core/providers/cuda/cuda_call.cc:129 \
    std::conditional_t<THRW, void, onnxruntime::common::Status> onnxruntime::CudaCall(ERRTYPE, const char*, const \
    char*, SUCCTYPE, const char*, const char*, int) [with ERRTYPE = cudaError; bool THRW = true] CUDA failure 101: \
    invalid device ordinal ; GPU=0 ; hostname=h ; \
    file=/onnxruntime_src/onnxruntime/core/providers/cuda/cuda_execution_provider.cc ; line=303 ; \
    expr=cudaSetDevice(info_.device_id);";

#[test]
fn what_cuda_reports_comes_without_functions_and_places_in_the_librarys_source() {
    let cause = explain(Provider::Cuda, ORDINAL, &prepared(13, &[]), "1.31.1");
    assert_eq!(cause.reason, "CUDA failure 101: invalid device ordinal");
    let remedy = cause.remedy.unwrap();
    assert!(remedy.contains("there is no such device"), "{remedy}");
    assert!(lacks_device(ORDINAL));
    let hidden = ORDINAL.replace(
        "101: invalid device ordinal",
        "100: no CUDA-capable device is detected",
    );
    assert!(lacks_device(&hidden));
    let cause = explain(Provider::Cuda, &hidden, &prepared(13, &[]), "1.31.1");
    assert_eq!(
        cause.reason,
        "CUDA failure 100: no CUDA-capable device is detected"
    );
    assert!(cause.remedy.unwrap().contains("CUDA_VISIBLE_DEVICES"));
    let full = ORDINAL.replace("101: invalid device ordinal", "2: out of memory");
    assert!(!lacks_device(&full));
    for other in [
        "a failure 3 of ours",
        "there was no failure",
        "CUDA failure of a kind",
    ] {
        assert_eq!(shorten(other), other);
        assert!(!lacks_device(other));
    }
}

#[test]
fn other_providers_have_theirs() {
    let remedy = |provider: Provider, words: &str| {
        let cause = explain(provider, words, &PreparedProvider::default(), "1.27.0");
        cause.remedy.unwrap_or_default()
    };
    let missing = |file: &str| format!("{file}: cannot open shared object file: No such file");
    let adapter = remedy(Provider::WebGpu, "Failed to get a WebGPU adapter");
    assert!(adapter.contains("mesa-vulkan-drivers"), "{adapter}");
    let rocm = remedy(Provider::MiGraphX, &missing("libamdhip64.so.7"));
    assert!(
        rocm.contains("ROCm") && rocm.contains("libamdhip64.so.7"),
        "{rocm}"
    );
    let other = remedy(Provider::OpenVino, &missing("libz.so.1"));
    assert!(other.contains("libz.so.1"), "{other}");
    // npm's package, whose install script did not run.
    let npm = remedy(
        Provider::Cuda,
        &missing("/x/libonnxruntime_providers_shared.so"),
    );
    assert!(
        npm.contains("install scripts") && npm.contains("onnxruntime-gpu"),
        "{npm}"
    );
}
