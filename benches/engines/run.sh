#!/usr/bin/env bash
# One model on the engines and kinds of weights that a processor has to choose between: speed, and what
# becomes of the vectors. README.md ("Engines compared") holds the table.
#
#   benches/corpus/make.sh && cargo build --release
#   benches/engines/run.sh target/corpus/short.txt target/corpus/long.jsonl
#
# Needs python3; its environments come to lie in target/engines. PYTHON (with the packages of
# requirements.txt), OPENVINO (an environment with onnxruntime-openvino), MODEL and EMBEDCTL point
# elsewhere, ROUNDS is 3. Measure on a machine that does nothing else.
set -euo pipefail
cd "$(dirname "$0")/../.."
[ $# -gt 0 ] || { sed -n '2,10s/^# \{0,1\}//p' "$0"; exit 2; }

work=$PWD/target/engines
mkdir -p "$work"
environment() {
    local venv=$1
    shift
    [ -x "$venv/bin/python" ] && return
    python3 -m venv "$venv"
    "$venv/bin/python" -m pip install --quiet --disable-pip-version-check "$@"
}
if [ -z "${PYTHON:-}" ]; then
    environment "$work/venv" --requirement benches/engines/requirements.txt
    PYTHON=$work/venv/bin/python
fi
if [ -z "${OPENVINO:-}" ]; then
    environment "$work/openvino" --requirement .ci/openvino.txt
    OPENVINO=$work/openvino
fi
ort=$("$PYTHON" -c 'import importlib.util as u; print(u.find_spec("onnxruntime").submodule_search_locations[0])')

"$PYTHON" benches/engines/make_models.py "${MODEL:-fixtures/models/all-MiniLM-L6-v2}" "$work/model"
echo
exec "$PYTHON" benches/engines/compare.py --program "${EMBEDCTL:-target/release/embedctl}" \
    --model "$work/model" --ort "$ort/capi" --openvino "$OPENVINO" --rounds "${ROUNDS:-3}" "$@"
