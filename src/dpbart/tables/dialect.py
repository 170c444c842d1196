"""What a user says about a file beyond its name."""

from __future__ import annotations

from dataclasses import dataclass

from dpbart.errors import BadParameter

ENCODINGS = ("utf-8", "utf-16", "cp1252", "latin-1")


@dataclass(frozen=True)
class Dialect:
    """How files are read and written, as far as their names and first bytes do not say it.

    Attributes:
        delimiter: The delimiter of a CSV file; by default, the header line shows it.
        encoding: The encoding of a text file; by default that of its byte order mark, or UTF-8.
        format: The format of standard input and output, such as "csv" or "jsonl.gz"; by default one text per line.
        document: Whether a .txt file is one text instead of one text per line.
    """

    delimiter: str | None = None
    encoding: str | None = None
    format: str | None = None
    document: bool = False

    def __post_init__(self) -> None:
        if self.delimiter == "\\t":  # few shells have an easy way to type a tab
            object.__setattr__(self, "delimiter", "\t")
        given = self.delimiter
        if given is not None and (len(given) != 1 or given in '"\r\n\0' or given.isalnum()):
            raise BadParameter(
                f"a delimiter must be one character such as ';', ',', '|' or '\\t', got {given!r}. "
                "Letters, digits, quotes and line ends do not delimit fields."
            )
        if self.encoding is not None and self.encoding not in ENCODINGS:
            raise BadParameter(f"encoding must be one of {', '.join(ENCODINGS)}, got {self.encoding!r}.")
