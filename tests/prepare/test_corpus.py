from __future__ import annotations

import gzip
from pathlib import Path

import pytest
import zstandard

from dpbart.errors import BadParameter, BadTable
from dpbart.models.bundle import Bundle
from dpbart.models.text import Tokens
from dpbart.prepare.corpus import CorpusFile, encode_corpus, find_corpus, held_out_texts, training_texts

LINES = [f"line number {number}" for number in range(250)]
CONTENT = "\n".join([*LINES[:100], "", "  ", *LINES[100:]]) + "\n"


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    (tmp_path / "a.txt").write_text(CONTENT)
    (tmp_path / "b.txt.gz").write_bytes(gzip.compress(CONTENT.encode()))
    (tmp_path / "c.txt.zst").write_bytes(zstandard.compress(CONTENT.encode()))
    (tmp_path / "notes.md").write_text("not a corpus")
    return tmp_path


def test_plain_and_compressed_files_read_the_same(folder: Path) -> None:
    files = find_corpus([folder])
    assert [file.path.name for file in files] == ["a.txt", "b.txt.gz", "c.txt.zst"]
    assert {file.texts for file in files} == {250}
    assert len({file.sha256 for file in files}) == 3


def test_the_last_hundredth_of_each_file_is_never_trained_on(folder: Path) -> None:
    files = find_corpus([folder])
    trained, held = list(training_texts(files)), held_out_texts(files, 6)
    assert len(trained) == 3 * 248
    assert held == LINES[248:] * 3
    assert not set(trained) & set(held)


def test_held_out_texts_are_spread_over_the_files(folder: Path) -> None:
    assert held_out_texts(find_corpus([folder]), 3) == [LINES[248]] * 3


def test_too_many_held_out_texts_are_refused(folder: Path) -> None:
    with pytest.raises(BadTable, match="7 held-out texts were requested, but the last 1% of these files holds 6"):
        held_out_texts(find_corpus([folder]), 7)


def test_nothing_to_read_is_refused(tmp_path: Path) -> None:
    with pytest.raises(BadTable, match="no file or folder of public text"):
        find_corpus([tmp_path / "none"])
    with pytest.raises(BadTable, match="no public text found"):
        find_corpus([tmp_path])
    (tmp_path / "blank.txt").write_text(" \n\n")
    with pytest.raises(BadTable, match="only blank lines in .*blank.txt"):
        find_corpus([tmp_path])


@pytest.mark.parametrize("ending", [".txt.gz", ".txt.zst"])
def test_a_damaged_file_is_a_one_line_error(folder: Path, ending: str) -> None:
    (folder / f"d{ending}").write_bytes(b"not compressed at all")
    with pytest.raises(BadTable, match=f"d{ending}' cannot be read as public text"):
        find_corpus([folder])


def test_fewer_than_one_held_out_text_are_refused(folder: Path) -> None:
    with pytest.raises(BadParameter, match="held-out texts must be at least 1, got 0"):
        held_out_texts(find_corpus([folder]), 0)


def test_a_corpus_is_encoded_once_and_another_one_again(
    tiny: Bundle, corpus: tuple[CorpusFile, ...], folder: Path, tmp_path: Path
) -> None:
    tokens = Tokens.load(tiny.folder / "tokenizer.json", length=12)
    first = encode_corpus(corpus, tokens, tmp_path)
    assert first.shape == (340, 12)
    assert tokens.decode(first[:1].astype("int64")) == ["the nurse found a red bicycle ."]
    made = (tmp_path / "corpus-ids.bin").stat().st_mtime_ns
    encode_corpus(corpus, tokens, tmp_path)
    assert (tmp_path / "corpus-ids.bin").stat().st_mtime_ns == made
    assert encode_corpus(find_corpus([folder]), tokens, tmp_path).shape == (744, 12)
