"""The command that checks a book of sentences: every kind of fault, on made-up books."""

from __future__ import annotations

import doctest
import importlib
import random
import sys
from collections.abc import Iterator
from pathlib import Path
from types import ModuleType

import pytest
import zstandard

DOCS = Path(__file__).parent.parent / "docs"
GOOD = [
    ("home", "garden", "The roses by the gate need water every evening."),
    ("home", "garden", "Slugs have eaten all of our lettuce again."),
    ("home", "kitchen", "Who left the oven on last night?"),
    ("home", "kitchen", "I burned the soup, so we ate bread in March."),
]
COUNTS = ("--topic", "2", "--total", "4")


@pytest.fixture(scope="module")
def check_book() -> Iterator[ModuleType]:
    sys.path.insert(0, str(DOCS))
    yield importlib.import_module("check_book")
    sys.path.remove(str(DOCS))


class Checked:
    """What the command says about the good book, or about one with a sentence in place of its last one."""

    def __init__(self, module: ModuleType, folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
        self.module, self.folder, self.capsys = module, folder, capsys

    def __call__(self, sentence: str | None = None, *options: object) -> tuple[int, list[str]]:
        rows = GOOD if sentence is None else [*GOOD[:-1], ("home", "kitchen", sentence)]
        return self.book("".join("\t".join(row) + "\n" for row in rows), *COUNTS, *options)

    def book(self, content: str, *options: object) -> tuple[int, list[str]]:
        """The exit status, and the lines that are no summary."""
        (self.folder / "book.tsv").write_text(content, encoding="utf-8")
        status = self.module.main([str(self.folder / "book.tsv"), *map(str, options)])
        return status, [line for line in self.capsys.readouterr().out.splitlines() if not line.startswith(" ")]


@pytest.fixture
def checked(check_book: ModuleType, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> Checked:
    return Checked(check_book, tmp_path, capsys)


def test_the_examples_in_the_command_are_right(check_book: ModuleType) -> None:
    assert doctest.testmod(check_book) == doctest.TestResults(failed=0, attempted=3)


def test_a_good_book_has_no_faults(checked: Checked) -> None:
    assert checked() == (0, [])


def test_counts_of_topics_and_of_the_book(checked: Checked) -> None:
    status, lines = checked.book("home\tgarden\tThe roses by the gate need water.\n", "--topic", 2, "--total", 1)
    assert (status, lines) == (1, ["counts: home / garden: 1 sentences, not at least 2"])
    status, lines = checked.book("home\tgarden\tThe roses by the gate need water.\n")
    assert lines == ["counts: home / garden: 1 sentences, not at least 20", "counts: the book: 1 sentences, not 32,768"]


def test_a_line_must_have_three_fields(checked: Checked) -> None:
    status, lines = checked.book("home\tThe roses need water.\n", "--total", 0)
    assert (status, lines) == (
        1,
        ["broken lines: line 1: must be an area, a topic and a sentence, got 2 fields: home\tThe roses need water."],
    )


@pytest.mark.parametrize(
    ("sentence", "kind"),
    [
        ("who left the oven on last night", "duplicates"),
        ("Who left the oven on – last night?!", "duplicates"),
        ("Who left the oven on all last night?", "near-duplicates"),
        ("Last night, who left the oven on?", "near-duplicates"),
        ("Far too salty.", "not 4 to 22 words"),
        (" ".join(["Salt,", *["pepper"] * 22]), "not 4 to 22 words"),
        ("Bake it for 20 minutes in the oven.", "digits"),
        ("Bake it for ² minutes in the oven.", "digits"),
        ("My soup tastes like shit today.", "offensive terms"),
    ],
)
def test_each_fault_is_found_alone(checked: Checked, sentence: str, kind: str) -> None:
    status, lines = checked(sentence)
    assert status == 1
    assert [line.split(": ")[0] for line in lines] == [kind]
    assert sentence in lines[0]


@pytest.mark.parametrize(
    "sentence",
    [
        "Salt is missing here.",
        " ".join(["Salt,", *["pepper"] * 21]),
        "Who left the oven and the kettle on last evening?",
        "Stop. Look at “The” French cook, said I on Monday.",
    ],
)
def test_what_is_just_allowed_is_no_fault(checked: Checked, sentence: str) -> None:
    assert checked(sentence) == (0, [])


def test_names_are_listed_and_are_no_fault(checked: Checked) -> None:
    status, lines = checked("Then Anna cooked on Monday, and Anna’s soup was good.")
    assert status == 0
    assert lines == [
        "capitals inside a sentence: Anna: 1 (line 4)",
        "capitals inside a sentence: Anna's: 1 (line 4)",
    ]


def test_near_duplicates_are_those_of_all_pairs(check_book: ModuleType) -> None:
    draw = random.Random(7)
    words = [f"word{chr(97 + number)}" for number in range(12)]
    texts = [" ".join(draw.sample(words, draw.randint(1, 9))) for _ in range(400)]
    book = [check_book.Sentence(line, "area", "topic", text) for line, text in enumerate(texts, start=1)]
    sets = [set(text.split()) for text in texts]
    pairs = {
        (later + 1, earlier + 1)
        for later in range(len(texts))
        for earlier in range(later)
        if len(sets[later] & sets[earlier]) / len(sets[later] | sets[earlier]) >= 0.75
        and texts[later] != texts[earlier]
    }
    assert len(pairs) > 100
    found = check_book.check_near_duplicates(book).found
    assert len(found) == len(pairs)
    assert found == sorted(
        (f"{book[later - 1]}  (like {book[earlier - 1]})" for later, earlier in pairs), key=found.index
    )


def test_words_that_no_list_has_are_found(checked: Checked, tmp_path: Path) -> None:
    words = (
        "the roses by gate need water every evening slugs have eaten all of our lettuce again who left oven on last "
    )
    common = tmp_path / "words.txt.zst"
    common.write_bytes(zstandard.compress((words + "night can say it well known").encode()))
    status, lines = checked("Can’t say it's well-known – the ovn can't.", "--words", common)
    assert (status, lines) == (1, ["words in no list: ovn: 1 (line 4)"])
    more = tmp_path / "more.txt"
    more.write_text("ovn\n")
    assert checked("Can't say it's well-known, the ovn.", "--words", common, "--words", more) == (0, [])


def write_corpus(folder: Path, *lines: str) -> Path:
    (folder / "corpus").mkdir()
    text = "\n".join(["Something else altogether.", *lines, "And an end"])
    (folder / "corpus" / "talk.txt.zst").write_bytes(zstandard.compress(text.encode()))
    return folder / "corpus"


@pytest.mark.parametrize(
    "line",
    [
        "The roses by the gate need water every evening.",
        "He said: “the roses by the gate—need water every Evening”, and then he left us.",
        "the the roses by the gate need water every evening the",
    ],
)
def test_a_sentence_that_stands_in_a_corpus_is_found(checked: Checked, tmp_path: Path, line: str) -> None:
    status, lines = checked(None, "--corpus", write_corpus(tmp_path, line))
    copied = "copied sentences: line 1: The roses by the gate need water every evening.  (in talk.txt.zst)"
    assert (status, lines) == (1, [copied])


@pytest.mark.parametrize(
    "lines",
    [
        ["The roses by the gate need water every", "evening."],
        ["The roses by the gate need water every morning."],
        ["The roses by the old gate need water every evening."],
        ["Roses by the gate need water every evening."],
    ],
)
def test_other_lines_of_a_corpus_are_no_copies(checked: Checked, tmp_path: Path, lines: list[str]) -> None:
    assert checked(None, "--corpus", write_corpus(tmp_path, *lines)) == (0, [])


def test_five_words_may_stand_anywhere(checked: Checked, tmp_path: Path) -> None:
    corpus = write_corpus(tmp_path, "The soup is very good.", "The soup is very good today.")
    assert checked("The soup is very good.", "--corpus", corpus) == (0, [])
    assert checked("The soup is very good today.", "--corpus", corpus)[0] == 1


def test_a_corpus_is_read_in_pieces_that_split_no_line(
    check_book: ModuleType, checked: Checked, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(check_book, "_CHUNK", 7)
    corpus = write_corpus(tmp_path, *["a b c"] * 20, GOOD[0][2], *["d e f"] * 20)
    status, lines = checked(None, "--corpus", corpus)
    assert (status, len(lines)) == (1, 1)


def test_an_empty_corpus_is_a_mistake(checked: Checked, tmp_path: Path) -> None:
    with pytest.raises(SystemExit, match=r"has no \.txt\.zst files"):
        checked(None, "--corpus", tmp_path)
