"""Two servers, one with a ledger and one with a token, and a browser to visit them."""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from click.testing import CliRunner
from playwright.sync_api import Browser, sync_playwright

from dpbart.cli import cli
from tests.page.chromium import Watched, open_page, serving, start_chromium

TOKEN = "a-token-for-the-tests-of-the-page-0123456789"
Open = Callable[..., Watched]


@pytest.fixture(scope="session")
def ledger(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A ledger in which everybody may spend 30, and Aaron 5."""
    file = tmp_path_factory.mktemp("ledger") / "budgets.db"
    for more in (["30"], ["5", "--person", "aaron"]):
        command = [sys.executable, "-m", "dpbart", "budget", "limit", str(file), *more]
        subprocess.run(command, check=True, capture_output=True)
    return file


@pytest.fixture(scope="session")
def address(tmp_path_factory: pytest.TempPathFactory, ledger: Path) -> Iterator[str]:
    """A server that counts people."""
    with serving(tmp_path_factory.mktemp("state"), "--ledger", str(ledger)) as found:
        yield found


@pytest.fixture(scope="session")
def guarded(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    """A server that wants a token and counts nobody."""
    folder = tmp_path_factory.mktemp("guarded")
    (folder / "token").write_text(TOKEN)
    with serving(folder / "state", "--token-file", str(folder / "token")) as found:
        yield found


@pytest.fixture(scope="module")
def browser() -> Iterator[Browser]:
    # For a module, not for the session: other tests in this process need the event loop for themselves.
    with sync_playwright() as playwright:
        chromium = start_chromium(playwright)
        yield chromium
        chromium.close()


@pytest.fixture
def visit(browser: Browser) -> Iterator[Open]:
    """Open pages as a person would. At the end, none of them may have complained."""
    opened: list[Watched] = []

    def visit(address: str, *, width: int = 1100, dark: bool = False) -> Watched:
        opened.append(open_page(browser, address, width=width, dark=dark))
        return opened[-1]

    yield visit
    for each in opened:
        each.check()
        each.page.context.close()


def check_card(card: Path, output: Path) -> None:
    """As its reader would: the card holds for this output."""
    done = CliRunner().invoke(cli, ["card", "verify", str(card), "--output", str(output)])
    assert done.exit_code == 0, done.output


@pytest.fixture
def notes(tmp_path: Path) -> Path:
    """Sixty-four made-up texts of four people, with one that is HTML, in a file whose name is HTML."""
    file = tmp_path / "notes <img src=x onerror=alert(1)>.jsonl"
    texts = [f"I saw my doctor in Leeds on day {day} about my knee." for day in range(63)]
    rows = [{"patient": f"p{place}", "text": text} for place, text in enumerate(["<b>bold</b>", *texts])]
    file.write_text("".join(f"{json.dumps(row)}\n" for row in rows))
    return file
