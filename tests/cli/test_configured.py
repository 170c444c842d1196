"""Options from the environment and from a TOML file, a summary for programs, and completion."""

from __future__ import annotations

import json
from pathlib import Path

import click
import pytest
from click.shell_completion import BashComplete

from dpbart.card.card import read_card
from dpbart.cli import cli
from dpbart.cli.noise import noise
from dpbart.cli.rewrite import rewrite
from dpbart.models.bundle import Bundle
from dpbart.options.declare import leaves
from dpbart.options.rewriting import Request
from dpbart.options.settings import NoiseQuestion, Running, Settings
from tests.command_line import run

SECRET = "Wuppertal-4711"


@pytest.fixture
def notes(tmp_path: Path) -> Path:
    rows = "".join(f"p{number % 2},{SECRET},yes,{SECRET}\n" for number in range(4))
    (tmp_path / "in.csv").write_text(f"who,note,ill,other note\n{rows}")
    return tmp_path / "in.csv"


def epsilon(*args: object) -> float:
    """What `dpbart noise` takes for its epsilon."""
    done = run("noise", "--json", *args)
    assert done.exit_code == 0, done.stderr
    held: float = json.loads(done.stdout)["guarantee"]["epsilon"]
    return held


def test_a_variable_gives_an_option_and_standard_error_says_so(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("DPBART_EPSILON", "7")
    monkeypatch.setenv("DPBART_TEXT_COLUMN", "note")  # of another command
    done = run("noise", "--json")
    assert json.loads(done.stdout)["guarantee"]["epsilon"] == 7
    assert done.stderr == "Taken from the environment: DPBART_EPSILON.\n"


def test_the_command_line_wins_over_the_environment_and_that_over_the_file(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    file = tmp_path / "job.toml"
    file.write_text("epsilon = 5\npeople = 1000\n")
    assert epsilon("--config", file) == 5
    assert run("noise", "--config", file).stderr == "Taken from the file of --config: epsilon, people.\n"
    monkeypatch.setenv("DPBART_EPSILON", "6")
    assert epsilon("--config", file) == 6
    assert epsilon("--config", file, "--epsilon", 8) == 8


@pytest.mark.parametrize(
    ("command", "records"), [(rewrite, (Settings, Request, Running)), (noise, (NoiseQuestion,))], ids=lambda each: ""
)
def test_every_declared_option_has_a_variable_and_a_key(
    command: click.Command, records: tuple[type[Settings], ...]
) -> None:
    options = {each.name: each for each in command.params if isinstance(each, click.Option)}
    declared = [leaf for record in records for leaf in leaves(record) if leaf.flags and not leaf.shown.argument]
    assert len(declared) > 5
    for leaf in declared:
        assert options[leaf.name].envvar == "DPBART_" + leaf.flags[-1].lstrip("-").replace("-", "_").upper()


def test_a_whole_job_from_a_file_and_the_environment(
    tiny: Bundle, notes: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Lists, flags, numbers, paths and choices; in a variable, commas separate the items of a list."""
    (tmp_path / "job.toml").write_text(
        f"""
        epsilon = 500
        model = {str(tiny.folder)!r}
        text_column = ["note", "other note"]
        join_columns = true
        label_column = "ill"
        labels = "randomize:2"
        label_set = ["yes", "no"]
        person_column = "who"
        missing_person = "own"
        ledger = {str(tmp_path / "l.db")!r}
        """
    )
    monkeypatch.setenv("DPBART_KEEP_COLUMN", "who")
    done = run("rewrite", notes, tmp_path / "out.csv", "--config", tmp_path / "job.toml")
    assert done.exit_code == 0, done.stderr
    assert "Taken from the environment: DPBART_KEEP_COLUMN.\n" in done.stderr
    card = read_card(tmp_path / "out.csv.card.json")
    assert (list(card.row.columns), card.row.joined) == (["note", "other note"], True)
    assert (card.label_policy, card.label_options, list(card.other_columns)) == ("randomize", 2, ["who"])
    assert (tmp_path / "l.db").is_file()
    monkeypatch.setenv("DPBART_TEXT_COLUMN", "note, other note")
    monkeypatch.setenv("DPBART_LABEL_SET", "yes,no")
    monkeypatch.setenv("DPBART_JOIN_COLUMNS", "true")
    given = ["-e", 500, "-m", tiny.folder, "--label-column", "ill", "--labels", "randomize:2"]
    done = run("rewrite", notes, tmp_path / "again.csv", *given)
    assert done.exit_code == 0, done.stderr
    again = read_card(tmp_path / "again.csv.card.json")
    assert (again.row, again.label_options) == (card.row, 2)


@pytest.mark.parametrize(
    ("content", "why"),
    [
        ("epsilom = 5", "'epsilom', which is no option here. See: dpbart noise --help"),
        ("source = 'in.csv'", "'source', which is no option here"),
        ("config = 'more.toml'", "'config', which is no option here"),
        ("epsilon = true", "epsilon in '{file}' must be a number, got bool."),
        ("epsilon = '5'", "epsilon in '{file}' must be a number, got str."),
        ("epsilon = [5]", "epsilon in '{file}' must be a number, got list."),
        ("people = 1.5", "people in '{file}' must be a whole number, got float."),
        ("model = 5", "model in '{file}' must be a string, got int."),
        ("epsilon = -1", "epsilon must be greater than 0"),
        ("[noise]\nepsilon = 5", "'noise', which is no option here"),
        ("epsilon = ", "cannot be read as TOML"),
    ],
)
def test_a_file_is_read_strictly(content: str, why: str, tmp_path: Path) -> None:
    file = tmp_path / "job.toml"
    file.write_text(content)
    done = run("noise", "-e", 5, "--config", file) if "epsilon" not in content else run("noise", "--config", file)
    assert done.exit_code == 1
    assert why.format(file=file) in done.stderr
    assert done.stdout == ""


def test_a_flag_and_a_list_are_read_strictly(notes: Path, tmp_path: Path) -> None:
    for content, why in (
        ("shuffle = 'no'", "shuffle in '{file}' must be true or false, got str."),
        ("shuffle = 1", "shuffle in '{file}' must be true or false, got int."),
        ("text_column = [1]", "text_column in '{file}' must be a list of strings, got list."),
        ("label_set = 'a,b'", "label_set in '{file}' must be a list of strings, got str."),
    ):
        (tmp_path / "job.toml").write_text(content)
        done = run("rewrite", notes, tmp_path / "out.csv", "-e", 5, "--config", tmp_path / "job.toml")
        assert (done.exit_code, why.format(file=tmp_path / "job.toml") in done.stderr) == (1, True), done.stderr


def test_a_file_that_is_missing_and_a_wrong_variable_are_refused(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    done = run("noise", "--config", tmp_path / "no.toml")
    assert done.exit_code == 1
    assert "no.toml' cannot be read: No such file or directory" in done.stderr
    assert "--config was given 2 times" in run("noise", "-e", 5, *["--config", __file__] * 2).stderr
    monkeypatch.setenv("DPBART_EPSILON", "ten")
    done = run("noise")
    assert done.exit_code == 2
    assert "'ten' is not a valid float. It comes from DPBART_EPSILON in the environment." in done.stderr


def test_a_summary_for_programs_holds_nothing_private(tiny: Bundle, notes: Path, tmp_path: Path) -> None:
    given = ["-e", 500, "-m", tiny.folder, "--text-column", "note", "--person-column", "who", "--keep-column", "who"]
    done = run("rewrite", notes, tmp_path / "out.csv", *given, "--json")
    assert done.exit_code == 0, done.stderr
    held, card = json.loads(done.stdout), read_card(tmp_path / "out.csv.card.json")
    assert set(held) == {
        *("texts", "rows", "guarantee", "row", "person", "shuffled", "model", "recipe", "output", "card"),
    }
    assert (held["texts"], held["rows"], held["shuffled"]) == (4, 4, None)
    assert (held["guarantee"]["epsilon"], held["guarantee"]["level"]) == (500, "almost none")
    assert held["row"] == held["guarantee"]
    assert card.person.guarantee is not None
    assert held["person"]["guarantee"]["epsilon"] == card.person.guarantee.epsilon
    assert (held["person"]["people"], held["person"]["most_texts"]) == (2, 2)
    assert held["output"] == {"file": str(tmp_path / "out.csv"), "sha256": card.run.output_sha256}
    assert held["card"] == str(tmp_path / "out.csv.card.json")
    assert (held["model"], held["recipe"]) == (card.model.identity, card.recipe)
    assert SECRET not in done.stdout
    assert SECRET not in done.stderr


def test_a_shuffled_summary_has_the_central_guarantee_and_standard_output_has_room_for_one_thing(
    tiny_code: Bundle, notes: Path, tmp_path: Path
) -> None:
    given = ["rewrite", notes, tmp_path / "out.csv", "-e", 1, "-m", tiny_code.folder, "--text-column", "note"]
    done = run(*given, "--shuffle", "--json")
    assert done.exit_code == 0, done.stderr
    held = json.loads(done.stdout)
    stated = json.loads((tmp_path / "out.csv.card.json").read_text())["shuffled"]["guarantee"]
    assert (held["shuffled"]["epsilon"], held["person"]) == (stated["epsilon"], None)
    done = run("rewrite", "-", "-", "-e", 1, "-m", tiny_code.folder, "--json", stdin="a text\n")
    assert (done.exit_code, done.stdout) == (1, "")
    assert "--json prints a summary on standard output, which is OUT here. Name an output file." in done.stderr


@pytest.mark.parametrize(
    ("words", "begun", "found"),
    [
        ([], "rew", ["rewrite"]),
        (["rewrite"], "--eps", ["--epsilon"]),
        (["rewrite"], "--conf", ["--config"]),
        (["rewrite", "--missing-person"], "o", ["own"]),
        (["card"], "ver", ["verify"]),
    ],
)
def test_a_shell_completes_commands_options_and_choices(words: list[str], begun: str, found: list[str]) -> None:
    complete = BashComplete(cli, {}, "dpbart", "_DPBART_COMPLETE")
    assert [each.value for each in complete.get_completions(words, begun)] == found
