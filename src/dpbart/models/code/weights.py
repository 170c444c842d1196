"""How the weights of a code model are stored, mapped into memory and multiplied.

Large tables are stored as whole numbers from -127 to 127 with a scale for each row, everything else in half precision.
The file is mapped and not read: tables that are only looked up stay there, and all processes share their pages.

`WholeProduct` multiplies whole numbers of 7 bits by others of 8 and adds them up in 32, so every sum is exact. Its
result never depends on the order of the sums: not on the batch, the place in it, the threads or the machine.
"""

from __future__ import annotations

import json
import math
import mmap
from contextlib import AbstractContextManager
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
from threadpoolctl import ThreadpoolController

from dpbart.models.code.graph import FLOAT, UINT8, Graph, Value, session_of

Floats = npt.NDArray[np.float32]
Arrays = dict[str, npt.NDArray[Any]]

ONE = 127  # stored for the largest entry of a row
EXACT = 1 << 24  # whole numbers up to this are exact in single precision
_QUANTISED = 1 << 16  # entries: smaller tables are stored in half precision
_SCALE = ".scale"
ZERO = 64  # stands for 0 in a row of bytes
MOST = np.float32(63)  # for the largest entry of such a row, above or below ZERO
_TYPES = {"I8": np.int8, "F16": np.float16, "F32": np.float32, "I32": np.int32}


def mapped(file: Path) -> Arrays:
    """The tensors of a safetensors file by name, as views of the file."""
    with file.open("rb") as stream:
        view = mmap.mmap(stream.fileno(), 0, access=mmap.ACCESS_READ)
    start = 8 + int.from_bytes(view[:8], "little")
    found: Arrays = {}
    for name, entry in json.loads(view[8:start]).items():
        if name != "__metadata__":
            shape = entry["shape"]
            flat = np.frombuffer(
                view, _TYPES[entry["dtype"]], count=math.prod(shape), offset=start + entry["data_offsets"][0]
            )
            found[name] = flat.reshape(shape)
    return found


def one_thread() -> AbstractContextManager[object]:
    """Products in one thread. They are small, so more threads wait for each other longer than they compute, and
    processes take the other cores."""
    limited: AbstractContextManager[object] = _libraries().limit(limits=1, user_api="blas")
    return limited


@lru_cache(maxsize=1)
def _libraries() -> ThreadpoolController:
    return ThreadpoolController()


def packed(weights: Arrays) -> Arrays:
    """Weights as they are stored."""
    found: Arrays = {}
    for name, each in weights.items():
        if each.dtype.kind != "f":
            found[name] = each.astype(np.int32)
        elif each.ndim == 2 and each.size >= _QUANTISED:
            table = Table.of(each)
            found |= {name: table.whole, name + _SCALE: table.scale}
        else:
            found[name] = each.astype(np.float16)
    return found


def below(weights: Arrays, prefix: str) -> Arrays:
    """The weights of one part, by the rest of their names."""
    return {name.removeprefix(prefix): each for name, each in weights.items() if name.startswith(prefix)}


@dataclass(frozen=True)
class Table:
    """Rows of whole numbers, each with a scale.

    Attributes:
        whole: (rows, width), from -127 to 127.
        scale: (rows, 1): what 1 stands for.
    """

    whole: npt.NDArray[np.int8]
    scale: npt.NDArray[Any]

    @classmethod
    def of(cls, weights: npt.NDArray[Any]) -> Table:
        """The nearest rows to some floats, (rows, width)."""
        floats = weights.astype(np.float32)
        scale = (np.maximum(np.abs(floats).max(1, keepdims=True), 1e-4) / ONE).astype(np.float16)
        whole = np.clip(np.rint(floats / scale.astype(np.float32)), -ONE, ONE).astype(np.int8)
        return cls(whole, scale)

    @classmethod
    def stored(cls, weights: Arrays, name: str) -> Table:
        """A table of a model; one that is stored in half precision is rounded now."""
        if name + _SCALE in weights:
            return cls(weights[name], weights[name + _SCALE])
        return cls.of(weights[name])

    def rows(self, numbers: npt.NDArray[np.int64]) -> Floats:
        """Some rows as floats, (..., width)."""
        found: Floats = self.whole[numbers].astype(np.float32)
        found *= self.scale[numbers].astype(np.float32)
        return found


def floats_of(weights: Arrays, name: str) -> Floats:
    """Weights in single precision, as they are computed with."""
    found: Floats = weights[name].astype(np.float32)
    if name + _SCALE in weights:
        found *= weights[name + _SCALE].astype(np.float32)
    return found


class WholeProduct:
    """A linear map of whole numbers. The inputs are rounded to whole numbers too, row by row.

    The rows are held as bytes from 1 to 127, where 64 stands for 0. Processors without an instruction for sums of four
    products (VNNI) add pairs of them in 16 bits, and cut what is larger. 2 x 127 x 127 is 32,258 and fits; pairs of
    full bytes would not, and two machines would disagree. Such coarse rows cost a text one bit in a thousand.
    """

    def __init__(self, table: Table) -> None:
        graph = Graph()
        weights, zero = np.ascontiguousarray(table.whole.T), np.array(ZERO, np.uint8)
        found = graph.node("Mul", graph.product("rows", weights, zero, table.scale.reshape(-1)), "steps")
        outputs, inputs = table.whole.shape
        taken: list[Value] = [("rows", UINT8, ("n", inputs)), ("steps", FLOAT, ("n", 1))]
        self._session = session_of(graph.model(taken, [(found, FLOAT, ("n", outputs))]), exact=True)

    def __call__(self, rows: Floats) -> Floats:
        """Rows (n, inputs) to rows (n, outputs)."""
        whole, steps = rounded(rows)
        found: Floats = self._session.run(None, {"rows": whole, "steps": steps})[0]
        return found


def twice(product: WholeProduct, rows: Floats) -> Floats:
    """A product with rows of 13 bits: what their rounding loses is multiplied, too."""
    whole, steps = rounded(rows)
    lost = (whole.astype(np.float32) - np.float32(ZERO)) * -steps
    lost += rows
    found = product(rows)
    found += product(lost)
    return found


def rounded(rows: Floats) -> tuple[npt.NDArray[np.uint8], Floats]:
    """Rows (n, width) as whole numbers around ZERO, and what 1 stands for in each, (n, 1)."""
    largest = np.maximum(rows.max(1, keepdims=True), -rows.min(1, keepdims=True))
    largest = np.maximum(largest, np.float32(1e-30))
    whole = rows * (MOST / largest)
    whole += np.float32(ZERO + 0.5)  # the cast drops what is behind the point
    return whole.astype(np.uint8), largest / MOST
