"""The label policies: drop, publish or randomise."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from dpbart.errors import BadParameter, BadTable
from dpbart.privacy.event import Event
from dpbart.privacy.mechanisms import Response
from dpbart.privacy.sampling import Entropy
from dpbart.tables.batch import Batch, as_cell
from dpbart.tables.table import Table

POLICIES = "drop, public or randomize:EPSILON"
_RANDOMIZE = "randomize:"


@dataclass(frozen=True)
class Labels:
    """A column of labels and its policy: "drop", "public", or randomised response."""

    column: str
    policy: str
    response: Response | None = None
    labels: tuple[str, ...] = ()  # the public set that a randomised label is chosen from

    @classmethod
    def of(cls, column: str, policy: str, label_set: tuple[str, ...]) -> Labels:
        """Read a policy such as "public" or "randomize:2".

        Raises:
            BadParameter: It is not one of the three policies, or a label set is missing, or given but not needed.
        """
        if policy.startswith(_RANDOMIZE):
            try:
                epsilon = float(policy.removeprefix(_RANDOMIZE))
            except ValueError:
                raise BadParameter(
                    f"labels must be {POLICIES}, got {policy!r}. Pass, for example, randomize:2."
                ) from None
            if not label_set:
                raise BadParameter(
                    "randomised labels need a set of labels that does not come from the private column. "
                    "Pass --label-set a,b,c, or --label-file FILE with one public label per line."
                )
            if len(label_set) < 2 or len(set(label_set)) != len(label_set):
                raise BadParameter(f"a label set must have at least two labels, all different, got {len(label_set)}.")
            return cls(column, policy, Response(epsilon, len(label_set)), label_set)
        if policy not in ("drop", "public"):
            raise BadParameter(f"labels must be {POLICIES}, got {policy!r}.")
        if label_set:
            raise BadParameter("a label set is only for randomised labels. Pass --labels randomize:EPSILON with it.")
        return cls(column, policy)

    @property
    def epsilon(self) -> float:
        """The epsilon that a label spends in addition to its text."""
        return 0.0 if self.response is None else self.response.epsilon

    @property
    def event(self) -> Event | None:
        """What a label spends, in the form that composition needs; None if it spends nothing."""
        return None if self.response is None else self.response.facts.event

    @property
    def words(self) -> str:
        """The card's line about labels."""
        if self.policy == "drop":
            return f"dropped: column '{self.column}' is not in the output"
        if self.response is None:
            return f"public: column '{self.column}' is released unchanged, without protection"
        among = ", ".join(self.labels[:20]) + (", ..." if len(self.labels) > 20 else "")
        return (
            f"randomised: column '{self.column}' by {len(self.labels)}-ary randomised response, epsilon "
            f"{self.epsilon:.10g} of the guarantee; the public label set is: {among}"
        )

    def randomized(self, batch: Batch, entropy: Entropy) -> list[str] | None:
        """New labels for a batch, or None if they are not randomised. A label outside the set becomes a random one."""
        if self.response is None:
            return None
        numbers = {label: (number,) for number, label in enumerate(self.labels)}
        private = self.response.privatize(
            [numbers.get(_word(value), ()) for value in batch.column(self.column)], entropy
        )
        return [self.labels[number] for number in private.values]

    def with_labels(self, batch: Batch, labels: Sequence[str | None], table: Table) -> Batch:
        """The batch with its randomised labels, in the type of the column."""
        if self.response is None:
            return batch
        written = dict(zip(self.labels, table.values(self.labels, self.column), strict=True))
        return batch.with_column(self.column, [written[label] for label in labels if label is not None])

    def check(self, table: Table) -> None:
        """Refuse labels that the type of the column cannot hold, before anything is written."""
        if self.response is not None:
            table.values(self.labels, self.column)


def read_label_set(text: str | None, file: Path | None) -> tuple[str, ...]:
    """The labels of --label-set or --label-file.

    >>> read_label_set("good, bad", None)
    ('good', 'bad')
    """
    if text is not None and file is not None:
        raise BadParameter("the label set must come from one place. Pass either --label-set or --label-file.")
    if file is None:
        return () if text is None else tuple(each.strip() for each in text.split(","))
    try:
        lines = file.read_text(encoding="utf-8-sig").splitlines()
    except (OSError, UnicodeDecodeError):
        raise BadTable(
            f"the label file {str(file)!r} cannot be read. Give a UTF-8 file with one label per line."
        ) from None
    return tuple(line.strip() for line in lines if line.strip())


def _word(value: object) -> str:
    return as_cell(value) if isinstance(value, str | int | float | None) else str(value)
