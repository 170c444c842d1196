from __future__ import annotations

from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from dpbart.errors import BadParameter, NotPrepared
from dpbart.models.bundle import BUNDLED, Bundle
from dpbart.models.text import Tokens

LENGTH = 20
TOKENIZER = BUNDLED / "mini" / "tokenizer.json"


@pytest.fixture(scope="module")
def tokens() -> Tokens:
    return Tokens.load(TOKENIZER, length=LENGTH)


@settings(max_examples=200)
@given(text=st.text(st.characters(), max_size=300))
def test_every_text_becomes_exactly_length_ids(tokens: Tokens, text: str) -> None:
    ids = tokens.encode([text])
    assert ids.shape == (1, LENGTH)
    assert ids[0, 0] == tokens.id_of("<s>")
    assert (ids[0] == tokens.id_of("</s>")).any()


@pytest.mark.parametrize(
    "text",
    ["", " ", "word " * 10_000, "😀🎉", "\x00\x07\x1b", "日本語のテキスト", "\ud800 lone surrogate", "a\nb\tc"],
)
def test_unusual_texts_are_encoded_like_any_other(tokens: Tokens, text: str) -> None:
    assert tokens.encode([text]).shape == (1, LENGTH)


def test_a_short_text_is_decoded_unchanged(tokens: Tokens) -> None:
    texts = ["Where is the station?", "naïve café, 12:30", "日本"]
    assert tokens.decode(tokens.encode(texts)) == texts


def test_an_empty_list_gives_an_empty_batch(tokens: Tokens) -> None:
    assert tokens.encode([]).shape == (0, LENGTH)


def test_a_length_without_room_for_a_token_is_refused() -> None:
    with pytest.raises(BadParameter, match="length must be at least 3, got 2"):
        Tokens.load(TOKENIZER, length=2)


def test_the_tiny_bundle_has_its_own_length(tiny: Bundle) -> None:
    assert Tokens.load(tiny.folder / "tokenizer.json", length=7).encode(["a child"]).shape == (1, 7)


def test_a_damaged_tokenizer_is_refused(tmp_path: Path) -> None:
    (tmp_path / "tokenizer.json").write_text("{")
    with pytest.raises(NotPrepared, match="cannot be read"):
        Tokens.load(tmp_path / "tokenizer.json", length=20)
