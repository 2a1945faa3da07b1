"""One run of the program: batches of texts go in and vectors come out, over its pipes.

One Arrow stream each way lasts as long as the process: every call sends the same columns, so its rows can follow
those of the call before, and the program answers what it has whenever its input pauses.
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

#: Rows that are sent before an answer is waited for: enough for the windows that the program works on.
_ROWS_AHEAD = 65536
#: Seconds that a program has to end after its input did.
_PATIENCE = 10


class Process:
    """A child process, started at once, that lives until ``close``, or until its input ends with its owner."""

    def __init__(self, command: list[str], schema: pa.Schema) -> None:
        self.owner = os.getpid()
        self._lost_patience = False
        #: Rows that were sent and are not answered yet.
        self._unanswered = 0
        # A file and not a pipe: nobody has to read it as it is written.
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
        #: Answers, and what ended them.
        self._answers: queue.SimpleQueue[pa.RecordBatch | Exception | None] = queue.SimpleQueue()
        self._reader = threading.Thread(target=self._read, name="embedctl-answers", daemon=True)
        self._reader.start()

    @property
    def pid(self) -> int:
        return self._child.pid

    def answers(self, batches: Iterable[pa.RecordBatch]) -> Generator[pa.RecordBatch]:
        """Send batches, and yield as many rows of answers, in order, in batches as they come.

        The caller's thread takes from ``batches`` and writes, another one reads: a program that cannot write
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
        """Hand on the answers, and what ended them."""
        try:
            for batch in pa.ipc.open_stream(self._output):
                self._answers.put(batch)
            self._answers.put(None)
        except Exception as error:
            self._answers.put(error)
        # Whoever writes would wait for ever if the program neither reads on nor ends.
        self._ended()

    def _failure(self, cause: object) -> EmbedctlError:
        """What the program said before it ended; it is ended if it hasn't."""
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
        """Exit code of the program, which is given some time to end."""
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
        """End the program by the end of its input, or by force where it doesn't listen."""
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
                with suppress(OSError):  # what was still to be written has nobody to read it
                    close()

    def running(self) -> bool:
        """Whether it can be called. Between calls nothing waits to be taken but the end of its answers.

        ``poll`` alone would not do: it knows nothing while the reader waits for the program's end. The reader has
        handed on the end of the answers by then, so that is looked at afterwards.
        """
        return self.owner == os.getpid() and self._child.poll() is None and self._answers.empty()

    def disown(self) -> None:
        """After a fork, in the child: let go of the pipes, whose ends must close when the owner ends.

        They are pointed elsewhere and not closed, so that what is still buffered here goes nowhere.
        """
        nowhere = os.open(os.devnull, os.O_RDWR)
        for pipe in (self._input, self._output):
            if not pipe.closed:
                os.dup2(nowhere, pipe.fileno(), inheritable=False)
        os.close(nowhere)
