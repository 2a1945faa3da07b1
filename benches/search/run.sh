#!/usr/bin/env bash
# `embedctl search` beside NumPy, DuckDB and FAISS's flat index: its answers on 10,000 random rows of every kind and type
# of vectors, then its speed on a million. docs/search.md has the table.
#
#   cargo build --release && benches/search/run.sh
#
# Needs python3; its environment comes to lie in target/search, with files of about 8 GB. PYTHON (with the packages of
# requirements.txt), EMBEDCTL, WORK (a folder), ROWS (1000000; 0: no speed) and ROUNDS (5) can be given. Measure on a machine that does
# nothing else.
set -euo pipefail
cd "$(dirname "$0")/../.."
work=${WORK:-$PWD/target/search}
mkdir -p "$work"
if [ -z "${PYTHON:-}" ]; then
    if ! [ -x "$work/venv/bin/python" ]; then
        python3 -m venv "$work/venv"
        "$work/venv/bin/python" -m pip install --quiet --disable-pip-version-check --requirement benches/search/requirements.txt
    fi
    PYTHON=$work/venv/bin/python
fi
exec "$PYTHON" benches/search/compare.py --program "${EMBEDCTL:-target/release/embedctl}" --work "$work" \
    --rows "${ROWS:-1000000}" --rounds "${ROUNDS:-5}"
