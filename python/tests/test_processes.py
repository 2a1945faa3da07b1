"""Processes: their start, their owners and their ends."""

from __future__ import annotations

import gc
import multiprocessing
import os
import pickle
import subprocess
import sys
import threading
import time
from pathlib import Path

import numpy as np
import pytest

from conftest import Case, pid_of
from embedctl import EmbedctlError, Embedder

DEADLINE = 60


def ended(pid: int) -> bool:
    """Whether a process and all its threads have ended. A process without a parent may stay a zombie."""
    try:
        with open(f"/proc/{pid}/stat") as stat:
            zombie = stat.read().rpartition(") ")[2].startswith("Z")
        # The first thread may be a zombie before the others have let go of the pipes.
        return zombie and len(os.listdir(f"/proc/{pid}/task")) == 1
    except (FileNotFoundError, ProcessLookupError):
        return True


def wait_for_end(pid: int) -> None:
    start = time.monotonic()
    while not ended(pid):
        assert time.monotonic() - start < DEADLINE, f"{pid} still runs"
        time.sleep(0.01)


linux = pytest.mark.skipif(not os.path.isdir("/proc/self"), reason="looks into /proc")


@linux
def test_close_and_the_end_of_an_embedder_end_its_process(case: Case) -> None:
    embedder = Embedder(case.model, provider="native", threads=1)
    assert not embedder._processes, "nothing is started before it is needed"
    embedder.encode("a")
    pid = pid_of(embedder)
    embedder.close()
    assert ended(pid)
    with pytest.raises(EmbedctlError, match="is closed"):
        embedder.encode("a")
    embedder.close()
    other = Embedder(case.model, provider="native", threads=1)
    other.encode("a")
    pid = pid_of(other)
    del other
    gc.collect()
    assert ended(pid)


OWNER = """
import os, sys
from embedctl import Embedder
embedder = Embedder(sys.argv[1], provider="native", threads=1)
embedder.encode("a")
print([process.pid for process in embedder._processes.values()][0], flush=True)
{end}
"""


@linux
@pytest.mark.parametrize("end", ["", "os.kill(os.getpid(), 9)", "os.fork() and os.kill(os.getpid(), 9); sys.stdin.read()"])
def test_a_process_ends_with_its_owner_however_that_ends(case: Case, end: str) -> None:
    with subprocess.Popen(
        [sys.executable, "-c", OWNER.format(end=end), case.model], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
    ) as owner:
        pid = int(owner.stdout.readline())
        # In the last case a fork of the owner lives on, and must not hold the pipe.
        wait_for_end(pid)
        owner.stdin.close()


@linux
def test_a_process_that_was_killed_is_told_and_replaced(embedder: Embedder) -> None:
    expected = embedder.encode("a")
    os.kill(pid_of(embedder), 9)
    wait_for_end(pid_of(embedder))
    assert np.array_equal(embedder.encode("a"), expected)


@linux
def test_a_process_that_another_thread_waits_for_is_not_called_again(embedder: Embedder) -> None:
    expected = embedder.encode("a")
    (process,) = embedder._processes.values()
    with process._child._waitpid_lock:  # the thread that reads the answers holds this lock while it looks for the end
        os.kill(process.pid, 9)
        process._answers.put(process._answers.get())  # when there is one, the answers have ended
        assert not process.running()
    assert np.array_equal(embedder.encode("a"), expected)


def test_a_pickled_embedder_starts_its_own_process(embedder: Embedder) -> None:
    expected = embedder.encode("a")
    with pickle.loads(pickle.dumps(embedder)) as other:
        assert other.options == embedder.options and repr(other) == repr(embedder)
        assert np.array_equal(other.encode("a"), expected)
        assert pid_of(other) != pid_of(embedder)


def in_a_fork(embedder: Embedder, answers: object) -> None:
    answers.put((embedder.encode("a"), pid_of(embedder)))


@pytest.mark.skipif(not hasattr(os, "fork"), reason="no fork here")
@pytest.mark.filterwarnings("ignore:.*fork.*:DeprecationWarning")
def test_a_fork_starts_its_own_process_and_leaves_its_parents_alone(embedder: Embedder) -> None:
    expected, pid = embedder.encode("a"), pid_of(embedder)
    context = multiprocessing.get_context("fork")
    answers = context.Queue()
    child = context.Process(target=in_a_fork, args=(embedder, answers))
    child.start()
    found, other = answers.get(timeout=DEADLINE)
    child.join(DEADLINE)
    assert child.exitcode == 0
    assert np.array_equal(found, expected) and other != pid
    assert np.array_equal(embedder.encode("a"), expected) and pid_of(embedder) == pid


def test_threads_take_turns(embedder: Embedder) -> None:
    texts = [[f"thread {thread} text {n}" for n in range(50)] for thread in range(4)]
    found: list[np.ndarray | None] = [None] * 4

    def work(thread: int) -> None:
        for _ in range(5):
            found[thread] = embedder.encode(texts[thread])

    threads = [threading.Thread(target=work, args=(n,)) for n in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    for thread in range(4):
        np.testing.assert_allclose(found[thread], embedder.encode(texts[thread]), atol=1e-5)
    pid_of(embedder)


def test_a_folder_is_that_of_the_start(case: Case, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "model").symlink_to(case.model)
    (tmp_path / "elsewhere").mkdir()
    monkeypatch.chdir(tmp_path)
    with Embedder("model", provider="native", threads=1) as embedder:
        monkeypatch.chdir(tmp_path / "elsewhere")
        with Embedder(case.model, provider="native", threads=1) as other:
            np.testing.assert_array_equal(embedder.encode("a"), other.encode("a"))
