"""Options of ``embedctl embed`` as keyword arguments."""

from __future__ import annotations

import difflib
import os
import warnings
from collections.abc import Mapping, Sequence
from typing import Any, TypedDict


class Options(TypedDict, total=False):
    """Options that decide vectors and speed; ``embedctl embed --help`` describes them under the same names.

    An option that takes a list takes a sequence here. An option that is not given has the program's default; for many
    options the model's own files set it.
    """

    provider: str | Sequence[str]
    device: str | int | Sequence[int] | Sequence[str]
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
    vectors: str | Sequence[str]
    task: str
    max_active_dims: int
    pool_factor: float
    batch_tokens: int
    batch_size: int
    window: int
    threads: int
    max_record_bytes: int | str
    cache_dir: str | os.PathLike[str]
    offline: bool
    no_cache: bool


class EmbedderOptions(Options, total=False):
    """The same, and what ``SentenceTransformer`` calls them."""

    revision: str | None
    backend: str | None
    cache_folder: str | os.PathLike[str] | None
    local_files_only: bool
    default_prompt_name: str | None
    trust_remote_code: bool


#: Options that stand alone; all others take a value.
_FLAGS = {"no_cache", "offline"}
#: Options with another name on the command line.
_NAMES = {"provider_options": "provider-option"}


#: Arguments of ``SentenceTransformer`` with another name here.
_SAME = {"cache_folder": "cache_dir", "local_files_only": "offline", "default_prompt_name": "prompt_name"}
#: Arguments of ``SentenceTransformer`` that ask for something else than the program does.
_OTHERWISE = {
    "modules": "the modules are those of the model's files",
    "model_kwargs": "the type of the arithmetic is precision=, the files are model_file=",
    "processor_kwargs": "the tokenizer is that of the model's files; its limit is max_length=",
    "tokenizer_kwargs": "the tokenizer is that of the model's files; its limit is max_length=",
    "config_kwargs": "the configuration is that of the model's files",
    "model_card_data": "nothing is trained here",
    "token": "set the environment variable HF_TOKEN",
    "use_auth_token": "set the environment variable HF_TOKEN",
}
#: The providers of each backend of sentence-transformers, and of each kind of PyTorch's devices, in order of preference.
_BACKENDS = {"torch": None, "onnx": "cpu", "openvino": "openvino"}
_DEVICES: dict[str, str | list[str]] = {"cpu": ["native", "cpu", "rten"], "cuda": "cuda", "mps": "coreml"}


def translated(model: str, options: Mapping[str, Any]) -> tuple[str, dict[str, Any]]:
    """Model and options, with the arguments of ``SentenceTransformer`` among them in the program's own words.

    Raises ``TypeError`` for an argument that the program cannot follow, ``ValueError`` for an unknown value.
    """
    own: dict[str, Any] = {}
    device = backend = None
    for name, value in options.items():
        if name in _OTHERWISE and value is not None:
            raise TypeError(f"{name} has no effect: {_OTHERWISE[name]}")
        if name == "revision" and value is not None:
            if os.path.isdir(model):
                raise ValueError(f"revision is '{value}', but {model} is a folder: it has no revisions")
            model = f"{model}@{value}"
        elif name == "trust_remote_code" and value:
            warnings.warn("trust_remote_code has no effect: no code of a repository is ever run", stacklevel=4)
        elif name == "backend" and value is not None:
            if value not in _BACKENDS:
                raise ValueError(f"backend is '{value}': give one of {', '.join(_BACKENDS)}, or a provider")
            backend = _BACKENDS[value]
        elif name == "device":
            device = value
        elif name in _SAME:
            own.setdefault(_SAME[name], value)
        elif name not in _OTHERWISE and name not in ("revision", "trust_remote_code", "backend"):
            own[name] = value
    if backend is not None and own.get("provider") is None:
        own["provider"] = backend
    own.update(device_options(device, own.get("provider")))
    return model, own


def device_options(device: Any, provider: str | Sequence[str] | None = None) -> dict[str, Any]:
    """The options for a device: a number of embedctl's, or a device of PyTorch (``cuda:1``) or a list of them.

    A device of PyTorch names a provider, too, unless ``provider`` is given. Raises ``ValueError`` for another kind of
    device, or devices of several kinds.
    """
    if device is None:
        return {}
    several = isinstance(device, Sequence) and not isinstance(device, (str, bytes))
    words = [str(one) for one in device] if several else [str(device)]
    if all(set(word) <= set("0123456789, ") or word == "all" for word in words):
        return {"device": device}
    kinds = {word.partition(":")[0] for word in words}
    numbers = [word.partition(":")[2] for word in words]
    if len(kinds) > 1 or not kinds <= _DEVICES.keys() or not all(set(number) <= set("0123456789") for number in numbers):
        raise ValueError(
            f"device is {device!r}: give a number, or one of {', '.join(_DEVICES)} (with a number: cuda:1), "
            "or name a provider"
        )
    (kind,) = kinds
    found: dict[str, Any] = {} if provider is not None else {"provider": _DEVICES[kind]}
    if kind == "cuda" and all(numbers):
        found["device"] = [int(number) for number in numbers]
    return found


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


def arguments(model: str, options: Mapping[str, Any], command: Sequence[str] = ("embed",)) -> list[str]:
    """The command line of an operator: an Arrow stream of texts in, an Arrow stream of vectors or scores out."""
    line = [*command, "--input-format=arrow", "--output-format=arrow", "--output=-", "--on-error=null"]
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
