#!/bin/sh
# Lists the functions that the native engine's kernels call, by how often and from which instruction set. A kernel calls next
# to nothing: a generic function of the standard library in this list (`zip`, `array::from_fn`, a closure) was not inlined, and
# has cost up to half of a kernel's speed. Needs binutils, and a binary with symbols (a clone's, not a release's).
#
#   benches/native/calls.sh [BINARY]      default: target/debug/embedctl
set -eu
objdump -d -C --no-show-raw-insn "${1:-target/debug/embedctl}" | awk '
    /^[0-9a-f]+ <.*>:$/ {
        inside = /<embedctl_kernels::simd::.*::enter::compiled/
        if (inside) { set = $0; sub(/^[^<]*<<embedctl_kernels::simd::/, "", set); sub(/::.*/, "", set) }
        next
    }
    inside && /call +[0-9a-f]+ </ {
        called = $0
        sub(/.*call +[0-9a-f]+ </, "", called)
        sub(/>$/, "", called)
        print set "\t" called
    }' | sort | uniq -c | sort -rn
