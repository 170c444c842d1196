"""Close reading: ids of windows to the states of their tokens, a small transformer as one graph.

The four large products of a layer are products of whole numbers, as in `WholeProduct`: the states are rounded row by
row, so that no token depends on its neighbours in a batch. All else is in single precision.
"""

from __future__ import annotations

from typing import Protocol

import numpy as np
import numpy.typing as npt

from dpbart.models.code.graph import FLOAT, INT64, UINT8, Graph, Value, session_of
from dpbart.models.code.weights import MOST, ZERO, Arrays, Floats, Table, below, floats_of

_HIDDEN = np.float32(-1e4)  # added to the match of a token that is not looked at: its share is 0
_TINY = np.array(1e-30, np.float32)
_FINE = np.array(1 / (2 * MOST), np.float32)  # of a step: a step of what rounding loses
_VARIANCE = 1e-12  # added to a variance


class LayerSizes(Protocol):
    """Sizes of a transformer."""

    @property
    def width(self) -> int:
        """Entries of a state."""

    @property
    def layers(self) -> int:
        """Layers."""

    @property
    def heads(self) -> int:
        """Heads of a layer."""

    @property
    def head(self) -> int:
        """Entries of a head."""


class CloseReading:
    """The layers of a reader."""

    def __init__(self, sizes: LayerSizes, weights: Arrays) -> None:
        """Write the graph.

        Args:
            sizes: of the reader.
            weights: of the reader, as they are stored.
        """
        graph, self._heads = Graph(), sizes.heads
        states = _norm(graph, "states", below(weights, "norm."))
        for number in range(sizes.layers):
            states = _layer(graph, states, sizes, below(weights, f"layers.{number}."))
        rows = ("rows", sizes.width)
        taken: list[Value] = [("states", FLOAT, rows), ("hidden", FLOAT, ("windows", 1, 1, "tokens"))]
        taken += [("shape", INT64, (4,)), ("zeros", UINT8, ("rows",))]
        self._session = session_of(graph.model(taken, [(states, FLOAT, rows)]), exact=False)

    def __call__(self, states: Floats, seen: npt.NDArray[np.bool_]) -> Floats:
        """The last states (windows x tokens, width) from the first; `seen`, (windows, tokens): what is looked at."""
        hidden = np.where(seen, np.float32(0), _HIDDEN)[:, None, None]
        given = {"states": states, "hidden": hidden, "zeros": np.full(len(states), ZERO, np.uint8)}
        given["shape"] = np.array([*seen.shape, self._heads, -1], np.int64)
        found: Floats = self._session.run(None, given)[0]
        return found


def _layer(graph: Graph, states: str, sizes: LayerSizes, weights: Arrays) -> str:
    """New states, (rows, width), of one layer."""
    qkv, out, up, down = (below(weights, f"{name}.") for name in ("qkv", "out", "up", "down"))
    moved = graph.node("Add", _product(graph, states, qkv, twice=True), _bias(graph, qkv))
    apart = graph.split("Split", moved, outputs=3, axis=1, num_outputs=3)
    parts = [graph.node("Reshape", each, "shape") for each in apart]
    turns = (0, 2, 1, 3), (0, 2, 3, 1), (0, 2, 1, 3)  # from (windows, tokens, heads, entries of a head)
    queries, keys, values = (graph.node("Transpose", each, perm=turn) for each, turn in zip(parts, turns, strict=True))
    sharpness = graph.constant(np.array(sizes.head**-0.5, np.float32))
    matches = graph.node("Mul", graph.node("MatMul", queries, keys), sharpness)
    shares = graph.node("Softmax", graph.node("Add", matches, "hidden"), axis=-1)
    looked = graph.node("Transpose", graph.node("MatMul", shares, values), perm=(0, 2, 1, 3))
    flat = graph.node("Reshape", looked, graph.constant(np.array([-1, sizes.heads * sizes.head])))
    states = _norm(graph, _product(graph, flat, out), below(weights, "norm."), states, _bias(graph, out))
    inner = graph.node("FastGelu", _product(graph, states, up), _bias(graph, up))
    return _norm(graph, _product(graph, inner, down), below(weights, "norm2."), states, _bias(graph, down))


def _bias(graph: Graph, weights: Arrays) -> str:
    return graph.constant(floats_of(weights, "bias"))


def _norm(graph: Graph, rows: str, weights: Arrays, other: str = "", bias: str = "") -> str:
    """Rows of mean 0 and variance 1, scaled and moved; of a sum, if other rows and a bias are given."""
    scale, moved = graph.constant(floats_of(weights, "weight")), _bias(graph, weights)
    if other:
        rows = graph.node("Add", graph.node("Add", rows, bias), other)
    return graph.node("LayerNormalization", rows, scale, moved, axis=-1, epsilon=_VARIANCE)


def _product(graph: Graph, rows: str, weights: Arrays, *, twice: bool = False) -> str:
    """Rows (rows, inputs) to rows (rows, outputs), without the bias. Twice: what rounding loses is multiplied, too."""
    table, one = Table.stored(weights, "weight"), graph.constant(np.array([1]))
    matrix, scale = np.ascontiguousarray(table.whole.T), table.scale.astype(np.float32).reshape(-1)
    zero = np.array(ZERO, np.uint8)
    largest = graph.node("ReduceMax", graph.node("Abs", rows), one, keepdims=0)
    steps = graph.node(
        "Mul", graph.node("Max", largest, graph.constant(_TINY)), graph.constant(np.array(1 / MOST, np.float32))
    )
    whole = graph.node("QuantizeLinear", rows, steps, "zeros", axis=0)
    sums = graph.product(whole, matrix, zero, scale)
    if twice:
        lost = graph.node("Sub", rows, graph.node("DequantizeLinear", whole, steps, "zeros", axis=0))  # half a step
        fine = graph.node("QuantizeLinear", lost, graph.node("Mul", steps, graph.constant(_FINE)), "zeros", axis=0)
        sums = graph.node("Add", sums, graph.product(fine, matrix, zero, scale * _FINE))
    return graph.node("Mul", sums, graph.node("Unsqueeze", steps, one))
