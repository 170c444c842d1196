"""Graphs that ONNX Runtime computes, written here: a few fields of a public format, so that no package need write it.

ONNX stores a graph as protocol buffers: a message is a sequence of fields, each a number, a wire type and a value. The
numbers below are those of onnx.proto.
"""

from __future__ import annotations

import os
import struct
from dataclasses import dataclass, field
from functools import lru_cache
from typing import Any

import numpy as np
import numpy.typing as npt

FLOAT, UINT8, INT8, INT32, INT64 = 1, 2, 3, 6, 7  # TensorProto.DataType
_TYPES = {"float32": FLOAT, "uint8": UINT8, "int8": INT8, "int32": INT32, "int64": INT64}
_IR, _OPERATORS = 9, 20  # versions of the format and of its operators: ONNX Runtime 1.18 and later know both
_VARINT, _BYTES, _FIXED = 0, 2, 5  # wire types
_OWN = "com.microsoft"  # the domain of ONNX Runtime's own operators: several others in one
_OWN_OPERATORS = ("MatMulIntegerToFloat", "FastGelu")
_FATAL = 4  # of what ONNX Runtime logs: nothing else

Array = npt.NDArray[Any]
Attribute = int | float | str | tuple[int, ...]
Value = tuple[str, int, tuple[int | str, ...]]  # name, type and shape; a length with a name may be any


def _varint(number: int) -> bytes:
    number &= (1 << 64) - 1  # negative numbers as their complement
    found = bytearray()
    while number > 127:
        found.append(number & 127 | 128)
        number >>= 7
    return bytes([*found, number])


def _field(number: int, value: int | float | str | bytes) -> bytes:
    if isinstance(value, int):
        return _varint(number << 3 | _VARINT) + _varint(value)
    if isinstance(value, float):
        return _varint(number << 3 | _FIXED) + struct.pack("<f", value)
    data = value.encode() if isinstance(value, str) else value
    return _varint(number << 3 | _BYTES) + _varint(len(data)) + data


def _fields(*fields: tuple[int, int | float | str | bytes]) -> bytes:
    return b"".join(_field(number, value) for number, value in fields)


def _tensor(name: str, array: Array) -> bytes:
    """A TensorProto."""
    dims = ((1, length) for length in array.shape)
    data = np.ascontiguousarray(array).astype(array.dtype.newbyteorder("<"), copy=False).tobytes()
    return _fields(*dims, (2, _TYPES[array.dtype.name]), (8, name), (9, data))


def _attribute(name: str, value: Attribute) -> bytes:
    """An AttributeProto."""
    if isinstance(value, tuple):
        return _fields((1, name), *((8, each) for each in value), (20, 7))
    kinds: dict[type, tuple[int, int]] = {float: (2, 1), int: (3, 2), str: (4, 3)}
    number, kind = kinds[type(value)]
    return _fields((1, name), (number, value), (20, kind))


def _value(name: str, kind: int, shape: tuple[int | str, ...]) -> bytes:
    """A ValueInfoProto."""
    dims = b"".join(_field(1, _field(1 if isinstance(length, int) else 2, length)) for length in shape)
    return _fields((1, name), (2, _field(1, _fields((1, kind), (2, dims)))))


@dataclass
class Graph:
    """Operators in the order in which they are computed, and the constants that they use."""

    nodes: list[bytes] = field(default_factory=list)
    constants: list[bytes] = field(default_factory=list)
    _names: int = 0

    def constant(self, array: Array) -> str:
        """Its name."""
        name = self._name()
        self.constants.append(_tensor(name, array))
        return name

    def node(self, operator: str, *inputs: str, **attributes: Attribute) -> str:
        """An operator with one output, whose name is returned. An input without a name is left out."""
        return self.split(operator, *inputs, outputs=1, **attributes)[0]

    def product(self, rows: str, weights: Array, zero: Array, scale: Array) -> str:
        """Bytes (n, inputs), in which `zero` stands for 0, times whole numbers (inputs, outputs): (n, outputs).

        The sums are whole numbers of 32 bits; each is multiplied by the scale of its column, (outputs,).
        """
        one, scales = self.constant(np.array(1, np.float32)), self.constant(scale.astype(np.float32))
        return self.node("MatMulIntegerToFloat", rows, self.constant(weights), one, scales, self.constant(zero))

    def split(self, operator: str, *inputs: str, outputs: int, **attributes: Attribute) -> list[str]:
        """An operator with several outputs."""
        names = [self._name() for _ in range(outputs)]
        shown = [(5, _attribute(name, value)) for name, value in attributes.items()]
        ends = [*((1, name) for name in inputs), *((2, name) for name in names)]
        self.nodes.append(_fields(*ends, (4, operator), *shown, (7, _OWN if operator in _OWN_OPERATORS else "")))
        return names

    def model(self, inputs: list[Value], outputs: list[Value]) -> bytes:
        """A ModelProto."""
        parts = ((1, self.nodes), (5, self.constants))
        ends = ((11, inputs), (12, outputs))
        graph = b"".join(_field(number, each) for number, several in parts for each in several)
        graph += _field(2, "graph") + b"".join(_field(number, _value(*each)) for number, some in ends for each in some)
        versions = [_field(2, _OPERATORS), _fields((1, _OWN), (2, 1))]
        return _fields((1, _IR), (7, graph), *((8, each) for each in versions))

    def _name(self) -> str:
        self._names += 1
        return f"v{self._names}"


@lru_cache(maxsize=1)
def _runtime() -> Any:
    """ONNX Runtime, imported when it is first needed.

    Some of its versions report their use over the network by default, from a thread that the import starts: it is
    refused before the import. So nothing is sent, and no thread is lost in a fork.
    """
    os.environ["ORT_DISABLE_TELEMETRY"] = "1"
    import onnxruntime

    onnxruntime.set_default_logger_severity(_FATAL)
    onnxruntime.disable_telemetry_events()
    return onnxruntime


def session_of(model: bytes, *, exact: bool) -> Any:
    """What computes a graph, in the thread that asks, so that it survives a fork.

    Args:
        model: the graph.
        exact: every operator is computed as it stands; otherwise several may be joined to one.
    """
    runtime = _runtime()
    options = runtime.SessionOptions()
    options.intra_op_num_threads = options.inter_op_num_threads = 1
    options.enable_cpu_mem_arena = False  # each session would keep one of its own, which forks do not share
    options.add_session_config_entry("session.intra_op.allow_spinning", "0")
    levels = runtime.GraphOptimizationLevel
    options.graph_optimization_level = levels.ORT_DISABLE_ALL if exact else levels.ORT_ENABLE_ALL
    return runtime.InferenceSession(model, options, providers=["CPUExecutionProvider"])
