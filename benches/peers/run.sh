#!/bin/sh
# Measures embedctl against its peers; README.md says what each of them is given.
#
#   benches/peers/run.sh --setup                          make what the peers need, once
#   benches/peers/run.sh --check                          are their vectors right?
#   benches/peers/run.sh target/corpus/short.txt          measure, and print a table
#   benches/peers/run.sh --help                           all options (of compare.py)
#
# Everything lies in target/peers unless these say otherwise:
#   PYTHON        the interpreter of the peers' environment
#   FASTEMBED_RS  the program built from fastembed-rs/
#   MODEL         the model's folder (fixtures/models/all-MiniLM-L6-v2)
#   EMBEDCTL      the program to compare (target/release/embedctl)
#   OPENVINO, OPENVINO_PLUGIN  ONNX Runtime's library with OpenVINO in it, and one with the plug-in beside
#                 it, for embedctl with these too
#   ORT_DYLIB_PATH  ONNX Runtime (the library inside the environment's package)
set -eu

here=$(CDPATH='' cd -- "$(dirname -- "$0")" && pwd)
root=$(CDPATH='' cd -- "$here/../.." && pwd)
work=$root/target/peers
python=${PYTHON:-$work/venv/bin/python}
export PYTHONDONTWRITEBYTECODE=1

if [ "${1:-}" = --setup ]; then
    shift
    mkdir -p "$work"
    if [ ! -x "$python" ]; then
        python3 -m venv "$work/venv"
        python=$work/venv/bin/python
        "$python" -m pip install -r "$here/requirements.txt"
    fi
    CARGO_TARGET_DIR=$work cargo build --release --locked \
        --manifest-path "$here/fastembed-rs/Cargo.toml"
    [ $# -gt 0 ] || exit 0
fi

if [ ! -x "$python" ]; then
    echo "run.sh: no $python: run $0 --setup first, or set PYTHON" >&2
    exit 1
fi
exec "$python" "$here/compare.py" "$@"
