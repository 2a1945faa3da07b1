#!/bin/sh
# Damages a small file of every format that is read, from seeds: bits, cuts, insertions, copies, holes, huge lengths.
# A case may not panic, take ten seconds, or ask for more than 64 MiB at a time, and all of them together may not hold
# a gigabyte; what is read of damaged lines and of compressed files must be right. Prints a line for each target with
# its cases, its time, its slowest case and the most memory.
#
#   benches/hardening/mutate.sh [CASES] [FILTER]     1,000,000 cases of each target, unless said otherwise
#
# A case that fails says its seed: EMBEDCTL_TEST_FIRST=SEED with CASES=1 runs it again, and EMBEDCTL_TEST_ONLY=NAME
# damages one file alone, of those that a test damages (`b.parquet`, `whole/_embedctl/job.json`). What the decoders' caught
# panics say goes to target/mutate.log. Address space is limited to 8 GiB.
set -eu
cd "$(dirname "$0")/../.."
cases=${1:-1000000} filter=${2:-damaged_}
mkdir -p target
# Files are written for each case: in memory, where there is such a place.
[ -d /dev/shm ] && export TMPDIR=/dev/shm
# The parser of Arrow streams clears 64 MiB for a message that claims a large body: with large pages in a third of the time.
export GLIBC_TUNABLES=glibc.malloc.hugetlb=1
tests="--workspace --lib --bin embedctl --locked"
# shellcheck disable=SC2086
cargo test $tests --no-run
ulimit -v 8388608
export EMBEDCTL_TEST_CASES="$cases" EMBEDCTL_TEST_FIRST="${EMBEDCTL_TEST_FIRST:-0}" RUST_BACKTRACE=0
# shellcheck disable=SC2086
if nice cargo test $tests --no-fail-fast -- --nocapture --test-threads 1 "$filter" 2>target/mutate.log >target/mutate.txt; then
    sed -n 's/^test .* \.\.\. //; /damaged files in/p' target/mutate.txt
    echo "$(grep -c 'damaged files in' target/mutate.txt) targets, $cases cases of each file"
else
    sed -n 's/^test .* \.\.\. //; /damaged files in/p' target/mutate.txt
    grep -n 'this was seed\|has not come to an end\|were asked for' target/mutate.log >&2 || tail -20 target/mutate.log >&2
    exit 1
fi
