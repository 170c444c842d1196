"""The command line: exact text and exit status, as a user meets them."""

from __future__ import annotations

import json
import math
import re
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

from dpbart.models.bundle import Bundle
from tests.command_line import run, succeed


@pytest.fixture
def notes(tmp_path: Path) -> Path:
    file = tmp_path / "notes.csv"
    file.write_text("id,text\n1,the nurse found an apple\n2,\n")
    return file


# Golden values: theory of the analytic Gaussian, delta 1e-5 (Balle and Wang 2018, recomputed at 1500 digits).
@pytest.mark.parametrize(
    ("columns", "sensitivity", "scale"), [(768, 24.787093, 0.8957039024), (182, 12.066483, 0.4360331921)]
)
def test_noise_prints_the_golden_figures(columns: int, sensitivity: float, scale: float) -> None:
    done = run(
        "noise", "--epsilon", 500, "--delta", 1e-5, "--length", 20, "--columns", columns, "--clip", 0.1, "--json"
    )
    held = json.loads(done.stdout)
    assert done.exit_code == 0
    assert held["figures"]["sensitivity_l2"] == pytest.approx(sensitivity, abs=1e-6)
    assert held["figures"]["scale"] == pytest.approx(scale, rel=1e-8)
    assert held["bits"] == pytest.approx(138.1, abs=0.1)


def test_noise_reads_in_words() -> None:
    done = run("noise", "-e", 10, "--columns", 182)
    assert done.stdout.splitlines() == [
        "Guarantee    (epsilon 10, delta 1e-05) for one text",
        "Promise      limited. A reader who suspects one of a few texts can usually tell which it was, but",
        "             hardly one of a million.",
        "Clip         value:0.1, 3,640 entries per text",
        "Sensitivity  L2 12.0665, L1 728",
        "Noise scale  standard deviation 6.0319 on every entry, 60.3 times the bound",
        "Channel      at most 0.7217 bits of a text get through",
        "In words     An attacker picks the right one of two equally likely texts at most 84.2% of the time",
        "             (50% is chance), and the right one of a million at most 2.16% of the time.",
    ]


def test_noise_takes_a_model_without_loading_it(tiny: Bundle, tiny_code: Bundle) -> None:
    held = json.loads(run("noise", "-e", 10, "--model", tiny.folder, "--json").stdout)
    assert (held["mechanism"], held["figures"]["entries"], held["figures"]["clip"]) == (
        "gaussian",
        12 * 32,
        "value:0.5",
    )
    done = run("noise", "-e", 10, "--model", tiny_code.folder)
    lines = done.stdout.splitlines()
    assert lines[:1] + lines[3:8] == [
        "Guarantee    (epsilon 10, delta 0) for one text",
        "Book         the whole book: 480 sentences; a code chooses among 256 of them",
        "Code         8 bits for each text: one of 2^8 codes",
        "Kept         of 100 texts, about 98.9 come through as meant; the others come out as unrelated texts,",
        "             and a reader who knows the subject of the file can often tell which",
        "Channel      at most 7.819 bits of a text get through",
    ]


def test_noise_takes_the_default_model_and_tells_100_from_200() -> None:
    held = json.loads(run("noise", "-e", 100, "--json").stdout)
    assert (held["mechanism"], held["figures"]["options_log2"]) == ("response", 137)  # from the table of mini-code
    words = [run("noise", "-e", epsilon).stdout.splitlines()[-1] for epsilon in (100, 200)]
    assert [line.split()[-1] for line in words] == ["10^40.", "10^84."]


def test_laplace_noise_is_scaled_by_l1() -> None:
    held = json.loads(run("noise", "-e", 100, "--columns", 182, "--mechanism", "laplace", "--json").stdout)
    assert held["figures"]["scale"] == pytest.approx(2 * 0.1 * 3640 / 100)
    assert held["guarantee"]["delta"] == 0


def test_noise_without_privacy_is_json_too() -> None:
    def no_constant(name: str) -> None:
        raise AssertionError(f"{name} is not JSON")

    done = run("noise", "--epsilon", "inf", "--mechanism", "none", "--model", "mini", "--json")
    held = json.loads(done.stdout, parse_constant=no_constant)
    assert (held["guarantee"]["epsilon"], held["guarantee"]["private"], held["bits"]) == (None, False, None)


@pytest.mark.parametrize(
    ("args", "message"),
    [
        (["-e", "-1"], "Error: epsilon must be greater than 0, got -1.0.\n"),
        (["-e", "0"], "Error: epsilon must be greater than 0, got 0.0.\n"),
        (["-e", "nan"], "Error: epsilon must be greater than 0, got nan.\n"),
        (["-e", "1", "--columns", "0"], "Error: columns must be at least 1, got 0.\n"),
    ],
)
def test_a_bad_budget_is_one_line_on_stderr(args: list[str], message: str) -> None:
    done = run("noise", *args)
    assert (done.exit_code, done.stderr, done.stdout) == (1, message, "")


@pytest.mark.parametrize("delta", ["1", "-0.5", "nan", "2"])
def test_a_delta_outside_its_range_is_refused(notes: Path, delta: str) -> None:
    done = run("rewrite", notes, notes.with_name("out.csv"), "-e", 1, "--delta", delta)
    assert done.exit_code == 1
    assert done.stderr.startswith("Error: delta must be between 0 and 1, both excluded, got ")
    assert not notes.with_name("out.csv").exists()


def test_a_delta_without_effect_is_refused_and_0_is_right_for_a_pure_mechanism(tiny: Bundle, notes: Path) -> None:
    idle = "Error: a delta of 0.3 would have no effect: the mechanism '{}' is pure, with delta 0. Leave delta out, or "
    idle += "pass 0."
    assert run("noise", "-e", 10, "--delta", 0.3).stderr.strip() == idle.format("response")
    assert "(epsilon 10, delta 0) for one text" in succeed("noise", "-e", 10, "--delta", 0)
    assert succeed("noise", "-e", 10, "--people", 9, "--delta", 0.01) != succeed("noise", "-e", 10, "--people", 9)
    command = ("rewrite", notes, notes.with_name("o.csv"), "--model", tiny.folder, "--beams", 1)
    laplace = (*command, "--mechanism", "laplace", "-e", 5)
    for refused in (run(*laplace, "--delta", 0.3), run(*command, "--mechanism", "none", "--delta", 0.3)):
        assert refused.stderr.strip() in (idle.format("laplace"), idle.format("none"))
        assert not notes.with_name("o.csv").exists()
    assert run(*laplace, "--delta", 0).exit_code == 0
    impure = run(*command, "-e", 5, "--delta", 0)  # Gaussian noise has a delta
    assert impure.stderr.startswith("Error: delta must be between 0 and 1, both excluded, got 0.0.")


def test_a_word_for_a_number_is_a_usage_error(notes: Path) -> None:
    assert run("rewrite", notes, "out.csv", "--epsilon", "much").exit_code == 2


def test_a_missing_budget_says_how_to_give_one(notes: Path, tmp_path: Path) -> None:
    done = run("rewrite", notes, tmp_path / "out.csv")
    assert done.exit_code == 1
    assert "epsilon must be given" in done.stderr


def test_rewrite_writes_the_file_and_its_card(tiny: Bundle, notes: Path, tmp_path: Path) -> None:
    out = tmp_path / "out.csv"
    done = run("rewrite", notes, out, "--epsilon", 500, "--model", tiny.folder, "--beams", 2)
    assert done.exit_code == 0, done.stderr
    assert done.stdout == ""
    assert "2 texts rewritten, each under (epsilon 500, delta 1e-05)." in done.stderr
    assert out.read_text().startswith("text\n")
    assert {file.name for file in tmp_path.iterdir()} >= {"out.csv", "out.csv.card.json", "out.csv.card.txt"}


def test_lines_come_in_and_go_out(tiny: Bundle) -> None:
    done = run("rewrite", "-", "-", "-e", 500, "--model", tiny.folder, "--beams", 2, stdin="a child\n\nthe baker\n")
    assert done.exit_code == 0, done.stderr
    assert done.stdout.count("\n") == 3


def test_too_many_lines_for_delta_stop_before_their_batch(tiny: Bundle) -> None:
    lines = "a child\n" * 8
    args = ("-e", 5, "--delta", 0.2, "--batch-size", 4, "--beams", 1, "--model", tiny.folder)
    done = run("rewrite", "-", "-", *args, stdin=lines)
    assert done.exit_code == 1
    assert "delta must be below 1 / 8" in done.stderr
    assert done.stdout.count("\n") == 4


def test_an_output_that_exists_needs_overwrite(tiny: Bundle, notes: Path, tmp_path: Path) -> None:
    out = tmp_path / "out.csv"
    out.write_text("mine")
    done = run("rewrite", notes, out, "-e", 500, "--model", tiny.folder)
    message = f"Error: '{out}' exists already. Pass --overwrite to replace it, or name another file.\n"
    assert (done.exit_code, done.stderr) == (1, message)
    assert out.read_text() == "mine"
    assert run("rewrite", notes, out, "-e", 500, "--model", tiny.folder, "--beams", 1, "--overwrite").exit_code == 0
    assert out.read_text() != "mine"


def test_an_unknown_model_lists_those_there_are(notes: Path, tmp_path: Path) -> None:
    done = run("rewrite", notes, tmp_path / "out.csv", "-e", 500, "--model", "maxi")
    assert done.exit_code == 1
    assert done.stderr.startswith("Error: no model named 'maxi'. Models that ship with dpbart: ")
    assert done.stderr.count("\n") == 1


def test_a_replay_is_loud(tiny: Bundle, notes: Path, tmp_path: Path) -> None:
    done = run(
        "rewrite", notes, tmp_path / "o.csv", "-e", 500, "--model", tiny.folder, "--replay-seed", 3, "--beams", 1
    )
    assert "each under NOT PRIVATE (epsilon infinite)." in done.stderr
    assert "[NOT PRIVATE]" in (tmp_path / "o.csv").read_text()


def test_models_are_listed_and_shown() -> None:
    listed = json.loads(run("models", "list", "--json").stdout)
    assert "mini" in [each["name"] for each in listed]
    lines = run("models", "list").stdout.splitlines()
    assert lines[0] == "mini"
    place = lines.index("mini-code (the default)")
    assert lines[place + 1 : place + 4] == [
        "  for       small budgets: a text becomes one short code, which is then written out",
        "  language  English",
        "  length    reads 512 tokens, writes at most 38",
    ]
    assert [each["name"] for each in listed if each["default"]] == ["mini-code"]
    assert {each["language"] for each in listed} == {"English"}
    shown = json.loads(run("models", "show", "mini", "--json").stdout)
    assert (shown["variant"], shown["length"]) == ("clv", 20)
    assert math.isfinite(shown["clip"])
    assert "corpora" in run("models", "show", "mini").stdout


def test_a_model_is_imported_by_command(tiny: Bundle, tmp_path: Path) -> None:
    import torch
    from transformers import BartConfig, BartForConditionalGeneration

    config = BartConfig.from_pretrained(tiny.folder, tie_word_embeddings=False)
    state = {f"model.{name}": each for name, each in BartForConditionalGeneration(config).state_dict().items()}
    torch.save({"model_state_dict": state}, tmp_path / "c.pt")
    done = run("models", "import", tmp_path / "c.pt", "--base", tiny.folder, "--out", tmp_path / "m", "--length", 12)
    assert done.exit_code == 0, done.stderr
    assert run("rewrite", "-", "-", "-e", 500, "--model", tmp_path / "m", stdin="a child\n").exit_code == 0


def test_the_installed_command_answers() -> None:
    done = subprocess.run([sys.executable, "-m", "dpbart", "--version"], capture_output=True, text=True, check=True)
    assert done.stdout.startswith("dpbart, version ")


def test_ctrl_c_leaves_nothing_behind(
    tiny: Bundle, notes: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    from dpbart.rewrite.rewriter import Rewriter

    def stopped(*_: object) -> None:
        raise KeyboardInterrupt

    monkeypatch.setattr(Rewriter, "_rewrite_batch", stopped)
    done = run("rewrite", notes, tmp_path / "out.csv", "-e", 500, "--model", tiny.folder)
    assert done.exit_code == 130
    assert done.stderr.endswith("Interrupted. Unfinished output was not written.\n")
    assert [file.name for file in tmp_path.iterdir()] == ["notes.csv"]


def test_an_empty_stream_is_refused(tiny: Bundle, tmp_path: Path) -> None:
    done = run("rewrite", "-", tmp_path / "out.csv", "-e", 500, "--model", tiny.folder, stdin="")
    assert done.exit_code == 1
    assert done.stderr.splitlines()[-1] == "Error: standard input has no rows. Give at least one line."
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize("mechanism", ["laplace", "none"])
def test_a_delta_out_of_range_is_refused_where_it_is_not_used_too(notes: Path, mechanism: str) -> None:
    budget = ("-e", 10) if mechanism == "laplace" else ()
    done = run("rewrite", notes, notes.with_name("o.csv"), *budget, "--mechanism", mechanism, "--delta", 3)
    assert done.exit_code == 1
    assert "delta must be between 0 and 1" in done.stderr


# The command with small parts, waiting after each of them until its signal was sent: never too fast to be stopped.
WAITING = """
import sys, time
from pathlib import Path
from dpbart.rewrite.durable import commit
from dpbart.rewrite.durable.folder import SavedTexts

signal_sent, real, deadline = Path(sys.argv.pop(1)), SavedTexts.add, time.monotonic() + 600
commit.PART_ROWS = 32

def add(*args, **kwargs):
    real(*args, **kwargs)
    while not signal_sent.exists() and time.monotonic() < deadline:
        time.sleep(0.02)

SavedTexts.add = add
from dpbart.cli import cli
cli()
"""


def test_a_terminated_run_can_resume(tiny: Bundle, tmp_path: Path) -> None:
    folder, signal_sent = tmp_path / "folder", tmp_path / "signal-sent"
    folder.mkdir()
    (folder / "in.txt").write_text("a child sold nine keys .\n" * 200)
    files = [str(folder / "in.txt"), str(folder / "out.txt")]
    model = ["-e", "500", "--model", str(tiny.folder), "--beams", "1"]
    command = [sys.executable, "-c", WAITING, str(signal_sent), "rewrite", *files, *model]
    for stop, status in ((signal.SIGTERM, 143), (signal.SIGINT, 130)):
        signal_sent.unlink(missing_ok=True)
        seen = len(list(folder.glob(".out.txt.dpbart/*.arrow")))
        job, deadline = subprocess.Popen(command, stderr=subprocess.PIPE, text=True), time.monotonic() + 600
        while len(list(folder.glob(".out.txt.dpbart/*.arrow"))) <= seen:
            assert job.poll() is None
            assert time.monotonic() < deadline
            time.sleep(0.02)
        job.send_signal(stop)
        signal_sent.touch()
        stderr = job.communicate(timeout=600)[1]
        assert job.returncode == status
        assert sorted(file.name for file in folder.iterdir()) == [".out.txt.dpbart", "in.txt"]
        command.append("--resume")
    assert re.search(
        r"Stopped. [0-9]+ of 200 texts are saved. To continue, give the same command with --resume.", stderr
    )
    refused = run("rewrite", *files, *model)
    assert "has an unfinished run with" in refused.stderr
    assert run("rewrite", *files, *model, "--resume").exit_code == 0
    assert len((folder / "out.txt").read_text().splitlines()) == 200


def test_a_model_without_a_clip_is_shown_as_such(tiny_copy: Path) -> None:
    (tiny_copy / "dpbart.json").unlink()
    assert "clip not chosen yet (run: dpbart prepare clip)" in run("models", "show", tiny_copy).stdout
