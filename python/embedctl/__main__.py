"""``python -m embedctl``: replaces this process by the program if the system can do that."""

from __future__ import annotations

import os
import subprocess
import sys

from ._find_embedctl import find_embedctl_bin
from .errors import ProgramNotFoundError


def main() -> int:
    try:
        program = find_embedctl_bin()
    except ProgramNotFoundError as error:
        print(f"error: {error}", file=sys.stderr)
        return 1
    command = [program, *sys.argv[1:]]
    if os.name == "posix":
        os.execv(program, command)
    # On Windows `execv` starts another process, and the caller could not wait for it.
    try:
        return subprocess.run(command).returncode
    except KeyboardInterrupt:
        return 130


if __name__ == "__main__":
    sys.exit(main())
