"""Vectors from texts: the program ``embedctl``, and Python objects that run it.

``Embedder`` returns NumPy arrays and Arrow tables. ``embedctl.spark`` and ``embedctl.ray`` run it on clusters.
``pip install embedctl`` puts the program on the path; ``python -m embedctl`` starts it, too.
"""

from __future__ import annotations

from importlib.metadata import PackageNotFoundError, version
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from ._embedder import Embedder
    from ._find_embedctl import find_embedctl_bin
    from .errors import EmbedctlError, ProgramNotFoundError, TextError

__all__ = ["EmbedctlError", "Embedder", "ProgramNotFoundError", "TextError", "__version__", "find_embedctl_bin"]

try:
    __version__ = version("embedctl")
except PackageNotFoundError:  # in a clone, nothing is installed
    __version__ = ""

_WHERE = {
    "Embedder": "_embedder",
    "EmbedctlError": "errors",
    "ProgramNotFoundError": "errors",
    "TextError": "errors",
    "find_embedctl_bin": "_find_embedctl",
}


def __getattr__(name: str) -> Any:
    """Import a name on first use: the program alone needs neither NumPy nor pyarrow, and starts sooner."""
    from importlib import import_module

    if name not in _WHERE:
        raise AttributeError(f"module 'embedctl' has no attribute '{name}'")
    return getattr(import_module(f".{_WHERE[name]}", __name__), name)


def __dir__() -> list[str]:
    return sorted([*globals(), *_WHERE])
