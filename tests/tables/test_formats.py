"""Formats: what each promises, that a new one needs only its own file, and that no other code knows which it has."""

from __future__ import annotations

import ast
from collections.abc import Iterator, Sequence
from functools import partial
from pathlib import Path
from typing import BinaryIO

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import dpbart
from dpbart.errors import BadTable
from dpbart.options.rewriting import Request
from dpbart.rewrite.plan import Outline
from dpbart.tables.batch import Batch, DictRows
from dpbart.tables.formats import registry
from dpbart.tables.formats.format import Draft, Format, Header, RowsToWrite, lines, numbered, row_batches
from dpbart.tables.streams import STANDARD, Fault, File
from dpbart.tables.table import open_table
from tests.tables.plain_tables import (
    COLUMNS,
    ENDINGS,
    SECRET,
    copy,
    copy_refusal,
    open_writer,
    read_plainly,
    write_plainly,
    written,
)
from tests.test_rooms import imported_modules

pytestmark = pytest.mark.usefixtures("no_wait_for_the_disk")

ROWS = [["7", "one ☕", "x"], ["8", "", "NaN"], ["", "three", "y"]]
PACKAGE = Path(dpbart.__file__).parent


class Blocks(Format):
    """A toy format, added as any other: a line `column: value` for each value, a blank line after each row."""

    endings = (".blocks",)

    def header(self, file: File, *, text_columns: tuple[str, ...] = (), named: Sequence[str] = ()) -> Header | None:
        first = next(numbered(file, self._rows(file)), None)
        return None if first is None else Header.of_strings(list(first))

    def batches(self, file: File, *, text_columns: tuple[str, ...], size: int) -> Iterator[DictRows]:
        return row_batches(numbered(file, self._rows(file)), text_columns, size)

    def draft(self, source: RowsToWrite) -> Draft:
        source.check_types()
        blocks = partial(self._blocks, source)
        return Draft(partial(_BlocksSink, blocks=blocks), see=blocks)

    def _rows(self, file: File) -> Iterator[dict[str, object]]:
        row: dict[str, object] = {}
        for line in lines(file, newline="\n"):
            column, colon, value = line.removesuffix("\n").partition(": ")
            if colon:
                row[column] = value
            elif column:
                raise Fault("a line without a colon")
            else:
                yield row
                row = {}

    def _blocks(self, source: RowsToWrite, batch: Batch) -> bytes:
        blocks = []
        for number, row in enumerate(batch.as_rows(), start=batch.first):
            cells = source.cells(row, number)
            if any("\n" in cell for cell in cells):
                raise source.refusal(number, "a line feed")
            blocks.append("".join(f"{name}: {cell}\n" for name, cell in zip(source.columns, cells, strict=True)) + "\n")
        return "".join(blocks).encode()


class _BlocksSink:
    def __init__(self, handle: BinaryIO, blocks: partial[bytes]) -> None:
        self._handle, self._blocks = handle, blocks

    def write(self, batch: Batch) -> None:
        self._handle.write(self._blocks(batch))

    def close(self) -> None: ...


@pytest.fixture
def blocks(monkeypatch: pytest.MonkeyPatch) -> None:
    """Register the toy format: this line is all that a new format needs outside its file."""
    monkeypatch.setattr(registry, "FORMATS", (*registry.FORMATS, Blocks()))


BLOCKS = "id: 7\ntext: {}\nlabel: x\n\nid: 8\ntext: \nlabel: NaN\n\nid: \ntext: {}\nlabel: y\n\n"


@pytest.mark.usefixtures("blocks")
@pytest.mark.parametrize("ending", ENDINGS)
def test_a_new_format_is_rewritten_to_and_from_every_other(tmp_path: Path, ending: str) -> None:
    copy(write_plainly(tmp_path / f"in{ending}", ROWS), tmp_path / "out.blocks", shout=True)
    assert (tmp_path / "out.blocks").read_text() == BLOCKS.format("ONE ☕", "THREE")
    copy(tmp_path / "out.blocks", tmp_path / f"back{ending}")
    assert read_plainly(tmp_path / f"back{ending}") == [list(COLUMNS), *([i, t.upper(), x] for i, t, x in ROWS)]
    copy(tmp_path / f"back{ending}", tmp_path / "again.blocks", drop=("label",))
    assert "label" not in (tmp_path / "again.blocks").read_text()


@pytest.mark.usefixtures("blocks")
def test_a_new_format_has_the_refusals_of_the_others(tmp_path: Path) -> None:
    broken = written(tmp_path / "in.blocks", f"text: a\n\n{SECRET}\n\n")
    with pytest.raises(BadTable, match=r"in\.blocks' is broken at row 2: a line without a colon\.$"):
        open_table(broken).visit()
    source = written(tmp_path / "in.jsonl", f'{{"text": "a\\nb", "id": 1}}\n{{"text": "", "id": "{SECRET}\\n"}}\n')
    assert copy_refusal(source, tmp_path / "out.blocks") == (
        "'in.jsonl' row 2 has a line feed, which .blocks cannot hold. Write a .jsonl file."
    )
    pq.write_table(pa.table({"text": ["a"], "raw": [SECRET.encode()]}), tmp_path / "in.parquet")
    assert copy_refusal(tmp_path / "in.parquet", tmp_path / "out.blocks") == (
        "column 'raw' has type binary, which .blocks cannot hold. Write a .parquet file."
    )
    with pytest.raises(BadTable, match=r"must be one of .*, \.txt, \.blocks, got"):
        open_table(written(tmp_path / "in.pdf", ""))


@pytest.mark.usefixtures("blocks")
def test_a_request_asks_the_format_whether_it_holds_texts_alone(tmp_path: Path) -> None:
    alone = {
        ending: Outline.of(Request(tmp_path, tmp_path / f"a{ending}")).texts_alone
        for ending in (".blocks", ".TXT", ".csv")
    }
    assert alone == {".blocks": False, ".TXT": True, ".csv": False}
    assert Outline.of(Request(tmp_path, STANDARD)).texts_alone


FORMATS = [*registry.FORMATS, Blocks()]


@pytest.mark.parametrize("format", FORMATS, ids=lambda format: str(format.endings[0]))
class TestEveryFormat:
    """What the `Format` protocol promises."""

    @pytest.fixture(autouse=True)
    def _registered(self, blocks: None) -> None: ...

    @pytest.fixture
    def file(self, format: Format, tmp_path: Path) -> Path:
        source = write_plainly(tmp_path / "plain.csv", ROWS)
        target = tmp_path / f"table{format.endings[0]}"
        copy(source, target)
        return target

    def test_its_endings_are_its_own(self, format: Format) -> None:
        others = {ending for other in FORMATS if other is not format for ending in other.endings}
        assert all(ending == ending.lower() and ending.startswith(".") for ending in format.endings)
        assert others.isdisjoint(format.endings)

    def test_it_reads_what_it_wrote(self, format: Format, file: Path) -> None:
        table = open_table(file)
        assert table.columns == (("text",) if format.texts_alone else COLUMNS)
        batches = list(table.batches(2))
        assert [(batch.first, len(batch)) for batch in batches] == [(1, 2), (3, 1)]
        assert [text for batch in batches for text in batch.texts()] == [row[1] for row in ROWS]
        assert format.header(File(file)) == Header(table.columns, table.header.schema, table.header.delimiter)

    def test_its_schema_covers_its_columns(self, format: Format, file: Path) -> None:
        header = format.header(File(file), text_columns=("text",))
        assert header is not None
        assert header.schema is None or tuple(header.schema.names) == header.columns
        assert format.typed <= (header.schema is not None)

    def test_an_empty_output_can_be_opened(self, format: Format, tmp_path: Path) -> None:
        table = open_table(write_plainly(tmp_path / "in.csv", ROWS))
        with open_writer(tmp_path / f"out{format.endings[0]}", like=table, columns=table.columns) as writer:
            assert writer.finish() is not None
        assert (tmp_path / f"out{format.endings[0]}").is_file()


# No other code knows which format it has


def names_of_formats() -> set[str]:
    endings = {ending for format in registry.FORMATS for ending in format.endings}
    endings -= {".json"}  # cards, settings and scores are such files too
    return endings | {ending.removeprefix(".") for ending in endings}


def compared(tree: ast.AST) -> set[str]:
    """Strings that code compares with something, looks up, or matches."""
    places: list[ast.AST | None] = []
    for node in ast.walk(tree):
        if isinstance(node, ast.Compare | ast.MatchValue | ast.Subscript):
            places.append(node)
        elif isinstance(node, ast.Dict):
            places += node.keys
        elif isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute):
            places += node.args if node.func.attr in ("endswith", "match", "get") else []
    constants = [each for place in places if place for each in ast.walk(place) if isinstance(each, ast.Constant)]
    return {constant.value for constant in constants if isinstance(constant.value, str)}


@pytest.mark.parametrize(
    "code", ['f == "parquet"', 'p.suffix in (".csv", ".x")', '{".txt": 1}', 'name.endswith(".tsv")', 'made["jsonl"]']
)
def test_a_comparison_with_a_format_is_found(code: str) -> None:
    assert compared(ast.parse(code)) & names_of_formats()
    assert not compared(ast.parse('print("parquet", p.with_suffix(".txt"))')) & names_of_formats()


def test_no_code_outside_the_formats_compares_their_names_or_endings() -> None:
    # evaluate/data reads the original files of data sets with code of its own.
    apart = [PACKAGE / "tables" / "formats", PACKAGE / "evaluate" / "data"]
    files = [file for file in PACKAGE.rglob("*.py") if not any(file.is_relative_to(folder) for folder in apart)]
    assert len(files) > 50
    wrong = {
        str(file.relative_to(PACKAGE)): compared(ast.parse(file.read_text())) & names_of_formats() for file in files
    }
    # A card is written as three pages, one of them plain text.
    assert {file: names for file, names in wrong.items() if names} == {"card/card.py": {"txt"}}


def test_only_the_registry_imports_a_format() -> None:
    folder = PACKAGE / "tables" / "formats"
    own = {f"dpbart.tables.formats.{file.stem}" for file in folder.glob("*.py")}
    own -= {f"dpbart.tables.formats.{shared}" for shared in ("__init__", "format", "registry")}
    users = {file.relative_to(PACKAGE) for file in PACKAGE.rglob("*.py") if own & set(imported_modules(file))}
    assert users == {Path("tables/formats/registry.py")}
