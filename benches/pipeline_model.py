#!/usr/bin/env python3
"""A model of the pipeline on machines with many cores: discrete events over measured costs of its stages.

    python3 benches/pipeline_model.py [--before] [CORES ...]      default: 8 64 192

Threads, queues and their limits are those of crates/embedctl-pipeline/src/pipeline and of the writers (internals.md, "Threads and memory").
Costs are microseconds of one core a row, measured on one machine (COSTS); engines are rates of one core (MODELS).
Threads that are ready share the cores evenly. Not in the model: memory bandwidth beyond CAP, caches that cores share,
NUMA, clocks that drop when all cores work, disks that are slower than the page cache. --before: writing on one thread,
with vectors compressed, and tokenization in chunks of 256 rows.

Prints for each case rows a second, the share of the rate that the engine alone would have on all cores, and the stage
with the least rest.
"""

import heapq
import sys
from collections import deque

WINDOW = 8192
BLOCK = 1 << 20  # bytes that are hashed, and about those of a page
ROW_GROUP = 64 << 20
BATCH_TOKENS = 256
# Bytes a second that the memory of a large server can move, and how often the bytes of a vector are moved from pooling
# to the page cache (pooled, gathered, encoded, hashed, written: read and written each).
CAP, MOVES = 200e9, 10


class Machine:
    """Events in the order of time; computing threads share the cores."""

    def __init__(self, cores):
        self.cores, self.time, self.virtual = cores, 0.0, 0.0
        self.computing, self.ready, self.number = [], deque(), 0
        self.busy = {}

    def start(self, thread):
        self.ready.append((thread, None))

    def run(self):
        while self.ready or self.computing:
            while self.ready:
                self.step(*self.ready.popleft())
            if not self.computing:
                return
            end, _, thread = heapq.heappop(self.computing)
            speed = min(1.0, self.cores / (len(self.computing) + 1))
            self.time += (end - self.virtual) / speed
            self.virtual = end
            self.ready.append((thread, None))

    def step(self, thread, value):
        while True:
            try:
                what = thread.send(value)
            except StopIteration:
                return
            value = None
            if what[0] == "work":
                _, stage, cost = what
                self.busy[stage] = self.busy.get(stage, 0.0) + cost
                self.number += 1
                heapq.heappush(self.computing, (self.virtual + cost, self.number, thread))
                return
            if what[0] == "put":
                if not what[1].put(self, thread, what[2]):
                    return
            else:
                got, value = what[1].get(self, thread)
                if not got:
                    return


class Queue:
    """A channel that holds so many things; with none, a thing is handed over from thread to thread."""

    def __init__(self, most):
        self.most, self.things = most, deque()
        self.getters, self.putters = deque(), deque()

    def put(self, machine, thread, thing):
        if self.getters:
            machine.ready.append((self.getters.popleft(), thing))
            return True
        if len(self.things) < self.most:
            self.things.append(thing)
            return True
        self.putters.append((thread, thing))
        return False

    def get(self, machine, thread):
        if self.things:
            thing = self.things.popleft()
            if self.putters:
                putter, waiting = self.putters.popleft()
                self.things.append(waiting)
                machine.ready.append((putter, None))
            return True, thing
        if self.putters:
            putter, thing = self.putters.popleft()
            machine.ready.append((putter, None))
            return True, thing
        self.getters.append(thread)
        return False, None


def pool(machine, stage, threads):
    """Threads that take (cost, done) from a queue."""
    jobs = Queue(float("inf"))

    def work():
        while True:
            cost, done = yield "get", jobs
            yield "work", stage, cost
            if done is not None:
                yield "put", done, None

    for _ in range(threads):
        machine.start(work())
    return jobs


class Run:
    """The pipeline of one run: `windows` windows of one model to one format."""

    def __init__(self, cores, model, kind, costs, now, windows):
        self.machine, self.model, self.kind, self.costs = Machine(cores), model, kind, costs
        self.now, self.windows, self.cores = now, windows, cores
        self.window_bytes = WINDOW * model["width"] * 4
        self.read, self.tokenized, self.rows = Queue(1), Queue(1), Queue(0 if now else 1)
        self.blocks = Queue(64 if cores >= 4 else 4)
        start = self.machine.start
        self.tokenizers = pool(self.machine, "tokenize", cores)
        self.workers = pool(self.machine, "infer", cores)
        for thread in (self.reader(), self.tokenizer(), self.settler()):
            start(thread)
        if now:
            start(self.writer())
            start(self.hasher())
        self.grouped, self.end = 0, None

    def reader(self):
        for window in range(self.windows):
            yield "work", "read", self.costs["read"] * WINDOW
            yield "put", self.read, window

    def tokenizer(self):
        costs, model = self.costs, self.model
        tokenize = costs["tokenize a token"] * model["tokens"]
        batch_rows = max(1, round(BATCH_TOKENS / model["tokens"]))
        for window in range(self.windows):
            yield "get", self.read
            yield "work", "tokenize, one thread", costs["distinct"] * WINDOW
            rows = min(256, max(16, -(-WINDOW // (4 * self.cores)))) if self.now else 256
            done, chunks = Queue(float("inf")), -(-WINDOW // rows)
            for _ in range(chunks):
                yield "put", self.tokenizers, (tokenize * rows, done)
            for _ in range(chunks):
                yield "get", done
            yield "work", "tokenize, one thread", costs["batches"] * WINDOW
            done, batches = Queue(float("inf")), -(-WINDOW // batch_rows)
            yield "put", self.tokenized, (done, batches)
            for _ in range(batches):
                yield "put", self.workers, (1e6 / model["rate"] * batch_rows, done)

    def settler(self):
        for window in range(self.windows):
            done, batches = yield "get", self.tokenized
            for _ in range(batches):
                yield "get", done
            yield "work", "settle", self.costs["settle"] * WINDOW
            if self.now:
                yield "put", self.rows, window
            else:
                yield from self.write(window == self.windows - 1, "settle")
        if not self.now:
            self.end = self.machine.time

    def writer(self):
        for window in range(self.windows):
            yield "get", self.rows
            yield from self.write(window == self.windows - 1, "write")
        self.end = self.machine.time

    def write(self, is_last, stage):
        costs, blocks = self.costs, self.window_bytes / BLOCK
        if self.kind == "npy":
            for _ in range(max(1, round(blocks))):
                yield "work", stage, (costs["npy"] * WINDOW) / max(1, round(blocks))
                yield from self.hashed(stage, BLOCK)
            return
        pages = max(1, round(blocks))
        for _ in range(pages):
            page = costs["encode"] if self.now else costs["before"] + costs["compress"]
            yield "work", stage, page * WINDOW / pages
        self.grouped += self.window_bytes
        if self.grouped >= ROW_GROUP or is_last:
            for _ in range(max(1, round(self.grouped / BLOCK))):
                yield "work", stage, costs["write"] * BLOCK / (4 * self.model["width"])
                yield from self.hashed(stage, BLOCK)
            self.grouped = 0

    def hashed(self, stage, size):
        if self.now:
            yield "put", self.blocks, size
        else:
            yield "work", stage, self.costs["hash a byte"] * size

    def hasher(self):
        while True:
            size = yield "get", self.blocks
            yield "work", "hash", self.costs["hash a byte"] * size

    def result(self):
        """Rows a second, and the stages by how busy their threads were."""
        self.machine.run()
        threads = {"infer": self.cores, "tokenize": self.cores}
        busy = self.machine.busy.items()
        shares = {stage: time / self.end / threads.get(stage, 1) for stage, time in busy}
        return self.windows * WINDOW / self.end * 1e6, shares


# Microseconds of one core a row unless they say otherwise; where they come from: docs/speed.md, "Many cores".
COSTS = {
    "read": 0.15,
    "distinct": 0.3,
    "batches": 0.3,
    "tokenize a token": 0.05,
    "hash a byte": 0.00057,
    # By width: settling and gathering; encoding; compressing, where that is done; handing to the page cache; NPY without
    # its hash. "before": encoding whole windows at once.
    384: {"settle": 0.6, "encode": 1.25, "before": 1.25, "compress": 2.4, "write": 0.37, "npy": 1.05},
    1024: {"settle": 1.6, "encode": 3.1, "before": 14.0, "compress": 5.1, "write": 1.1, "npy": 6.4},
}

# Rows a second of one core with nothing beside it, width, and tokens of a row.
MODELS = {
    "MiniLM fp32": {"rate": 470, "width": 384, "tokens": 18},
    "MiniLM int8": {"rate": 1900, "width": 384, "tokens": 18},
    "Qwen3-0.6B int8": {"rate": 65, "width": 1024, "tokens": 18},
    "static, 384": {"rate": 185_000, "width": 384, "tokens": 18},
}


def main():
    arguments = [it for it in sys.argv[1:] if it != "--before"]
    now = "--before" not in sys.argv
    print(f"{'model':>16} {'format':>8} {'cores':>5} {'rows/s':>10} {'of engine':>9}  busiest stages")
    for name, model in MODELS.items():
        costs = {**COSTS, **COSTS[model["width"]]}
        for kind in ("parquet", "npy"):
            for cores in map(int, arguments or (8, 64, 192)):
                alone = cores * model["rate"]
                windows = 60 if model["rate"] < 100_000 else 150
                rate, shares = Run(cores, model, kind, costs, now, windows).result()
                rate = min(rate, CAP / (model["width"] * 4 * MOVES))
                busiest = sorted(shares.items(), key=lambda it: -it[1])[:3]
                shown = ", ".join(f"{stage} {100 * share:.0f} %" for stage, share in busiest)
                print(f"{name:>16} {kind:>8} {cores:>5} {rate:>10,.0f} {100 * rate / alone:>7.1f} %  {shown}")


if __name__ == "__main__":
    main()
