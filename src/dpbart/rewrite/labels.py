"""The label policies: drop, publish or randomise.

A label of the file and a label of the public set are the same if their normal forms are: blanks around it do not count,
true, True and TRUE are one label, and so are 1, 1.0 and "1" (any number as JSON writes it; "01" is a word). A label set
is first converted to the type of its column, so that 1 stands for true in a column of booleans.
"""

from __future__ import annotations

import json
import re
import unicodedata
from collections.abc import Sequence
from dataclasses import dataclass
from decimal import Context, Decimal
from pathlib import Path

from dpbart.errors import BadParameter, BadTable
from dpbart.privacy.event import Event
from dpbart.privacy.mechanisms import Response
from dpbart.privacy.sampling import Entropy
from dpbart.tables.batch import Batch
from dpbart.tables.formats.format import Visitor
from dpbart.tables.table import Table

POLICIES = "drop, public or randomize:EPSILON"
_RANDOMIZE = "randomize:"
_NUMBER = re.compile(r"-?(0|[1-9][0-9]{0,30})(\.[0-9]{1,30})?([eE][+-]?[0-9]{1,3})?")  # of JSON, and not too long
_EXACT = Context(prec=99)  # more digits than such a number has


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
            _check_different(label_set)
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

    def randomized(self, batch: Batch, table: Table, entropy: Entropy) -> list[str] | None:
        """New labels for a batch, or None if they are not randomised.

        Raises:
            BadTable: A label is not in the set.
        """
        if self.response is None:
            return None
        private = self.response.privatize([(n,) for n in self._numbers(batch, self._numbered(table))], entropy)
        return [self.labels[number] for number in private.values]

    def with_labels(self, batch: Batch, labels: Sequence[str | None], table: Table) -> Batch:
        """The batch with its randomised labels, in the type of the column."""
        if self.response is None:
            return batch
        written = dict(zip(self.labels, table.values(self.labels, self.column), strict=True))
        return batch.with_column(self.column, [written[label] for label in labels if label is not None])

    def check(self, table: Table) -> None:
        """Refuse a set that the type of the column cannot hold, before anything is written."""
        if self.response is not None:
            self._numbered(table)

    def visitors(self, table: Table) -> list[Visitor]:
        """A table visitor that refuses a row with a label outside the set; none if labels are not randomised."""
        if self.response is None:
            return []
        numbered = self._numbered(table)

        def see(batch: Batch) -> None:
            self._numbers(batch, numbered)

        return [see]

    def _numbered(self, table: Table) -> dict[str, int]:
        """The number of each label of the set, by its normal form in the type of the column."""
        values = table.values(self.labels, self.column)
        _check_different(values)
        return {normal_form(value): number for number, value in enumerate(values)}

    def _numbers(self, batch: Batch, numbered: dict[str, int]) -> list[int]:
        numbers = [numbered.get(normal_form(value), -1) for value in batch.column(self.column)]
        if -1 in numbers:  # the message does not show the label: it is private
            row = batch.first + numbers.index(-1)
            raise BadTable(
                f"row {row} has a label in column {self.column!r} that is not in the label set. "
                "Correct the row, or add the label to --label-set or --label-file."
            )
        return numbers


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


def normal_form(label: object) -> str:
    """A label as it is compared: a missing one is empty, and a number or boolean has one form.

    >>> [normal_form(label) for label in (1, 1.0, " 1 ", "1e0", Decimal("1.0"), True, "True", None, "01", "Yes")]
    ['1', '1', '1', '1', '1', 'true', 'true', '', '01', 'Yes']
    """
    if isinstance(label, float) and label != label:  # NaN stands for a gap in a column of numbers
        return ""
    if isinstance(label, bool | int | float | Decimal | None):
        text = "" if label is None else str(label)
    else:
        text = json.dumps(label, sort_keys=True) if isinstance(label, list | dict) else str(label)
    text = unicodedata.normalize("NFC", text.strip())
    if text.lower() in ("true", "false"):
        return text.lower()
    if not _NUMBER.fullmatch(text):
        return text
    number = _EXACT.create_decimal(text).normalize(_EXACT)
    return str(number) if number else "0"  # not -0


def _check_different(labels: Sequence[object]) -> None:
    if len(labels) < 2 or len({normal_form(label) for label in labels}) != len(labels):
        raise BadParameter(
            f"a label set must have at least two labels, all different, got {len(labels)}. "
            "1, 1.0 and '1' are one label, and so are true and True."
        )
