"""An option is declared once: the command line, HTTP and resumed runs follow. Wrong values are refused unquoted."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import click
import pytest
from click.testing import CliRunner

from dpbart import BadParameter, Request, Settings
from dpbart.cli.command import Command, options_of
from dpbart.options.declare import Record, compared, flat_model, from_flat, leaves, option
from dpbart.options.rewriting import Dialect, OutputOptions
from dpbart.options.settings import Running
from dpbart.rewrite.describe import run_settings
from dpbart.rewrite.job import plan
from dpbart.testing import described, fake_rewriter

SECRET = "CANARY"
JobOptions = flat_model(Request, Settings, name="JobOptions")


class MoreOutput(OutputOptions):
    """The options of an output, and one more."""

    most_rows: int | None = option(None, help="Write no more rows than this.", ge=1, example=10)


class MoreRequest(Request):
    """A request with one option more, in one of its records."""

    output: MoreOutput = MoreOutput()


class MoreSettings(Settings):
    """Settings with one more."""

    warmth: float = option(1.0, help="How warm the words are.", gt=0)


def test_a_new_option_is_on_the_command_line_in_the_schema_and_in_the_resume_record(tmp_path: Path) -> None:
    seen: list[Record] = []

    @click.command(cls=Command)
    @options_of(MoreSettings, "settings")
    @options_of(MoreRequest, "request")
    def command(settings: MoreSettings, request: MoreRequest) -> None:
        seen.extend((settings, request))

    words = " ".join(CliRunner().invoke(command, ["--help"]).stdout.split())
    assert "--most-rows INTEGER Write no more rows than this." in words
    assert "--warmth FLOAT How warm the words are. [default: 1.0]" in words
    schema = flat_model(MoreRequest, MoreSettings, name="More").model_json_schema()["properties"]
    assert schema["most_rows"]["description"] == "Write no more rows than this."
    assert schema["most_rows"]["examples"] == [10]
    assert {"type": "integer", "minimum": 1} in schema["most_rows"]["anyOf"]
    assert (schema["warmth"]["exclusiveMinimum"], schema["warmth"]["default"]) == (0, 1.0)
    (tmp_path / "in.csv").write_text("text\na\n")
    asked = [str(tmp_path / "in.csv"), str(tmp_path / "out.csv"), "--most-rows", "7", "--warmth", "2.5"]
    assert CliRunner().invoke(command, asked).exit_code == 0
    settings, request = seen
    assert isinstance(request, MoreRequest)
    assert request.output.most_rows == 7
    assert compared(settings)["warmth"] == 2.5
    assert compared(request)["most rows"] == 7


def test_a_run_compares_every_option_that_its_record_declares(tmp_path: Path) -> None:
    (tmp_path / "in.csv").write_text("text\na\n")
    asked = {"source": tmp_path / "in.csv", "target": tmp_path / "out.csv", "most_rows": 7}
    request = from_flat(MoreRequest, asked)
    held = run_settings(plan(request, described(fake_rewriter())))
    assert held["most rows"] == 7
    assert {leaf.name.replace("_", " ") for leaf in leaves(MoreRequest) if leaf.shown.resume} <= set(held)
    assert json.loads(json.dumps(held)) == held


@pytest.mark.parametrize(
    ("given", "message"),
    [
        ({"epsilon": True}, "epsilon must be a number, got bool."),
        ({"epsilon": SECRET}, "epsilon must be a number, got str."),
        ({"delta": float("nan")}, "delta must be a number between -1e308 and 1e308."),
        ({"epsilon": json.loads("1e400")}, "epsilon must be a number between -1e308 and 1e308."),
        ({"epsilon": 10**400}, "epsilon must be a number between -1e308 and 1e308."),
        ({"length": 2.5}, "length must be a whole number, got float."),
        ({"length": True}, "length must be a whole number, got bool."),
        ({"beams": 101}, "beams must be from 1 to 100, got 101."),
        ({"model": 7}, "model must be a string, got int."),
        ({"model": "\ud83e"}, "model must be text, got half a surrogate pair. Leave it out."),
        ({"label_set": ["yes", "\udcff"]}, "label set must be text, got half a surrogate pair. Leave it out."),
        ({"label_set": SECRET}, "label set must be a list, got str."),
        ({"label_set": ["yes", 7]}, "label set, item 2, must be a string, got int."),
        ({"shuffle": 1}, "shuffle must be true or false, got int."),
        ({"missing_person": SECRET}, "missing person must be one of refuse, own, got something else."),
        ({"person_budget": -1}, "person budget must be greater than 0, got -1."),
    ],
)
def test_a_wrong_value_is_refused_and_only_numbers_are_quoted(given: dict[str, object], message: str) -> None:
    with pytest.raises(BadParameter) as refused:
        JobOptions(**given)
    assert str(refused.value) == message
    assert refused.value.__cause__ is None
    assert SECRET not in repr(refused.value.__context__)


def test_unknown_options_are_counted_and_not_named() -> None:
    unknown: dict[str, Any] = {SECRET: 1, f"{SECRET} 2": 2}
    for record in (JobOptions, Settings, Dialect):
        with pytest.raises(BadParameter, match="and has 2 more. Leave them out.") as refused:
            record(**unknown)
        assert SECRET not in str(refused.value)


def test_null_is_an_option_that_is_not_given() -> None:
    given: dict[str, Any] = {"delta": None, "epsilon": 3, "text_column": "note"}
    body = JobOptions(**given)
    assert body.given() == {"epsilon": 3.0, "text_column": ("note",)}
    assert from_flat(Settings, body.given()) == Settings(epsilon=3.0)
    assert "ledger" not in JobOptions.model_fields  # a client names no file of the server


def test_records_take_flat_names_whole_records_and_changes(tmp_path: Path) -> None:
    flat = Request("in.csv", "out.csv", delimiter="\\t", text_column="a", keep_columns=["b"])
    whole = Request(Path("in.csv"), Path("out.csv"), dialect=Dialect(delimiter="\t"), text_column=("a",))
    assert flat == whole.changed(keep_columns=("b",))
    assert flat.changed(delimiter=";").dialect.delimiter == ";"
    assert Settings("mini", 5) == Settings(model="mini", epsilon=5.0)
    assert hash(Settings("mini", 5)) == hash(Settings("mini", 5.0))
    with pytest.raises(BadParameter, match="dialect must be a Dialect, got int"):
        Request("in.csv", "out.csv", dialect=7)
    with pytest.raises(BadParameter, match="target must be given"):
        Request("in.csv")


def test_every_option_has_a_help_and_a_name_of_its_own() -> None:
    found = [leaf for record in (Settings, Request, Running) for leaf in leaves(record)]
    assert len({leaf.name for leaf in found}) == len({leaf.flags for leaf in found}) == len(found)
    assert all(leaf.help.endswith(".") for leaf in found)
