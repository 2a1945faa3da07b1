#!/usr/bin/env bash
# Every attack on this program by one command, with a summary at the end: damaged inputs, models and settings from
# seeds; hostile Hubs, lock files, folders and environments; faults at every operation on a file; files that the
# system refuses to replace; links of other users, hostile redirects, parts and outputs that were exchanged, streams
# that expand without an end; files of models that nest, grow or take for ever; clients of the server; jobs that are killed, alone and three at once, in folders, in shards and on two object
# stores; disks, folders and stores that fail; every triple of values of the options about rows and columns, against a
# second implementation (tests/crossings).
#
#   benches/hardening/run.sh [--quick] [PART…]
#
# PART is one or more of: breaks damaged hostile faults mounts kills shards store jobs crossings. All of them take some hours on
# two cores, `--quick` some minutes: the same parts with fewer cases. Needs cc, and Python 3 with numpy and pyarrow;
# `crossings` also needs polars and tokenizers, and takes ONNX Runtime from ORT_DYLIB_PATH.
# `mounts`, another user's links and the full disk of `jobs` need root on Linux; `store` needs moto
# (EMBEDCTL_TEST_MOTO names its Python) or s3rver (EMBEDCTL_TEST_S3RVER names the folder of `npm install s3rver`).
# A part that lacks one of these is named as skipped. Exits with 1 if a part failed; its output is shown.
set -euo pipefail
cd "$(dirname "$0")/../.."

quick=
if [ "${1:-}" = --quick ]; then
    quick=yes
    shift
fi
parts=${*:-breaks damaged hostile faults mounts kills shards store jobs crossings}
# The first value in a quick run, the second one otherwise.
of() { if [ -n "$quick" ]; then echo "$1"; else echo "$2"; fi; }

cargo build --locked --quiet
target=$(cargo metadata --format-version 1 --no-deps --offline |
    python3 -c 'import json, sys; print(json.load(sys.stdin)["target_directory"])')
program=$target/debug/embedctl
model=fixtures/parity/bert-mean-legacy/model
logs=$target/hardening
mkdir -p "$logs"
python=${PYTHON:-python3}

# Runs one part and prints its line of the summary.
failed=
part() {
    local name=$1 began=$SECONDS result=passed
    shift
    if ! "$@" >"$logs/$name.log" 2>&1; then
        result=FAILED
        failed="$failed $name"
    fi
    printf '%-8s %-7s %5d s  %s\n' "$name" "$result" $((SECONDS - began)) "$(grep -v '^$' "$logs/$name.log" | tail -1 | cut -c1-120)"
    [ "$result" = passed ] || tail -60 "$logs/$name.log" >&2
}
skipped() { printf '%-8s %-7s %5d s  %s\n' "$1" skipped 0 "$2"; }

# Breaks that were found, each as a test.
breaks() {
    cargo test --locked --workspace --lib -- reach:: agents:: atomic:: expansion:: proven_tests:: two_runs_tests:: secrets \
        torch_file_tests:: chat:: bounded:: refused:: files_of_other_programs an_empty_variable &&
        cargo test --locked --workspace --test cli -- links:: untrusted:: outside:: jobs_proven:: weights:: terminal:: config:: \
            hostile:: faults:: what_postgresql_refuses a_table_of_many_columns &&
        cargo test --locked -p embedctl-serve --test http
}

# Kills of runs that write to a store: one run, three of one output, three shards.
store() {
    for how in "" "--atonce 3" "--atonce 3 --shards 3"; do
        # shellcheck disable=SC2086
        "$python" benches/jobs/store.py --binary "$program" "$@" --kills "$(of 4 100)" --records "$(of 600 2000)" $how || return
    done
}
stores() {
    [ -z "${EMBEDCTL_TEST_MOTO:-}" ] || store --moto "$EMBEDCTL_TEST_MOTO" || return
    [ -z "${EMBEDCTL_TEST_S3RVER:-}" ] || store --s3rver "$EMBEDCTL_TEST_S3RVER"
}

kills() {
    for runs in 1 3; do
        "$python" benches/jobs/kill.py --binary "$program" --kills "$(of 6 150)" --records "$(of 800 3000)" --atonce $runs || return
    done
}

for name in $parts; do
    case $name in
    breaks) part breaks breaks ;;
    damaged) part damaged benches/hardening/mutate.sh "$(of 300 1000000)" ;;
    hostile) part hostile "$python" benches/hardening/hostile.py --binary "$program" --every "$(of 12 1)" ;;
    faults) part faults "$python" benches/hardening/inject.py "$program" "$model" \
        --formats "$(of parquet parquet,npy,jsonl)" --errors "$(of EIO EIO,ENOSPC)" --every "$(of 5 1)" ;;
    mounts)
        if [ "$(id -u)" = 0 ] && [ "$(uname)" = Linux ]; then
            part mounts benches/hardening/mounts.sh "$program"
        else
            skipped mounts "needs root on Linux"
        fi
        ;;
    kills) part kills kills ;;
    shards) part shards "$python" benches/jobs/shards.py --binary "$program" --kills "$(of 6 300)" --records "$(of 800 2000)" --shards "$(of 3 8)" ;;
    store)
        if [ -n "${EMBEDCTL_TEST_MOTO:-}${EMBEDCTL_TEST_S3RVER:-}" ]; then
            part store stores
        else
            skipped store "needs moto or s3rver; EMBEDCTL_TEST_MOTO or EMBEDCTL_TEST_S3RVER names it"
        fi
        ;;
    jobs) part jobs "$python" benches/jobs/faults.py --binary "$program" --rounds "$(of 1 3)" \
        ${EMBEDCTL_TEST_MOTO:+--moto "$EMBEDCTL_TEST_MOTO"} ;;
    crossings)
        if "$python" -c 'import numpy, polars, pyarrow, tokenizers' 2>/dev/null; then
            part crossings "$python" tests/crossings/crossings.py "$program" ${ORT_DYLIB_PATH:+--ort "$ORT_DYLIB_PATH"} \
                --triples $(of "--most 200" "")
        else
            skipped crossings "needs a Python with numpy, polars, pyarrow and tokenizers"
        fi
        ;;
    *)
        echo "unknown part '$name'; known: breaks damaged hostile faults mounts kills shards store jobs crossings" >&2
        exit 2
        ;;
    esac
done
[ -z "$failed" ] || {
    echo "failed:$failed (logs in $logs)" >&2
    exit 1
}
