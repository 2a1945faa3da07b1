#!/bin/sh
# Everything that attacks this program on purpose, at length: damaged inputs and models from seeds (mutate.sh), and
# faults at every operation on a file. Needs cc and Python 3; takes some ten minutes on two cores.
#
#   benches/hardening/run.sh [RECORD_FILES] [MODELS]
set -eu
cd "$(dirname "$0")/../.."
records=${1:-4000} models=${2:-4000}

benches/hardening/mutate.sh "$records" input::tests::damaged
benches/hardening/mutate.sh "$models" model::tests::damaged
cargo build
target=$(cargo metadata --format-version 1 --no-deps |
    python3 -c 'import json, sys; print(json.load(sys.stdin)["target_directory"])')
python3 benches/hardening/inject.py "$target/debug/embedctl" fixtures/parity/bert-mean-legacy/model --errors EIO,ENOSPC
# Mounts are root's alone.
[ "$(id -u)" != 0 ] || benches/hardening/mounts.sh "$target/debug/embedctl"
