#!/usr/bin/env bash
# Measures embedctl on an NVIDIA GPU and writes RESULTS.md beside this file.
#
#   benches/gpu/run.sh [--wheels FOLDER] [--binary PATH] [OPTION OF measure.py]...
#   benches/gpu/run.sh --quick [--binary PATH] [--shapes FOLDER] [OPTION OF quick.py]...
#
# --quick measures in at most five minutes what a GPU must confirm of embedctl's own engine, and writes quick.jsonl, a line
# for each step. Bring what takes time: --binary, and --shapes with the folders of make_checkpoint.py.
#
# Runs without a network, on a machine with an NVIDIA driver, python3 (3.12 or what the wheels are for) and
# bash. ONNX Runtime comes from
#   --wheels FOLDER  with the wheels of onnxruntime-gpu[cuda,cudnn] and, for TensorRT, tensorrt-cu13-libs:
#                      pip download --dest FOLDER 'onnxruntime-gpu[cuda,cudnn]' tensorrt-cu13-libs
#   or else the active Python environment, or the python3 on the path.
# embedctl is --binary PATH, or else built here with cargo (whose crates must have been fetched then).
# Half precision on CUDA needs a model_fp16.onnx, and the larger model is made from random numbers: both are made
# here if the packages numpy, onnx and onnxruntime can be imported, or elsewhere with make_fp16.py and make_base.py
# and given as --half-model, --base-model and --half-base.
# Texts: --corpora FOLDER (made by benches/corpus/make.sh), else drawn at random.
# All of it takes about 40 minutes; --sections parity,speed,parts,faults,peers,bench chooses.
set -euo pipefail
here=$(cd "$(dirname "$0")" && pwd)
repo=$(cd "$here/../.." && pwd)
work=${CARGO_TARGET_DIR:-$repo/target}/gpu
mkdir -p "$work"

wheels= binary= half= base= halfbase= quick= shapes=
rest=()
while [ $# -gt 0 ]; do
    case $1 in
    --wheels) wheels=$2; shift 2 ;;
    --binary) binary=$2; shift 2 ;;
    --quick) quick=1; shift ;;
    --shapes) shapes=$2; shift 2 ;;
    --half-model) half=$2; shift 2 ;;
    --base-model) base=$2; shift 2 ;;
    --half-base) halfbase=$2; shift 2 ;;
    *) rest+=("$1"); shift ;;
    esac
done

if [ -n "$wheels" ]; then
    # A wheel is a zip file. Unpacked side by side they lie as pip would put them, and a bare machine need
    # have neither pip nor venv.
    site=$work/env/lib/python3/site-packages
    if [ ! -e "$work/env/complete" ] || [ "$wheels" -nt "$work/env/complete" ]; then
        rm -rf "$work/env"
        mkdir -p "$site"
        for wheel in "$wheels"/*.whl; do
            echo "unpacking $(basename "$wheel")"
            python3 -m zipfile -e "$wheel" "$site"
        done
        touch "$work/env/complete"
    fi
    library=$(ls "$site"/onnxruntime/capi/libonnxruntime.so.* | head -1)
    rest+=(--library "$library")
    export PYTHONPATH=$site${PYTHONPATH:+:$PYTHONPATH}
fi

if [ -z "$binary" ]; then
    cargo build --release --manifest-path "$repo/Cargo.toml"
    binary=${CARGO_TARGET_DIR:-$repo/target}/release/embedctl
fi

if [ -n "$quick" ]; then
    shapes=${shapes:-$work/shapes}
    if python3 -c 'import numpy' 2>/dev/null; then
        for shape in minilm e5-small bge-base bge-large qwen3-0.6b; do
            [ -e "$shapes/$shape/model.safetensors" ] ||
                python3 "$here/make_checkpoint.py" "$shape" "$repo/fixtures/models/all-MiniLM-L6-v2" "$shapes/$shape"
        done
    fi
    exec python3 "$here/quick.py" --binary "$binary" --shapes "$shapes" "${rest[@]}"
fi

if python3 -c 'import numpy, onnx, onnxruntime' 2>/dev/null; then
    if [ -z "$half" ]; then
        half=$work/model-fp16
        python3 "$here/make_fp16.py" "$repo/fixtures/models/all-MiniLM-L6-v2" "$half"
    fi
    if [ -z "$base" ]; then
        base=$work/base halfbase=$work/base-fp16
        python3 "$here/make_base.py" "$repo/fixtures/models/all-MiniLM-L6-v2" "$base"
        python3 "$here/make_fp16.py" "$base" "$halfbase"
    fi
fi
if python3 -c 'import numpy' 2>/dev/null; then
    # Shapes of published models without ONNX files, whose graphs embedctl builds in fp32, fp16 and bf16.
    for shape in e5-small bge-base qwen3-0.6b; do
        [ -e "$work/shapes/$shape/model.safetensors" ] ||
            python3 "$here/make_checkpoint.py" "$shape" "$repo/fixtures/models/all-MiniLM-L6-v2" "$work/shapes/$shape"
        rest+=(--checkpoint "$work/shapes/$shape")
    done
fi
[ -z "$half" ] || rest+=(--half-model "$half")
[ -z "$base" ] || rest+=(--base-model "$base")
[ -z "$halfbase" ] || rest+=(--half-base "$halfbase")

nvidia-smi >/dev/null || echo "warning: there is no NVIDIA driver here; the page will say so" >&2
exec python3 "$here/measure.py" --binary "$binary" "${rest[@]}"
