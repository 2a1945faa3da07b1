#!/bin/sh
# What embedding on Spark and on Ray costs beside the program alone, and beside sentence-transformers there.
#
#   benches/clusters/run.sh --setup                    a Python environment in target/clusters, once (6 GB)
#   benches/corpus/make.sh                             the texts, once
#   benches/clusters/run.sh                            20,000 short texts, two rounds, and a table
#   benches/clusters/run.sh --help                     all options (of compare.py)
#
# Needs Java 17 and a release build. These name what lies elsewhere:
#   PYTHON      the interpreter of an environment with requirements.txt (target/clusters/bin/python)
#   EMBEDCTL    the program (target/release/embedctl)
set -eu

here=$(CDPATH='' cd -- "$(dirname -- "$0")" && pwd)
root=$(CDPATH='' cd -- "$here/../.." && pwd)
python=${PYTHON:-$root/target/clusters/bin/python}
if [ "${1:-}" = --setup ]; then
    python3 -m venv "$root/target/clusters"
    exec "$root/target/clusters/bin/python" -m pip install --requirement "$here/requirements.txt"
fi
if [ ! -x "$python" ]; then
    echo "run.sh: no $python: run $0 --setup first, or set PYTHON" >&2
    exit 1
fi
export EMBEDCTL_BIN="${EMBEDCTL:-$root/target/release/embedctl}" PYTHONPATH="$root/python:$here" PYTHONDONTWRITEBYTECODE=1
exec "$python" "$here/compare.py" "$@"
