"""Programs that are missing, have another version, or fail."""

from __future__ import annotations

import os
import pickle
import subprocess
import sys

import pytest

from conftest import Case, Fake
from embedctl import EmbedctlError, Embedder, ProgramNotFoundError, TextError, __version__, find_embedctl_bin


def test_the_program_is_found_and_run_as_a_module() -> None:
    program = find_embedctl_bin()
    assert os.path.isabs(program)
    for command in ([program, "--version"], [sys.executable, "-m", "embedctl", "--version"]):
        said = subprocess.run(command, capture_output=True, text=True, check=True).stdout.split()
        assert said[0] == "embedctl" and said[1] == (__version__ or said[1])
    wrong = subprocess.run([sys.executable, "-m", "embedctl", "embed", "--nonsense"], capture_output=True, text=True)
    assert wrong.returncode == 2 and "--nonsense" in wrong.stderr


def test_the_program_alone_needs_neither_numpy_nor_pyarrow() -> None:
    script = "import embedctl, sys; embedctl.find_embedctl_bin(); sys.exit('numpy' in sys.modules or 'pyarrow' in sys.modules)"
    assert subprocess.run([sys.executable, "-c", script]).returncode == 0


def test_a_missing_program(monkeypatch: pytest.MonkeyPatch, tmp_path) -> None:
    monkeypatch.setenv("EMBEDCTL_BIN", str(tmp_path / "nothing"))
    with pytest.raises(ProgramNotFoundError, match="EMBEDCTL_BIN is '.*nothing': there is no such file"):
        Embedder("model")
    monkeypatch.setenv("EMBEDCTL_BIN", "target/debug/embedctl")
    with pytest.raises(ProgramNotFoundError, match="give an absolute path"):
        Embedder("model")
    monkeypatch.delenv("EMBEDCTL_BIN")
    monkeypatch.setattr("embedctl._find_embedctl._folders", lambda: iter([str(tmp_path)]))
    with pytest.raises(FileNotFoundError, match=f"looked for {tmp_path}.*Install the package again"):
        Embedder("model")
    said = subprocess.run(
        [sys.executable, "-m", "embedctl"], capture_output=True, text=True, env={**os.environ, "EMBEDCTL_BIN": "embedctl"}
    )
    assert said.returncode == 1 and said.stderr == "error: EMBEDCTL_BIN is 'embedctl': give an absolute path\n"


def test_a_program_of_another_version(fake: Fake, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("embedctl._find_embedctl.__version__", "1.2.3")
    fake("", version="embedctl 0.0.1")
    with pytest.raises(ProgramNotFoundError, match=r"is embedctl 0.0.1, but the Python package is of version 1.2.3"):
        Embedder("model")
    fake("", version="embedctl 1.2.3")
    os.utime(os.environ["EMBEDCTL_BIN"], (1, 1))
    Embedder("model")


def test_another_program(fake: Fake, monkeypatch: pytest.MonkeyPatch, tmp_path) -> None:
    fake("", version="something else 3")
    with pytest.raises(ProgramNotFoundError, match="'--version' says 'something else 3'"):
        Embedder("model")
    plain = tmp_path / "plain"
    plain.write_text("no program")
    monkeypatch.setenv("EMBEDCTL_BIN", str(plain))
    with pytest.raises(ProgramNotFoundError, match="cannot be run"):
        Embedder("model")


def test_a_refusal_has_the_programs_words_and_exit_code(case: Case, tmp_path) -> None:
    with Embedder(tmp_path / "no-such-model", offline=True) as embedder, pytest.raises(EmbedctlError, match="no-such-model") as raised:
        embedder.encode("a")
    assert raised.value.exit_code in (1, 2)
    assert "error:" not in str(raised.value)
    with Embedder(case.model, precision="fp3") as embedder, pytest.raises(EmbedctlError, match="fp3") as raised:
        embedder.encode("a")
    assert raised.value.exit_code == 2


@pytest.mark.parametrize(
    ("body", "said"),
    [
        ("sys.exit('error: the last words')", r"failed \(exit code 1\): the last words"),
        ("print('of a crash', file=sys.stderr, flush=True)\nos.kill(os.getpid(), signal.SIGSEGV)", r"crashed \(SIGSEGV\): of a crash"),
        ("os.kill(os.getpid(), signal.SIGKILL)", r"was killed \(SIGKILL\)"),
        ("sys.exit(0)", "ended before it had answered"),
        ("sys.stdin.buffer.read(100)\nsys.exit('after some input')", r"failed \(exit code 1\): after some input"),
        ("print('not Arrow', flush=True)\nsys.exit('done')", r"failed \(exit code 1\): done"),
        ("os.close(1)\nprint('shut', file=sys.stderr, flush=True)\nsignal.pause()", r"broke off its answer: .*: shut"),
        ("os.close(0)\nprint('deaf', file=sys.stderr, flush=True)\nos.close(1)\nsignal.pause()", r"broke off its answer: .*: deaf"),
    ],
)
def test_a_program_that_goes_wrong(fake: Fake, body: str, said: str) -> None:
    fake(body)
    with Embedder("model") as embedder:
        for texts in ("a", ["more than a pipe holds " * 1000] * 1000):
            with pytest.raises(EmbedctlError, match=said):
                embedder.encode(texts)


@pytest.mark.parametrize(("rows", "said"), [(1, "ended before it had answered"), (3, "answered 1 rows too many")])
def test_an_answer_of_other_rows(fake: Fake, rows: int, said: str) -> None:
    fake(
        "import pyarrow as pa\n"
        "stream = pa.ipc.open_stream(sys.stdin.buffer)\n"
        "schema = pa.schema([('embedding', pa.list_(pa.float32(), 1)), ('embedding_error', pa.string())])\n"
        "answer = pa.ipc.new_stream(sys.stdout.buffer, schema)\n"
        f"columns = [pa.array([[1.0]] * {rows}, schema.field(0).type), pa.nulls({rows}, pa.string())]\n"
        "stream.read_next_batch()\n"
        "answer.write_batch(pa.record_batch(columns, schema=schema))\n"
        "answer.close()"
    )
    with Embedder("model") as embedder, pytest.raises(EmbedctlError, match=said):
        embedder.encode(["a", "b"])


def test_exceptions_can_be_sent_between_processes() -> None:
    for error in (EmbedctlError("words", 3), TextError(7, "too long"), ProgramNotFoundError("nowhere")):
        again = pickle.loads(pickle.dumps(error))
        assert type(again) is type(error) and str(again) == str(error)
        assert again.__dict__ == error.__dict__
