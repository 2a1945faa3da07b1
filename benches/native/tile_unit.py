#!/usr/bin/env python3
"""The precisions of the native engine on tiles and on AVX-512, while a core's tile unit is free and while it is shared.

    benches/corpus/make.sh
    python3 benches/native/tile_unit.py [--embedctl target/release/embedctl] [--core 0] [--seconds 95] [FILE:ROWS...]

The two hyperthreads of a core share its tile unit, and the other one may belong to another machine. A second program, built with a
C compiler, runs on the same core: every 15 ms it measures the rate of tiles in registers, by processor time. Settings take turns on one
thread. A run belongs to a state if at least 85 % of the samples during it do; other runs are left out. Prints the medians of the engine's
rates (`infer_seconds` of `--stats`), the number of runs, and the median over that of fp32 on AVX-512.
"""
import argparse
import bisect
import json
import os
import statistics
import subprocess
import tempfile
import time
from pathlib import Path

from tiles import CORPUS, MODEL, ROOT, texts_of

# Operations a second, above which the unit is free: alone it makes 4.7e12 to 5.5e12, shared about 2.2e12.
FREE = 3.3e12
SAMPLER = r"""
#include <immintrin.h>
#include <stdio.h>
#include <string.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>
struct { unsigned char palette, start, reserved[14]; unsigned short row_bytes[16]; unsigned char rows[16]; } full = {1};
static double at(clockid_t clock) { struct timespec t; clock_gettime(clock, &t); return t.tv_sec + t.tv_nsec * 1e-9; }
int main(void) {
    if (syscall(SYS_arch_prctl, 0x1023, 18)) return 1;
    for (int i = 0; i < 8; i++) { full.row_bytes[i] = 64; full.rows[i] = 16; }
    _tile_loadconfig(&full);
    for (;;) {
        double began = at(CLOCK_THREAD_CPUTIME_ID);
        for (int i = 0; i < 700; i++) { _tile_dpbusd(0, 4, 6); _tile_dpbusd(1, 4, 7); _tile_dpbusd(2, 5, 6); _tile_dpbusd(3, 5, 7); }
        double took = at(CLOCK_THREAD_CPUTIME_ID) - began;
        printf("%.4f %.0f\n", at(CLOCK_REALTIME), 700 * 4 * 32768.0 / took);
        fflush(stdout);
        usleep(15000);
    }
}
"""


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("files", nargs="*", default=[f"{CORPUS}/short.txt:250", f"{CORPUS}/long.jsonl:25"], metavar="FILE:ROWS")
    parser.add_argument("--embedctl", default=ROOT / "target/release/embedctl")
    parser.add_argument("--core", default="0")
    parser.add_argument("--seconds", type=float, default=95)
    asked = parser.parse_args()
    settings = [(precision, cpu) for precision in ("fp32", "int16", "int8", "bf16") for cpu in ("avx512", "amx")]
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        (folder / "sampler.c").write_text(SAMPLER)
        subprocess.run(["cc", "-O2", "-march=sapphirerapids", "-o", folder / "sampler", folder / "sampler.c"], check=True)
        for file in asked.files:
            path, _, rows = file.rpartition(":")
            texts = texts_of(Path(path), int(rows))
            (folder / "texts.jsonl").write_text("".join(json.dumps({"text": text}) + "\n" for text in texts))
            measure(asked, folder, settings, len(texts), Path(path).name)


def measure(asked, folder, settings, count, title):
    pinned, runs, turn = ["taskset", "-c", asked.core], [], 0
    with open(folder / "samples", "w") as samples:
        sampler = subprocess.Popen([*pinned, folder / "sampler"], stdout=samples)
        try:
            began = time.monotonic()
            while time.monotonic() - began < asked.seconds:
                turn += 1
                first = turn % len(settings)
                for precision, cpu in settings[first:] + settings[:first]:
                    line = [*pinned, asked.embedctl, "embed", "-m", MODEL, "-p", "native", "--precision", precision, "--threads", "1",
                            "-o", folder / "out.npy", "--force", "-q", folder / "texts.jsonl", "--stats", folder / "stats.json"]
                    environment = {**os.environ, "EMBEDCTL_CPU": cpu, "XDG_CACHE_HOME": str(folder)}
                    subprocess.run(list(map(str, line)), check=True, env=environment)
                    end, stats = time.time(), json.loads((folder / "stats.json").read_text())
                    assert stats["embedded"] == count
                    runs.append((precision, cpu, end - stats["run_seconds"], end, count / stats["stages"]["infer_seconds"]))
        finally:
            sampler.terminate()
            sampler.wait()
    taken = [tuple(map(float, line.split())) for line in (folder / "samples").read_text().splitlines() if line.count(" ") == 1]
    times, rates = [when for when, _ in taken], {}
    for precision, cpu, begin, end, rate in runs:
        own = [sample > FREE for _, sample in taken[bisect.bisect(times, begin):bisect.bisect(times, end)]]
        share = sum(own) / max(1, len(own))
        if len(own) >= 3 and not 0.15 < share < 0.85:
            rates.setdefault((share > 0.5, precision, cpu), []).append(rate)
    print(f"\n{title}, {count} rows a run\n\n| tile unit | setting | rows/s | runs | of fp32, avx512 |\n|---|---|--:|--:|--:|")
    for free in (True, False):
        base = rates.get((free, "fp32", "avx512"))
        for precision, cpu in settings:
            own = rates.get((free, precision, cpu))
            if own:
                of = f"{statistics.median(own) / statistics.median(base):.2f}" if base else ""
                state = "free" if free else "shared"
                print(f"| {state} | {precision}, {cpu} | {statistics.median(own):,.0f} | {len(own)} | {of} |", flush=True)


if __name__ == "__main__":
    main()
