"""Small deliberate breaks of a source file: one change each, as a mistake in a hurry would make it.

Comparisons move by one, conditions turn around, numbers grow, operators change, arguments swap or disappear, and
calls, `raise` and `return` vanish. Words are left alone: docstrings, messages, annotations and decorators.
"""

from __future__ import annotations

import ast
import copy
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

_COMPARISONS: dict[type[ast.cmpop], type[ast.cmpop]] = {
    ast.Lt: ast.LtE,
    ast.LtE: ast.Lt,
    ast.Gt: ast.GtE,
    ast.GtE: ast.Gt,
    ast.Eq: ast.NotEq,
    ast.NotEq: ast.Eq,
    ast.In: ast.NotIn,
    ast.NotIn: ast.In,
    ast.Is: ast.IsNot,
    ast.IsNot: ast.Is,
}
_OPERATORS: dict[type[ast.operator], type[ast.operator]] = {
    ast.Add: ast.Sub,
    ast.Sub: ast.Add,
    ast.Mult: ast.Div,
    ast.Div: ast.Mult,
    ast.FloorDiv: ast.Mult,
    ast.Mod: ast.Mult,
    ast.Pow: ast.Mult,
    ast.LShift: ast.RShift,
    ast.RShift: ast.LShift,
    ast.BitAnd: ast.BitOr,
    ast.BitOr: ast.BitAnd,
}
_TWINS = {"min": "max", "max": "min", "any": "all", "all": "any", "floor": "ceil"}
_WORDS = (ast.JoinedStr, ast.arguments)  # formatted text; parameters with their annotations
_SKIPPED = {"annotation", "returns", "decorator_list", "type_params", "bases"}
_LONGEST = 100  # characters of a change that are shown


@dataclass(frozen=True)
class Mutant:
    """A source file with one break.

    Attributes:
        file: relative to `src/dpbart`.
        line: in the file as it is.
        place: the function or class, such as "Ledger.record".
        before: the code that is changed.
        after: what it is changed to.
        source: the whole changed file.
    """

    file: str
    line: int
    place: str
    before: str
    after: str
    source: str

    @property
    def change(self) -> str:
        """The change in one line, without a line number: it stays the same when code moves."""
        return f"{self.file} · {self.place} · {self.before} → {self.after}"


@dataclass(frozen=True)
class _Spot:
    """A node and where it hangs, so that another can take its place."""

    node: ast.expr | ast.stmt
    holder: ast.AST
    field: str
    index: int | None
    place: str

    def put(self, node: ast.AST) -> None:
        if self.index is None:
            setattr(self.holder, self.field, node)
        else:
            getattr(self.holder, self.field)[self.index] = node


def breaks(package: Path, file: str) -> Iterator[Mutant]:
    """Every break of one file."""
    tree = ast.parse((package / file).read_text(encoding="utf-8"))
    for spot in _spots(tree, ""):
        for changed in _changes(spot):
            # A bare number says little: what it stands in is shown.
            shown = (spot.holder,) * 2 if isinstance(spot.node, ast.Constant) else (spot.node, changed)
            before = ast.unparse(shown[0])
            spot.put(changed)
            source = ast.unparse(ast.fix_missing_locations(tree))
            after = ast.unparse(shown[1])
            spot.put(spot.node)
            yield Mutant(file, spot.node.lineno, spot.place or "module", *_shortened(before, after), source)


def _spots(holder: ast.AST, place: str) -> Iterator[_Spot]:
    """Everything that can be changed, in the order of the file."""
    if isinstance(holder, ast.ClassDef | ast.FunctionDef):
        place = f"{place}.{holder.name}".lstrip(".")
    for field, value in ast.iter_fields(holder):
        if field in _SKIPPED:
            continue
        for index, node in enumerate(value) if isinstance(value, list) else [(None, value)]:
            if not isinstance(node, ast.AST) or isinstance(node, _WORDS) or _is_typing(node) or _is_text(node):
                continue
            if isinstance(node, ast.expr | ast.stmt):
                yield _Spot(node, holder, field, index, place)
            if not isinstance(node, ast.Raise):  # what an error says is not mutated
                yield from _spots(node, place)


def _changes(spot: _Spot) -> Iterator[ast.AST]:
    node = spot.node
    if isinstance(node, ast.Raise) or (isinstance(node, ast.Expr) and isinstance(node.value, ast.Call)):
        yield ast.Pass()
    elif isinstance(node, ast.Return) and node.value is not None and not isinstance(node.value, ast.Constant):
        yield ast.Return(ast.Constant(None))
    elif isinstance(node, ast.Compare):
        yield from _comparisons(node)
    elif isinstance(node, ast.BinOp) and type(node.op) in _OPERATORS:
        yield ast.BinOp(node.left, _OPERATORS[type(node.op)](), node.right)
    elif isinstance(node, ast.BoolOp):
        yield ast.BoolOp(ast.And() if isinstance(node.op, ast.Or) else ast.Or(), node.values)
    elif isinstance(node, ast.UnaryOp) and isinstance(node.op, ast.USub | ast.Not | ast.Invert):
        yield node.operand
    elif isinstance(node, ast.Constant):
        yield from _constants(node)
    elif isinstance(node, ast.Call):
        yield from _calls(node)
    if spot.field in ("test", "ifs") and isinstance(node, ast.expr) and not _is_turned(node):
        yield ast.UnaryOp(ast.Not(), node)


def _comparisons(node: ast.Compare) -> Iterator[ast.AST]:
    for number, operator in enumerate(node.ops):
        operators = [*node.ops[:number], _COMPARISONS[type(operator)](), *node.ops[number + 1 :]]
        yield ast.Compare(node.left, operators, node.comparators)


def _constants(node: ast.Constant) -> Iterator[ast.AST]:
    value = node.value
    if isinstance(value, bool):
        yield ast.Constant(not value)
    elif isinstance(value, int):
        yield ast.Constant(value + 1)
    elif isinstance(value, float):
        yield ast.Constant(2 * value if value else 1.0)


def _calls(node: ast.Call) -> Iterator[ast.AST]:
    name = node.func.attr if isinstance(node.func, ast.Attribute) else getattr(node.func, "id", "")
    if name in _TWINS:
        twin = copy.deepcopy(node.func)
        setattr(twin, "attr" if isinstance(twin, ast.Attribute) else "id", _TWINS[name])
        yield ast.Call(twin, node.args, node.keywords)
    elif len(node.args) > 1 and not any(isinstance(each, ast.Starred) for each in node.args[:2]):
        yield ast.Call(node.func, [node.args[1], node.args[0], *node.args[2:]], node.keywords)
    for number in range(len(node.keywords)):
        yield ast.Call(node.func, node.args, node.keywords[:number] + node.keywords[number + 1 :])


def _is_turned(node: ast.AST) -> bool:
    """Whether another change of the node already turns the condition around."""
    orders = (ast.Lt, ast.LtE, ast.Gt, ast.GtE)
    compared = isinstance(node, ast.Compare) and not any(isinstance(each, orders) for each in node.ops)
    return compared or isinstance(node, ast.UnaryOp)


def _is_typing(node: ast.AST) -> bool:
    return isinstance(node, ast.If) and isinstance(node.test, ast.Name) and node.test.id == "TYPE_CHECKING"


def _is_text(node: ast.AST) -> bool:
    """A docstring."""
    return isinstance(node, ast.Expr) and isinstance(node.value, ast.Constant)


def _shortened(before: str, after: str) -> tuple[str, str]:
    """Both in one line; of long ones, the part around the first difference."""
    before, after = " ".join(before.split()), " ".join(after.split())
    same = next((place for place, (a, b) in enumerate(zip(before, after, strict=False)) if a != b), 0)
    first = 0 if len(before) <= _LONGEST else max(0, same - _LONGEST // 2)
    return _cut(before, first), _cut(after, first)


def _cut(text: str, first: int) -> str:
    part = text[first : first + _LONGEST]
    return f"{'...' if first else ''}{part}{'...' if first + _LONGEST < len(text) else ''}"
