"""`card verify` computes everything again, reads strictly, and never believes what it did not check."""

from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import asdict, replace
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner, Result
from cryptography.hazmat.primitives import serialization as form
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey

from dpbart.card import card as card_module
from dpbart.card import record
from dpbart.card.card import sign
from dpbart.cli import cli
from dpbart.options.rewriting import Request
from dpbart.privacy import composition, facts
from dpbart.privacy.facts import Facts
from dpbart.privacy.mechanisms import MECHANISMS
from dpbart.testing import fake_rewriter
from tests.card.cards import MADE, PRIVATE, ROWS, read, write_card
from tests.rewrite.jobs import run


def verify(card: Path, *args: object) -> Result:
    done = CliRunner().invoke(cli, ["card", "verify", str(card), *(str(each) for each in args)])
    assert done.exception is None or isinstance(done.exception, SystemExit), done.exception
    return done


def failing(done: Result) -> list[str]:
    return [line.split()[0] for line in done.stdout.splitlines() if " FAILS " in line]


@pytest.fixture
def key(tmp_path: Path) -> Ed25519PrivateKey:
    key = Ed25519PrivateKey.generate()
    pem = key.private_bytes(form.Encoding.PEM, form.PrivateFormat.PKCS8, form.NoEncryption())
    (tmp_path / "sign.pem").write_bytes(pem)
    public = key.public_key().public_bytes(form.Encoding.PEM, form.PublicFormat.SubjectPublicKeyInfo)
    (tmp_path / "public.pem").write_bytes(public)
    return key


@pytest.mark.parametrize("name", MADE)
def test_a_real_card_and_its_pages_hold(name: str, tmp_path: Path) -> None:
    card = write_card(name, tmp_path)
    done = verify(card, "--output", tmp_path / "out.csv")
    assert (done.exit_code, failing(done)) == (0, [])
    by_name = {each["name"]: each["held"] for each in json.loads(verify(card, "--json").stdout)}
    assert by_name["pages"] is True
    assert by_name["noise"] is by_name["person"] is (True if name in PRIVATE else None)
    assert by_name["guarantee"] is None  # nobody has signed it


def test_the_guarantee_that_was_checked_is_printed_in_plain_words(tmp_path: Path, key: Ed25519PrivateKey) -> None:
    checked = (
        "each of 4 texts has epsilon 8.5 and delta 0: for any two texts, no output is more than exp(8.5) times as "
        "likely from one as from the other, up to delta. All texts of one person, at most 2, have epsilon 17 and "
        "delta 0"
    )
    card = write_card("laplace", tmp_path, sign_key=tmp_path / "sign.pem")
    assert verify(card, "--key", tmp_path / "public.pem").stdout.splitlines()[-1] == f"guarantee  holds  {checked}"
    no_more = (
        "guarantee  -      the card is consistent, and no more: without a signature by a key that you give, anybody "
        f"may have written it. It says: {checked}"
    )
    assert verify(card).stdout.splitlines()[-1] == no_more  # signed, but nobody said by whom
    assert verify(write_card("laplace", tmp_path)).stdout.splitlines()[-1] == no_more
    replay = verify(write_card("replay", tmp_path)).stdout.splitlines()[-1]
    assert replay == "guarantee  -      nothing is promised: the output is NOT PRIVATE"


def _true_format(card: dict[str, Any]) -> None:
    card["format"] = True


def _negative_label(card: dict[str, Any]) -> None:
    card["label_epsilon"] = -3.0


def _label_without_options(card: dict[str, Any]) -> None:
    card["label_options"] = None


def _public_label(card: dict[str, Any]) -> None:
    card["label_policy"] = "public"


def _free_label(card: dict[str, Any]) -> None:
    card["label_epsilon"] = 0.0


def _dearer_label(card: dict[str, Any]) -> None:
    card["label_epsilon"], card["guarantee"]["epsilon"] = 2.5, 7.5
    card["person"]["guarantee"]["epsilon"] += 2.0


def _smaller_sensitivity(card: dict[str, Any]) -> None:
    for name in ("sensitivity_l2", "sensitivity_l1", "scale"):
        card["noise"][name] /= 10


def _fewer_entries(card: dict[str, Any]) -> None:
    card["noise"]["entries"] = 2


def _tighter_clip(card: dict[str, Any]) -> None:
    card["noise"]["clip"] = "value:0.1"


def _unknown_mechanism(card: dict[str, Any]) -> None:
    card["noise"]["mechanism"] = "staircase"


def _extra_figure(card: dict[str, Any]) -> None:
    card["noise"]["kept"] = 0.5


def _fewer_bits(card: dict[str, Any]) -> None:
    card["noise"]["bits"] /= 2


def _slack(card: dict[str, Any]) -> None:
    card["noise"]["slack_delta"] = 0.1


def _smaller_delta(card: dict[str, Any]) -> None:
    card["guarantee"]["delta"] = 1e-9


def _one_text(card: dict[str, Any]) -> None:
    card["person"]["most_texts"] = 1


def _fewer_people(card: dict[str, Any]) -> None:
    card["person"]["people"] = 1


def _weaker_person(card: dict[str, Any]) -> None:
    card["person"]["guarantee"]["epsilon"] *= 1.01


def _overspent(card: dict[str, Any]) -> None:
    card["person"]["budget"] = 6.0


def _many_rows(card: dict[str, Any]) -> None:
    card["rows"], card["person"]["people"] = 10**6, 10**6


def _too_few_rows(card: dict[str, Any]) -> None:
    card["rows"] = 3  # three people, of whom one has two texts, have at least four


def _other_recipe(card: dict[str, Any]) -> None:
    card["recipe"] = card["recipe"].replace("eps:5", "eps:1")


def _replayed(card: dict[str, Any]) -> None:
    card["noise"]["replay_of"] = {"epsilon": 5.0, "delta": 1e-5}


def _not_private(card: dict[str, Any]) -> None:
    card["private"] = False


@pytest.mark.parametrize(
    ("change", "check"),
    [
        (_true_format, "schema"),
        (_negative_label, "schema"),
        (_free_label, "noise"),
        (_dearer_label, "person"),
        (_label_without_options, "labels"),
        (_public_label, "labels"),
        (_smaller_sensitivity, "noise"),
        (_fewer_entries, "noise"),
        (_tighter_clip, "noise"),
        (_unknown_mechanism, "noise"),
        (_extra_figure, "noise"),
        (_fewer_bits, "noise"),
        (_slack, "noise"),
        (_smaller_delta, "noise"),
        (_one_text, "person"),
        (_fewer_people, "person"),
        (_weaker_person, "person"),
        (_overspent, "person"),
        (_many_rows, "person"),
        (_too_few_rows, "person"),
        (_other_recipe, "recipe"),
        (_replayed, "noise"),
        (_not_private, "noise"),
    ],
)
def test_a_figure_that_does_not_follow_fails(
    change: Callable[[dict[str, Any]], None], check: str, tmp_path: Path
) -> None:
    card = write_card("gaussian with labels", tmp_path)
    held = read(card)
    change(held)
    card.write_text(json.dumps(held))
    done = verify(card)
    assert done.exit_code == 1
    assert check in failing(done)
    assert "guarantee  FAILS  " in done.stdout or check == "schema"


@pytest.mark.parametrize(
    ("change", "words"),
    [
        (_unknown_mechanism, "no channel has the figures on the card: mechanism must be one of"),
        (_not_private, "'private' is false, but the channel gives (epsilon 5, delta 1e-05)"),
    ],
)
def test_a_figure_that_does_not_follow_is_named(
    change: Callable[[dict[str, Any]], None], words: str, tmp_path: Path
) -> None:
    card = write_card("gaussian", tmp_path)
    held = read(card)
    change(held)
    card.write_text(json.dumps(held))
    assert words in verify(card).stdout


def test_a_card_without_a_figure_that_it_needs_is_refused_without_a_reason(tmp_path: Path) -> None:
    card = write_card("gaussian", tmp_path)
    held = read(card)
    del held["noise"]["clip"]
    card.write_text(json.dumps(held))
    assert "noise      FAILS  no channel has the figures on the card\n" in verify(card).stdout


def test_private_beside_a_replay_fails(tmp_path: Path) -> None:
    card = write_card("replay", tmp_path)
    held = read(card)
    held["private"] = True
    card.write_text(json.dumps(held))
    assert "noise" in failing(verify(card))
    assert "'private' is true, but the channel promises nothing" in verify(card).stdout
    held["guarantee"] = {"epsilon": 5.0, "delta": 1e-5}
    card.write_text(json.dumps(held))
    assert "noise" in failing(verify(card))


def test_a_code_that_is_kept_too_often_fails(tmp_path: Path) -> None:
    card = write_card("response", tmp_path)
    for name, value in (("kept", 0.99), ("options_log2", 10.0), ("options_log2", 11.5), ("options_log2", 1e15)):
        held = read(card)
        held["noise"][name] = value
        changed = tmp_path / "changed.json"
        changed.write_text(json.dumps(held))
        assert "noise" in failing(verify(changed)), (name, value)


@pytest.mark.parametrize("place", ["guarantee", "noise", "sha256"])
def test_a_repeated_key_is_refused_even_if_the_signature_matches(
    place: str, tmp_path: Path, key: Ed25519PrivateKey
) -> None:
    """Python reads the last of two keys, other programs the first: nobody knows which one was signed."""
    card = write_card("gaussian", tmp_path, sign_key=tmp_path / "sign.pem")
    text = card.read_text()
    twice = {
        "guarantee": text.replace("{", '{"guarantee": {"epsilon": 0.1, "delta": 0.0},', 1),
        "noise": text.replace('"noise": {', '"noise": {"scale": 99.0,'),
        "sha256": text.replace('"public_data": []', '"public_data": [{"name": "a", "name": "b"}]'),
    }[place]
    assert json.loads(text) == json.loads(twice) or place == "sha256"
    card.write_text(twice)
    done = verify(card, "--key", tmp_path / "public.pem")
    assert (done.exit_code, done.stdout) == (1, "")
    assert "occurs more than once" in done.stderr


@pytest.mark.parametrize(
    "content",
    [
        '{"format": 1, "noise": {}, "rows": 1e400}',
        '{"format": 1, "noise": {}, "rows": ' + "9" * 5001 + "}",
        '{"format": 1, "noise": {}, "rows": ' + "9" * 400 + "}",
        '{"format": 1, "noise": {}, "rows": NaN}',
        '{"format": 1, "noise": {}, "rows": -Infinity}',
        '{"format": 1, "noise": {}, "rows": ' + "[" * 100_000 + "]" * 100_000 + "}",
        '{"format": 1, "noise": {}, "rows": ' + "[" * 100 + "]" * 100 + "}",
        "[" * 100_000,
        "\ufeff{}",
        "",
        "null",
    ],
)
def test_numbers_beyond_all_bounds_and_deep_nesting_give_one_line(content: str, tmp_path: Path) -> None:
    (tmp_path / "card.json").write_text(content)
    done = verify(tmp_path / "card.json")
    assert (done.exit_code, done.stdout, done.stderr.count("\n")) == (1, "", 1)
    assert len(done.stderr) < 400


def test_bytes_that_are_no_text_and_a_folder_give_one_line(tmp_path: Path) -> None:
    (tmp_path / "card.json").write_bytes(b"\xff\x00\x80")
    assert "cannot be read as JSON" in verify(tmp_path / "card.json").stderr
    assert "cannot be read: Is a directory" in verify(tmp_path).stderr


def test_a_card_signed_by_an_unknown_key_is_not_called_good(tmp_path: Path, key: Ed25519PrivateKey) -> None:
    """Anybody can sign with a key of their own."""
    card = write_card("gaussian", tmp_path)
    held = read(card)
    held["signature"] = asdict(sign(held, key))
    card.write_text(json.dumps(held))
    done = verify(card)
    own = held["signature"]["public_key"]
    assert f"signature  -      signed by a key that you did not give ({own})" in done.stdout
    assert done.exit_code == 0  # nothing failed, and no signer was asked for
    assert verify(card, "--key", tmp_path / "public.pem").exit_code == 0


def test_the_given_key_decides_and_not_the_one_inside_the_card(tmp_path: Path, key: Ed25519PrivateKey) -> None:
    card = write_card("gaussian", tmp_path)
    held = read(card)
    held["signature"] = asdict(sign(held, Ed25519PrivateKey.generate()))
    card.write_text(json.dumps(held))
    assert verify(card).exit_code == 0
    done = verify(card, "--key", tmp_path / "public.pem")
    assert (done.exit_code, failing(done)) == (1, ["signature"])


def test_two_keys_give_two_signatures_and_neither_is_constant(tmp_path: Path, key: Ed25519PrivateKey) -> None:
    signed = read(write_card("gaussian", tmp_path, sign_key=tmp_path / "sign.pem"))["signature"]
    assert signed["public_key"] == sign({}, key).public_key
    other = Ed25519PrivateKey.generate()
    assert sign({}, other).public_key != signed["public_key"]
    assert sign({"a": 1}, other).value != sign({"a": 2}, other).value


@pytest.mark.parametrize("ending", [".csv", ".csv.gz", ".tsv", ".jsonl", ".json", ".parquet", ".xlsx", ".txt"])
def test_the_rows_of_every_output_are_counted(ending: str, tmp_path: Path) -> None:
    (tmp_path / "in.csv").write_text(ROWS)
    request = Request(tmp_path / "in.csv", tmp_path / f"out{ending}", keep_columns=())
    run(request, fake_rewriter(epsilon=5.0))
    card = tmp_path / f"out{ending}.card.json"
    done = verify(card, "--output", request.target)
    assert "rows       holds  the output has 4 rows, as the card says" in done.stdout
    held = read(card)
    held["rows"] = held["person"]["people"] = 5
    card.write_text(json.dumps(held))
    assert "rows" in failing(verify(card, "--output", request.target))


def test_a_document_of_many_lines_and_a_folder_are_counted_by_their_texts(tmp_path: Path) -> None:
    (tmp_path / "in").mkdir()
    (tmp_path / "in.txt").write_text("one\ntwo\n")
    for name in ("a.txt", "b.txt"):
        (tmp_path / "in" / name).write_text("one\ntwo\n")
    document = Request(tmp_path / "in.txt", tmp_path / "out.txt", document=True)
    folder = Request(tmp_path / "in", tmp_path / "out", keep_columns=("file",))
    for request in (document, folder):
        run(request, fake_rewriter(lambda texts: ["one\ntwo"] * len(texts), epsilon=5.0))
        done = verify(tmp_path / f"{request.target.name}.card.json", "--output", request.target)
        assert (done.exit_code, "rows       holds" in done.stdout) == (0, True)


def test_an_output_that_cannot_be_read_is_not_counted(tmp_path: Path) -> None:
    card = write_card("gaussian", tmp_path)
    missing = verify(card, "--output", tmp_path / "no.csv")
    assert (missing.exit_code, missing.stdout) == (1, "")
    assert "no.csv' cannot be read: No such file or directory." in missing.stderr
    (tmp_path / "out.csv").rename(tmp_path / "out.dat")
    done = verify(card, "--output", tmp_path / "out.dat")
    assert done.exit_code == 0
    assert "rows       -      not counted: the ending of" in done.stdout


@pytest.mark.parametrize("ending", [".txt", ".html"])
def test_a_page_that_shows_something_else_fails(ending: str, tmp_path: Path) -> None:
    card = write_card("gaussian", tmp_path)
    page = card.with_suffix(ending)
    page.write_text(page.read_text().replace("epsilon 5,", "epsilon 1,"))
    done = verify(card)
    assert (done.exit_code, failing(done)) == (1, ["pages"])
    assert repr(page.name) in done.stdout


def test_pages_that_are_missing_are_not_checked(tmp_path: Path) -> None:
    card = write_card("gaussian", tmp_path)
    (tmp_path / "moved.json").write_bytes(card.read_bytes())
    assert "pages      -      not checked: there is no" in verify(tmp_path / "moved.json").stdout
    (tmp_path / "moved.txt").write_bytes(card.with_suffix(".txt").read_bytes())
    assert "pages      holds  'moved.txt' is the page of this card" in verify(tmp_path / "moved.json").stdout


def test_no_check_depends_on_the_words_of_this_version(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """What a later version says differently must not matter: a card that was made is checked by names and numbers."""
    names = {name: tmp_path / name.replace(" ", "-") for name in MADE}
    cards = {name: write_card(name, folder) for name, folder in names.items()}
    for module, word in (
        (record, "UNIT"),
        (record, "_OPEN"),
        (facts, "SYSTEM_ENTROPY"),
        (facts, "REPLAYED_ENTROPY"),
        (composition, "ONE"),
        (composition, "SUM"),
        (composition, "EXACT"),
        (composition, "LOSSES"),
    ):
        assert isinstance(getattr(module, word), str)
        monkeypatch.setattr(module, word, "said differently")
    recomputed = Facts.replayed

    def reworded(facts: Facts) -> Facts:
        words = {"proof": "another", "sampler": "another", "entropy": "another", "lines": (), "recipe": "another"}
        return replace(facts, **words)  # type: ignore[arg-type]

    monkeypatch.setattr(Facts, "replayed", lambda self: reworded(recomputed(self)))
    for mechanism in MECHANISMS.values():
        compute = mechanism.recomputed
        monkeypatch.setattr(
            mechanism, "recomputed", staticmethod(lambda figures, promised, do=compute: reworded(do(figures, promised)))
        )
    for function in ("text_page", "html_page"):
        monkeypatch.setattr(card_module, function, lambda card: "other words")
    for name, card in cards.items():
        done = verify(card, "--output", names[name] / "out.csv")
        assert (done.exit_code, failing(done)) == (0, []), name


def test_words_of_another_version_do_not_matter(tmp_path: Path) -> None:
    card = write_card("gaussian with labels", tmp_path)
    held = read(card)
    for name in ("labels", "metrics", "unit", "trust_model", "made"):
        held[name] = "said differently"
    for name in ("proof", "sampler", "entropy"):
        held["noise"][name] = "said differently"
    held["person"]["composition"] = held["person"]["ledger"] = "said differently"
    held["side_channels"] = held["not_covered"] = []
    card.write_text(json.dumps(held))
    assert failing(verify(card)) == []


def test_a_label_costs_what_the_card_says_it_costs(tmp_path: Path) -> None:
    plain, labelled = (read(write_card(name, tmp_path)) for name in ("gaussian", "gaussian with labels"))
    assert (plain["label_epsilon"], labelled["label_epsilon"]) == (0.0, 1.5)
    assert labelled["guarantee"]["epsilon"] == plain["guarantee"]["epsilon"] + 1.5
    assert "epsilon 1.5 of the guarantee" in labelled["labels"]


def test_what_a_card_says_cannot_write_to_the_terminal(tmp_path: Path) -> None:
    card = write_card("gaussian", tmp_path)
    held = read(card)
    held["noise"]["mechanism"] = "\x1b[2Jgaussian\nnoise      holds"
    card.write_text(json.dumps(held))
    done = verify(card)
    assert "\x1b" not in done.stdout
    assert not [line for line in done.stdout.splitlines() if line.startswith("noise      holds")]
