#!/usr/bin/env bash
# Every attack on this program by one command, with a summary at the end: damaged inputs, models and settings from
# seeds; hostile Hubs, lock files, folders and environments; faults at every operation on a file; files that the
# system refuses to replace; jobs that are killed, in folders, in shards and on an object store; disks, folders and
# stores that fail.
#
#   benches/hardening/run.sh [--quick] [PART…]
#
# PART is one or more of: damaged hostile faults mounts kills shards store jobs. All of them take some hours on two
# cores, `--quick` about three minutes: the same parts with fewer cases. Needs cc, and Python 3 with numpy and pyarrow.
# `mounts` and the full disk of `jobs` need root on Linux; `store` needs moto (EMBEDCTL_TEST_MOTO names its Python).
# A part that lacks one of these is named as skipped. Exits with 1 if a part failed; its output is shown.
set -euo pipefail
cd "$(dirname "$0")/../.."

quick=
if [ "${1:-}" = --quick ]; then
    quick=yes
    shift
fi
parts=${*:-damaged hostile faults mounts kills shards store jobs}
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

for name in $parts; do
    case $name in
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
    kills) part kills "$python" benches/jobs/kill.py --binary "$program" --kills "$(of 12 300)" --records "$(of 800 3000)" ;;
    shards) part shards "$python" benches/jobs/shards.py --binary "$program" --kills "$(of 6 300)" --records "$(of 800 2000)" --shards "$(of 3 8)" ;;
    store)
        if [ -n "${EMBEDCTL_TEST_MOTO:-}" ]; then
            part store "$python" benches/jobs/store.py --binary "$program" --moto "$EMBEDCTL_TEST_MOTO" --kills "$(of 6 300)" --records "$(of 600 2000)"
        else
            skipped store "needs moto; EMBEDCTL_TEST_MOTO names its Python"
        fi
        ;;
    jobs) part jobs "$python" benches/jobs/faults.py --binary "$program" --rounds "$(of 1 3)" \
        ${EMBEDCTL_TEST_MOTO:+--moto "$EMBEDCTL_TEST_MOTO"} ;;
    *)
        echo "unknown part '$name'; known: damaged hostile faults mounts kills shards store jobs" >&2
        exit 2
        ;;
    esac
done
[ -z "$failed" ] || {
    echo "failed:$failed (logs in $logs)" >&2
    exit 1
}
