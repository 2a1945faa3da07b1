"""Finds the program that was installed with this package."""

from __future__ import annotations

import os
import subprocess
import sys
import sysconfig
from collections.abc import Iterator
from functools import lru_cache

from . import __version__
from .errors import ProgramNotFoundError

#: Names another program than the installed one, by an absolute path.
VARIABLE = "EMBEDCTL_BIN"


def find_embedctl_bin() -> str:
    """Return the path of the program. It has this package's version.

    Only the folders are searched where pip, uv and others put the scripts of a package, never ``PATH`` or
    the current folder. ``EMBEDCTL_BIN`` names another program; its path must be absolute.

    Raises ``ProgramNotFoundError`` if the program is missing or of another version.
    """
    path = _named() or _installed()
    state = os.stat(path)
    _check_version(path, state.st_mtime_ns)
    return path


def _named() -> str | None:
    path = os.environ.get(VARIABLE)
    if not path:
        return None
    if not os.path.isabs(path):
        raise ProgramNotFoundError(f"{VARIABLE} is '{path}': give an absolute path")
    if not os.path.isfile(path):
        raise ProgramNotFoundError(f"{VARIABLE} is '{path}': there is no such file")
    return path


def _installed() -> str:
    name = "embedctl" + (sysconfig.get_config_var("EXE") or "")
    looked = list(dict.fromkeys(os.path.join(folder, name) for folder in _folders()))
    for path in looked:
        if os.path.isfile(path):
            return path
    raise ProgramNotFoundError(
        "the program embedctl is not where 'pip install embedctl' puts it: looked for "
        + ", ".join(looked)
        + f". Install the package again, or name the program with {VARIABLE}"
    )


def _folders() -> Iterator[str]:
    """Folders of scripts: of this environment, of the base, of the user, and beside this package."""
    yield sysconfig.get_path("scripts")
    yield sysconfig.get_path("scripts", vars={"base": sys.base_prefix})
    yield sysconfig.get_path("scripts", scheme=sysconfig.get_preferred_scheme("user"))
    package = os.path.dirname(os.path.abspath(__file__))
    site = os.path.dirname(package)
    # `pip install --target DIR` and pip's isolated builds: DIR/bin, or overlay/bin beside overlay/lib/python3.X/site-packages.
    yield os.path.join(site, "bin")
    prefix = os.path.dirname(os.path.dirname(os.path.dirname(site)))
    yield os.path.join(prefix, "Scripts" if os.name == "nt" else "bin")


@lru_cache(maxsize=8)
def _check_version(path: str, changed: int) -> None:
    """Check the version of the program at ``path``; ``changed`` makes the cache check a replaced program again."""
    try:
        asked = subprocess.run([path, "--version"], capture_output=True, text=True, stdin=subprocess.DEVNULL, timeout=60)
    except (OSError, subprocess.TimeoutExpired) as error:
        raise ProgramNotFoundError(f"{path} cannot be run: {error}") from error
    words = asked.stdout.split()
    if asked.returncode != 0 or len(words) != 2 or words[0] != "embedctl":
        said = (asked.stdout + asked.stderr).strip()
        raise ProgramNotFoundError(f"{path} is not the program embedctl: '--version' says '{said[:200]}'")
    if __version__ and words[1] != __version__:
        raise ProgramNotFoundError(
            f"{path} is embedctl {words[1]}, but the Python package is of version {__version__}: "
            f"install both anew with 'pip install --force-reinstall embedctl=={__version__}'"
        )
