#!/usr/bin/env bash
# Every parity case and the real model on the providers that run without a graphics card: OpenVINO from
# its package, and WebGPU on lavapipe, Mesa's Vulkan driver for the processor. The first takes half a
# minute, the second some minutes: it is correct, and slow.
#
#   benches/providers/run.sh [openvino] [webgpu] [openvino+plugin] [webgpu+plugin]
#
# OpenVINO's plug-in offers a device on Intel's processors alone.
#
# Needs cargo and python3 on Linux; WebGPU also needs Mesa's Vulkan driver (from 25 on) and loader:
# on Debian 12 `apt-get install libvulkan1` and `apt-get install -t bookworm-backports
# mesa-vulkan-drivers`, on Ubuntu 24.04 and Debian 13 `apt-get install libvulkan1 mesa-vulkan-drivers`.
set -euo pipefail
cd "$(dirname "$0")/../.."

[ $# -gt 0 ] || set -- openvino webgpu
declare -A packages=([openvino]=onnxruntime-openvino==1.24.1 [webgpu]=onnxruntime-webgpu==1.27.0
    [openvino+plugin]='onnxruntime==1.31.1 onnxruntime-ep-openvino==1.8.1'
    [webgpu+plugin]='onnxruntime==1.31.1 onnxruntime-ep-webgpu==0.4.0')

# Without this a graphics card that is here would be taken, and another thing measured.
lavapipe() {
    local icd
    for icd in /usr/share/vulkan/icd.d/lvp_icd*.json /usr/local/share/vulkan/icd.d/lvp_icd*.json; do
        [ -e "$icd" ] && echo "$icd" && return
    done
    return 1
}

providers=()
for provider in "$@"; do
    package=${packages[$provider]:-}
    if [ -z "$package" ]; then
        echo "no such provider here: $provider (${!packages[*]})" >&2
        exit 2
    fi
    if [[ $provider = webgpu* ]]; then
        if ! VK_DRIVER_FILES=$(lavapipe); then
            echo "webgpu: there is no lavapipe; this script's first lines say how to get it" >&2
            exit 1
        fi
        export VK_DRIVER_FILES
    fi
    venv=${CARGO_TARGET_DIR:-$PWD/target}/providers/$provider
    if [ "$(cat "$venv/package" 2>/dev/null)" != "$package" ]; then
        rm -rf "$venv"
        python3 -m venv "$venv"
        "$venv/bin/python" -m pip install --quiet --disable-pip-version-check $package
        echo "$package" >"$venv/package"
    fi
    library=$(echo "$venv"/lib/python3*/site-packages/onnxruntime/capi/libonnxruntime.so.*)
    providers+=("$provider:$library")
done

EMBEDCTL_TEST_PROVIDERS=$(IFS=,; echo "${providers[*]}")
# What the program sets for itself, for the tests that use the library.
export ORT_WEBGPU_EP_ALLOW_SOFTWARE_ADAPTER=1
export EMBEDCTL_TEST_PROVIDERS EMBEDCTL_TEST_REQUIRE=providers RUST_BACKTRACE=0
cargo test --locked --test plugins
cargo test --locked --workspace --lib states_on_other_providers
exec cargo test --locked --test parity other_providers
