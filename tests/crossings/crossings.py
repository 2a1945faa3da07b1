#!/usr/bin/env python3
"""Runs `embedctl embed` and `score` with every pair of values of all their options, and compares each run with the oracle.

    crossings.py PROGRAM [--older] [--ort LIBRARY] [--triples] [--only embed|score] [--case JSON] [--keep FOLDER]

A covering array of cases holds every pair (with `--triples` every triple of the options about rows and columns). Each
run is either refused, by a rule of the oracle, with a documented exit code and no output; or its output equals the
oracle's, row by row, and `search` finds its rows with their ids and texts. A failing case is printed as the command
lines that show it, and as JSON for `--case`.

With `--older` PROGRAM may be of another commit: options and values that its `--help` does not list are left out.
"""

import argparse, concurrent.futures, itertools, json, os, random, re, shutil, subprocess, sys, tempfile, time, traceback

sys.dont_write_bytecode = True
sys.path.insert(0, os.path.dirname(os.path.abspath(__file__)))
import inputs, oracle, outputs, table as tables
from oracle import MODELS, Rule

ROOT = os.path.abspath(os.path.join(os.path.dirname(__file__), "..", ".."))
YES = True  # the value of an option that takes none

# The words of a case that are not options: what the inputs hold and where they lie, where the output goes, and what lies
# there when the run begins.
SETTING = {
    "content": ["jsonl", "text", "file", "json", "openai-batch", "csv", "tsv", "parquet", "arrow"],
    "source": ["file", "odd", "gz", "zst", "bz2", "xz", "folder", "pattern", "several", "hive", "clash", "stdin"],
    "records": ["some", "bad", "none"],
    "out": ["file", "folder", "-"],
    "ending": ["parquet", None, "arrow", "arrows", "npy", "npz", "jsonl", "jsonl.gz", "jsonl.zst", "pgcopy", "fbin", "i8bin",
               "u8bin", "feather", "ndjson", "dat"],
    "before": [None, "other", "same", "stopped", "precision"],
}

# The options that `--help` lists, with the values that are tried; None: without it. A list of possible values in
# `--help` must be here in full.
OPTIONS = {
    "output-format": [None, "parquet", "arrow", "arrows", "npy", "npz", "jsonl", "jsonl.gz", "jsonl.zst", "pgcopy", "fbin",
                      "i8bin", "u8bin"],
    "dtype": [None, "f32", "f16", "int8", "uint8", "binary", "ubinary"],
    "calibration": [None, "ranges.json"],
    "vector-type": [None, "fixed", "list"],
    "sparse-tokens": [None, YES],
    "embedding-field": [None, "vec"],
    "force": [None, YES],
    "part-rows": [None, "3"],
    "shard": [None, "1/2"],
    "resume": [None, YES],
    "reuse": [None, "old/", "old.parquet", "old.arrow", "old.jsonl", "old.npy"],
    "dry-run": [None, YES],
    "input-format": [None, "text", "file", "jsonl", "json", "openai-batch", "csv", "tsv", "parquet", "arrow"],
    "csv-delimiter": [None, ";", "|"],
    "csv-quote": [None, "'", "none"],
    "csv-escape": [None, "\\"],
    "csv-null": [None, "NULL"],
    "text-field": [None, "text", "body"],
    "text-template": [None, "{title}: {body}"],
    "id-field": [None, "id", "key", "none"],
    "uuid": [None, YES],
    "id-type": [None, "kept", "string", "int"],
    "streams": [None, YES],
    "keep": [None, "title", "year:int", "year:string,ok", "text", "*", "meta.lang", "meta:json", "embedding",
             "embedding_sparse", "body:string,title", "shelf"],
    "source-columns": [None, YES],
    "limit": [None, "0", "3"],
    "sample": [None, "4"],
    "seed": [None, "7"],
    "chunk": [None, "tokens", "sentences", "paragraphs", "markdown"],
    "chunk-tokens": [None, "12"],
    "chunk-overlap": [None, "4"],
    "late": [None, YES],
    "chunk-text": [None, YES],
    "chunk-id": [None, YES],
    "model": ["kinds", "sparse", "multi", "onnx"],
    "model-file": [None, "onnx/model.onnx"],
    "precision": [None, "fp32", "fp16", "bf16", "int16", "int8", "uint8", "q4", "q4f16", "bnb4"],
    "weights": [None, "safetensors", "onnx"],
    "pooling": [None, "cls", "mean", "mean,max"],
    "max-length": [None, "20"],
    "normalize": [None, "true", "false"],
    "prompt": [None, "query: "],
    "prompt-name": [None, "query"],
    "dimensions": [None, "8", "8,16"],
    "vectors": [None, "dense", "sparse", "multi", "dense,sparse,multi"],
    "task": [None, "query", "document"],
    "max-active-dims": [None, "3"],
    "pool-factor": [None, "2"],
    "offline": [None, YES],
    "cache-dir": [None, "cache"],
    "provider": [None, "native", "rten", "cpu"],
    "min-cosine": [None, "0.2"],
    "no-cache": [None, YES],
    "device": [None, "0", "all"],
    "provider-option": [None, "cpu.pooling=host"],
    "ort-lib": [None, "{ort}"],
    "batch-tokens": [None, "64"],
    "batch-size": [None, "2"],
    "window": [None, "4"],
    "threads": [None, "2"],
    "max-record-bytes": [None, "4KiB"],
    "on-error": [None, "fail", "skip", "null"],
    "rejects": [None, "rejects.jsonl"],
    "fail-on-empty": [None, YES],
    "stats": [None, "stats.json"],
    "stats-interval": [None, "1"],
    "storage-option": [None, "aws_region=eu-west-1"],
    "quiet": [None, YES],
    "verbose": [None, YES],
    "progress": [None, "auto", "always", "never"],
    "log-format": [None, "text", "json"],
    "color": [None, "auto", "always", "never"],
    "config": [None, "empty.toml"],
    "no-config": [None, YES],
}
OF_SCORES = {"query-field": [None, "query"], "softmax": [None, YES], "top-labels": [None, "2"], "model": ["labels", "score"]}
# Those that `score --help` does not list: they are about vectors.
OF_VECTORS = {"dtype", "calibration", "chunk", "chunk-tokens", "chunk-overlap", "chunk-text", "chunk-id", "late", "pooling",
              "normalize", "dimensions", "vectors", "task", "max-active-dims", "pool-factor", "sparse-tokens"}
# Listed, and not options of a run.
ASIDE = {"help", "output"}

# The options that decide rows and columns: every triple of their values is tried in the longer run.
OF_ROWS = ["content", "source", "records", "out", "ending", "output-format", "before", "resume", "reuse", "part-rows", "shard",
           "text-field", "text-template", "id-field", "uuid", "id-type", "keep", "source-columns", "limit", "chunk",
           "chunk-text", "chunk-id", "model", "vectors", "dimensions", "embedding-field", "dtype", "vector-type", "on-error",
           "query-field", "top-labels"]

# A run that a bad record stops shows no rows.
STOPPING = Rule("a bad record stops the run", ["records", "max-record-bytes", "on-error", "source", "keep", "content", "id-type", "id-field"], lambda c:
                c.get("on-error", "fail") == "fail" and c["records"] != "none" and (
                    c["records"] == "bad" or c.get("max-record-bytes")
                    or c["source"] == "clash" and c.get("keep") in ("text", "*")
                    or c["content"] == "openai-batch" and c.get("id-type") == "int" and c.get("id-field") != "none"), None)

# Those about columns.
OF_COLUMNS = ["id-field", "uuid", "id-type", "keep", "source-columns", "chunk", "chunk-text", "chunk-id", "on-error", "model",
              "text-template", "dimensions", "embedding-field", "dtype", "vectors", "sparse-tokens", "query-field", "top-labels"]

# Values that cannot stand together: what they describe does not exist. They are no pairs.
IMPOSSIBLE = [
    Rule("-i says what the input is", ["content", "input-format"],
         lambda c: c.get("input-format") not in (None, c["content"]), None),
    Rule("the name of the input does not say what it is", ["content", "source", "input-format"], lambda c: (
        not c.get("input-format") and (c["content"] == "openai-batch" or c["source"] == "odd"
                                       or c["source"] == "stdin" and c["content"] != "text")), None),
    Rule("a compressor around a table", ["content", "source"],
         lambda c: c["content"] in oracle.TABLES and c["source"] in ("gz", "zst", "bz2", "xz"), None),
    Rule("a folder has no ending", ["out", "ending"], lambda c: (c["out"] == "file") != (c.get("ending") is not None), None),
    Rule("an output that holds no such vectors", ["reuse", "vectors", "model", "dimensions"], lambda c: (
        c.get("reuse") == "old.npy") and (len(oracle.dimensions(c)) > 1 or oracle.kinds(c) not in (["dense"], ["multi"], ["scores"])), None),
    Rule("every line is a record", ["content", "records"],
         lambda c: c["content"] in ("text", "file") and c["records"] == "bad", None),
    Rule("a document is there", ["content", "records"], lambda c: c["content"] == "file" and c["records"] == "none", None),
    Rule("nothing lies there before a stream", ["out", "before"], lambda c: c["out"] == "-" and c.get("before"), None),
    Rule("only --resume sees a stopped run", ["before", "resume"],
         lambda c: c.get("before") in ("stopped", "precision") and not c.get("resume"), None),
    Rule("a bad record stops a run", ["before", "content", "records", "on-error", "limit", "sample"], lambda c: (
        c.get("before") == "stopped") and (c["content"] in ("text", "file", "openai-batch") or c["records"] != "some" or c.get("on-error") == "null" or c.get("sample")
        or c.get("limit") == "3"), None),
    Rule("a bad record stops the run before", ["before", *STOPPING.names],
         lambda c: c.get("before") in ("same", "precision") and STOPPING.holds(c), None),
    Rule("shards do not begin anew with another input", ["before", "shard"],
         lambda c: c.get("before") == "stopped" and c.get("shard"), None),
    Rule("every record stops the run before", ["before", "source", "keep"],
         lambda c: c.get("before") == "stopped" and c["source"] == "clash" and c.get("keep") in ("text", "*"), None),
    Rule("an output with one precision is not reused with another", ["before", "reuse"],
         lambda c: c.get("before") == "precision" and c.get("reuse"), None),
    Rule("a complete output may be empty", ["before", "resume", "fail-on-empty"],
         lambda c: c.get("before") == "same" and c.get("resume") and c.get("fail-on-empty"), None),
    Rule("an empty output was refused before", ["before", "records", "fail-on-empty"],
         lambda c: c.get("before") == "precision" and c["records"] == "none" and c.get("fail-on-empty"), None),
    Rule("the native engine has other precisions", ["before", "precision", "provider", "model", "weights", "model-file"], lambda c:
         c.get("before") == "precision" and oracle.engine(c) != "native", None),
]


class Case(dict):
    """The words of a case and their values; a word without a value is as one that is not there."""

    def get(self, name, default=None):
        value = super().get(name)
        return default if value is None else value


class Factors:
    """The words of a case and their values."""

    def __init__(self, command, ort, listed=None):
        """`listed`: the options that the program knows, each with its possible values, where not all of ours."""
        options = {**OPTIONS, **(OF_SCORES if command == "score" else {})}
        if command == "score":
            options = {name: values for name, values in options.items() if name not in OF_VECTORS}
        if listed is not None:
            options = {name: [value for value in values if value in (None, YES) or not listed[name] or value in listed[name]]
                       for name, values in options.items() if name in listed}
        self.command, self.ort = command, ort
        self.domains = {**SETTING, **options}
        if not ort:
            self.domains["provider"] = [value for value in self.domains["provider"] if value != "cpu"]
            del self.domains["ort-lib"]
        self.rules = IMPOSSIBLE + oracle.RULES

    def plain(self):
        c = Case({name: values[0] for name, values in self.domains.items()})
        c.update(command=self.command, root=ROOT, ort=self.ort, source="file")
        return inputs.describe(c)

    def set(self, c, name, value):
        c[name] = value
        if name in inputs.DECIDING:
            inputs.describe(c)

    def broken(self, c):
        return [rule for rule in self.rules if rule.holds(c)]


def possible_values(help_text):
    """The options that a help text defines, each with its possible values, where it lists them."""
    found = {}
    for block in re.split(r"\n(?=  (?:-\w, |    )--[\w-])", help_text.split("\nExamples:")[0]):
        name = re.match(r"  (?:-\w, |    )--([\w-]+)", block)
        if not name:
            continue
        listed = re.search(r"\[possible values: ([^\]]*)\]", block)
        values = re.split(r",\s+", listed.group(1)) if listed else re.findall(r"^ {10}- ([\w.-]+):", block, re.M)
        found[name.group(1)] = values
    return found


def help_of(program, command):
    """The options that `--help` lists, each with its possible values, where it lists them."""
    text = subprocess.run([program, command, "--help"], capture_output=True, text=True, check=True).stdout
    return possible_values(text)


def check_help(listed, command):
    """Every option of `--help` has its values here, and none that it does not list."""
    known = {**OPTIONS, **(OF_SCORES if command == "score" else {})}
    known = {name: values for name, values in known.items() if command == "embed" or name not in OF_VECTORS}
    new = set(listed) - set(known) - ASIDE
    if new:
        sys.exit(f"{command} --help lists {', '.join('--' + n for n in sorted(new))}: enter the values to try in {__file__}")
    gone = set(known) - set(listed)
    if gone:
        sys.exit(f"{command} --help does not list {', '.join('--' + n for n in sorted(gone))}: take it out of {__file__}")
    for name, values in listed.items():
        missing = set(values) - set(known.get(name, values))
        if missing:
            sys.exit(f"{command} --help lists values of --{name} that are not tried: {', '.join(sorted(missing))}")


# ------------------------------------------------------------------------------------------------------- covering array

class Cover:
    """Cases that hold every combination of `size` values that can stand together."""

    def __init__(self, factors, names, size, most=None, seed=20261126):
        self.factors, self.names, self.size, self.random = factors, names, size, random.Random(seed)
        self.by_name, self.most = {}, most
        for rule in factors.rules:
            for name in rule.names:
                self.by_name.setdefault(name, []).append(rule)
        self.open = self.combinations()
        self.all, self.refused, self.impossible = len(self.open), set(), set()

    def combinations(self):
        found = {}
        for names in itertools.combinations(self.names, self.size):
            for values in itertools.product(*(self.factors.domains[name] for name in names)):
                found[tuple(zip(names, values))] = None
        return found

    def cases(self):
        """The cases that run, then those that are refused, each with the combination that it is for."""
        run, refused, alone = [], [], {}
        if self.size > 2:
            # What holds a pair that is refused is refused, too: the shorter run shows it.
            pairs = Cover(self.factors, self.names, self.size - 1)
            pairs.cases()
            for known, here in ((pairs.impossible, self.impossible), (pairs.refused, self.refused)):
                here |= {wanted for wanted in self.open if not known.isdisjoint(itertools.combinations(wanted, self.size - 1))}
                self.open = {wanted: None for wanted in self.open if wanted not in here}
        for name in self.names:
            for value in self.factors.domains[name]:
                _, broken = self.completed({name: value})
                if broken:
                    alone[(name, value)] = broken
        if self.size == 2:
            run += self.plain_cases()
        for member, rules in alone.items():
            refused += self.with_member(member, rules, alone)
        # Runs that show no rows show nothing of other options: they count for their own value alone.
        hidden = [member for member in (("dry-run", YES), ("records", "none")) if member[0] in self.names]
        for number, member in enumerate(hidden):
            run += self.running(refused, member, hidden[:number])
        run += self.running(refused, None, hidden, [STOPPING])
        run += self.running(refused, None)
        return run, refused

    def plain_cases(self):
        """Every value of the options about columns with every kind of output, and nothing else: a column that is always there
        hides what is wrong without it."""
        found, values = {}, [(name, value) for name in OF_COLUMNS if name in self.names for value in self.factors.domains[name]]
        for name, value in values:
            for form in ("parquet", "arrows", "npy", "npz", "jsonl", "pgcopy"):
                wanted = {name: value, "output-format": form}
                case, broken = self.completed(wanted)
                if not broken and not STOPPING.holds(case):
                    found.setdefault(json.dumps([case[name] for name in self.names]), (case, tuple(wanted.items())))
        return list(found.values())

    def running(self, refused, member, without=(), rules=()):
        """Cases that run, for all combinations with `member` (or all), without some other values and by further rules."""
        found, last = [], not without and not member
        for wanted in list(self.open):
            if self.most and len(found) >= self.most:
                break
            if wanted not in self.open or member and member not in wanted or any(other in wanted for other in without):
                continue
            case, broken = self.completed(dict(wanted), without=without, rules=rules)
            if broken and not last:
                continue  # another round has it
            if broken:
                del self.open[wanted]
                if any(rule.code is None for rule in broken):
                    self.impossible.add(wanted)
                else:
                    self.refused.add(wanted)
                    refused.append((case, wanted))
                continue
            if last and STOPPING.holds(case):
                del self.open[wanted]
            else:
                self.improve(case, dict(wanted), (), member, without, rules)
                self.count(case, member)
            found.append((case, wanted))
        return found

    def with_member(self, member, rules, alone):
        """Cases for a value that is refused whatever stands beside it, with every other value beside it."""
        found = []
        is_impossible = any(rule.code is None for rule in rules)
        for wanted in [combination for combination in self.open if member in combination]:
            if self.most and len(found) >= self.most:
                break
            if wanted not in self.open:
                continue
            allowed = {rule.why for member in wanted for rule in alone.get(member, ())}
            case, broken = (None, rules) if is_impossible else self.completed(dict(wanted), allowed)
            if any(rule.code is None for rule in broken):
                del self.open[wanted]
                self.impossible.add(wanted)
                continue
            if not self.factors.broken(case):
                return found  # it can stand beside others after all
            if not broken:
                self.improve(case, dict(wanted), allowed, member)
            self.refused |= self.count(case if not broken else dict(wanted), member)
            found.append((case, wanted))
        return found

    def count(self, case, member=None):
        """Takes the combinations of a case out of the open ones, and returns them."""
        found = set()
        names = [name for name in self.names if name in case]
        for combination in itertools.combinations(names, self.size):
            combination = tuple((name, case[name]) for name in combination)
            if combination in self.open and (member is None or member in combination):
                del self.open[combination]
                found.add(combination)
        return found

    def completed(self, fixed, allowed=(), without=(), rules=()):
        """A case with these values and, if there is one, without a broken rule: the plain values, mended step by step."""
        best = None
        for _ in range(4):
            c = self.factors.plain()
            for name, value in fixed.items():
                self.factors.set(c, name, value)
            for _ in range(20):
                broken = self.factors.broken(c) + [rule for rule in rules if rule.holds(c)]
                broken = [rule for rule in broken if rule.why not in allowed]
                free = [[name for name in rule.names if name not in fixed and name in self.factors.domains] for rule in broken]
                rank = (sum(rule.code is None for rule in broken), len(broken))
                if best is None or rank < best[0]:
                    best = (rank, Case(c), broken)
                if not broken or not all(free):
                    break
                name = self.random.choice(self.random.choice(free))
                options = []
                concerned = [*self.by_name.get(name, ()), *rules]
                for value in self.factors.domains[name]:
                    if (name, value) in without:
                        continue
                    self.factors.set(c, name, value)
                    now = [rule for rule in concerned if rule.why not in allowed and rule.holds(c)]
                    options.append((sum(2 if rule.code is None else 1 for rule in now), self.random.random(), value))
                self.factors.set(c, name, min(options)[2] if self.random.random() < 0.9 else self.random.choice(options)[2])
            if best[0] == (0, 0) or not all(free) and not any(rule.code is None for rule in best[2]):
                break
        return best[1], best[2]

    def improve(self, c, fixed, allowed=(), member=None, without=(), rules=()):
        """Gives every other word the value that covers most of what is open."""
        names = [name for name in self.names if name not in fixed]
        self.random.shuffle(names)
        decided = list(fixed)
        place = {name: number for number, name in enumerate(self.names)}
        for name in names:
            before, ranked = c[name], []
            others = [tuple((n, c[n]) for n in other) for other in itertools.combinations(decided, self.size - 1)]
            if member is not None:
                others = [other for other in others if member in other]
            for value in self.factors.domains[name]:
                if (name, value) in without:
                    continue
                if self.size == 2:
                    gain = sum((((name, value), other) if place[name] < place[other[0]] else (other, (name, value))) in self.open
                               for other, in others)
                else:
                    members = ([*other, (name, value)] for other in others)
                    gain = sum(tuple(sorted(it, key=lambda member: place[member[0]])) in self.open for it in members)
                ranked.append((-gain, self.random.random(), value))
            for _, _, value in sorted(ranked, key=lambda entry: entry[:2]):
                self.factors.set(c, name, value)
                if not any(rule.holds(c) for rule in [*self.by_name.get(name, ()), *rules] if rule.why not in allowed):
                    break
            else:
                self.factors.set(c, name, before)
            decided.append(name)
        broken = [rule.why for rule in self.factors.broken(c) if rule.why not in allowed]
        if broken:
            raise SystemExit(f"a rule does not name all of its words: {broken}")


# ------------------------------------------------------------------------------------------------------- runs

def arguments(c, factors, **changes):
    """The arguments of a case's command line."""
    c = Case({**c, **changes})
    line = [c["command"], *inputs.named(c)]
    out = {"file": f"out.{c.get('ending')}", "folder": "out/", "-": "-"}[c["out"]]
    line += ["-m", os.path.join(ROOT, MODELS[c["model"]]["path"]), "-o", out]
    for name in factors.domains:
        value = c.get(name)
        if name in SETTING or name == "model" or value is None:
            continue
        line += [f"--{name}"] if value is YES else [f"--{name}", value.replace("{ort}", factors.ort or "")]
    return line


class Failed(Exception):
    """A case whose run is not as the oracle says."""


class Runner:
    """Runs cases in folders of their own."""

    def __init__(self, program, factors, folder, table):
        self.program, self.factors, self.folder, self.table = program, factors, folder, table
        os.makedirs(os.path.join(folder, "home"), exist_ok=True)
        kept = {name: os.environ[name] for name in ("PATH", "LD_LIBRARY_PATH", "TMPDIR") if name in os.environ}
        self.environment = {**kept, "HOME": os.path.join(folder, "home"), "OMP_NUM_THREADS": "1"}
        if factors.ort:
            self.environment["ORT_DYLIB_PATH"] = factors.ort
        self.searches = b"  search " in subprocess.run([program, "--help"], capture_output=True, env=self.environment).stdout
        table.environment = self.environment

    def call(self, folder, line, log, stdin=None):
        shown = " ".join(quoted(word) for word in ["embedctl", *line]) + (f" < {stdin}" if stdin else "")
        log.append(shown)
        with open(os.path.join(folder, stdin) if stdin else os.devnull, "rb") as file:
            try:
                return subprocess.run([self.program, *line], cwd=folder, stdin=file, capture_output=True, env=self.environment,
                                      timeout=120)
            except subprocess.TimeoutExpired as error:
                raise Failed("the run does not end") from error

    def run(self, c, folder, log):
        """Runs a case, and raises `Failed` if it is not as expected; True if it was refused."""
        os.makedirs(folder)
        with open(os.path.join(folder, "empty.toml"), "w"):
            pass
        refusals = oracle.refusals(c)
        c["files"], c["piped"] = inputs.write(c, folder)
        codes = {code for rule in refusals for code in (rule.code if isinstance(rule.code, tuple) else [rule.code])}
        expected = None
        if not refusals:
            expected = oracle.expected(c, folder, self.table)
            if expected.code(c) == 1:
                codes = {1}
        # Nothing has to be there for a run that is refused, unless that is why.
        old = all("before" in rule.names for rule in refusals)
        if c.get("calibration"):
            write_ranges(c, os.path.join(folder, "ranges.json"))
        if c.get("reuse"):
            self.make_old(c, expected, {name for rule in refusals for name in rule.names}, folder, log)
        if c.get("before") and old:
            self.make_before(c, folder, log)
        seen = snapshot(folder)
        lines = [arguments(c, self.factors)]
        if c.get("shard"):
            lines.append(arguments(c, self.factors, shard="2/2"))
        returned = []
        for line in lines:
            done = self.call(folder, line, log, c["piped"])
            self.check_messages(c, done)
            returned.append(done.returncode)
            if refusals:
                break
        if c.get("dry-run") and not codes - {1}:
            if done.returncode not in (0, 3) and not (done.returncode == 1 and 1 in codes):
                raise Failed(f"a dry run: exit code {done.returncode}\n{tail(done)}")
            self.check_untouched(seen, folder)
            return False
        if codes:
            if not codes & set(returned):
                why = "; ".join(rule.why for rule in refusals) or "a record is bad"
                raise Failed(f"exit code {max(returned)}, expected {sorted(codes)}: {why}\n{tail(done)}")
            if c["out"] != "folder" or refusals:
                if not (c["out"] == "-" and not refusals):
                    if done.stdout:
                        raise Failed("refused, and there is something on standard output")
                    self.check_untouched(seen, folder)
            return True
        code = expected.code(c) if not c.get("sample") else done.returncode if done.returncode in (0, 3) else 0
        if max(returned) != code:  # of shards, one has the records that are rejected
            raise Failed(f"exit code {max(returned)}, expected {code}\n{tail(done)}")
        self.check_output(c, expected, folder, done)
        self.check_search(c, expected, folder, log)
        return False

    def check_messages(self, c, done):
        text = done.stderr.decode(errors="replace")
        if done.returncode not in (0, 1, 2, 3) or "internal error" in text or "panicked" in text:
            raise Failed(f"exit code {done.returncode}\n{tail(done)}")
        if c.get("log-format") == "json" and done.returncode != 2:
            for line in text.splitlines():
                json.loads(line)

    def check_untouched(self, seen, folder):
        now = snapshot(folder)
        written = {path for path in now if now[path] != seen.get(path)} | (set(seen) - set(now))
        written = {path for path in written if path != "stats.json" and ".parts/" not in path
                   and path != "_out.embedctl/shard-00001"}
        if written:
            raise Failed(f"refused, and yet written or removed: {sorted(written)}")

    def check_output(self, c, expected, folder, done):
        c = Case({**c, "kinds": oracle.kinds(c), "columns of vectors": oracle.names_of_vectors(c), "type": oracle.dtype(c),
             "columns": expected.columns})
        present = {name for name in os.listdir(folder) if name.startswith(("out", "_out"))}
        if present != outputs.beside(c):
            raise Failed(f"the run left {sorted(present)}, expected {sorted(outputs.beside(c))}")
        if c["out"] != "-" and done.stdout:
            raise Failed("there is something on standard output")
        try:
            names, rows = outputs.read(c, folder, done.stdout)
        except Exception as error:
            raise Failed(f"the output cannot be read: {type(error).__name__}: {error}") from error
        differs = outputs.differences(c, expected, names, rows)
        if differs:
            raise Failed(differs)
        if c.get("stats") and not c.get("shard") and not c.get("before") and not c.get("sample"):
            with open(os.path.join(folder, "stats.json")) as file:
                stats = json.load(file)
            found = [stats["read"], stats["rejected"], stats["exit_code"]]
            if found != [expected.read, expected.rejected, done.returncode]:
                raise Failed(f"--stats: read, rejected, exit code are {found}")
            if c.get("reuse"):
                known = set(inputs.half(expected.texts))
                reused = sum(text in known for text in expected.texts)
                if stats["reused"] != reused:
                    raise Failed(f"--stats: {stats['reused']} rows are reused, expected {reused}")
        is_done = c.get("before") == "same" and c.get("resume")
        if c.get("rejects") and c["out"] != "folder" and not c.get("sample") and not is_done:
            with open(os.path.join(folder, "rejects.jsonl")) as file:
                if len(file.readlines()) != expected.rejected:
                    raise Failed("--rejects has another number of lines than records were rejected")

    def check_search(self, c, expected, folder, log):
        """`search` finds each row that has a vector, with its id and its text, by the id of one of them."""
        kind, known = oracle.kinds(c)[0], [name for name, _ in expected.columns]
        form = oracle.out_format(c)
        is_named = c["out"] == "folder" or c["out"] == "file" and oracle.ENDINGS.get(c["ending"]) == form
        is_map = kind == "sparse" and c.get("sparse-tokens")
        if not self.searches or not is_named or is_map or c.get("sample") or kind == "scores" or form == "pgcopy":
            return
        name = known[0] if oracle.id_field(c) else "id"
        template = not c.get("chunk") and c.get("text-template")
        text = "chunk_text" if c.get("chunk") else not template and c.get("text-field") or "text"
        # What a template made is made again where all of its fields are kept.
        is_made = template and all(field in known for field in re.findall(r"\{(\w+)\}", template))
        shown = lambda row, own: own if is_made else row[text] if text in known else None
        fields = [(row.get(name), shown(row, own)) for row, own in zip(expected.rows, expected.texts) if own is not None]
        ids = [str(id_) for id_, _ in fields]
        alone = next((place for place, id_ in enumerate(ids) if fields[place][0] is not None and ids.count(id_) == 1), None)
        if alone is None:
            return
        line = ["search", "out" if c["out"] == "folder" else f"out.{c['ending']}", "--json", "-k", "1000", f"--like-row={ids[alone]}"]
        done = self.call(folder, line + (["--vectors", kind] if len(oracle.kinds(c)) > 1 else []), log)
        if done.returncode:
            raise Failed(f"search: exit code {done.returncode}\n{tail(done)}")
        found = [json.loads(hit) for hit in done.stdout.decode().splitlines()]
        in_order = lambda rows: sorted((str(id_), str(text)) for id_, text in rows)
        found, wanted = in_order((hit["id"], hit["text"]) for hit in found), in_order(fields[:alone] + fields[alone + 1:])
        if found != wanted:
            raise Failed(f"search finds {found}, expected {wanted}")

    def make_old(self, c, expected, broken, folder, log):
        """The earlier output: half of the texts, with the settings that decide vectors, but for `broken` ones."""
        texts = inputs.half(expected.texts if expected else ["a boat"])
        names = ["precision", "weights", "provider", "ort-lib", "model-file", "pooling", "max-length", "normalize", "prompt",
                 "prompt-name", "dimensions", "vectors", "task", "max-active-dims", "pool-factor", "query-field", "softmax",
                 "dtype", "embedding-field"]
        setting = Case({name: None for name in self.factors.domains})
        setting |= {name: c[name] for name in names if name in c and name not in broken}
        if c["reuse"] == "old.npy":
            setting["embedding-field"] = None
        setting["dtype"] = c.get("dtype") if c.get("dtype") == "f16" else None
        # Maps are read into structures, and structures into maps.
        has_maps = bool(c.get("sparse-tokens")) != (c["reuse"] in ("old.jsonl", "old.arrow"))
        if has_maps and "sparse" in oracle.kinds(c) and c["reuse"] != "old.npy" and c["command"] == "embed":
            setting["sparse-tokens"] = YES
        setting |= dict(content="jsonl", source="file", out="folder" if c["reuse"].endswith("/") else "file", keep="query,text" if c.get("query-field") else "text",
                        model=c["model"], command=c["command"], root=ROOT)
        with open(os.path.join(folder, "old-texts.jsonl"), "w") as file:
            for text in texts:
                fields = {"query": text[0], "text": text[1]} if isinstance(text, tuple) else {"text": text}
                file.write(json.dumps(fields) + "\n")
        line = arguments(inputs.describe(setting), self.factors)
        line[1:2] = ["old-texts.jsonl"]
        line[line.index("-o") + 1] = c["reuse"]
        done = self.call(folder, line, log)
        if done.returncode and expected:
            raise Failed(f"the output to be reused: exit code {done.returncode}\n{tail(done)}")

    def make_before(self, c, folder, log):
        """What lies under the output's name before the run."""
        changes, piped = {"force": None, "dry-run": None, "stats": None, "rejects": None, "fail-on-empty": None}, c["piped"]
        if c["before"] == "other":
            changes.update(records="some", resume=None)
            with open(os.path.join(folder, "other.txt"), "w") as file:
                file.write("another run\n")
            line = [c["command"], "other.txt", "-m", os.path.join(ROOT, MODELS[c["model"]]["path"]), "-o", "out/"]
            if c["out"] == "folder":
                done = self.call(folder, line, log)
                if done.returncode:
                    raise Failed(f"the run before: exit code {done.returncode}\n{tail(done)}")
            else:
                with open(os.path.join(folder, f"out.{c['ending']}"), "w") as file:
                    file.write("not an output\n")
            return
        if c["before"] == "precision":
            changes["precision"] = "fp32" if c.get("precision") in ("int8", "int16", "bf16") else "int8"
            changes["min-cosine"] = "0.01" if changes["precision"] == "int8" and "min-cosine" in self.factors.domains else None
        elif c["before"] == "same" and not c.get("resume") and c["out"] == "file":
            changes["resume"] = None
        broken = c["before"] == "stopped"
        if broken:
            changes["on-error"] = None
            inputs.write(Case({**c, "records": "bad"}), folder)
        for shard in (["1/2", "2/2"] if c.get("shard") else [None]):
            done = self.call(folder, arguments({**c, **changes, **({"shard": shard} if shard else {})}, self.factors), log, piped)
            right = done.returncode in ((0, 1) if broken and c.get("shard") else (1,) if broken else (0, 3))
            if not right:
                raise Failed(f"the run before: exit code {done.returncode}\n{tail(done)}")
        if broken:
            inputs.write(c, folder)


def write_ranges(c, path):
    """The ranges of every column's components."""
    all_ranges = {}
    for kind, names in oracle.names_of_vectors(c).items():
        for name, width in zip(names, oracle.dimensions(c) if kind == "dense" and oracle.dimensions(c) else [oracle.width(c, kind)]):
            low, high = oracle.ranges(name, width)
            all_ranges[name] = {"min": low.tolist(), "max": high.tolist()}
    with open(path, "w") as file:
        json.dump(all_ranges if len(all_ranges) > 1 else next(iter(all_ranges.values())), file)


def snapshot(folder):
    found = {}
    for path, _, names in os.walk(folder):
        for name in names:
            with open(os.path.join(path, name), "rb") as file:
                found[os.path.relpath(os.path.join(path, name), folder)] = file.read()
    return found


def quoted(word):
    return word if re.fullmatch(r"[\w@%+=:,./-]+", word) else "'" + word.replace("'", "'\\''") + "'"


def tail(done):
    lines = done.stderr.decode(errors="replace").splitlines()
    return "\n".join([line for line in lines if "error" in line] or lines[-4:])


def shown(c, factors):
    plain = factors.plain()
    return {name: c[name] for name in factors.domains if c[name] != plain[name]}


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("program")
    parser.add_argument("--older", action="store_true", help="leave out options that PROGRAM does not know")
    parser.add_argument("--ort")
    parser.add_argument("--triples", action="store_true")
    parser.add_argument("--only", choices=["embed", "score"])
    parser.add_argument("--case", help="one case alone: the words that differ from the plain case, as JSON")
    parser.add_argument("--keep", help="the folder of the runs, which stays")
    parser.add_argument("--most", type=int, default=None, help="run so many cases of each kind at most")
    asked = parser.parse_args()
    program = os.path.abspath(asked.program)
    folder = os.path.abspath(asked.keep) if asked.keep else tempfile.mkdtemp(prefix="crossings-")
    os.makedirs(folder, exist_ok=True)
    failures = 0
    try:
        for command in [asked.only] if asked.only else ["embed", "score"]:
            failures += cross(program, command, asked, os.path.join(folder, command))
    finally:
        if not asked.keep:
            shutil.rmtree(folder, ignore_errors=True)
    sys.exit(1 if failures else 0)


def cross(program, command, asked, folder):
    """All cases of a command; the number of those that failed."""
    listed = help_of(program, command)
    if not asked.older:
        check_help(listed, command)
    began, factors = time.time(), Factors(command, asked.ort, listed if asked.older else None)
    shutil.rmtree(folder, ignore_errors=True)
    os.makedirs(folder)
    if asked.case:
        case = factors.plain()
        for name, value in json.loads(asked.case).items():
            factors.set(case, name, value)
        run, refused, cover = [(case, ())], [], None
    else:
        names = [name for name in factors.domains if name in OF_ROWS or not asked.triples]
        cover = Cover(factors, names, 3 if asked.triples else 2, asked.most)
        run, refused = cover.cases()
        run, refused = run[: asked.most], refused[: asked.most]
        print(f"{command}: {len(run)} cases to run and {len(refused)} to be refused, after {time.time() - began:.0f} s", flush=True)
    table = tables.Table(program, ROOT, folder)
    table.recording = True
    for number, (case, _) in enumerate(run):
        if not oracle.refusals(case):
            where = os.path.join(folder, f"plan-{number}")
            os.makedirs(where)
            files, piped = inputs.write(case, where)
            oracle.expected(Case({**case, "files": files, "piped": piped}), where, table)
            shutil.rmtree(where)
    table.recording = False
    runner = Runner(program, factors, folder, table)
    for key in list(table.wanted):
        table.make(key)
    print(f"{command}: {len(table.made)} tables of vectors, after {time.time() - began:.0f} s", flush=True)
    results = {"ran": 0, "refused": 0, "failed": 0}

    def one(numbered):
        number, (case, wanted) = numbered
        where, log = os.path.join(folder, f"case-{number}"), []
        try:
            result, why = ("refused" if runner.run(Case(case), where, log) else "ran"), None
        except Failed as failure:
            result, why = "failed", str(failure)
        except Exception:
            result, why = "failed", traceback.format_exc()
        if not asked.keep:
            shutil.rmtree(where, ignore_errors=True)
        return case, wanted, result, why, log, where

    with concurrent.futures.ThreadPoolExecutor(os.cpu_count() or 2) as pool:
        for case, wanted, result, why, log, where in pool.map(one, enumerate(run + refused)):
            results[result] += 1
            if why:
                print(f"\nFAILED {dict(wanted)}: {why}\n  in {where}\n  " + "\n  ".join(log)
                      + f"\n  {os.path.basename(__file__)} PROGRAM --only {command} --case {quoted(json.dumps(shown(case, factors)))}",
                      flush=True)
    if cover:
        word = "triples" if asked.triples else "pairs"
        number = cover.all - len(cover.impossible)
        print(f"{command}: {number} {word} of values of {len(cover.names)} options and settings: {number - len(cover.refused) - len(cover.open)} ran, "
              f"{len(cover.refused)} are refused by a stated rule ({len(cover.impossible)} cannot be put). {results['ran']} cases ran, "
              f"{results['refused']} were refused, {results['failed']} FAILED, {time.time() - began:.0f} s")
    return results["failed"]


if __name__ == "__main__":
    main()
