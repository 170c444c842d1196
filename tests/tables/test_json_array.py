"""JSON arrays, read object by object."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from dpbart.errors import BadTable
from dpbart.tables.table import open_table
from tests.tables.plain_tables import SECRET, copy, written
from tests.tables.test_writers_kept import cell, folder, json_value, unicode

pytestmark = pytest.mark.usefixtures("no_wait_for_the_disk")


@settings(max_examples=40)
@given(
    rows=st.lists(st.dictionaries(unicode, json_value, max_size=3), min_size=1, max_size=4),
    text=cell,
    indent=st.sampled_from([None, 0, 2]),
    block=st.integers(1, 40),
)
def test_any_array_survives(rows: list[dict[str, object]], text: str, indent: int | None, block: int) -> None:
    rows = [{**row, "text": text} for row in rows]
    with folder() as place, pytest.MonkeyPatch.context() as patch:
        patch.setattr("dpbart.tables.formats.json._BLOCK", block)  # so that objects are cut everywhere
        (place / "in.json").write_text(json.dumps(rows, indent=indent))
        copy(place / "in.json", place / "out.json")
        written_rows = json.loads((place / "out.json").read_bytes())
    assert [list(row.items()) for row in written_rows] == [list(row.items()) for row in rows]


@pytest.mark.parametrize(
    ("content", "reason"),
    [
        ('{"text": "a"}', "row 1: it is not an array of objects. If each line is an object, name the file .jsonl."),
        (f'["{SECRET}"]', "row 1: it is not a JSON object."),
        (f'[{{"text": "a"}}, {{"text": "{SECRET}]', "row 2: it is not JSON."),
        (f'[{{"text": "a"}}, {{"text": {SECRET}, "b": {"1" * 99}}}]', "row 2: it is not JSON."),
        (f'[{{"text": "a"}}, {{"text": {"[" * 100_000}]', "row 2: it is not JSON."),
        (f'[{{"text": "a"}}, {{"text": "a", "b": {"1" * 9999}}}]', "row 2: it is not JSON."),
        ('[{"text": "a"}', "row 2: a comma or the end of the array is missing before it."),
        ('[{"text": "a"} {"text": "b"}]', "row 2: a comma or the end of the array is missing before it."),
        ('[{"text": "a"},]', "row 2: it is not a JSON object."),
        (f'[{{"text": "a"}}]\n{SECRET}', "row 2: something follows the array."),
        (b'[{"text": "a"}, {"text": "Mallory \xff"}]', "row 2: it is not UTF-8."),
        ('[{"text": "a"}, {"text": "b", "text": "c"}]', "row 2: a key that appears twice."),
        ("[]", "has no rows. Give a file with at least one."),
        (" \n", "has no rows. Give a file with at least one."),
    ],
)
def test_a_bad_array_is_refused(tmp_path: Path, content: str | bytes, reason: str) -> None:
    with pytest.raises(BadTable) as caught:
        open_table(written(tmp_path / "in.json", content)).visit()
    assert reason in str(caught.value)
    assert SECRET not in str(caught.value)


def test_an_object_that_does_not_fit_into_memory_is_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("dpbart.tables.formats.json.LONGEST_OBJECT", 100_000)
    source = written(tmp_path / "in.json", '[{"text": "a"}, {"text": "' + SECRET * 50_000)
    with pytest.raises(BadTable, match=r"row 2: an object longer than 100000 characters\.$"):
        open_table(source).visit()


def test_a_broken_object_is_found_without_reading_on(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    from dpbart.tables.formats import json as json_array

    source = written(tmp_path / "in.json", '[{"text": a}, ' + '{"text": "b"},\n' * 50_000)
    read: list[int] = []
    original = json_array._JsonText._read

    def counted(text: json_array._JsonText) -> None:
        read.append(1)
        original(text)

    monkeypatch.setattr(json_array._JsonText, "_read", counted)
    with pytest.raises(BadTable, match="row 1: it is not JSON"):
        open_table(source)
    assert len(read) == 1
