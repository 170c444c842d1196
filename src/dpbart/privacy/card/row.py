"""The card's facts about the texts of a row: where they come from, how many they are, and their guarantee together."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from dpbart.privacy.guarantee import Guarantee


@dataclass(frozen=True)
class RowFacts:
    """The texts of each row. Their number is public: it depends on the settings and never on a text."""

    columns: Sequence[str]  # the text columns
    joined: bool  # whether they were joined into one text, in the first of them
    pieces: int | None  # that each text was split into; None if texts were not split
    texts: int  # in each row; each is a release of its own
    guarantee: Guarantee  # for all texts of one row, and its label

    @property
    def expected(self) -> int:
        """The number of texts that follows from the rest."""
        return (1 if self.joined else len(self.columns)) * (self.pieces or 1)

    @property
    def words(self) -> str:
        """Where the texts come from."""
        named = ", ".join(f"'{name}'" for name in self.columns)
        if self.joined:
            words = f"one in each row: the columns {named}, joined, in '{self.columns[0]}'; the others are not released"
        elif len(self.columns) > 1:
            words = f"{len(self.columns)} in each row, in the columns {named}; each is a release of its own"
        else:
            words = f"one in each row, in the column {named}"
        if self.pieces is None:
            return words
        return (
            f"{words}. Each was split into exactly {self.pieces:,} pieces: its first sentences, padded with empty "
            f"texts. Each piece is a release of its own, {self.texts:,} for a row"
        )

    def lines(self) -> list[tuple[str, str]]:
        """The line of the pages about a row, if that is more than a text."""
        return [] if self.texts == 1 else [("Row", f"{self.guarantee} for all {self.texts:,} texts of one row")]
