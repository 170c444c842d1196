"""Damaged files of every format, made at random from whole ones, and what must hold for each of them."""

from __future__ import annotations

import io
import random
import traceback
import warnings
import zipfile
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq

from dpbart.errors import DpbartError
from dpbart.tables.streams import compressor
from tests.tables.plain_tables import SECRET, copy

ENDINGS = (".csv", ".tsv", ".jsonl", ".json", ".parquet", ".xlsx", ".txt", ".csv.gz", ".jsonl.zst", ".json.bz2")
_TELLING = b'",;\t\n\r\\{}[]:\0\xff\xfe\xef\xbb\xbf<>&=()0123456789-.eu'


def whole_files(folder: Path) -> dict[str, bytes]:
    """A good file of every format. Each cell has a private word."""
    rows = {
        "id": [f"{SECRET}{n}" for n in range(40)],
        "text": [f"{SECRET} é 🤷 {n}" for n in range(40)],
        "n": list(range(40)),
    }
    source = folder / "whole.parquet"
    pq.write_table(pa.table(rows), source)
    made = {}
    for ending in ENDINGS:
        target = folder / f"made{ending}"
        copy(source, target)
        made[ending] = target.read_bytes()
        target.unlink()
    return made


def mutated(whole: bytes, chance: random.Random) -> bytes:
    """A file with a few bytes changed, removed, repeated or put in; or cut off."""
    content = bytearray(whole)
    for _ in range(chance.choice((1, 1, 1, 2, 5, 20))):
        place = chance.randrange(len(content) + 1)
        length = chance.choice((1, 1, 2, 8, 100))
        match chance.randrange(5):
            case 0:
                content[place : place + 1] = bytes([chance.randrange(256)])
            case 1:
                del content[place : place + length]
            case 2:
                content[place:place] = content[place : place + length]
            case 3:
                content[place:place] = bytes(chance.choices(_TELLING, k=length))
            case _:
                if chance.random() < 0.2:
                    del content[place:]
    return bytes(content)


def mutated_inside(whole: bytes, chance: random.Random) -> bytes:
    """A workbook with one of its parts mutated. A change of the archive itself is nearly always a wrong checksum."""
    out = io.BytesIO()
    with zipfile.ZipFile(io.BytesIO(whole)) as old, zipfile.ZipFile(out, "w") as new:
        chosen = chance.choice([name for name in old.namelist() if "sheet" in name or "workbook" in name])
        for name in old.namelist():
            content = old.read(name)
            new.writestr(name, mutated(content, chance) if name == chosen else content)
    return out.getvalue()


def mutated_compressed(whole: bytes, codec: str, chance: random.Random) -> bytes:
    """A compressed file whose content is mutated."""
    plain = pa.CompressedInputStream(pa.BufferReader(whole), codec).read()
    out = io.BytesIO()
    stream = compressor(out, codec)
    stream.write(mutated(plain, chance))
    stream.close()
    return out.getvalue()


def damaged(ending: str, whole: bytes, chance: random.Random) -> bytes:
    """One more damaged file of a format."""
    if ending == ".xlsx" and chance.random() < 0.7:
        return mutated_inside(whole, chance)
    codec = {".gz": "gzip", ".zst": "zstd", ".bz2": "bz2"}.get(Path(ending).suffix)
    if codec is not None and chance.random() < 0.5:
        return mutated_compressed(whole, codec, chance)
    return mutated(whole, chance)


def outcome(folder: Path, ending: str, content: bytes, target: str) -> str:
    """Rewrite a damaged file: "read" if it is still a table, "refused" if it is not.

    Raises:
        AssertionError: Something else happened: another error, a message with a private word or of several lines, a
            warning, or a file left behind.
    """
    source, output = folder / f"in{ending}", folder / f"out{target}"
    source.write_bytes(content)
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("error")
            copy(source, output, shout=True, size=16)
    except DpbartError as error:
        shown, message = "".join(traceback.format_exception(error)), str(error)
        assert SECRET not in shown, "a message quotes a private word"
        assert "\n" not in message, "a message has several lines"
        assert not output.exists(), "an output was written"
        return "refused"
    finally:
        left = {entry.name for entry in folder.iterdir()} - {source.name, output.name}
        assert not left, f"files were left behind: {left}"
        output.unlink(missing_ok=True)
    return "read"
