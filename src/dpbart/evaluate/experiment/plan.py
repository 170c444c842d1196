"""What an experiment consists of: models x mechanisms x budgets x data x classifiers."""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path

from dpbart.errors import BadParameter, NotPrepared
from dpbart.evaluate.classifiers.classifier import Classifier
from dpbart.models.bundle import Bundle
from dpbart.models.code import CODE
from dpbart.models.model import Family
from dpbart.privacy.mechanisms import NonPrivate, known

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
        if self.data and setting.data.name not in self.data:
            return False
        if self.settings and setting.name not in self.settings:
            return False
        if setting.model is None:
            return True
        matches = (
            not self.models or setting.model in self.models,
            not self.mechanisms or setting.mechanism in (*self.mechanisms, NonPrivate.name),
            not self.epsilons or setting.epsilon in self.epsilons,
        )
        return all(matches)


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
    length: int = 20  # tokens of a text that the model reads and writes
    beams: int = 10  # width of the search; a code model does not search, and uses its own settings
    batch_size: int = 32

    def __post_init__(self) -> None:
        for what, names in (
            ("data sets", [each.name for each in self.data]),
            ("classifiers", [each.name for each in self.classifiers]),
            ("models", list(self.models)),
        ):
            if len(set(names)) != len(names) or not names:
                raise BadParameter(
                    f"the {what} of an experiment must have different names, got {', '.join(names) or 'none'}."
                )
        for name in ("length", "beams", "batch_size"):
            if getattr(self, name) < 1:
                raise BadParameter(f"{name} of the experiment must be at least 1, got {getattr(self, name)}.")
        known = {each.name for each in self.data} | set(self.models) | {each.name for each in self.mechanisms}
        for each in self.classifiers:
            for name in set(each.scope.data + each.scope.models + each.scope.mechanisms) - known:
                raise BadParameter(f"the classifier '{each.name}' names '{name}', which is not in the experiment.")

    @cached_property
    def families(self) -> dict[str, Family | None]:
        """The family of each model; None if the model cannot be found."""
        return {model: _family(model) for model in self.models}

    @cached_property
    def pairs(self) -> dict[str, tuple[MechanismChoice, ...]]:
        """The mechanisms that each model runs with: those that its family knows.

        A model that cannot be found is paired with all of them. Its settings fail when they are run, and the others
        do not depend on them.

        Raises:
            BadParameter: If a model knows none of the mechanisms, or a mechanism has no model.
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
        """For each data set: the original, then each model from no noise to the most noise, by its own mechanisms."""
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
        """How many results are computed and cached: rewritings, and trainings of classifiers."""
        settings = list(self.settings())
        trainings = sum(each.trainings for each in self.classifiers for at in settings if each.scope.covers(at))
        return trainings + sum(setting.model is not None for setting in settings)


def _family(model: str) -> Family | None:
    """The family of a model; None if the model cannot be found."""
    try:
        return Bundle.find(model).family
    except NotPrepared:
        return None


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
