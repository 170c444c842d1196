"""What an experiment is made of: models x mechanisms x budgets x data x classifiers x seeds, read from a TOML file."""

from __future__ import annotations

import math
import sys
from collections.abc import Iterator
from dataclasses import MISSING, dataclass, fields
from pathlib import Path
from types import UnionType
from typing import TypeVar, get_args, get_origin, get_type_hints

from dpbart.errors import BadParameter
from dpbart.privacy.mechanisms import known

if sys.version_info >= (3, 11):
    import tomllib
else:
    import tomli as tomllib

PRESETS = Path(__file__).parent / "presets"
KINDS = ("encoder", "linear")
SETTINGS = ("original", "rewrite-no-dp", "rewrite-dp")

_Built = TypeVar("_Built")


@dataclass(frozen=True)
class DataChoice:
    """A data set: its name in the data folder, its delta, and how many texts of each part (all, unless told)."""

    name: str
    delta: float
    train: int | None = None
    valid: int | None = None
    test: int | None = None

    def __post_init__(self) -> None:
        for part in ("train", "valid", "test"):
            rows = getattr(self, part)
            if rows is not None and rows < 1:
                raise BadParameter(f"{part} of '{self.name}' must be at least 1 text, got {rows}.")
        if not 0 <= self.delta < 1:  # 0 is enough for laplace
            raise BadParameter(f"delta of '{self.name}' must be at least 0 and below 1, got {self.delta}.")


@dataclass(frozen=True)
class MechanismChoice:
    """A mechanism and its budgets; an infinite one is the rewriting without noise (rewrite-no-dp)."""

    name: str
    epsilons: tuple[float, ...]

    def __post_init__(self) -> None:
        mechanism = known(self.name)
        object.__setattr__(self, "epsilons", tuple(float(each) for each in self.epsilons))  # 500 is 500.0, and one cell
        for epsilon in self.epsilons:
            if epsilon != math.inf:
                mechanism.check_budget(epsilon, 1e-5)


@dataclass(frozen=True)
class ClassifierChoice:
    """A classifier and its settings.

    `data`, `settings`, `models`, `mechanisms` and `epsilons` narrow where it is used: everywhere, unless told. What is
    rewritten without noise has the mechanism of every other, and the original has all of them.
    """

    kind: str
    name: str
    encoder: str = "mini"
    learning_rates: tuple[float, ...] = (5e-4,)
    seeds: tuple[int, ...] = (0,)
    batch_size: int = 32
    length: int = 128
    epochs: int = 50
    patience: int = 5
    weight_decay: float = 0.001
    weighted: bool = False
    data: tuple[str, ...] = ()
    settings: tuple[str, ...] = ()
    models: tuple[str, ...] = ()
    mechanisms: tuple[str, ...] = ()
    epsilons: tuple[float, ...] = ()

    def __post_init__(self) -> None:
        if self.kind not in KINDS:
            raise BadParameter(
                f"kind of the classifier '{self.name}' must be one of {', '.join(KINDS)}, got {self.kind!r}."
            )
        if not self.learning_rates or not self.seeds:
            raise BadParameter(f"the classifier '{self.name}' must have a learning rate and a seed, got none.")
        if len(set(self.seeds)) != len(self.seeds):
            raise BadParameter(f"the seeds of the classifier '{self.name}' must differ, got {list(self.seeds)}.")
        _check_at_least_1(self, ("batch_size", "length", "epochs", "patience"), f"the classifier '{self.name}'")
        for rate in self.learning_rates:
            if not rate > 0:
                raise BadParameter(f"a learning rate of the classifier '{self.name}' must be above 0, got {rate}.")
        for setting in set(self.settings) - set(SETTINGS):
            raise BadParameter(
                f"settings of the classifier '{self.name}' must be of {', '.join(SETTINGS)}, got {setting!r}."
            )

    @property
    def trainings(self) -> int:
        """Of one setting: a search with the first seed, the other seeds, and the shuffled control."""
        return 2 if self.kind == "linear" else len(self.learning_rates) + len(self.seeds)

    def judges(self, setting: Setting) -> bool:
        """The original is judged wherever its data set is, unless the settings say otherwise."""
        if self.data and setting.data.name not in self.data:
            return False
        if self.settings and setting.name not in self.settings:
            return False
        if setting.model is None:
            return True
        asked = (
            not self.models or setting.model in self.models,
            not self.mechanisms or setting.mechanism in (*self.mechanisms, "none"),
            not self.epsilons or setting.epsilon in self.epsilons,
        )
        return all(asked)


@dataclass(frozen=True)
class Setting:
    """One of the paper's three: original (no model), rewrite-no-dp (infinite epsilon), rewrite-dp."""

    data: DataChoice
    model: str | None = None
    mechanism: str | None = None
    epsilon: float | None = None

    @property
    def name(self) -> str:
        original, no_dp, dp = SETTINGS
        if self.model is None:
            return original
        return no_dp if self.epsilon == math.inf else dp

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
    length: int = 20  # tokens of a text that are read and written
    beams: int = 10
    batch_size: int = 32

    def __post_init__(self) -> None:
        for what, names in (
            ("data sets", [each.name for each in self.data]),
            ("classifiers", [each.name for each in self.classifiers]),
            ("models", list(self.models)),
        ):
            if len(set(names)) != len(names) or not names:
                raise BadParameter(
                    f"the {what} of an experiment must have a name each, got {', '.join(names) or 'none'}."
                )
        _check_at_least_1(self, ("length", "beams", "batch_size"), "the experiment")
        known = {each.name for each in self.data} | set(self.models) | {each.name for each in self.mechanisms}
        for each in self.classifiers:
            for name in set(each.data + each.models + each.mechanisms) - known:
                raise BadParameter(f"the classifier '{each.name}' names '{name}', which the experiment has not.")

    def settings(self) -> Iterator[Setting]:
        """Data set by data set: the original, then each model from no noise to much."""
        for data in self.data:
            yield Setting(data)
            for model in self.models:
                if any(math.inf in each.epsilons for each in self.mechanisms):
                    yield Setting(data, model, "none", math.inf)
                for mechanism in self.mechanisms:
                    for epsilon in sorted(mechanism.epsilons, reverse=True):
                        if epsilon != math.inf:
                            yield Setting(data, model, mechanism.name, epsilon)

    def cells(self) -> int:
        """Pieces of work: rewritings, and trainings of classifiers."""
        settings = list(self.settings())
        trainings = sum(each.trainings for each in self.classifiers for setting in settings if each.judges(setting))
        return trainings + sum(setting.model is not None for setting in settings)


def preset_names() -> list[str]:
    return sorted(file.stem for file in PRESETS.glob("*.toml"))


def read_plan(name: str) -> Plan:
    """A preset by name, or a TOML file.

    Raises:
        BadParameter: If there is no such file, it is not TOML, or a key is unknown, missing or of the wrong type.
    """
    file = PRESETS / f"{name}.toml" if name in preset_names() else Path(name)
    try:
        held = tomllib.loads(file.read_text(encoding="utf-8"))
    except OSError as error:
        raise BadParameter(
            f"no experiment at '{name}': {error.strerror}. Give a TOML file, or one of {', '.join(preset_names())}."
        ) from error
    except ValueError as error:
        raise BadParameter(f"'{name}' is not TOML: {error}.") from error
    held.setdefault("name", file.stem)
    parts = {"data": DataChoice, "mechanisms": MechanismChoice, "classifiers": ClassifierChoice}
    for key, kind in parts.items():
        tables = held.get(key, [])
        if not isinstance(tables, list):
            raise BadParameter(f"'{key}' of '{name}' must be tables, written [[{key}]].")
        held[key] = [_build(kind, table, f"[[{key}]] of '{name}'") for table in tables]
    return _build(Plan, held, f"'{name}'")


def _build(kind: type[_Built], held: object, where: str) -> _Built:
    """A frozen value of a TOML table: every key known, none missing."""
    if not isinstance(held, dict):
        raise BadParameter(f"{where} must be a table of keys and values, got {held!r}.")
    expected = fields(kind)  # type: ignore[arg-type]  # always one of our dataclasses
    names = [each.name for each in expected]
    unknown = sorted(set(held) - set(names))
    if unknown:
        raise BadParameter(f"{where} has a key that is not known: {', '.join(unknown)}. Known: {', '.join(names)}.")
    missing = [each.name for each in expected if each.default is MISSING and each.name not in held]
    if missing:
        raise BadParameter(f"{where} lacks {', '.join(missing)}.")
    values = {name: tuple(value) if isinstance(value, list) else value for name, value in held.items()}
    hints = get_type_hints(kind)
    for each in expected:
        if each.name in values and not _is_of(hints[each.name], values[each.name]):
            due = str(each.type).replace("tuple[", "list[").replace(", ...", "")
            raise BadParameter(
                f"'{each.name}' in {where} has a value of the wrong type: it must be {due}, got {held[each.name]!r}."
            )
    return kind(**values)


def _is_of(hint: object, value: object) -> bool:
    """Whether a value of TOML fits a field: a whole number is a float too, a boolean is no number."""
    if isinstance(hint, UnionType):
        return any(_is_of(each, value) for each in get_args(hint))
    if get_origin(hint) is tuple:
        return isinstance(value, tuple) and all(_is_of(get_args(hint)[0], each) for each in value)
    if isinstance(value, bool):
        return hint is bool
    return isinstance(value, (int, float) if hint is float else hint)  # type: ignore[arg-type]  # a class


def _check_at_least_1(held: object, names: tuple[str, ...], whose: str) -> None:
    for name in names:
        if getattr(held, name) < 1:
            raise BadParameter(f"{name} of {whose} must be at least 1, got {getattr(held, name)}.")
