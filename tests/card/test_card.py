"""The card follows its schema, is readable and signed, and can be checked without having seen the run."""

from __future__ import annotations

import json
import re
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import jsonschema
import pytest

from dpbart.card.card import read_card, schema
from dpbart.models.bundle import Bundle
from dpbart.privacy.scale import LEVELS
from tests.command_line import run


@pytest.fixture
def keys(tmp_path: Path) -> tuple[Path, Path]:
    from cryptography.hazmat.primitives import serialization as form
    from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey

    private, public, key = tmp_path / "sign.pem", tmp_path / "public.pem", Ed25519PrivateKey.generate()
    private.write_bytes(key.private_bytes(form.Encoding.PEM, form.PrivateFormat.PKCS8, form.NoEncryption()))
    public.write_bytes(key.public_key().public_bytes(form.Encoding.PEM, form.PublicFormat.SubjectPublicKeyInfo))
    return private, public


def rewritten(tiny: Bundle, folder: Path, *args: object) -> Path:
    (folder / "in.csv").write_text("who,text,<b>x</b>\nanna,a child,1\nben,a song,2\nanna,a boat,2\n")
    model = ("--model", tiny.folder, "--beams", 1, "--overwrite", "--keep-all")
    done = run("rewrite", folder / "in.csv", folder / "out.csv", *model, *args)
    assert done.exit_code == 0, done.stderr
    return folder / "out.csv.card.json"


RUNS: list[tuple[object, ...]] = [
    ("-e", 500),
    ("-e", 50, "--mechanism", "laplace", "--person-column", "who", "--person-budget", 100),
    ("-e", 500, "--replay-seed", 1),
    ("--mechanism", "none"),
    ("-e", 9, "--labels", "randomize:1", "--label-column", "<b>x</b>", "--label-set", "1,2", "--person-column", "who"),
]


def test_the_published_schema_is_that_of_the_record() -> None:
    published = Path(__file__).parents[2] / "docs" / "card.schema.json"
    assert json.loads(published.read_text()) == schema(), "run 'make docs'"


@pytest.mark.parametrize("args", RUNS)
def test_every_card_follows_the_schema(tiny: Bundle, tmp_path: Path, args: tuple[object, ...]) -> None:
    jsonschema.Draft202012Validator.check_schema(schema())
    card = rewritten(tiny, tmp_path, *args)
    jsonschema.validate(json.loads(card.read_text()), schema())
    page, private = card.with_suffix(".html").read_text(), json.loads(card.read_text())["private"]
    assert private is not ({"--replay-seed", "none"} & set(args) != set())
    for marked in (r"<title>.*NOT PRIVATE.*</title>", r"<h1>.*NOT PRIVATE.*</h1>", r'class="here"[^>]*>none<'):
        assert bool(re.search(marked, page)) is not private
    assert ("NOT PRIVATE" in page) is ("NOT PRIVATE" in card.with_suffix(".txt").read_text()) is not private
    assert "<b>x</b>" not in page
    assert "&lt;b&gt;x&lt;/b&gt;" in page
    for outside in ("<script", "http-equiv", "src=", "href=", "@import", "url("):
        assert outside not in page
    assert run("card", "verify", card, "--output", tmp_path / "out.csv").exit_code == 0


def page_of(tiny: Bundle, folder: Path, *args: object) -> str:
    return rewritten(tiny, folder, *args).with_suffix(".html").read_text()


def test_the_bar_follows_the_scale(tiny: Bundle, tmp_path: Path) -> None:
    for args, here in (
        (("-e", 0.9), "strong"),
        (("-e", 2500), "almost none"),
        (("--mechanism", "none"), "none"),
        # Two texts of anna, each at 15, are one person's.
        (("-e", 15, "--mechanism", "laplace", "--person-column", "who"), "weak"),
    ):
        page = page_of(tiny, tmp_path, *args)
        assert f'<li class="here" aria-current="true">{here}</li>' in page
        colour = next(level.colour for level in LEVELS if level.name == here)
        assert f"border-left: .4rem solid {colour}" in page


def test_a_card_begins_with_what_is_promised_to_whom_and_what_was_read(tiny: Bundle, tmp_path: Path) -> None:
    card = rewritten(tiny, tmp_path, "-e", 50, "--mechanism", "laplace", "--person-column", "who")
    lines = card.with_suffix(".txt").read_text().splitlines()
    assert lines[2] == "Promise:            WEAK. Epsilon 100, delta 0 for a person; epsilon 50, delta 0 for each text."
    assert lines[3].endswith("Each person in the column 'who' (2 in all), for all of their texts in this run, up to 2.")
    assert lines[4].partition("In words:")[2].strip() == (
        "This counts all texts of one person, at most 2. A reader who suspects one of thousands of texts, or of far "
        "more, can tell which it was. An attacker may pick the right one of two possibilities practically always, and "
        "even the right one of 10^43."
    )
    assert "The model read the first 12 tokens of each and wrote at most 12 tokens for each" in lines[5]
    page = card.with_suffix(".html").read_text()
    assert all(line.partition(":")[2].strip().replace("'", "&#x27;") in page for line in lines[2:6])


def test_every_fact_is_grouped_and_says_what_it_means(tiny: Bundle, tmp_path: Path) -> None:
    for args in RUNS:
        page = page_of(tiny, tmp_path, *args)
        assert re.findall("<h2>(.*?)</h2>", page) == [
            "What is not covered",
            "The promise",
            "The data",
            "The mechanism",
            "The run",
        ]
        meanings = re.findall('<span class="meaning">(.*?)</span>', page)
        assert len(meanings) == page.count("<tr>") > 25
        assert all(each.endswith(".") for each in meanings)


def test_free_text_that_is_not_rewritten_is_red_on_the_card(tiny: Bundle, tmp_path: Path) -> None:
    (tmp_path / "in.csv").write_text("text,comment\na child,SECRET\n")
    model = ("--model", tiny.folder, "--beams", 1, "-e", 1, "--keep-column", "comment")
    done = run("rewrite", tmp_path / "in.csv", tmp_path / "out.csv", *model)
    card = tmp_path / "out.csv.card.json"
    assert "Warning: 'comment': the column looks like free text" in done.stderr
    assert json.loads(card.read_text())["free_text_columns"] == ["comment"]
    assert (
        '<p class="warning">&#x27;comment&#x27;: the column looks like free text'
        in card.with_suffix(".html").read_text()
    )
    assert "WARNING: 'comment': the column looks like free text" in card.with_suffix(".txt").read_text()


def test_a_signed_card_passes_its_checks(tiny: Bundle, tmp_path: Path, keys: tuple[Path, Path]) -> None:
    card = rewritten(tiny, tmp_path, "-e", 500, "--sign-key", keys[0])
    done = run("card", "verify", card, "--key", keys[1], "--output", tmp_path / "out.csv")
    assert done.exit_code == 0
    assert done.stdout.splitlines()[-4:-1] == [
        "signature  holds  matches the given key",
        "output     holds  is the file of this card",
        "rows       holds  the output has 3 rows, as the card says",
    ]
    assert "signed by a key that you did not give" in run("card", "verify", card).stdout
    by_name = {each["name"]: each["held"] for each in json.loads(run("card", "verify", card, "--json").stdout)}
    assert (by_name["noise"], by_name["signature"]) == (True, None)


def _weaker(card: dict[str, dict[str, float]]) -> None:
    card["noise"]["scale"] /= 2


def _stronger(card: dict[str, dict[str, float]]) -> None:
    card["guarantee"]["epsilon"] = 400.0


def _alone(card: dict[str, dict[str, dict[str, float]]]) -> None:
    for name in ("guarantee", "counted_guarantee"):
        card["person"][name]["epsilon"] = 500.0


def _two_guarantees(card: dict[str, dict[str, dict[str, float]]]) -> None:
    card["person"]["guarantee"]["epsilon"] = 500.0


def _fewer(card: dict[str, object]) -> None:
    card["rows"] = 1


def _other_digest(card: dict[str, dict[str, str]]) -> None:
    card["pages"]["html"] = card["pages"]["txt"]


def _no_digests(card: dict[str, object]) -> None:
    del card["pages"]


def _other_words(card: dict[str, object]) -> None:
    card["unit"] = "one letter"


@pytest.mark.parametrize(
    ("change", "failing"),
    [
        (_weaker, ["noise", "signature", "guarantee"]),
        (_stronger, ["noise", "recipe", "row", "person", "signature", "guarantee"]),
        (_alone, ["person", "signature", "guarantee"]),
        (_two_guarantees, ["person", "signature", "guarantee"]),
        (_fewer, ["person", "signature", "guarantee"]),
        (_other_digest, ["pages", "signature"]),
        (_no_digests, ["pages", "signature"]),
        (_other_words, ["signature"]),
    ],
)
def test_a_changed_card_fails(
    tiny: Bundle, tmp_path: Path, keys: tuple[Path, Path], change: Callable[[object], None], failing: list[str]
) -> None:
    card = rewritten(tiny, tmp_path, "-e", 500, "--sign-key", keys[0], "--person-column", "who")
    held = json.loads(card.read_text())
    change(held)
    card.write_text(json.dumps(held))
    done = run("card", "verify", card, "--key", keys[1])
    assert done.exit_code == 1
    assert [line.split()[0] for line in done.stdout.splitlines() if " FAILS " in line] == failing


def test_the_card_that_is_read_is_the_one_that_was_written(tiny: Bundle, tmp_path: Path) -> None:
    for args in RUNS:
        card = rewritten(tiny, tmp_path, *args)
        read = read_card(card)
        assert read.as_dict() == json.loads(card.read_text())
        assert (read.as_text(), read.as_html()) == tuple(
            card.with_suffix(ending).read_text() for ending in (".txt", ".html")
        )


def test_an_unknown_mechanism_is_refused(tiny: Bundle, tmp_path: Path) -> None:
    card = rewritten(tiny, tmp_path, "-e", 500)
    held = json.loads(card.read_text())
    for invented in ("k-ary response", "staircase", None, ["gaussian"]):
        held["noise"]["mechanism"] = invented
        card.write_text(json.dumps(held))
        done = run("card", "verify", card)
        assert (done.exit_code, "FAILS" in done.stdout, "each of" in done.stdout) == (1, True, False)


def test_another_output_another_key_or_no_signature_fails(
    tiny: Bundle, tmp_path: Path, keys: tuple[Path, Path]
) -> None:
    card = rewritten(tiny, tmp_path, "-e", 500)
    assert "output     FAILS  is NOT the file" in run("card", "verify", card, "--output", tmp_path / "in.csv").stdout
    done = run("card", "verify", card, "--key", keys[1])
    assert (done.exit_code, "signature  FAILS  the card is not signed" in done.stdout) == (1, True)
    done = run("card", "verify", card, "--key", keys[0])  # unsigned: the key is not read
    assert done.exit_code == 1


def test_a_bad_card_or_key_gives_a_clear_error(tiny: Bundle, tmp_path: Path) -> None:
    (tmp_path / "no.json").write_text("{}")
    assert "is not a privacy card of format 1" in run("card", "verify", tmp_path / "no.json").stderr
    assert "cannot be read: No such file" in run("card", "verify", tmp_path / "none.json").stderr
    done = run("rewrite", tmp_path / "in.csv", tmp_path / "o.csv", "-e", 5, "--sign-key", tmp_path / "no.json")
    assert "must be an ed25519 private key in PEM" in done.stderr


def test_no_file_holds_a_hash_of_the_input(tiny: Bundle, tmp_path: Path) -> None:
    import hashlib

    card = rewritten(tiny, tmp_path, "-e", 500)
    for algorithm in ("sha256", "sha1", "md5"):
        plain = hashlib.new(algorithm, (tmp_path / "in.csv").read_bytes(), usedforsecurity=False).hexdigest()
        assert plain not in card.read_text()


def test_without_the_package_the_error_names_the_extra_to_install() -> None:
    code = (
        "import sys; sys.modules['cryptography'] = None\n"
        "from pathlib import Path; from dpbart.errors import MissingExtra\n"
        "from dpbart.card.card import read_public_key\n"
        "try: read_public_key(Path('x'))\n"
        "except MissingExtra as error: print(error)"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.strip().endswith("Install it with: pip install 'dpbart[sign]'")
