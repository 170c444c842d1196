"""The plan of an experiment: models x mechanisms x budgets x data x classifiers, from a TOML file or a preset."""

from __future__ import annotations

import math
import sys
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import MISSING, dataclass, fields
from functools import cached_property, partial
from pathlib import Path
from types import UnionType
from typing import Any, TypeVar, get_args, get_origin, get_type_hints

from dpbart.errors import BadParameter, NotPrepared
from dpbart.evaluate.classifiers import CLASSIFIERS, Classifier, make_classifier, settings_of
from dpbart.files import reason
from dpbart.models.bundle import Bundle
from dpbart.models.code import CODE
from dpbart.models.families import family_of
from dpbart.models.model import Family
from dpbart.privacy.mechanisms import NonPrivate, known

if sys.version_info >= (3, 11):
    import tomllib
else:
    import tomli as tomllib

SETTINGS = ("original", "rewrite-no-dp", "rewrite-dp")


@dataclass(frozen=True)
class DataChoice:
    """A data set: its name in the data folder, its delta, and how many texts to use of each split (None: all)."""

    name: str
    delta: float
    train: int | None = None
    valid: int | None = None
    test: int | None = None

    def __post_init__(self) -> None:
        for split in ("train", "valid", "test"):
            rows = getattr(self, split)
            if rows is not None and rows < 1:
                raise BadParameter(f"{split} of '{self.name}' must be at least 1 text, got {rows}.")
        if not 0 <= self.delta < 1:  # 0 is enough for laplace
            raise BadParameter(f"delta of '{self.name}' must be at least 0 and below 1, got {self.delta}.")


@dataclass(frozen=True)
class MechanismChoice:
    """A mechanism and its budgets. An infinite epsilon is the rewriting without noise (rewrite-no-dp)."""

    name: str
    epsilons: tuple[float, ...]

    def __post_init__(self) -> None:
        mechanism = known(self.name)
        # 500 and 500.0 are the same cell.
        object.__setattr__(self, "epsilons", tuple(float(each) for each in self.epsilons))
        for epsilon in self.epsilons:
            if epsilon != math.inf:
                mechanism.check_budget(epsilon, 1e-5)  # any delta; the data's own comes later


@dataclass(frozen=True)
class Scope:
    """The settings of an experiment in which a classifier is used. An empty tuple means all of them.

    The original texts have no model, mechanism or epsilon, so those never exclude them. The rewriting without noise
    belongs to every mechanism.
    """

    data: tuple[str, ...] = ()
    settings: tuple[str, ...] = ()
    models: tuple[str, ...] = ()
    mechanisms: tuple[str, ...] = ()
    epsilons: tuple[float, ...] = ()

    def __post_init__(self) -> None:
        for setting in set(self.settings) - set(SETTINGS):
            raise BadParameter(f"settings must be among {', '.join(SETTINGS)}, got {setting!r}.")

    def covers(self, setting: Setting) -> bool:
        wanted: list[tuple[Sequence[object], object]] = [(self.data, setting.data.name), (self.settings, setting.name)]
        if setting.model is not None:
            wanted += [(self.models, setting.model), (self.epsilons, setting.epsilon)]
            if setting.mechanism != NonPrivate.name:
                wanted.append((self.mechanisms, setting.mechanism))
        return all(not chosen or value in chosen for chosen, value in wanted)


@dataclass(frozen=True)
class ClassifierChoice:
    """A classifier, its name in the results, and where it is used."""

    name: str
    classifier: Classifier
    scope: Scope = Scope()

    @property
    def trainings(self) -> int:
        """In one setting: a search with the first seed, the other seeds, and the control with shuffled labels."""
        return len(self.classifier.candidates(self.classifier.seeds[0])) + len(self.classifier.seeds)


@dataclass(frozen=True)
class Setting:
    """One of the paper's three settings: original (no model), rewrite-no-dp (infinite epsilon) or rewrite-dp."""

    data: DataChoice
    model: str | None = None
    mechanism: str | None = None
    epsilon: float | None = None

    @property
    def name(self) -> str:
        original, no_dp, dp = SETTINGS
        return original if self.model is None else no_dp if self.epsilon == math.inf else dp

    def __str__(self) -> str:
        if self.model is None:
            return f"{self.data.name} original"
        return f"{self.data.name} {self.model} {self.mechanism} {self.epsilon:g}"


@dataclass(frozen=True)
class Plan:
    """The whole experiment."""

    name: str
    models: tuple[str, ...]
    data: tuple[DataChoice, ...]
    mechanisms: tuple[MechanismChoice, ...]
    classifiers: tuple[ClassifierChoice, ...]
    length: int = 20  # tokens of a text that the model reads and writes
    beams: int = 10  # width of the search; a code model does not search, and uses its own settings
    batch_size: int = 32

    def __post_init__(self) -> None:
        data, classifiers = [each.name for each in self.data], [each.name for each in self.classifiers]
        for what, names in (("data sets", data), ("classifiers", classifiers), ("models", list(self.models))):
            if len(set(names)) != len(names) or not names:
                got = ", ".join(names) or "none"
                raise BadParameter(f"the {what} of an experiment must have different names, got {got}.")
        for name in ("length", "beams", "batch_size"):
            if getattr(self, name) < 1:
                raise BadParameter(f"{name} of the experiment must be at least 1, got {getattr(self, name)}.")
        known = {*data, *self.models, *(each.name for each in self.mechanisms)}
        for each in self.classifiers:
            for name in set(each.scope.data + each.scope.models + each.scope.mechanisms) - known:
                raise BadParameter(f"the classifier '{each.name}' names '{name}', which is not in the experiment.")

    @cached_property
    def families(self) -> dict[str, Family | None]:
        """The family of each model; None if the model cannot be found."""
        found: dict[str, Family | None] = dict.fromkeys(self.models)
        for model in self.models:
            with suppress(NotPrepared):
                found[model] = family_of(Bundle.find(model))
        return found

    @cached_property
    def pairs(self) -> dict[str, tuple[MechanismChoice, ...]]:
        """The mechanisms that each model runs with: those that its family knows.

        A model that cannot be found is paired with all of them. Its settings fail when they are run, and the others
        do not depend on them.
        """
        pairs = {
            model: tuple(each for each in self.mechanisms if family is None or each.name in family.mechanisms)
            for model, family in self.families.items()
        }
        for model, found in pairs.items():
            if self.mechanisms and not found:
                named = ", ".join(each.name for each in self.mechanisms)
                raise BadParameter(f"'{model}' knows none of the experiment's mechanisms ({named}). Add one that fits.")
        for each in self.mechanisms:
            if not any(each in found for found in pairs.values()):
                raise BadParameter(f"no model of the experiment knows the mechanism '{each.name}'. Add one that does.")
        return pairs

    def settings(self) -> Iterator[Setting]:
        """For each data set: the original texts, then each model from no noise to the most noise."""
        for data in self.data:
            yield Setting(data)
            for model, mechanisms in self.pairs.items():
                if any(math.inf in each.epsilons for each in mechanisms):
                    yield Setting(data, model, NonPrivate.name, math.inf)
                for mechanism in mechanisms:
                    for epsilon in sorted(mechanism.epsilons, reverse=True):
                        if epsilon != math.inf:
                            yield Setting(data, model, mechanism.name, epsilon)

    def beams_of(self, model: str) -> int | None:
        """The width of a model's search. None for a code model, which does not search."""
        return None if self.families[model] is CODE else self.beams

    def cells(self) -> int:
        """The number of cached results: rewritings and trainings."""
        settings = list(self.settings())
        trainings = sum(each.trainings for each in self.classifiers for at in settings if each.scope.covers(at))
        return trainings + sum(setting.model is not None for setting in settings)


@dataclass(frozen=True)
class ExperimentRequest:
    """A plan, its data, a folder for the results, and where to rewrite (as in `dpbart rewrite`)."""

    plan: Plan
    data_folder: Path
    out: Path
    allow_different: bool = False
    engine: str = "local"
    workers: int | None = None
    address: str | None = None


PRESETS = Path(__file__).parent / "presets"

Table = Mapping[str, Any]  # what TOML holds
_Built = TypeVar("_Built")


def preset_names() -> list[str]:
    return sorted(file.stem for file in PRESETS.glob("*.toml"))


def read_plan(name: str) -> Plan:
    """A preset by name, or a TOML file."""
    file = PRESETS / f"{name}.toml" if name in preset_names() else Path(name)
    try:
        held = tomllib.loads(file.read_text(encoding="utf-8"))
    except OSError as error:
        remedy = f"Pass a TOML file, or one of {', '.join(preset_names())}."
        raise BadParameter(f"no experiment at '{name}': {reason(error)}. {remedy}") from error
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
        kinds = ", ".join(CLASSIFIERS)
        raise BadParameter(f"the kind of the classifier '{name}' must be one of {kinds}, got {kind!r}.")
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
    if unknown := ", ".join(sorted(set(table) - set(known))):
        raise BadParameter(f"{where} has an unknown key: {unknown}. Known keys: {', '.join(known)}.")
    if missing := ", ".join(name for name in required if name not in table):
        raise BadParameter(f"{where} lacks {missing}.")


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
