#!/usr/bin/env python3
"""Hostile Hubs, stores, lock files, folders, environments and files against the real program.

    benches/hardening/hostile.py [--binary target/debug/embedctl] [--seed 1] [--only WORD] [-v]

Every case is a run of the program in an empty sandbox: a Hub on this machine answers wrongly (or a lock file, a
folder or the environment was changed), and afterwards these must hold, whatever the case:

- it has ended by itself, in time, with an exit code of its own (0, 1, 2, 3, 130), without a panic or an internal error;
- nothing outside of the folders that it may write to was made or changed, and no code of the sandbox's was run;
- no secret and no control character is in what it said, and with `--log-format json` every line is JSON;
- exit code 0 means that the model's files are here, byte for byte, and no others.

Only the standard library is used. The figures at the end go to benches/RESULTS.md.
"""

import argparse
import contextlib
import hashlib
import http.server
import json
import os
import pathlib
import random
import re
import resource
import shutil
import signal
import socket
import stat
import subprocess
import sys
import tempfile
import threading
import time

import parsers

ROOT = pathlib.Path(__file__).resolve().parents[2]
MODEL = ROOT / "fixtures/parity/bert-mean-legacy/model"
TOKEN = "hf_5ecret7okenOfNobody"
PASSWORD = "pa55wordOfNobody"
ESCAPE = "\x1b[2J\x1b]0;x\x07\x9b31m\u202e"
DEADLINE = 90  # seconds; the program's own patience with silence is shorter
MEMORY = 6 << 30  # bytes of address space
LARGEST = 3 << 30  # bytes that it may take of a server that has no end, and write into a file


def git_blob(content):
    return hashlib.sha1(b"blob %d\0" % len(content) + content).hexdigest()


def sha256(content):
    return hashlib.sha256(content).hexdigest()


class Hub:
    """A Hub with one repository; `break_it(handler, kind, path)` may answer in its place and then returns True."""

    def __init__(self, break_it=None, describe=None, headers=None):
        self.files = {
            path.relative_to(MODEL).as_posix(): path.read_bytes() for path in MODEL.rglob("*") if path.is_file()
        }
        self.commit = hashlib.sha1(b"commit").hexdigest()
        self.requests = 0
        self.bytes = 0
        hub = self

        class Handler(http.server.BaseHTTPRequestHandler):
            protocol_version = "HTTP/1.1"

            def log_message(self, *_):
                pass

            def do_HEAD(self):
                self.do_GET()

            def do_GET(self):
                hub.requests += 1
                kind = "api" if self.path.startswith("/api/") else "file"
                path = self.path.split("/resolve/", 1)[-1].split("/", 1)[-1].split("?")[0]
                with contextlib.suppress(ConnectionError, TimeoutError):
                    if break_it and break_it(self, kind, path):
                        return
                    if kind == "api":
                        answer = hub.description()
                        if describe:
                            answer = describe(answer)
                        if not isinstance(answer, bytes):
                            answer = json.dumps(answer).encode()
                        self.reply(200, answer)
                    elif path not in hub.files:
                        self.reply(404, b"", {"X-Error-Code": "EntryNotFound"})
                    else:
                        content = hub.files[path]
                        more = {"ETag": '"%s"' % git_blob(content), "X-Repo-Commit": hub.commit}
                        if headers:
                            more.update(headers(path, content))
                        start = re.fullmatch(r"bytes=(\d+)-", self.headers.get("Range", ""))
                        if start and int(start[1]) >= len(content):
                            self.reply(416, b"", more)
                        elif start:
                            first = int(start[1])
                            more["Content-Range"] = f"bytes {first}-{len(content) - 1}/{len(content)}"
                            self.reply(206, content[first:], more)
                        else:
                            self.reply(200, content, more)

            def reply(self, status, body, headers=()):
                self.send_response(status)
                for name, value in dict(headers).items():
                    self.send_header(name, value)
                self.send_header("Content-Length", str(len(body)))
                self.end_headers()
                if self.command != "HEAD":
                    self.wfile.write(body)

            def endless(self, part, pause=0.0, headers=()):
                self.send_response(200)
                for name, value in dict(headers).items():
                    self.send_header(name, value)
                self.send_header("Connection", "close")
                self.end_headers()
                self.close_connection = True
                until = time.monotonic() + 2 * DEADLINE
                while time.monotonic() < until:
                    self.wfile.write(part)
                    hub.bytes += len(part)
                    if pause:
                        time.sleep(pause)

        class Server(http.server.ThreadingHTTPServer):
            daemon_threads = True
            request_queue_size = 128

            def handle_error(self, *_):
                pass  # a client that has gone

        self.server = Server(("127.0.0.1", 0), Handler)
        threading.Thread(target=self.server.serve_forever, args=(0.05,), daemon=True).start()

    @property
    def host(self):
        return "127.0.0.1:%d" % self.server.server_address[1]

    def description(self):
        siblings = [
            {"rfilename": path, "size": len(content), "blobId": git_blob(content)}
            for path, content in sorted(self.files.items())
        ]
        return {"id": "org/small", "sha": self.commit, "siblings": siblings}

    def stop(self):
        self.server.shutdown()
        self.server.server_close()


class Case:
    """One run. `prepare(sandbox, hub)` may change the sandbox and return (arguments, environment)."""

    def __init__(self, name, hub=None, prepare=None, arguments=("download", "org/small"), environment=None, succeeds=None, deadline=DEADLINE):
        self.name = name
        self.hub = hub or Hub
        self.prepare = prepare
        self.arguments = list(arguments)
        self.environment = environment or {}
        self.succeeds = succeeds
        self.deadline = deadline


def limited():
    resource.setrlimit(resource.RLIMIT_AS, (MEMORY, MEMORY))
    resource.setrlimit(resource.RLIMIT_FSIZE, (LARGEST, LARGEST))


def tree(folder):
    """Everything in a folder, with kind and content, links not followed."""
    found = {}
    for path in sorted(folder.rglob("*")):
        name = path.relative_to(folder).as_posix()
        status = path.lstat()
        if stat.S_ISLNK(status.st_mode):
            found[name] = "link to " + os.readlink(path)
        elif stat.S_ISREG(status.st_mode):
            found[name] = sha256(path.read_bytes())
        else:
            found[name] = stat.filemode(status.st_mode)
    return found


def run(case, binary, number):
    """Runs a case; returns what was wrong, and how it ended."""
    sandbox = pathlib.Path(tempfile.mkdtemp(prefix="embedctl-hostile-"))
    hub = case.hub()
    try:
        work, outside = sandbox / "work", sandbox / "outside"
        work.mkdir()
        outside.mkdir()
        (outside / "precious").write_text("mine")
        (outside / "onnx").mkdir()
        (work / "texts.txt").write_text("one\ntwo words\n")
        environment = {
            "HOME": str(sandbox / "home"),
            "HF_ENDPOINT": "http://" + hub.host,
            "HF_TOKEN": TOKEN,
            "PATH": "/usr/bin:/bin",
            "EMBEDCTL_MARK": str(sandbox / "mark"),
        }
        (sandbox / "home").mkdir()
        arguments = list(case.arguments)
        if case.prepare:
            changed = case.prepare(sandbox, hub)
            if changed:
                arguments, more = changed
                environment.update(more)
        environment.update(case.environment)
        environment = {name: value for name, value in environment.items() if value is not None}
        before = tree(outside)
        as_json = number % 3 == 0
        if as_json:
            arguments = [*arguments, "--log-format", "json"]
        started = time.monotonic()
        process = subprocess.Popen(
            [binary, *arguments],
            cwd=work,
            env=environment,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            start_new_session=True,
            preexec_fn=limited,
        )
        wrong = []
        try:
            out, err = process.communicate(timeout=case.deadline)
        except subprocess.TimeoutExpired:
            os.killpg(process.pid, signal.SIGKILL)
            out, err = process.communicate()
            wrong.append(f"it was still running after {case.deadline} s")
        took = time.monotonic() - started
        text = (out + err).decode("utf-8", "replace")
        code = process.returncode
        if code not in (0, 1, 2, 3, 130) and not wrong:
            wrong.append(f"it ended with {code}")
        for word in ("panicked", "internal error", "RUST_BACKTRACE"):
            if word in text:
                wrong.append(f"it says '{word}'")
        for secret in (TOKEN, PASSWORD):
            if secret in text:
                wrong.append("it shows a secret")
        for character in text:
            if (ord(character) < 32 and character not in "\n\t") or 0x7F <= ord(character) < 0xA0 or character in "\u202e\u2028":
                wrong.append(f"it prints U+{ord(character):04X}")
                break
        if as_json:
            for line in err.decode("utf-8", "replace").splitlines():
                try:
                    json.loads(line)
                except ValueError:
                    wrong.append(f"no JSON: {line[:80]}")
                    break
        if tree(outside) != before:
            wrong.append("it changed files outside of its folders")
        if hub.bytes >= LARGEST:
            wrong.append(f"it took {hub.bytes} bytes of a body without an end")
        if (sandbox / "mark").exists():
            wrong.append("it ran code of the sandbox's")
        if len(list(sandbox.iterdir())) > 3:
            wrong.append("it made files outside of its folders: " + str([path.name for path in sandbox.iterdir()]))
        if code == 0 and arguments[0] == "download" and "--check" not in arguments:
            wrong += incomplete(sandbox, arguments, hub)
        if case.succeeds is not None and (code == 0) != case.succeeds and not wrong:
            wrong.append(f"exit code {code}, and it should " + ("succeed" if case.succeeds else "fail"))
        return wrong, code, took, text
    finally:
        hub.stop()
        shutil.rmtree(sandbox, ignore_errors=True)


def incomplete(sandbox, arguments, hub):
    """What is wrong with the files of a download that calls itself done."""
    if "--local-dir" in arguments:
        folders = [sandbox / "work" / arguments[arguments.index("--local-dir") + 1]]
    else:
        # Wherever the environment has put the cache.
        folders = list(sandbox.glob("**/models--*/snapshots/*"))
    wrong = []
    if not folders:
        return ["it says that it is done, and nothing is here"]
    for folder in folders:
        for path in folder.rglob("*"):
            name = path.relative_to(folder).as_posix()
            if path.is_dir() or name == "embedctl.lock.json" or name not in hub.files:
                continue
            if path.read_bytes() != hub.files[name]:
                wrong.append(f"{name} is not what it should be")
        for needed in ("config.json", "tokenizer.json", "modules.json", "onnx/model.onnx"):
            if not (folder / needed).is_file():
                wrong.append(f"{needed} is missing")
    return wrong


# What the Hub says.


def listing_cases(chance):
    def changed(change):
        return lambda: Hub(describe=change)

    def with_file(path, **more):
        def change(answer):
            answer["siblings"].append({"rfilename": path, "size": 3, "blobId": git_blob(b"abc"), **more})
            return answer

        return change

    paths = [
        "../precious", "../../outside/precious", "/etc/cron.d/x", "a/../../../precious", "a//b", "./a", "a/.", "..",
        "a\\..\\b", "C:x", "nul", "a\0b", "a\nb", ESCAPE, "x" * 300, "a/" * 200 + "b", "", " ", "a.", "embedctl.lock.json",
        ".embedctl-partial/plan.json", "onnx", "onnx/model.onnx/x", "modules.json/x", TOKEN + "\\",
    ]
    for path in paths:
        for options in ([], ["--all"], ["--all", "--local-dir", "folder"]):
            yield Case(f"list: a file {path[:20]!r} {options}", changed(with_file(path)), arguments=["download", "org/small", *options])
    shas = [None, "main", "../../x", "a" * 39, "A" * 40, ESCAPE, "0" * 40 + "/x", 7, [], "\0" * 40]
    for sha in shas:
        yield Case(f"list: commit {str(sha)[:20]!r}", changed(lambda answer, sha=sha: {**answer, "sha": sha}))
    sizes = [-1, 0, 1, 2**31, 2**63, 2**64 - 1, 2**64, 1e300, "7", None, [], {"a": 1}]
    for size in sizes:
        def change(answer, size=size):
            for one in answer["siblings"]:
                one["size"] = size
            return answer
        yield Case(f"list: size {size!r}", changed(change))
    for digest in ["", "x", "0" * 40, "g" * 40, "../" * 13 + "x", "0" * 64, ESCAPE, 7, None]:
        def change(answer, digest=digest):
            for one in answer["siblings"]:
                one["blobId"] = digest
            return answer
        yield Case(f"list: hash {str(digest)[:12]!r}", changed(change))
        def in_lfs(answer, digest=digest):
            for one in answer["siblings"]:
                one["lfs"] = {"sha256": digest, "size": one["size"]}
            return answer
        yield Case(f"list: LFS hash {str(digest)[:12]!r}", changed(in_lfs))
    bodies = {
        "nothing": b"", "HTML": b"<html>sign in</html>", "deep": b"[" * 100_000, "no end": b'{"sha": "', "a number": b"7",
        "not UTF-8": b'{"sha": "\xff\xfe"}', "many": json.dumps({"sha": "a" * 40, "siblings": [{"rfilename": f"f{n}"} for n in range(150_000)]}).encode(),
        "many names that are no paths": json.dumps({"sha": "a" * 40, "siblings": [{"rfilename": f"../{n}{ESCAPE}"} for n in range(5_000)]}).encode(),
        "escapes": json.dumps({ESCAPE: ESCAPE, "sha": ESCAPE}).encode(), "the token": json.dumps({"sha": TOKEN, "siblings": TOKEN}).encode(),
    }
    for name, body in bodies.items():
        yield Case(f"list: {name}", changed(lambda _, body=body: body), succeeds=False)
    # Bytes of the list, changed by chance.
    for number in range(60):
        def change(answer, seed=chance.random()):
            dice = random.Random(seed)
            text = bytearray(json.dumps(answer).encode())
            for _ in range(dice.randint(1, 8)):
                text[dice.randrange(len(text))] = dice.randrange(256)
            return bytes(text)
        yield Case(f"list: bytes by chance {number}", changed(change))


# How the Hub behaves.


def behaviour_cases():
    def broken(what):
        return lambda: Hub(break_it=what)

    # Endless, and without anything that tells a length or a hash.
    def endless(handler, kind, path):
        if kind == "file" and path == "onnx/model.onnx" and handler.command == "GET":
            handler.endless(b"x" * (1 << 20))
            return True
        return False

    def unmeasured(handler, kind, path):
        if kind == "api":
            return False
        if handler.command == "HEAD":
            handler.send_response(200)
            handler.end_headers()
            handler.close_connection = True
        elif path == "tokenizer.json":
            handler.endless(b"x" * (1 << 20))
        else:
            handler.reply(200, b"{}")
        return True

    def names_only(answer):
        return {**answer, "siblings": [{"rfilename": one["rfilename"]} for one in answer["siblings"]]}

    yield Case("an endless body of a known size", broken(endless), succeeds=False)
    yield Case("an endless body that nobody measures", lambda: Hub(break_it=unmeasured, describe=names_only), succeeds=False)
    yield Case("an endless list", broken(lambda handler, kind, _: kind == "api" and (handler.endless(b" " * (1 << 20)) or True)), succeeds=False)

    def cut_and_refuse(handler, kind, path):
        if kind != "file" or path != "onnx/model.onnx":
            return False
        if handler.headers.get("Range"):
            handler.reply(416, b"")
        else:
            handler.send_response(200)
            handler.send_header("Content-Length", "445206")
            handler.end_headers()
            handler.wfile.write(b"x" * 400_000)
            handler.close_connection = True
        return True

    yield Case("cut, and then 416", broken(cut_and_refuse), succeeds=False)
    for status in [100, 201, 204, 206, 300, 301, 304, 307, 400, 401, 403, 404, 405, 408, 410, 416, 418, 429, 451, 500, 503, 999]:
        for kind in ("api", "file"):
            def answer(handler, asked, _, status=status, kind=kind):
                if asked != kind:
                    return False
                handler.reply(status, b"", {
                    "Retry-After": "0",
                    "X-Error-Message": f"Bearer {TOKEN}",
                    "X-Error-Code": "Odd" + TOKEN,
                    "Location": f"http://{handler.headers['Host']}/{TOKEN}",
                })
                return True
            yield Case(f"status {status} of the {kind}", broken(answer))
    locations = [
        "", "/", "//", "http://", "file:///etc/passwd", "ftp://x/y", "gopher://x", "http://me:" + PASSWORD + "@127.0.0.1:1/x", "http://[::1",
        "http://127.0.0.1:99999/", "javascript:alert(1)", "x" * 10_000, "http://127.0.0.1:1/" + TOKEN, "?", "#", "http://\\@x/",
    ]
    for location in locations:
        def redirect(handler, kind, _, location=location):
            if kind == "file":
                handler.reply(302, b"", {"Location": location})
            return kind == "file"
        yield Case(f"a redirect to {location[:30]!r}", broken(redirect), succeeds=False)

    def circle(handler, kind, _):
        handler.reply(302, b"", {"Location": handler.path})
        return True

    yield Case("a redirect in a circle", broken(circle), succeeds=False)
    raw = {
        "no HTTP": b"SSH-2.0-OpenSSH_9.6\r\n", "nothing": b"", "a status that is none": b"HTTP/1.1 abc OK\r\n\r\n",
        "escapes in the head": b"HTTP/1.1 403 \x1b[2J\r\nX-Error-Message: \x1b[2J\xc2\x9b31m\r\nContent-Length: 0\r\n\r\n",
        "UTF-8 in the head": b"HTTP/1.1 451 No\r\nX-Error-Message: \xc2\x9b31m \xe2\x80\xae\r\nContent-Length: 0\r\n\r\n",
        "two lengths": b"HTTP/1.1 200 OK\r\nContent-Length: 5\r\nContent-Length: 9999999\r\n\r\nhello",
        "a negative length": b"HTTP/1.1 200 OK\r\nContent-Length: -5\r\n\r\nhello",
        "a length of 2^70": b"HTTP/1.1 200 OK\r\nContent-Length: 1180591620717411303424\r\n\r\nhello",
        "broken chunks": b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\nZZZ\r\nhello",
        "a chunk without an end": b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\nffffffffffffffff\r\nhello",
        "many heads": b"HTTP/1.1 100 Continue\r\n\r\n" * 10_000,
        "a long head": b"HTTP/1.1 200 OK\r\n" + b"X-A: " + b"a" * 10_000_000,
        "many headers": b"HTTP/1.1 200 OK\r\n" + b"X-A: b\r\n" * 200_000,
        "gzip": b"HTTP/1.1 200 OK\r\nContent-Encoding: gzip\r\nContent-Length: 5\r\n\r\nhello",
    }
    for name, answer in raw.items():
        for kind in ("api", "file"):
            def send(handler, asked, _, answer=answer, kind=kind):
                if asked == kind:
                    handler.wfile.write(answer)
                    handler.close_connection = True
                return asked == kind
            yield Case(f"raw: {name} ({kind})", broken(send), succeeds=False)

    def drip(handler, kind, path):
        if kind == "file" and path == "tokenizer.json":
            handler.endless(b"x", pause=1.0, headers={"X-A": "b"})
            return True
        return False

    # The least rate has a window of a minute, and four tries.
    yield Case("one byte a second", broken(drip), succeeds=False, deadline=400)


# Lock files and manifests.


def lock_cases(chance):
    def lock_of(hub):
        files = [
            {"path": path, "size": len(content), "sha256": sha256(content), "blob": git_blob(content)}
            for path, content in sorted(hub.files.items())
        ]
        return {"schema": 1, "models": [{
            "model": "org/small", "requested": "main", "revision": hub.commit, "onnx": "onnx/model.onnx", "files": files,
        }]}

    def with_lock(change):
        def prepare(sandbox, hub):
            lock = change(lock_of(hub))
            text = lock if isinstance(lock, bytes) else json.dumps(lock).encode()
            (sandbox / "work/models.lock").write_bytes(text)
            return ["download", "--locked", "models.lock"], {}
        return prepare

    outside = ["../../../../../outside/precious", "../x", "/tmp/x", "", ".", "..", "a\\..\\..\\x", ESCAPE, "a\nb", "org/small@../../x", "x" * 5000, 7, None, []]
    for field in ("model", "requested", "revision", "onnx"):
        for value in outside:
            def change(lock, field=field, value=value):
                lock["models"][0][field] = value
                return lock
            # Without an ONNX file of its own there is one the less to be named.
            succeeds = None if (field, value) == ("onnx", None) else False
            yield Case(f"lock: {field} {str(value)[:24]!r}", prepare=with_lock(change), succeeds=succeeds)
    for field in ("path", "size", "sha256", "blob"):
        for value in [*outside, -1, 2**64, "0" * 64]:
            def change(lock, field=field, value=value):
                lock["models"][0]["files"][0][field] = value
                return lock
            succeeds = None if field == "blob" else False
            yield Case(f"lock: file's {field} {str(value)[:24]!r}", prepare=with_lock(change), succeeds=succeeds)
    for name, change in {
        "no models": lambda lock: {**lock, "models": []},
        "no files": lambda lock: {**lock, "models": [{**lock["models"][0], "files": [], "onnx": None}]},
        "another schema": lambda lock: {**lock, "schema": 2},
        "nothing": lambda _: b"",
        "deep": lambda _: b"[" * 100_000,
        "a list": lambda _: b"[]",
    }.items():
        yield Case(f"lock: {name}", prepare=with_lock(change), succeeds=False)
    for number in range(60):
        def change(lock, seed=chance.random()):
            dice = random.Random(seed)
            text = bytearray(json.dumps(lock).encode())
            for _ in range(dice.randint(1, 6)):
                text[dice.randrange(len(text))] = dice.randrange(256)
            return bytes(text)
        yield Case(f"lock: bytes by chance {number}", prepare=with_lock(change))
    for special in ("/dev/zero", "/dev/full", "/dev/null", "fifo"):
        def prepare(sandbox, _, special=special):
            path = special
            if special == "fifo":
                path = str(sandbox / "work/fifo")
                os.mkfifo(path)
            return ["download", "--locked", path], {}
        yield Case(f"lock: {special}", prepare=prepare, succeeds=False)


# Folders and caches.


def folder_cases():
    local = ["download", "org/small", "--local-dir", "folder"]

    def folder(change, arguments=local):
        def prepare(sandbox, hub):
            (sandbox / "work/folder").mkdir()
            change(sandbox / "work/folder", sandbox / "outside", hub)
            return arguments, {}
        return prepare

    def link(name, target):
        def change(here, outside, _):
            (here / name).parent.mkdir(parents=True, exist_ok=True)
            (here / name).symlink_to(outside / target)
        return change

    for name, target in [
        ("onnx", "onnx"), (".embedctl-partial", "onnx"), (".embedctl-partial/config.json", "precious"),
        (".embedctl-partial/onnx--model.onnx", "precious"), (".embedctl-partial/onnx--model.onnx.whole", "precious"),
        (".embedctl-partial/plan.json", "precious"), ("1_Pooling", "onnx"), ("embedctl.lock.json", "precious"),
    ]:
        yield Case(f"folder: {name} is a link", prepare=folder(link(name, target)))
    for name in ["config.json", "embedctl.lock.json", ".embedctl-partial/config.json", ".embedctl-partial/plan.json"]:
        def fifo(here, _, __, name=name):
            (here / name).parent.mkdir(parents=True, exist_ok=True)
            os.mkfifo(here / name)
        yield Case(f"folder: {name} is a FIFO", prepare=folder(fifo))
        yield Case(f"check: {name} is a FIFO", prepare=folder(fifo, ["download", "--check", "./folder"]), succeeds=False)
    for name in ["modules.json", "onnx/model_fp16.onnx", "model.safetensors", "tokenizer.json", "0_T/config.json", "notes.txt"]:
        def stranger(here, _, __, name=name):
            (here / name).parent.mkdir(parents=True, exist_ok=True)
            (here / name).write_text("{}")
        succeeds = None if name in ("modules.json", "tokenizer.json") else name == "notes.txt"
        yield Case(f"folder: {name} of somebody", prepare=folder(stranger), succeeds=succeeds)

    def cache(change, arguments=("download", "org/small"), **more):
        def prepare(sandbox, hub):
            base = sandbox / "home/.cache/huggingface/hub/models--org--small"
            base.mkdir(parents=True)
            change(base, sandbox, hub)
            return list(arguments), {}
        return prepare

    def write(path, content):
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(content)

    embed = ("embed", "texts.txt", "-o", "out.npy", "-m", "org/small", "--offline", "--provider", "rten")
    for reference in [b"..", b".", b"../../../../outside", b"", b"a" * 100_000, ESCAPE.encode(), b"\xff\xfe", b"a\0b"]:
        for arguments in (("download", "org/small"), ("download", "--check", "org/small"), embed):
            yield Case(f"cache: refs/main {reference[:12]!r} {arguments[0]}", prepare=cache(
                lambda base, _, __, reference=reference: write(base / "refs/main", reference), arguments))
    for special in ["refs/main", "blobs", "snapshots", ".embedctl"]:
        def fifo(base, _, __, special=special):
            (base / special).parent.mkdir(parents=True, exist_ok=True)
            os.mkfifo(base / special)
        for arguments in (("download", "org/small"), ("download", "--check", "org/small"), embed):
            yield Case(f"cache: {special} is a FIFO {arguments[0]}", prepare=cache(fifo, arguments))

    def grown(base, sandbox, hub):
        name = git_blob(hub.files["onnx/model.onnx"]) + ".incomplete"
        (base / "blobs").mkdir(parents=True)
        (base / "blobs" / name).symlink_to(sandbox / "outside/precious")

    yield Case("cache: content grows behind a link", prepare=cache(grown), succeeds=False)


# The environment.


def environment_cases():
    script = "#!/bin/sh\n: > \"$EMBEDCTL_MARK\"\n"

    def prepared(variables, arguments=("embed", "texts.txt", "-o", "out.npy", "-m", str(MODEL), "-p", "cpu")):
        def prepare(sandbox, _):
            for folder in ("", "bin", "open"):
                path = sandbox / "work" / folder / "python3"
                path.parent.mkdir(exist_ok=True)
                path.write_text(script)
                path.chmod(0o755)
                shutil.copy(path, path.with_name("node"))
            (sandbox / "work/open").chmod(0o777)
            for folder in ("onnxruntime/capi", "lib", "lib/python3.12/site-packages/onnxruntime/capi"):
                library = sandbox / "work" / folder / "libonnxruntime.so"
                library.parent.mkdir(parents=True, exist_ok=True)
                if MARKING:
                    shutil.copy(MARKING, library)
            change = {name: value.replace("WORK", str(sandbox / "work")) for name, value in variables.items()}
            return list(arguments), change
        return prepare

    for line in (None, ("devices", "--json")):
        more = {} if line is None else {"arguments": line}
        for path in ["", ".", "bin", ":", "::/usr/bin", "./bin", "WORK/open", "/nowhere:bin:/usr/bin"]:
            yield Case(f"PATH={path!r} {line}", prepare=prepared({"PATH": path}, **more))
        for name in ["PYTHONPATH", "VIRTUAL_ENV", "CONDA_PREFIX", "CUDA_PATH", "HOME", "ORT_DYLIB_PATH", "EMBEDCTL_ORT_LIB", "LD_LIBRARY_PATH_64"]:
            for value in [".", "", ":", "./", "lib", "../work"]:
                yield Case(f"{name}={value!r} {line}", prepare=prepared({name: value}, **more))
    for name in ["EMBEDCTL_MODEL", "EMBEDCTL_PROVIDER", "EMBEDCTL_DEVICE", "HF_HOME", "HF_HUB_CACHE", "XDG_CACHE_HOME", "TMPDIR", "HF_TOKEN_PATH", "SSL_CERT_FILE", "TERM", "NO_COLOR", "XDG_CONFIG_HOME"]:
        for value in [ESCAPE, "/dev/zero", "/dev/null", "../outside", "x" * 100_000, "\n", "-"]:
            more = {name: value, **({"HF_TOKEN": None} if name == "HF_TOKEN_PATH" else {})}
            # Whatever is named as the cache is the program's to write to.
            if value == "../outside" and name in ("HF_HOME", "HF_HUB_CACHE", "XDG_CACHE_HOME"):
                continue
            yield Case(f"{name}={value[:12]!r}", environment=more)
    for name in ["HF_ENDPOINT", "http_proxy", "HTTPS_PROXY", "ALL_PROXY"]:
        for value in [f"http://me:{PASSWORD}@127.0.0.1:1", f"me:{PASSWORD}@:::", f"socks5://me:{PASSWORD}@127.0.0.1:1", f"{PASSWORD}@x", f"http://me:{PASSWORD}@{ESCAPE}"]:
            yield Case(f"{name}={value[:20]!r}", environment={name: value}, succeeds=None if name == "HTTPS_PROXY" else False)
    for token in [ESCAPE, "hf_with blank" + PASSWORD, "\n", "x" * 100_000]:
        yield Case(f"HF_TOKEN={token[:12]!r}", environment={"HF_TOKEN": token})

    def shadow(sandbox, _):
        shutil.copytree(MODEL, sandbox / "work/sentence-transformers/all-MiniLM-L6-v2")
        return ["embed", "texts.txt", "-o", "out.npy", "--offline", "-p", "rten"], {}

    yield Case("a folder named as the default model", prepare=shadow, succeeds=False)


def parser_cases():
    """Files of the formats that the program reads, each of which asks for more than it holds."""
    embed = ["embed", "-o", "out.jsonl", "-m", str(MODEL), "-p", "rten", "--threads", "1"]

    def given(name, content, *arguments, **more):
        def prepare(sandbox, _):
            (sandbox / "work" / name).write_bytes(content())
            return [*embed, name, *arguments], {}
        return Case(f"parser: {name} {' '.join(arguments)}".strip(), prepare=prepare, deadline=30, **more)

    for levels in (50, 199, 201, 1500, 100_000):
        content = lambda levels=levels: parsers.nested(levels)
        yield given(f"nested-{levels}.parquet", content, succeeds=False)
        def looked(sandbox, _, content=content):
            (sandbox / "work/nested.parquet").write_bytes(content())
            return ["inspect", "nested.parquet"], {}
        yield Case(f"parser: inspect {levels} levels", prepare=looked, deadline=30, succeeds=False if levels > 200 else None)
    yield given("whole.arrow", lambda: parsers.claiming(-1), succeeds=False)
    for power in (30, 36, 40, 62):
        yield given(f"claims-{power}.arrow", lambda power=power: parsers.claiming(1 << power), succeeds=False)
        yield given(f"keeps-{power}.arrow", lambda power=power: parsers.claiming(1 << power), "--keep", "n", succeeds=False)
    # Time by their number, not by its square.
    yield given("wide.jsonl", lambda: parsers.wide_lines(60_000), "--keep", "*", succeeds=True)
    yield given("wide.csv", lambda: parsers.wide_csv(60_000), "--keep", "*", succeeds=True)
    yield given("wide.parquet", lambda: parsers.wide_parquet(200_000), "--keep", "*")

    def model(change):
        def prepare(sandbox, _):
            shutil.copytree(MODEL, sandbox / "work/model")
            change(sandbox / "work/model")
            return ["embed", "texts.txt", "-o", "out.npy", "-m", "./model", "-p", "rten", "--threads", "1"], {}
        return prepare

    for size in (1025, 50_000, 200_000, 5_000_000):
        def piece(folder, size=size):
            path = folder / "tokenizer.json"
            path.write_bytes(parsers.long_piece(path.read_bytes(), size))
        yield Case(f"parser: a piece of {size} bytes", prepare=model(piece), deadline=30, succeeds=False)

    def job(name, make):
        def prepare(sandbox, _):
            folder = sandbox / "work/_out.embedctl"
            command = [str(BINARY), "embed", "texts.txt", "-o", "out/", "-m", str(MODEL), "-p", "rten", "--threads", "1"]
            subprocess.run(command, cwd=sandbox / "work", check=True, capture_output=True)
            path = next(path for path in sorted(folder.glob(name)) if path.is_file())
            path.unlink()
            make(path)
            return ["embed", "texts.txt", "-o", "out/", "-m", str(MODEL), "-p", "rten", "--threads", "1", "--resume"], {}
        return prepare

    for name in ("job.json", "commits/*.json", "texts/*.sha256", "shards/*.json"):
        yield Case(f"parser: a FIFO as {name}", prepare=job(name, os.mkfifo), deadline=30)
        yield Case(f"parser: /dev/zero as {name}", prepare=job(name, lambda path: path.symlink_to("/dev/zero")), deadline=30)

    def endless(status, body):
        """A store whose answers have no end; `body` makes the n-th part of it."""
        def broken(handler, _, __):
            handler.send_response(status)
            handler.send_header("Connection", "close")
            handler.end_headers()
            with contextlib.suppress(ConnectionError):
                for number in range(1 << 16):
                    handler.wfile.write(body(number))
            return True
        return lambda: Hub(break_it=broken)

    def store(hub_of):
        def prepare(sandbox, hub):
            environment = {
                "AWS_ENDPOINT_URL": "http://" + hub.host, "AWS_ALLOW_HTTP": "true", "AWS_ACCESS_KEY_ID": "id",
                "AWS_SECRET_ACCESS_KEY": PASSWORD, "AWS_REGION": "us-east-1",
            }
            return [*embed, "s3://bucket/folder/"], environment
        return {"hub": hub_of, "prepare": prepare, "succeeds": False}

    yield Case("parser: a refusal without an end", **store(endless(403, lambda _: b" " * (1 << 16))))
    yield Case("parser: a listing without an end", **store(endless(200, lambda _: b" " * (1 << 16))))

    def pages(token):
        def broken(handler, _, __):
            body = "<?xml version='1.0'?><ListBucketResult><IsTruncated>true</IsTruncated><NextContinuationToken>"
            body += f"{token(handler)}</NextContinuationToken></ListBucketResult>"
            handler.reply(200, body.encode())
            return True
        return lambda: Hub(break_it=broken)

    yield Case("parser: the same page for ever", **store(pages(lambda _: "again")))
    # A thousand pages, which a store may send for deleted objects.
    yield Case("parser: new empty pages for ever", deadline=300, **store(pages(lambda _: random.getrandbits(64))))


def marking_library():
    """A library that tells that it was loaded; none without a compiler."""
    folder = pathlib.Path(tempfile.mkdtemp(prefix="embedctl-marking-"))
    code = (
        "#include <stdio.h>\n#include <stdlib.h>\n"
        "__attribute__((constructor)) static void at_load(void) {"
        ' const char *name = getenv("EMBEDCTL_MARK"); FILE *file = name ? fopen(name, "w") : 0; if (file) fclose(file); }\n'
    )
    (folder / "mark.c").write_text(code)
    made = subprocess.run(["cc", "-shared", "-fPIC", "-o", folder / "mark.so", folder / "mark.c"], check=False)
    return folder / "mark.so" if made.returncode == 0 else None


MARKING = None


def main():
    global BINARY, MARKING
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--binary", default=ROOT / "target/debug/embedctl", type=pathlib.Path)
    parser.add_argument("--seed", default=1, type=int)
    parser.add_argument("--only", default="", help="cases whose names hold this")
    parser.add_argument("--every", default=1, type=int, help="every so many-th case alone")
    parser.add_argument("--jobs", default=os.cpu_count(), type=int)
    parser.add_argument("-v", "--verbose", action="store_true")
    options = parser.parse_args()
    with contextlib.suppress(OSError, subprocess.SubprocessError):
        MARKING = marking_library()
    chance = random.Random(options.seed)
    groups = {
        "lists": list(listing_cases(chance)),
        "behaviour": list(behaviour_cases()),
        "lock files": list(lock_cases(chance)),
        "folders and caches": list(folder_cases()),
        "environments": list(environment_cases()),
        "parsers": list(parser_cases()),
    }
    binary = BINARY = options.binary.resolve()
    cases = [(group, case) for group, all_of_it in groups.items() for case in all_of_it if options.only in case.name][:: options.every]
    lock, failures, codes, longest = threading.Lock(), [], {}, [0.0, ""]
    # The longest first: they mostly wait.
    queue = iter(sorted(enumerate(cases), key=lambda one: -one[1][1].deadline))

    def work():
        while True:
            with lock:
                number, (group, case) = next(queue, (None, (None, None)))
            if case is None:
                return
            try:
                wrong, code, took, text = run(case, str(binary), number)
            except Exception as error:  # the case itself, not the program
                wrong, code, took, text = [f"the case failed: {error!r}"], None, 0.0, ""
            with lock:
                codes.setdefault(group, {}).setdefault(code, 0)
                codes[group][code] += 1
                longest[:] = max(longest, [took, case.name])
                if wrong:
                    failures.append(case.name)
                    print(f"FAILED {case.name}: {'; '.join(wrong)}")
                    print("    " + text.strip().replace("\n", "\n    ")[:2000].encode("unicode_escape").decode().replace("\\n", "\n"))
                elif options.verbose:
                    print(f"ok     {case.name}: {code}, {took:.1f} s")
                sys.stdout.flush()

    began = time.monotonic()
    threads = [threading.Thread(target=work) for _ in range(options.jobs)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    for group, counts in codes.items():
        said = ", ".join(f"{count} with {code}" for code, count in sorted(counts.items(), key=str))
        print(f"{group}: {sum(counts.values())} cases ({said})")
    print(f"{len(cases)} cases in {time.monotonic() - began:.0f} s, {len(failures)} failed; the longest took {longest[0]:.0f} s ({longest[1]})")
    sys.exit(1 if failures else 0)


if __name__ == "__main__":
    main()
