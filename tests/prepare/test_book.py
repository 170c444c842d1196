"""`prepare book`: a model of any domain or language from public sentences and a sentence encoder."""

from __future__ import annotations

import gzip
import json
import shutil
from pathlib import Path

import numpy as np
import pytest
from click.testing import CliRunner, Result

from dpbart import Rewriter
from dpbart.cli import cli
from dpbart.errors import BadTable, NotPrepared
from dpbart.models.bundle import Bundle
from dpbart.models.code import CODE
from dpbart.models.code.book import BookUse, read_book
from dpbart.models.code.model import Networks
from dpbart.prepare.code.sentences import looks_private, read_sentences
from tests.conftest import made_up_texts
from tests.prepare.tiny_teacher import make_static, make_teacher

pytestmark = pytest.mark.usefixtures("no_wait_for_the_disk")

GERMAN = {
    "Garten": ("Die Gärtnerin", "Der Nachbar", "Unsere Großmutter"),
    "Küche": ("Der Bäcker", "Die Köchin", "Mein Bruder"),
}
DID = ("verkauft", "reinigt", "sucht", "bemalt", "öffnet", "vergisst")
GERMAN_THINGS = ("den alten Ofen", "drei Äpfel", "die schwere Kiste", "ein süßes Brötchen", "zwei Gießkannen")
NASTY = ["", " ", "word " * 10_000, "😀🎉", "\x00\x07\x1b", "日本語のテキスト", "\ud800 lone", "line\nline. " * 99]
RUSSIAN = ("Врач", "Соседка", "Мальчик", "Учитель")
RUSSIAN_DID = ("купил хлеб", "читает письмо", "ждёт поезд", "открыл окно", "забыл ключи")
RUSSIAN_WHEN = ("сегодня утром", "поздно вечером", "в субботу", "после обеда", "зимой")


def german() -> list[str]:
    """90 lines of area, topic and sentence."""
    return [
        f"{area}\t{who}\t{who} {did} {thing}."
        for area, people in GERMAN.items()
        for who in people
        for did in DID
        for thing in GERMAN_THINGS
    ][::2]


def russian() -> list[str]:
    return [f"{who} {did} {when}." for who in RUSSIAN for did in RUSSIAN_DID for when in RUSSIAN_WHEN]


def run(*args: object) -> Result:
    return CliRunner().invoke(cli, [str(arg) for arg in args])


def succeed(*args: object) -> str:
    done = run(*args)
    assert done.exit_code == 0, done.output
    return done.stdout


def refused(*args: object) -> str:
    done = run(*args)
    assert done.exit_code == 1, done.output
    return done.stderr


@pytest.fixture(scope="module")
def bert(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A small multilingual sentence encoder."""
    texts = [*made_up_texts(), *german(), *russian()]
    return make_teacher(tmp_path_factory.mktemp("encoder") / "tiny-bert", width=32, texts=texts)


@pytest.fixture(scope="module")
def mine(tmp_path_factory: pytest.TempPathFactory, bert: Path) -> Path:
    """A German model with areas."""
    folder = tmp_path_factory.mktemp("mine")
    (folder / "saetze.tsv").write_text("\n".join(german()), encoding="utf-8")
    args = ("--encoder", bert, "--public", "--language", "German", "--out", folder / "mine")
    shown = succeed("prepare", "book", "--sentences", folder / "saetze.tsv", *args)
    assert "a book of 64 sentences in 2 areas, from 90 lines of saetze.tsv." in shown
    return folder / "mine"


# -- the command ------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("epsilon", [1, 10, 15, 40])
def test_only_sentences_of_the_file_come_out_in_its_language(mine: Path, tmp_path: Path, epsilon: float) -> None:
    texts = ["Der Nachbar sucht drei Äpfel.", "Mein Bruder bemalt den alten Ofen. Die Köchin öffnet die schwere Kiste."]
    (tmp_path / "in.txt").write_text("\n".join(texts), encoding="utf-8")
    succeed("rewrite", tmp_path / "in.txt", tmp_path / "out.txt", "--epsilon", epsilon, "--model", mine)
    known = {line.split("\t")[2] for line in german()}
    for row in filter(None, (tmp_path / "out.txt").read_text(encoding="utf-8").splitlines()):  # a code may say nothing
        said = [f"{each}." for each in row.rstrip(".").split(". ")]
        assert set(said) <= known
    card = json.loads((tmp_path / "out.txt.card.json").read_text())
    assert card["guarantee"] == {"epsilon": epsilon, "delta": 0.0}
    assert card["model"]["language"] == "German"
    assert card["model"]["book_only"] is True


def test_areas_choose_among_its_sentences(mine: Path) -> None:
    lines = {line.sentence: line.area for line in read_book(mine)}
    rewritten = Rewriter.load(str(mine), epsilon=2, areas=["Küche"]).rewrite(["Der Nachbar sucht drei Äpfel."] * 40)
    assert {lines[text] for text in rewritten.texts} == {"Küche"}


def test_a_text_is_sent_as_the_sentence_that_it_is(mine: Path) -> None:
    """All codes are kept at a large budget: every sentence of the book comes back."""
    texts = [line.sentence for line in read_book(mine)]
    epsilon = 10  # the whole book, one sentence for a text
    size = CODE.channel(
        Bundle.find(str(mine)), mechanism="response", epsilon=epsilon, delta=1e-5, length=64, use=BookUse()
    ).size
    assert (size.places, size.sentences) == (1, 64)
    back = Rewriter.load(str(mine), epsilon=epsilon).rewrite(texts).texts
    assert sum(map(str.__eq__, texts, back)) >= 57  # of 64, more than 7 are drawn anew in 1 of 10^10 runs


def test_a_model_of_another_script_and_of_one_column(bert: Path, tmp_path: Path) -> None:
    with gzip.open(tmp_path / "строки.txt.gz", "wt", encoding="utf-8") as out:
        out.write("\n".join(russian()))
    args = ("--sentences", tmp_path / "строки.txt.gz", "--encoder", bert, "--public", "--out", tmp_path / "m")
    made = json.loads(succeed("prepare", "book", *args, "--bits", 6, "--json"))
    assert made["recipe"]["encoder"].startswith("tiny-bert@")
    assert (made["recipe"]["bits"], made["recipe"]["lines_read"]) == (6, 100)
    assert 0 < made["figures"]["covered"] <= 1
    drawn = Rewriter.load(str(tmp_path / "m"), epsilon=12).rewrite(["Учитель ждёт поезд в субботу."] * 4).texts
    assert any(drawn)  # one of them may say nothing, by chance
    assert {f"{text.split('. ')[0].rstrip('.')}." for text in drawn if text} <= set(russian())


@pytest.mark.parametrize("kind", ["code", "static"])
def test_encoders_of_every_kind_will_do(kind: str, tiny_code: Bundle, tmp_path: Path) -> None:
    encoder = tiny_code.folder if kind == "code" else make_static(tmp_path / "static", texts=made_up_texts())
    (tmp_path / "public.txt").write_text("\n".join(made_up_texts()))
    args = ("--sentences", tmp_path / "public.txt", "--encoder", encoder, "--public", "--out", tmp_path / "m")
    succeed("prepare", "book", *args)
    parts = Networks.load(tmp_path / "m")
    assert parts.pen is None
    assert (tmp_path / "m" / "encoder").is_dir() == (kind == "static")
    texts = [line.sentence for line in parts.book.lines]
    np.testing.assert_allclose(parts.book.vectors, parts.reader.sentences(texts), atol=0.02)
    done = Rewriter.load(str(tmp_path / "m"), epsilon=10).rewrite([*texts[:3], *NASTY])
    assert set(done.texts) <= set(made_up_texts())


def test_a_book_can_be_made_with_the_encoder_of_another_book(mine: Path, tmp_path: Path) -> None:
    (tmp_path / "public.txt").write_text("\n".join(russian()), encoding="utf-8")
    args = ("--sentences", tmp_path / "public.txt", "--encoder", mine, "--public", "--out", tmp_path / "m")
    succeed("prepare", "book", *args)
    assert Networks.load(tmp_path / "m").reader.width == 32


def test_a_file_that_nobody_said_is_public_is_refused(bert: Path, tmp_path: Path) -> None:
    (tmp_path / "notes.txt").write_text("\n".join(made_up_texts()))
    said = refused("prepare", "book", "--sentences", tmp_path / "notes.txt", "--encoder", bert, "--out", tmp_path / "m")
    assert "all of them are published with the model, and any of them can come out" in said
    assert "If this file is public, pass --public." in said
    assert not (tmp_path / "m").exists()


def test_what_cannot_be_a_book_is_refused(bert: Path, tmp_path: Path) -> None:
    file = tmp_path / "public.txt"
    args = ("prepare", "book", "--sentences", file, "--public", "--out", tmp_path / "m", "--encoder")
    file.write_text("\n".join([*made_up_texts()[:40], *made_up_texts()[:10], "12 : 3"]))
    said = refused(*args, bert)
    assert "a book needs at least 64 different sentences, got 40 from" in said
    assert "(left out: 10 repeated, 1 without words)" in said
    file.write_text("\n".join(made_up_texts()))
    assert "no sentence encoder at './nowhere'" in refused(*args, "./nowhere")
    assert "--out must differ from the encoder's own directory" in refused(*args[:-3], "--out", bert, "--encoder", bert)
    assert "bits must be from 6 to 15, got 16" in refused(*args, bert, "--bits", 16)


# -- its files --------------------------------------------------------------------------------------------------------


def test_only_files_that_cannot_run_code_are_copied(bert: Path, tmp_path: Path) -> None:
    spoiled = shutil.copytree(bert, tmp_path / "spoiled")
    for name in ("pytorch_model.bin", "model.py", "weights.pt", "dpbart.json"):
        (spoiled / name).write_text("{}")
    (tmp_path / "public.txt").write_text("\n".join(made_up_texts()))
    args = ("--sentences", tmp_path / "public.txt", "--encoder", spoiled, "--public", "--out", tmp_path / "m")
    succeed("prepare", "book", *args)
    copied = {str(file.relative_to(tmp_path / "m/encoder")) for file in (tmp_path / "m/encoder").rglob("*.*")}
    assert copied == {"config.json", "model.safetensors", "tokenizer.json", "1_Pooling/config.json"}


@pytest.mark.parametrize("part", ["encoder/model.safetensors", "encoder/1_Pooling/config.json", "book.tsv"])
def test_the_identity_of_a_model_covers_the_files_of_its_encoder(mine: Path, tmp_path: Path, part: str) -> None:
    copied = shutil.copytree(mine, tmp_path / "mine")
    before, same = Bundle.find(str(copied)), Bundle.find(str(mine))
    assert before.files == same.files
    _ = before.fingerprint
    with (copied / part).open("ab") as out:
        out.write(b" ")
    assert Bundle.find(str(copied)).files != before.files
    with pytest.raises(NotPrepared, match="have changed since they were hashed"):
        before.check_unchanged()


@pytest.mark.parametrize("missing", ["book.tsv", "encoder/config.json", "encoder/model.safetensors"])
def test_a_model_without_a_part_is_refused(mine: Path, tmp_path: Path, missing: str) -> None:
    copied = shutil.copytree(mine, tmp_path / "mine")
    (copied / missing).unlink()
    with pytest.raises(NotPrepared):
        Rewriter.load(str(copied), epsilon=10)


# -- sentences --------------------------------------------------------------------------------------------------------


def read(tmp_path: Path, *lines: str) -> tuple[list[str], dict[str, int]]:
    (tmp_path / "s.txt").write_text("\n".join(lines), encoding="utf-8")
    found = read_sentences(tmp_path / "s.txt")
    return [line.sentence for line in found.lines], found.left_out


def test_a_sentence_stands_once_and_in_one_line(tmp_path: Path) -> None:
    assert read(tmp_path, "  a  b ", "", "a b", "c\u2028d") == (["a b", "c d"], {"repeated": 1})
    assert read(tmp_path, "x " * 200, "fine")[1] == {"longer than 300 characters": 1}
    (tmp_path / "s.txt").write_bytes("schön\nok\n".encode("latin-1"))
    assert read_sentences(tmp_path / "s.txt").left_out == {"not UTF-8": 1}


@pytest.mark.parametrize(
    ("lines", "message"),
    [
        (["a\tb\tc", "d"], "line 2 of .* got 1 columns"),
        (["d", "a\tb\tc"], "line 2 of .* got 3 columns"),
        (["a\tb"], "line 1 of .* got 2 columns"),
        (["a, b\tc\td"], "the area in line 1 of .* must have no comma"),
    ],
)
def test_columns_that_do_not_fit_are_refused(tmp_path: Path, lines: list[str], message: str) -> None:
    with pytest.raises(BadTable, match=message):
        read(tmp_path, *lines)


@pytest.mark.parametrize(
    ("line", "kind"),
    [
        ("Mail jo.b@example.co.uk today.", "e-mail addresses"),
        ("See www.example.org for more.", "web addresses"),
        ("Call +49 221 4016003 before noon.", "phone numbers"),
        ("Ring 020 7946 0958.", "phone numbers"),
        ("My number is 555-123-4567.", "phone numbers"),
        ("Case 20391847 is open.", "long numbers"),
        ("Pay to DE44 5001 0517 5407 3249 31.", "account numbers"),
        ("She lives at 12 Baker Street.", "street addresses"),
        ("Er wohnt in der Lindenstraße 14.", "street addresses"),
        ("Он живёт на улице Ленина, 5.", "street addresses"),
        ("I waited 45 minutes at gate 12.", None),
        ("In 1998 we had 3 dogs.", None),
        ("Der Weg war lang.", None),
    ],
)
def test_lines_that_look_private_are_noticed(line: str, kind: str | None) -> None:
    assert looks_private(line) == kind


def test_lines_that_look_private_are_counted_and_named(bert: Path, tmp_path: Path) -> None:
    private = ["Write to jo@example.org now.", "Call +49 221 4016003.", "Call +49 221 4016004."]
    (tmp_path / "public.txt").write_text("\n".join([*private, *made_up_texts()]))
    args = ("--sentences", tmp_path / "public.txt", "--encoder", bert, "--public", "--out", tmp_path / "m")
    done = run("prepare", "book", *args)
    assert done.exit_code == 0, done.output
    said = "Warning: 3 lines of public.txt look private: 1 with e-mail addresses, 2 with phone numbers (lines 1, 2, 3)."
    assert said in done.stderr
    made = Bundle.find(str(tmp_path / "m")).facts.recipe["book"]
    assert made["private_looking"] == {"e-mail addresses": 1, "phone numbers": 2}
