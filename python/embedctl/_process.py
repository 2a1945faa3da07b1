"""One run of the program: batches of texts go in and vectors come out, over its pipes.

There is one Arrow stream each way for the whole life of the process. Every call sends the same columns, so its rows
can follow those of the previous call. The program answers all rows that it has whenever its input pauses.
"""

from __future__ import annotations

import os
import queue
import signal
import subprocess
import tempfile
import threading
from collections.abc import Generator, Iterable
from contextlib import suppress

import pyarrow as pa

from .errors import EmbedctlError

#: Rows that are sent before waiting for an answer: enough for the windows that the program works on.
_ROWS_AHEAD = 65536
#: Seconds that the program has to end after the end of its input.
_PATIENCE = 10


class Process:
    """A child process. It starts at once, and lives until ``close`` or until its input ends with its owner."""

    def __init__(self, command: list[str], schema: pa.Schema) -> None:
        self.owner = os.getpid()
        self._lost_patience = False
        #: Rows that were sent and not answered yet.
        self._unanswered = 0
        # A file and not a pipe, so it need not be read while it is written.
        self._words = tempfile.TemporaryFile()
        try:
            self._child = subprocess.Popen(
                command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=self._words, bufsize=1 << 16
            )
        except OSError as error:
            self._words.close()
            raise EmbedctlError(f"{command[0]} cannot be started: {error}") from error
        assert self._child.stdin is not None and self._child.stdout is not None
        self._input, self._output = self._child.stdin, self._child.stdout
        self._writer = pa.ipc.new_stream(self._input, schema)
        #: Answers; at the end None, or the error that ended them.
        self._answers: queue.SimpleQueue[pa.RecordBatch | Exception | None] = queue.SimpleQueue()
        self._reader = threading.Thread(target=self._read, name="embedctl-answers", daemon=True)
        self._reader.start()

    @property
    def pid(self) -> int:
        return self._child.pid

    def answers(self, batches: Iterable[pa.RecordBatch]) -> Generator[pa.RecordBatch]:
        """Send batches, and yield as many rows of answers, in order. The answers have batches of their own.

        The caller's thread takes from ``batches`` and writes, and another thread reads: a program that cannot write
        doesn't read either. If the iterator is not taken to its end, the program is ended.
        """
        done = False
        try:
            for batch in batches:
                while self._unanswered and self._unanswered + batch.num_rows > _ROWS_AHEAD:
                    yield self._take()
                try:
                    self._writer.write_batch(batch)
                    self._input.flush()
                except (BrokenPipeError, ConnectionResetError) as error:
                    raise self._failure(error) from error
                self._unanswered += batch.num_rows
                while self._unanswered and not self._answers.empty():
                    yield self._take()
            while self._unanswered:
                yield self._take()
            done = True
        finally:
            if not done:
                self.kill()

    def _take(self) -> pa.RecordBatch:
        answer = self._answers.get()
        if not isinstance(answer, pa.RecordBatch):
            raise self._failure(answer or "it ended its answer")
        self._unanswered -= answer.num_rows
        if self._unanswered < 0:
            raise EmbedctlError(f"embedctl answered {-self._unanswered} rows too many")
        return answer

    def _read(self) -> None:
        """Put the answers into the queue, and at their end None or the error."""
        try:
            for batch in pa.ipc.open_stream(self._output):
                self._answers.put(batch)
            self._answers.put(None)
        except Exception as error:
            self._answers.put(error)
        # A writer would wait for ever if the program neither read on nor ended.
        self._ended()

    def _failure(self, cause: object) -> EmbedctlError:
        """The error with the program's last message. Ends the program if it is still running."""
        self._close_input()
        code = self._ended()
        if self._lost_patience:
            return EmbedctlError(f"embedctl broke off its answer: {cause}{self._last_words()}")
        if code < 0:
            try:
                name = signal.Signals(-code).name
            except ValueError:
                name = f"signal {-code}"
            how = f"embedctl crashed ({name})" if -code != signal.SIGKILL else "embedctl was killed (SIGKILL)"
        elif code == 0:
            how = "embedctl ended before it had answered"
        else:
            how = f"embedctl failed (exit code {code})"
        return EmbedctlError(how + self._last_words(), code)

    def _ended(self) -> int:
        """Exit code of the program. Waits some time for its end, and then kills it."""
        try:
            return self._child.wait(_PATIENCE)
        except subprocess.TimeoutExpired:
            self._lost_patience = True
            self._child.kill()
            return self._child.wait()

    def _last_words(self) -> str:
        self._words.seek(max(0, os.fstat(self._words.fileno()).st_size - 8192))
        lines = [line.rstrip() for line in self._words.read().decode("utf-8", "replace").splitlines()]
        words = "\n".join(line for line in lines if line)[-4096:]
        return f": {words.removeprefix('error: ')}" if words else ""

    def close(self) -> None:
        """End the program by closing its input; kill it if it does not end."""
        if self.owner != os.getpid():
            return
        self._close_input()
        self._ended()
        self._reader.join()
        self._output.close()
        self._words.close()

    def kill(self) -> None:
        """End the program now."""
        if self.owner == os.getpid():
            self._child.kill()
            self._child.wait()
            self._close_input()

    def _close_input(self) -> None:
        if not self._input.closed:
            for close in (self._writer.close, self._input.close):
                with suppress(OSError):  # nothing reads the rest of the buffer
                    close()

    def running(self) -> bool:
        """Whether the process can be called. Between calls the queue is empty, unless the answers have ended.

        ``poll`` alone is not enough: it returns None while the reader thread waits for the program's end. By then the
        reader has put the end of the answers into the queue, so the queue is checked after ``poll``.
        """
        return self.owner == os.getpid() and self._child.poll() is None and self._answers.empty()

    def disown(self) -> None:
        """After a fork, in the child: let go of the pipes. They must close when the owner ends.

        Their descriptors are pointed at the null device and not closed, so the data still buffered here goes nowhere.
        """
        nowhere = os.open(os.devnull, os.O_RDWR)
        for pipe in (self._input, self._output):
            if not pipe.closed:
                os.dup2(nowhere, pipe.fileno(), inheritable=False)
        os.close(nowhere)
