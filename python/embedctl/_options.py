"""Options of ``embedctl embed`` as keyword arguments."""

from __future__ import annotations

import difflib
import os
from collections.abc import Mapping, Sequence
from typing import Any, TypedDict


class Options(TypedDict, total=False):
    """Options that decide vectors and speed; ``embedctl embed --help`` describes them under the same names.

    An option that takes a list takes a sequence here. An option that is not given has the program's default; for many
    options the model's own files set it.
    """

    provider: str | Sequence[str]
    device: str | int | Sequence[int]
    provider_options: Sequence[str]
    ort_lib: str | os.PathLike[str]
    precision: str
    min_cosine: float
    model_file: str
    pooling: str | Sequence[str]
    normalize: bool
    max_length: int
    prompt: str
    prompt_name: str
    dimensions: int
    batch_tokens: int
    batch_size: int
    window: int
    threads: int
    max_record_bytes: int | str
    cache_dir: str | os.PathLike[str]
    offline: bool
    no_profile: bool


#: Options that stand alone; all others take a value.
_FLAGS = {"offline", "no_profile"}
#: Options with another name on the command line.
_NAMES = {"provider_options": "provider-option"}


def checked(options: Mapping[str, Any]) -> dict[str, Any]:
    """The options that are not ``None``. Raises ``TypeError`` for an unknown name."""
    known = list(Options.__annotations__)
    for name in options:
        if name not in known:
            near = difflib.get_close_matches(name, known, 1)
            meant = f"; did you mean '{near[0]}'?" if near else f"; options are {', '.join(known)}"
            raise TypeError(f"there is no option '{name}'{meant}")
    if options.get("prompt") is not None and options.get("prompt_name") is not None:
        raise TypeError("prompt and prompt_name exclude each other: give the text or the name")
    return {name: value for name, value in options.items() if value is not None}


def arguments(model: str, options: Mapping[str, Any]) -> list[str]:
    """The command line of an operator: an Arrow stream of texts in, an Arrow stream of vectors out."""
    line = ["embed", "--input-format=arrow", "--output-format=arrow", "--output=-", "--on-error=null"]
    line += ["--no-config", "--text-field=text", "--quiet", "--progress=never", "--color=never", f"--model={model}"]
    for name, value in options.items():
        option = "--" + _NAMES.get(name, name.replace("_", "-"))
        if name in _FLAGS:
            line += [option] if value else []
        elif name == "provider_options":
            line += [f"{option}={one}" for one in value]
        elif isinstance(value, bool):
            line.append(f"{option}={str(value).lower()}")
        elif isinstance(value, (str, bytes, os.PathLike)):
            line.append(f"{option}={os.fsdecode(value)}")
        elif isinstance(value, Sequence):
            line.append(f"{option}={','.join(map(str, value))}")
        else:
            line.append(f"{option}={value}")
    return line
