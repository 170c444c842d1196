"""Which columns look like free text: by their names and types, never by their values."""

from __future__ import annotations

import re
from collections.abc import Sequence

from dpbart.tables.schema import holds_texts
from dpbart.tables.table import Table

# Singular; a plural -s is removed before.
_FREE = re.compile(
    "text|txt|note|comment|description|message|body|content|review|summary|title|abstract|remark|feedback|answer|"
    "question|reply|response|narrative|transcript|post|tweet|complaint|reason|finding|impression|history|"
    "report|letter|memo|story|bio|statement|observation|diary|essay"
)
# A last word that makes it the name of a number, a code or a place: note_id, comment_count, review_date.
_NOT_FREE = re.compile(
    "id|key|code|count|number|num|nr|no|length|len|size|date|time|day|month|year|type|kind|lang|language|flag|url|"
    "link|hash|score|rating|star|statu|category|label"
)
_WORDS = re.compile(r"[A-Z]?[a-z]+|[A-Z]+(?![a-z])")


def sounds_like_free_text(name: str) -> bool:
    """Whether a column of this name usually holds free text.

    >>> [sounds_like_free_text(name) for name in ("text2", "Nurse notes", "reviewBody", "note_id", "age", "context")]
    [True, True, True, False, False, False]
    """
    words = [word.lower().removesuffix("s") for word in _WORDS.findall(name)]
    return any(map(_FREE.fullmatch, words)) and not _NOT_FREE.fullmatch(words[-1])


def free_text_columns(table: Table, columns: Sequence[str]) -> list[str]:
    """Those of the columns that look like free text. Where a format has no types, the name decides."""
    schema = table.schema()
    return [
        name
        for name in columns
        if sounds_like_free_text(name)
        and (schema is None or name not in schema.names or holds_texts(schema.field(name).type))
    ]
