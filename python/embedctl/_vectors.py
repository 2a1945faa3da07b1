"""Arithmetic on vectors that sentence-transformers does after the model: types of components, similarities."""

from __future__ import annotations

import warnings
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

import numpy as np

if TYPE_CHECKING:
    Matrix = np.ndarray[tuple[int, int], np.dtype[np.float32]]

#: Types of components that ``precision`` of ``encode`` names.
PRECISIONS = ("float32", "int8", "uint8", "binary", "ubinary")


def unit(matrix: Matrix) -> Matrix:
    """The rows scaled to length 1; a row of zeros stays."""
    lengths: Any = np.linalg.norm(matrix, axis=1, keepdims=True)
    scaled: Matrix = matrix / np.maximum(lengths, np.float32(1e-12))
    return scaled


def quantized(matrix: Matrix, precision: str) -> np.ndarray:
    """The vectors, of shape ``[rows, width]``, with components of another type.

    ``int8`` and ``uint8`` divide each component's range over these very rows into 256 steps, so that two calls differ:
    for a corpus use ``embedctl embed --dtype int8``, which takes its ranges from a calibration. ``binary`` and
    ``ubinary`` keep one bit of each component, eight to a byte.
    """
    if precision == "float32":
        return matrix
    if precision in ("binary", "ubinary"):
        bits = np.packbits(matrix > 0, axis=-1)
        return bits if precision == "ubinary" else (bits.astype(np.int16) - 128).astype(np.int8)
    if len(matrix) == 1:
        raise ValueError(f"precision is '{precision}': the range of a component cannot be taken from one text alone")
    if len(matrix) < 100:
        warnings.warn(f"precision='{precision}' takes its ranges from {len(matrix)} texts: few for a range", stacklevel=3)
    low, high = matrix.min(axis=0), matrix.max(axis=0)
    steps = (high - low) / np.float32(255)
    steps = np.where(steps == 0, np.float32(1), steps)
    levels = np.clip(np.floor((matrix - low) / steps), 0, 255)
    chosen: np.ndarray = levels.astype(np.uint8) if precision == "uint8" else (levels - 128).astype(np.int8)
    return chosen


SIMILARITIES: dict[str, Callable[[Matrix, Matrix], Matrix]] = {
    "cosine": lambda a, b: unit(a) @ unit(b).T,
    "dot": lambda a, b: a @ b.T,
    "euclidean": lambda a, b: -np.stack([np.linalg.norm(b - row, axis=1) for row in a]),
    "manhattan": lambda a, b: -np.stack([np.abs(b - row).sum(axis=1) for row in a]),
}
