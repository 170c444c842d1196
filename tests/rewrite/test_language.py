"""A file that is plainly not in the model's language: one line to the operator, and to nobody else."""

from __future__ import annotations

import json
import tracemalloc
import unicodedata
from dataclasses import replace
from pathlib import Path

import pytest

from dpbart.rewrite.language import Impression, known_languages
from dpbart.tables.batch import DictRows
from dpbart.testing import LINE
from tests.command_line import run
from tests.languages import TEXTS, texts_in

SHARED = {
    "Russian": "Russian or another language in Cyrillic letters",
    "Arabic": "Arabic or another language in Arabic letters",
    "Hindi": "Hindi or another language in Devanagari letters",
}
NOTICE = "These texts look like "


def impression(texts: list[str]) -> Impression:
    seen = Impression()
    for first, text in enumerate(texts, start=1):
        seen.see(DictRows(first, ("text",), [{"text": text}]))
    return seen


def said(texts: list[str], language: str | None = "English") -> str | None:
    return impression(texts).notice(replace(LINE, language=language))


@pytest.mark.parametrize("language", TEXTS)
def test_texts_in_another_language_are_noticed_and_named(language: str) -> None:
    line = said(texts_in(language))
    if language == "English":
        assert line is None
    else:
        assert line == (
            f"These texts look like {SHARED.get(language, language)}; 'fake' writes English. "
            "Make a model for another language with: dpbart prepare book"
        )


@pytest.mark.parametrize("own", TEXTS)
def test_texts_in_the_language_of_the_model_are_not_noticed_and_all_others_are(own: str) -> None:
    assert said(texts_in(own), own) is None
    for other in set(TEXTS) - {own}:
        line = said(texts_in(other), own)
        if own == "Japanese" and other == "Chinese":  # a Japanese file of names and places has Han letters alone
            assert line is None
        else:
            assert line is not None, (own, other)
            assert line.startswith(f"{NOTICE}{SHARED.get(other, other)};"), (own, other)


def test_danish_and_norwegian_may_be_either() -> None:
    danish = """
Jeg har stadig ondt i knæet, når jeg går på trappen, og det er ikke godt, så jeg skal til lægen igen.
De sendte den forkerte størrelse to gange, men det var ikke min fejl, og vi har ikke fået et svar.
Der var så koldt på det hotel, at vi ikke kunne sove, og vi kommer ikke til at bo der igen.
"""
    assert (said([danish]) or "").startswith((f"{NOTICE}Danish;", f"{NOTICE}Danish or Norwegian;"))


CODE = """
for (int i = 0; i < n; i++) { if (a[i] == e) return y; else x = o * z; }
def mean(values, de=None, en=None): return sum(values) / len(values) if values else None
const el = document.getElementById("la"); el.innerHTML = un + una; let os = require("os");
SELECT id, name FROM users WHERE en = 1 AND de = 0 ORDER BY la DESC LIMIT 10;
import os, re, sys; print(os.path.join(sys.prefix, "lib", "et", "al"))
"""
NAMES = """
María de la Cruz y López, Juan de los Santos, Ana del Río, Luis de la Torre, Carmen de las Heras, José de la Vega
Jan van der Berg, Piet van den Broek, Kees de Vries, Anna van de Ven, Willem de Groot, Joost van der Meer
Otto von der Leyen, Karl zu Guttenberg, Hans von dem Bussche, Leonardo da Vinci, Vasco da Gama, Luca della Robbia
"""
CHAT = """
lol u r so funny omg haha nah im good thx c u l8r gonna grab some food brb
ok np ttyl!!! wtf is he even doin rn smh, die hard fan vs. la la land haha
en route to the gym, men only today, no car, so pls come get me at ten, kk
"""
KEYWORDS = "red bicycle garden gate blue boat winter coat size large leather strap steel frame free shipping sale\n"


@pytest.mark.parametrize(
    "texts",
    [
        [],
        ["", " ", "\n"],
        ["12345", "!!!", "🤷🤷🤷 🎉", "3.14"],
        CODE.strip().splitlines(),
        NAMES.strip().splitlines(),
        NAMES.strip().splitlines() * 1000,
        CHAT.strip().splitlines(),
        [KEYWORDS] * 100,
        ["Der Hund und die Katze sind nicht da."],
        ["Guten Morgen!", "Danke schön", "Привет", "再见"],
        [*texts_in("English"), *texts_in("German")],
        [*texts_in("English"), *texts_in("Russian")],
        ["The word дом means house and the word книга means book.", "I like the letters α, β, γ and λ best."] * 20,
        ["The review said 很好 and then it was 非常好, which is as good as it gets in this shop."] * 20,
        ["DER DIE DAS"] * 100,
    ],
    ids=lambda texts: texts[0][:20] if texts else "nothing",
)
def test_only_a_plain_case_is_said(texts: list[str]) -> None:
    assert said(texts) is None


def test_a_list_of_names_in_one_language_is_no_text() -> None:
    assert said(["María de la Cruz", "Juan de los Santos", "Ana del Río", "Luis de las Heras"] * 100) is None


@pytest.mark.parametrize("language", [None, "", "Welsh", "English and German", "several"])
def test_a_model_without_a_known_language_says_nothing(language: str | None) -> None:
    assert all(said(texts_in(name), language) is None for name in TEXTS)


def test_accents_may_be_letters_of_their_own_and_capitals_do_not_matter() -> None:
    for change in (lambda text: unicodedata.normalize("NFD", text), str.upper):
        assert (said([change(text) for text in texts_in("French")]) or "").startswith(f"{NOTICE}French;")


def test_the_whole_file_counts_and_no_single_text() -> None:
    """One long text in another language is not what the file is in."""
    assert said([*texts_in("English") * 10, " ".join(texts_in("German") * 1000)]) is None
    assert said([*texts_in("German") * 10, " ".join(texts_in("English") * 1000)]) is not None


def test_it_takes_the_same_room_for_any_file() -> None:
    seen = Impression()
    texts = [text for language in TEXTS for text in texts_in(language)]

    def see(times: int) -> int:
        tracemalloc.start()
        for number in range(times):
            seen.see(DictRows(1, ("text",), [{"text": f"{text} word{chr(97 + number % 26) * 5}"} for text in texts]))
        size, _ = tracemalloc.get_traced_memory()
        tracemalloc.stop()
        return size

    see(30)  # all letters and listed words have been seen
    assert see(300) < 20_000
    assert set(seen.common) <= {word for language in known_languages().values() for word in language.words}
    assert "SECRET" not in repr(impression(["SECRET"]))


def test_the_list_is_well_formed() -> None:
    languages = known_languages()
    assert len([language for language in languages.values() if language.words]) >= 10
    for language in languages.values():
        assert all(len(word) > 1 and word == unicodedata.normalize("NFC", word.lower()) for word in language.words)
        assert not language.words or len(language.words) >= 50


@pytest.fixture
def no_wait(no_wait_for_the_disk: None) -> None:
    """Nothing here is about a crash."""


def write(folder: Path, language: str) -> Path:
    file = folder / "in.csv"
    rows = [f'{number},"{text}"' for number, text in enumerate(texts_in(language) * 3)]
    file.write_text("\n".join(["who,text", *rows]) + "\n", encoding="utf-8")
    return file


COMMAND = "Make a model for another language with: dpbart prepare book"


@pytest.mark.usefixtures("no_wait")
@pytest.mark.parametrize("language", ["German", "Russian", "Chinese", "English"])
def test_a_run_says_so_before_it_releases_anything_and_writes_it_nowhere(tmp_path: Path, language: str) -> None:
    file, ledger, name = write(tmp_path, language), tmp_path / "ledger.db", SHARED.get(language, language)
    done = run("rewrite", file, tmp_path / "out.csv", "-e", 10, "--person-column", "who", "--ledger", ledger)
    assert done.exit_code == 0, done.stderr
    lines = [line for line in done.stderr.splitlines() if NOTICE in line]
    expected = f"These texts look like {name}; 'mini-code' writes English. {COMMAND}"
    assert lines == ([] if language == "English" else [expected])
    assert done.stderr.find(NOTICE) < done.stderr.index("texts rewritten")
    assert done.stdout == ""
    written = [each for each in tmp_path.rglob("*") if each.is_file() and each != file]
    assert {each.name for each in written} >= {"out.csv", "out.csv.card.json", "out.csv.card.html", "ledger.db"}
    for each in written:
        content = each.read_bytes()
        assert NOTICE.encode() not in content
        assert b"prepare book" not in content
        # The model may write about any language, and it knows English.
        assert each.name == "out.csv" or language == "English" or language.encode() not in content


@pytest.mark.usefixtures("no_wait")
def test_the_cards_of_two_languages_are_the_same(tmp_path: Path) -> None:
    cards = []
    for language in ("English", "German"):
        (tmp_path / language).mkdir()
        out = tmp_path / language / "out.csv"
        assert run("rewrite", write(tmp_path / language, language), out, "-e", 10).exit_code == 0
        cards.append(json.loads(out.with_name("out.csv.card.json").read_text()))
    changing = {"made", "run", "pages_sha256", "pages"}
    english, german = ({key: value for key, value in card.items() if key not in changing} for card in cards)
    assert english == german
    assert list(cards[0]["run"]) == list(cards[1]["run"])


@pytest.mark.usefixtures("no_wait")
def test_a_refused_run_and_standard_input_say_nothing(tmp_path: Path) -> None:
    file = write(tmp_path, "German")
    (tmp_path / "out.csv").write_text("mine")
    refused = run("rewrite", file, tmp_path / "out.csv", "-e", 10)
    assert refused.exit_code == 1
    assert NOTICE not in refused.stderr
    piped = run("rewrite", "-", "-", "-e", 10, stdin=TEXTS["German"].lstrip() * 3)
    assert piped.exit_code == 0, piped.stderr
    assert NOTICE not in piped.stdout + piped.stderr


@pytest.mark.usefixtures("no_wait")
def test_the_line_comes_before_the_first_release(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    from dpbart.rewrite import job

    def fails(*_: object, **__: object) -> None:
        raise KeyboardInterrupt

    file = write(tmp_path, "German")
    monkeypatch.setattr(job.Job, "run", fails)
    stopped = run("rewrite", file, tmp_path / "out.csv", "-e", 10)
    assert NOTICE in stopped.stderr
    assert {each.name for each in tmp_path.iterdir()} == {"in.csv"}
