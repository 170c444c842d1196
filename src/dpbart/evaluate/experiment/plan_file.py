"""Experiments as TOML files, and the presets that come with dpbart."""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterable, Mapping
from dataclasses import MISSING, fields
from functools import partial
from pathlib import Path
from types import UnionType
from typing import Any, TypeVar, get_args, get_origin, get_type_hints

from dpbart.errors import BadParameter
from dpbart.evaluate.classifiers import CLASSIFIERS, make_classifier, settings_of
from dpbart.evaluate.experiment.plan import ClassifierChoice, DataChoice, MechanismChoice, Plan, Scope
from dpbart.files import reason

if sys.version_info >= (3, 11):
    import tomllib
else:
    import tomli as tomllib

PRESETS = Path(__file__).parent / "presets"

Table = Mapping[str, Any]  # what TOML holds
_Built = TypeVar("_Built")


def preset_names() -> list[str]:
    return sorted(file.stem for file in PRESETS.glob("*.toml"))


def read_plan(name: str) -> Plan:
    """A preset by name, or a TOML file.

    Raises:
        BadParameter: If the file does not exist or is not TOML, or if a key is unknown, missing or of the wrong type.
    """
    file = PRESETS / f"{name}.toml" if name in preset_names() else Path(name)
    try:
        held = tomllib.loads(file.read_text(encoding="utf-8"))
    except OSError as error:
        raise BadParameter(
            f"no experiment at '{name}': {reason(error)}. Pass a TOML file, or one of {', '.join(preset_names())}."
        ) from error
    except ValueError as error:
        raise BadParameter(f"'{name}' is not TOML: {error}.") from error
    held.setdefault("name", file.stem)
    builders: dict[str, Callable[[Table, str], object]] = {
        "data": partial(_build, DataChoice),
        "mechanisms": partial(_build, MechanismChoice),
        "classifiers": _classifier,
    }
    for key, build in builders.items():
        tables = held.get(key, [])
        if not isinstance(tables, list) or not all(isinstance(table, dict) for table in tables):
            raise BadParameter(f"'{key}' of '{name}' must be tables, written [[{key}]].")
        held[key] = [build(table, f"[[{key}]] of '{name}'") for table in tables]
    return _build(Plan, held, f"'{name}'")


def _classifier(table: Table, where: str) -> ClassifierChoice:
    """The kind decides which keys are settings of the classifier. Keys of other classifiers have no effect."""
    settings = dict.fromkeys(name for kind in CLASSIFIERS for name in settings_of(kind))
    _check_keys(table, ["kind", "name", *settings, *_types(Scope)], ["kind", "name"], where)
    kind, name = _values({"kind": str, "name": str}, table, where).values()
    if kind not in CLASSIFIERS:
        raise BadParameter(
            f"the kind of the classifier '{name}' must be one of {', '.join(CLASSIFIERS)}, got {kind!r}."
        )
    own, used_in = _values(_types(CLASSIFIERS[kind]), table, where), _values(_types(Scope), table, where)
    try:
        return ClassifierChoice(name, make_classifier(kind, own), Scope(**used_in))
    except BadParameter as error:
        raise BadParameter(f"the classifier '{name}': {error}") from error


def _build(kind: type[_Built], table: Table, where: str) -> _Built:
    """A frozen value from a TOML table: every key is known, and none is missing."""
    required = [each.name for each in fields(kind) if each.default is MISSING]  # type: ignore[arg-type]  # a dataclass
    types = _types(kind)
    _check_keys(table, types, required, where)
    return kind(**_values(types, table, where))


def _types(kind: type) -> dict[str, object]:
    """The fields of a dataclass, and their types."""
    hints = get_type_hints(kind)
    return {each.name: hints[each.name] for each in fields(kind)}


def _check_keys(table: Table, known: Iterable[str], required: Iterable[str], where: str) -> None:
    known = list(known)
    unknown = sorted(set(table) - set(known))
    if unknown:
        raise BadParameter(f"{where} has an unknown key: {', '.join(unknown)}. Known keys: {', '.join(known)}.")
    missing = [name for name in required if name not in table]
    if missing:
        raise BadParameter(f"{where} lacks {', '.join(missing)}.")


def _values(types: Mapping[str, object], table: Table, where: str) -> dict[str, Any]:
    """The values of these keys, each of its type."""
    values = {}
    for name in (name for name in types if name in table):
        value, due = table[name], types[name]
        values[name] = tuple(value) if isinstance(value, list) else value
        if not _is_of(due, values[name]):
            written = str(due) if get_origin(due) else getattr(due, "__name__", "")
            written = written.replace("tuple[", "list[").replace(", ...", "")
            raise BadParameter(f"'{name}' in {where} has the wrong type: it must be {written}, got {value!r}.")
    return values


def _is_of(hint: object, value: object) -> bool:
    """Whether a TOML value fits a type. A whole number is a float too; a boolean is not a number."""
    if isinstance(hint, UnionType):
        return any(_is_of(each, value) for each in get_args(hint))
    if get_origin(hint) is tuple:
        return isinstance(value, tuple) and all(_is_of(get_args(hint)[0], each) for each in value)
    if isinstance(value, bool):
        return hint is bool
    return isinstance(value, (int, float) if hint is float else hint)  # type: ignore[arg-type]  # a class
