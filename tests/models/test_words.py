from __future__ import annotations

import pytest

from dpbart.models.text import Tokens, word_tokenizer

WORDS = (
    "<s>",
    "<pad>",
    "</s>",
    "<unk>",
    "i",
    "do",
    "n't",
    "'ll",
    "know",
    "it",
    ".",
    ",",
    "(",
    ")",
    "she",
    "'s",
    "5",
    "%",
)
TOKENS = Tokens(word_tokenizer({word: number for number, word in enumerate(WORDS)}), length=12)


@pytest.mark.parametrize(
    "text",
    ["i don't know it.", "i'll know it, (she) do.", "she's 5%.", ""],
)
def test_a_text_of_known_words_is_decoded_unchanged(text: str) -> None:
    assert TOKENS.decode(TOKENS.encode([text])) == [text]


def test_every_text_has_the_same_number_of_ids() -> None:
    ids = TOKENS.encode(["", "i " * 1000, "Zanzibar", "\ud800", "日本"])
    assert ids.shape == (5, 12)
    assert list(ids[0]) == [0, 2, *[1] * 10]
    assert list(ids[1]) == [0, *[4] * 10, 2]


def test_unknown_words_become_one_token_that_is_never_written() -> None:
    ids = TOKENS.encode(["I know Zanzibar Zebediah."])
    assert list(ids[0][:7]) == [0, 4, 8, 3, 3, 10, 2]
    assert TOKENS.decode(ids) == ["i know."]


def test_case_and_curly_apostrophes_do_not_matter_unless_the_vocabulary_has_case() -> None:
    assert TOKENS.decode(TOKENS.encode(["SHE’S"])) == ["she's"]
    cased = word_tokenizer({"<s>": 0, "<pad>": 1, "</s>": 2, "<unk>": 3, "She": 4}, lowercase=False)
    assert cased.encode("She she").ids == [0, 4, 3, 2]
