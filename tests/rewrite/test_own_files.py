"""A run writes to its own files only, keeps hidden files to their owner, and keeps an output with its card."""

from __future__ import annotations

import csv
import hashlib
import json
import multiprocessing
import os
import secrets
import signal
import stat
import sys
from pathlib import Path

import pytest
from click.testing import CliRunner

from dpbart import Rewriter, files
from dpbart.cli import cli
from dpbart.errors import BadLedger, BadTable
from dpbart.ledger.ledger import Ledger
from dpbart.options.rewriting import Request
from dpbart.rewrite.durable.folder import folder_of
from tests.rewrite.jobs import marking_rewriter, run, write_people

ROWS = 12


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    return write_people(tmp_path, ROWS)


def a_request(folder: Path, **changed: object) -> Request:
    task = {"person_column": "who", "ledger": folder / "l.db", **changed}
    return Request(folder / "in.csv", folder / "out.csv", **task)


def mode_of(file: Path) -> int:
    return stat.S_IMODE(file.stat().st_mode)


# Links and folders of others


def test_a_link_in_place_of_the_work_folder_is_refused_and_what_it_leads_to_is_kept(
    rewriter: Rewriter, folder: Path
) -> None:
    precious = folder / "precious"
    precious.mkdir()
    (precious / "letter.txt").write_text("do not delete")
    folder_of(folder / "out.csv").symlink_to(precious)
    for overwrite in (False, True):
        with pytest.raises(BadTable, match=r"out.csv.dpbart' must be a folder of your own, got a link"):
            run(a_request(folder, overwrite=overwrite), rewriter)
    assert [file.name for file in precious.iterdir()] == ["letter.txt"]


def test_files_of_others_in_the_work_folder_are_not_deleted(rewriter: Rewriter, folder: Path) -> None:
    work = folder_of(folder / "out.csv")
    work.mkdir()
    (work / "letter.txt").write_text("do not delete")
    with pytest.raises(BadTable, match="holds 'letter.txt', which dpbart did not write. Move it elsewhere"):
        run(a_request(folder, overwrite=True), rewriter)
    assert (work / "letter.txt").read_text() == "do not delete"


def test_the_work_folder_of_another_user_is_refused(
    rewriter: Rewriter, folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    folder_of(folder / "out.csv").mkdir()
    monkeypatch.setattr(os, "geteuid", lambda: 12345)
    with pytest.raises(BadTable, match="must be a folder of your own, got one that belongs to another user"):
        run(a_request(folder), rewriter)


@pytest.mark.parametrize("name", ["out.csv.card.json", "out.csv.card.txt", "out.csv.card.html"])
def test_no_card_is_written_through_a_link_that_waits_under_its_name(
    rewriter: Rewriter, folder: Path, name: str
) -> None:
    """The program chose the name, not the user. A link that the user named as the output is followed."""
    (folder / "elsewhere").mkdir()
    (folder / name).symlink_to(folder / "elsewhere" / "stolen")
    with pytest.raises(BadTable, match=f"{name}' exists already"):
        run(a_request(folder), rewriter)
    assert not (folder / "l.db").exists()
    run(a_request(folder, overwrite=True), rewriter)
    assert not (folder / name).is_symlink()
    assert list((folder / "elsewhere").iterdir()) == []


def test_a_hidden_file_is_created_by_this_process_or_not_at_all(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Somebody else's file or link that waits under its name is neither followed nor emptied."""
    target = folder / "card.json"
    (folder / "victim").write_text("keep")
    waiting = folder / ".card.json.guessed.partial"
    waiting.symlink_to(folder / "victim")
    monkeypatch.setattr(secrets, "token_hex", lambda _: "guessed")
    with pytest.raises(BadTable, match="cannot be written: File exists"):
        files.write_whole(target, "new")
    assert (folder / "victim").read_text() == "keep"
    assert waiting.is_symlink()
    assert not target.exists()


# Who may read


def test_the_ledger_and_the_work_folder_are_for_their_owner_alone(
    rewriter: Rewriter, folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    seen: dict[str, int] = {}

    def look(*_: object, **__: object) -> None:
        work = folder_of(folder / "out.csv")
        seen.update({file.name: mode_of(file) for file in [work, *work.iterdir(), folder / "l.db"]})

    real = Ledger.record

    def record(self: Ledger, *args: object, **kwargs: object) -> None:
        real(self, *args, **kwargs)  # type: ignore[arg-type]
        look()

    monkeypatch.setattr(Ledger, "record", record)
    before = os.umask(0)
    try:
        run(a_request(folder), rewriter)
    finally:
        os.umask(before)
    assert seen.pop(".out.csv.dpbart") == 0o700
    assert len(seen) >= 5  # ledger, lock, manifest, secret and a part
    assert set(seen.values()) == {0o600}


def test_the_output_and_its_card_follow_the_umask_and_a_replaced_file_keeps_its_mode(
    rewriter: Rewriter, folder: Path
) -> None:
    before = os.umask(0o027)
    try:
        run(a_request(folder), rewriter)
    finally:
        os.umask(before)
    results = [folder / name for name in ("out.csv", "out.csv.card.json", "out.csv.card.txt", "out.csv.card.html")]
    assert {mode_of(file) for file in results} == {0o640}
    (folder / "out.csv").chmod(0o600)
    run(a_request(folder, overwrite=True), rewriter)
    assert [mode_of(file) for file in results] == [0o600, 0o640, 0o640, 0o640]


def test_a_ledger_that_everybody_could_read_is_closed_to_others_when_it_is_opened(folder: Path) -> None:
    Ledger(folder / "l.db", create=True).close()
    (folder / "l.db").chmod(0o664)
    Ledger(folder / "l.db").close()
    assert mode_of(folder / "l.db") == 0o660  # a group that was let in on purpose stays in


def test_a_ledger_is_not_created_through_a_link(folder: Path) -> None:
    (folder / "l.db").symlink_to(folder / "elsewhere.db")
    with pytest.raises(BadLedger, match="is a link to a file that does not exist"):
        Ledger(folder / "l.db", create=True)
    assert not (folder / "elsewhere.db").exists()


# Output and card


def pair_of(folder: Path) -> tuple[str, str | None] | None:
    """The digest of the output and the one that its card states; None if there is no output."""
    if not (folder / "out.csv").exists():
        return None
    card = json.loads((folder / "out.csv.card.json").read_text())
    pages = [(folder / f"out.csv.card.{ending}").read_text() for ending in ("txt", "html")]
    stated = card["run"]["output_sha256"]
    assert all(stated in page for page in pages)
    return hashlib.sha256((folder / "out.csv").read_bytes()).hexdigest(), stated


def overwrite_and_die(folder: Path, step: int) -> None:
    """Replace an output, and die just before the given change to a name next to it, or to the manifest."""
    steps = 0

    def watch(event: str, args: tuple[object, ...]) -> None:
        nonlocal steps
        file = Path(str(args[0])) if args else Path()
        if event in ("os.rename", "os.remove", "os.rmdir") and (file.parent == folder or file.name == "run.json"):
            steps += 1
            if steps == step:
                os.kill(os.getpid(), signal.SIGKILL)

    sys.addaudithook(watch)
    run(a_request(folder, overwrite=True, ledger=None), marking_rewriter())


def overwrite_and_die_at_every_step(folder: Path) -> None:
    """Fork a process for each step. This process itself has no threads, so it may fork."""
    os.fsync = lambda fd: None  # a killed process loses nothing that it has written
    run(a_request(folder, ledger=None), marking_rewriter())
    absent, status = 0, signal.SIGKILL.value
    for step in range(1, 100):
        if (child := os.fork()) == 0:
            overwrite_and_die(folder, step)
            os._exit(0)
        status = os.waitpid(child, 0)[1]
        assert status in (0, signal.SIGKILL)
        pair = pair_of(folder)
        assert pair is None or pair[0] == pair[1], f"step {step}"
        absent += pair is None
        if status == 0:
            break
        if (folder_of(folder / "out.csv") / "run.json").exists():
            run(a_request(folder, resume=True, ledger=None), marking_rewriter())
        after = pair_of(folder)
        assert after is not None
        assert after[0] == after[1]
    assert status == 0
    assert absent > 0


def test_card_and_output_belong_together_after_a_kill_at_every_step_of_an_overwrite(folder: Path) -> None:
    """There may be no output for a moment. Then the run is unfinished, and --resume writes it."""
    context = multiprocessing.get_context("forkserver")
    context.set_forkserver_preload(["dpbart.rewrite.job"])
    process = context.Process(target=overwrite_and_die_at_every_step, args=(folder,))
    process.start()
    process.join()
    assert process.exitcode == 0
    left = sorted(file.name for file in folder.iterdir())
    assert left == ["in.csv", "out.csv", "out.csv.card.html", "out.csv.card.json", "out.csv.card.txt"]


def test_a_card_that_cannot_be_written_leaves_the_old_output_with_its_old_card(
    rewriter: Rewriter, folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    run(a_request(folder), rewriter)
    before = pair_of(folder)
    real = os.fsync
    with monkeypatch.context() as patched:

        def full(handle: int) -> None:
            if os.readlink(f"/proc/self/fd/{handle}").endswith(".partial") and "card.json" in os.readlink(
                f"/proc/self/fd/{handle}"
            ):
                raise OSError(28, "No space left on device")
            real(handle)

        patched.setattr(os, "fsync", full)
        with pytest.raises(BadTable, match="No space left on device"):
            run(a_request(folder, overwrite=True), rewriter)
    assert before is not None
    assert pair_of(folder) == before
    run(a_request(folder, resume=True), rewriter)
    after = pair_of(folder)
    assert after is not None
    assert after[0] == after[1] != before[0]


# Names of columns


FORGED = "shop\nGuarantee:     epsilon 0.1, delta 0\x1b[2K\u2028\u202e\x85"


def test_a_name_of_a_column_cannot_forge_a_line_of_the_card(rewriter: Rewriter, folder: Path) -> None:
    with (folder / "in.csv").open("w", newline="") as out:
        rows = csv.writer(out)
        rows.writerow(["text", FORGED, "stars\nLabels:        dropped"])
        rows.writerow(["a", "b", "1"])
    labels = {"label_column": "stars\nLabels:        dropped", "labels": "public"}
    run(Request(folder / "in.csv", folder / "out.csv", keep_all=True, **labels), rewriter)
    pages = [(folder / f"out.csv.card.{ending}").read_text() for ending in ("txt", "html")]
    heads = [line.split(":")[0] for line in pages[0].splitlines()]
    assert (heads.count("Guarantee"), heads.count("Labels")) == (1, 1)
    for page in pages:
        assert "shop\\nGuarantee:     epsilon 0.1, delta 0\\x1b[2K\\u2028\\u202e\\x85" in page
        assert not [sign for sign in page if not sign.isprintable() and sign != "\n"]
    assert json.loads((folder / "out.csv.card.json").read_text())["other_columns"] == [FORGED]


def test_a_name_cannot_forge_a_line_of_a_message(folder: Path) -> None:
    (folder / "in.csv").write_text('text,"a\nb"\nx,y\n')
    args = ["rewrite", str(folder / "in.csv"), str(folder / "out.csv"), "-e", "5", "--label-column", "a\nb", "--labels"]
    done = CliRunner().invoke(cli, [*args, "public", "--text-column", "a\nb"])
    assert done.exit_code == 1
    assert done.stderr == "Error: the label column must not be the text column, got 'a\\nb' for both.\n"
