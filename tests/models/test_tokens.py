"""The tokens of a code model are those of the library tokenizers: ids, ends and decoded text."""

from __future__ import annotations

import json
import unicodedata
from typing import Any

import pytest
import tokenizers
from hypothesis import given
from hypothesis import strategies as st

from dpbart.errors import NotPrepared
from dpbart.models.bundle import BUNDLED
from dpbart.models.code import tokens
from dpbart.models.code.tokens import BytePairs, Tokenizer, WordPieces

FILES = {
    WordPieces: BUNDLED / "mini-code" / "tokenizer.json",
    BytePairs: BUNDLED / "mini-code" / "writer_tokenizer.json",
}
OWN: dict[type[Tokenizer], Tokenizer] = {
    WordPieces: WordPieces(FILES[WordPieces].read_text(encoding="utf-8")),
    BytePairs: BytePairs(FILES[BytePairs].read_text(encoding="utf-8")),
}
LIBRARY = {kind: tokenizers.Tokenizer.from_file(str(file)) for kind, file in FILES.items()}
KINDS = pytest.mark.parametrize("kind", FILES)
HARD = [
    *(
        "",
        " ",
        "   ",
        " \n",
        "\n a",
        "  a  b\t\tc\n\n d\r\n",
        "a  ",
        "\u3000a\u2003b\u2028c\x1cd\x1de\x85f\x0bg\x0ch\xa0i",
    ),
    *("[SEP]", "a[SEP]b", "[sep] [MASK][PAD]x [CLS] [UNK]", "<mask> <s>hi</s><pad> <unk>", " <mask>", "<mask> x", "<s"),
    *(
        "é",
        "e\u0301",
        "A\u030a\u0327\u0301x",
        "\u1e69 s\u0323\u0307 s\u0307\u0323",
        "\u0301\u0327abc",
        "...\u0301 .\u0327\u0301",
    ),
    *("\u0344a \u0f73", "\u0345\u0300\u0301a\u05b0\u05bc", "\u037e \u1fef \u212a \u2126", "İstanbul ΑΣ ẞ ǅ", "ﬁ ﬂ Ａ"),
    *(
        "你好，世界 abc你",
        "\u4f60\u0301\u0327",
        "한국어 \u1100\u1161",
        "हिन्दी ไทย",
        "שלום עולם مرحبا",
        "\ue000 \U000f0000 \U000e0041",
    ),
    *("👩‍👩‍👧‍👦 👍🏽", "a\x00b\x01c\x7f\ufffdg\u200bh\u200di\ufeff", "\ud800 lone".encode("utf-8", "replace").decode()),
    *("x" * 99, "x" * 100, "x" * 101, "a" * 3000 + " b", "supercalifragilistic" * 8, "é" * 100, "日" * 120),
    *("12 1st ½a 3² Ⅷx ٣٤ B2B", "don't I'LL we've 's ' 's''s they're'd don\u2019t", "a_b __x__ _1", "$^+=<>|~` ??"),
]


def agree(kind: type[Tokenizer], text: str) -> None:
    own, theirs = OWN[kind], LIBRARY[kind].encode(text, add_special_tokens=False)
    assert own.ids([text]) == [theirs.ids]
    assert own.tokens(text) == (theirs.ids, [end for _, end in theirs.offsets])
    if isinstance(own, BytePairs):
        assert own.texts([theirs.ids]) == [LIBRARY[kind].decode(theirs.ids, skip_special_tokens=True)]


@KINDS
@pytest.mark.parametrize("text", HARD)
def test_hard_texts_have_the_same_tokens(kind: type[Tokenizer], text: str) -> None:
    agree(kind, text)
    agree(kind, f"so {text}, {text}")


def known_to_both(text: str) -> str:
    """Without characters that are newer than Unicode 3.2: the two have tables of different age."""
    return "".join(sign for sign in text if unicodedata.ucd_3_2_0.category(sign) not in ("Cn", "Cs"))


CHANGED = "\u166d\u1734\u1885\u1886"  # their category is another one since
TEXTS = st.text(st.characters(exclude_categories=["Cs"], exclude_characters=CHANGED), max_size=40).map(known_to_both)
PARTS = st.lists(st.sampled_from([*HARD, *"abcé' .-\n", "[SEP]", "<mask>", "'s", "\u0301"]), max_size=8).map("".join)


@KINDS
@given(text=TEXTS | PARTS)
def test_any_text_has_the_same_tokens(kind: type[Tokenizer], text: str) -> None:
    agree(kind, text)


@given(row=st.lists(st.integers(0, 300) | st.integers(0, 12_100), max_size=30))
def test_any_ids_say_the_same(row: list[int]) -> None:
    own = OWN[BytePairs]
    assert isinstance(own, BytePairs)
    assert own.texts([row]) == [LIBRARY[BytePairs].decode(row, skip_special_tokens=True)]


@KINDS
def test_a_vocabulary_is_the_same(kind: type[Tokenizer]) -> None:
    assert OWN[kind].vocabulary == LIBRARY[kind].get_vocab(with_added_tokens=True)
    assert OWN[kind].size == LIBRARY[kind].get_vocab_size() <= OWN[kind].reach
    for token in ("[CLS]", "<mask>", "the", "no such token"):
        assert OWN[kind].id_of(token) == LIBRARY[kind].token_to_id(token)


def test_a_special_token_that_a_text_spells_is_that_token() -> None:
    assert OWN[WordPieces].ids(["[SEP][PAD]"]) == [[OWN[WordPieces].id_of("[SEP]"), OWN[WordPieces].id_of("[PAD]")]]
    assert OWN[BytePairs].ids(["</s>"]) == [[OWN[BytePairs].id_of("</s>")]]


def changed(kind: type[Tokenizer], part: str, **values: Any) -> str:
    held = json.loads(OWN[kind].file)
    held[part] = None if values.get("none") else {**held[part], **values}
    return json.dumps(held)


SETTINGS: list[dict[str, Any]] = [
    {"lowercase": False},
    {"lowercase": False, "strip_accents": True},
    {"lowercase": True, "strip_accents": False},
]


@pytest.mark.parametrize("settings", SETTINGS)
def test_a_cased_tokenizer_reads_the_same(settings: dict[str, Any]) -> None:
    file = changed(WordPieces, "normalizer", **settings)
    own, library = WordPieces(file), tokenizers.Tokenizer.from_str(file)
    for text in HARD:
        theirs = library.encode(text, add_special_tokens=False)
        assert own.tokens(text) == (theirs.ids, [end for _, end in theirs.offsets])


def test_byte_pairs_without_a_blank_before_the_text_are_the_same() -> None:
    file = changed(BytePairs, "pre_tokenizer", add_prefix_space=False)
    own, library = BytePairs(file), tokenizers.Tokenizer.from_str(file)
    for text in HARD:
        theirs = library.encode(text, add_special_tokens=False)
        assert own.tokens(text) == (theirs.ids, [end for _, end in theirs.offsets])
        assert own.ids([text]) == [theirs.ids]


UNKNOWN: list[tuple[type[Tokenizer], str, dict[str, Any]]] = [
    (WordPieces, "normalizer", {"none": True}),
    (WordPieces, "normalizer", {"clean_text": False}),
    (WordPieces, "pre_tokenizer", {"type": "Whitespace"}),
    (WordPieces, "model", {"type": "WordLevel"}),
    (WordPieces, "model", {"unk_token": "<none>"}),
    (BytePairs, "pre_tokenizer", {"use_regex": False}),
    (BytePairs, "model", {"ignore_merges": True}),
    (BytePairs, "decoder", {"none": True}),
]


@pytest.mark.parametrize(("kind", "part", "values"), UNKNOWN)
def test_a_tokenizer_of_another_kind_is_refused(kind: type[Tokenizer], part: str, values: dict[str, Any]) -> None:
    with pytest.raises(NotPrepared, match="the tokenizer of a code model cannot have"):
        kind(changed(kind, part, **values))


def test_an_added_token_that_takes_the_blank_before_it_is_refused() -> None:
    held = json.loads(OWN[BytePairs].file)
    held["added_tokens"][4]["lstrip"] = True
    with pytest.raises(NotPrepared, match="cannot have '<mask>'"):
        BytePairs(json.dumps(held))


def test_merges_may_be_written_as_in_earlier_files() -> None:
    held = json.loads(OWN[BytePairs].file)
    held["model"]["merges"] = [" ".join(pair) for pair in held["model"]["merges"]]
    assert BytePairs(json.dumps(held)).ids(HARD) == OWN[BytePairs].ids(HARD)


@KINDS
def test_what_is_kept_is_bounded(kind: type[Tokenizer], monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(tokens, "_KEPT", 10)
    small = kind(OWN[kind].file)
    texts = [f"word{number} {'long' * number}" for number in range(50)]
    assert small.ids(texts) == OWN[kind].ids(texts)
    assert small._kept.cache_info().currsize == 10
