from __future__ import annotations

import gzip
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest
import zstandard

from dpbart.errors import BadTable
from dpbart.prepare.adept import glove_provenance, read_glove

LINES = "the 0.5 -1 2e-2\n. . . 9 9 9\nsurplus 7 7 7\napple 1 2 3\n"
VOCABULARY = {"<unk>": 0, "apple": 3, "the": 5, "absent": 4}


def stored(folder: Path, ending: str, text: str = LINES) -> Path:
    file = folder / f"vectors{ending}"
    packed: dict[str, Callable[[bytes], bytes]] = {
        ".txt": bytes,
        ".txt.gz": gzip.compress,
        ".txt.zst": zstandard.ZstdCompressor().compress,
    }
    file.write_bytes(packed[ending](text.encode()))
    return file


@pytest.mark.parametrize("ending", [".txt", ".txt.gz", ".txt.zst"])
def test_known_words_get_their_vectors(tmp_path: Path, ending: str) -> None:
    vectors = read_glove(stored(tmp_path, ending), VOCABULARY, dimension=3)
    assert vectors.ids.tolist() == [3, 5]
    np.testing.assert_allclose(vectors.values, np.array([[1, 2, 3], [0.5, -1, 0.02]]))


def test_a_file_without_any_of_the_words_gives_no_vectors(tmp_path: Path) -> None:
    vectors = read_glove(stored(tmp_path, ".txt"), {"zebra": 4}, dimension=3)
    assert vectors.values.shape == (0, 3)


@pytest.mark.parametrize(
    ("text", "dimension", "message"),
    [
        (LINES, 4, "line 1 .* a word and 4 numbers, got 3"),
        (LINES, 2, "line 1 .* a word and 2 numbers, got 3"),
        ("400000 3\n" + LINES, 3, "line 1 .* got 1"),  # the header of the word2vec format
        ("the 1 2 3\napple 1 2\n", 3, "line 2 .* got 2"),
        ("the 1 2 3\napple 1 x 2\n", 3, "line 2 .* finite numbers"),
        ("the 1 2 nan\n", 3, "line 1 .* finite numbers"),
    ],
)
def test_a_wrong_line_is_named(tmp_path: Path, text: str, dimension: int, message: str) -> None:
    with pytest.raises(BadTable, match=message):
        read_glove(stored(tmp_path, ".txt", text), VOCABULARY, dimension=dimension)


def test_a_damaged_or_missing_file_is_a_one_line_error(tmp_path: Path) -> None:
    file = stored(tmp_path, ".txt.gz")
    file.write_bytes(file.read_bytes()[:20])
    with pytest.raises(BadTable, match="cannot be read as word vectors"):
        read_glove(file, VOCABULARY, dimension=3)
    with pytest.raises(BadTable, match="no file of word vectors at"):
        glove_provenance(tmp_path / "none.txt")
