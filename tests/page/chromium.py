"""A real browser, and a real server for it to look at."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path

from playwright.sync_api import (
    Browser,
    ConsoleMessage,
    Download,
    Locator,
    Page,
    Playwright,
    Request,
    ViewportSize,
    expect,
)

NAMES = ("chromium", "chromium-browser", "google-chrome", "google-chrome-stable")
_PATIENCE = 180_000  # milliseconds; a busy machine is slow, not wrong
_VIOLATIONS = "document.addEventListener('securitypolicyviolation', (e) => console.error(`CSP ${e.violatedDirective}`))"


class NoBrowser(Exception):
    """There is no Chromium on this machine."""


def start_chromium(playwright: Playwright) -> Browser:
    """Chromium as the system has it, or else as `playwright install chromium` has left it.

    Raises:
        NoBrowser: There is neither. The page is then not tested, and its tests fail.
    """
    found = next(filter(None, map(shutil.which, NAMES)), playwright.chromium.executable_path)
    if not Path(found).exists():
        raise NoBrowser("no Chromium was found, so the page was not tested. Run 'make browser', or install one.")
    return playwright.chromium.launch(executable_path=found)


@contextmanager
def serving(state: Path, *options: str) -> Iterator[str]:
    """The address of a server of its own, on any free port of this machine."""
    quiet = ["--log-level", "error"]  # nobody reads the pipe
    command = [sys.executable, "-m", "dpbart", "serve", "--port", "0", "--state", str(state), *quiet, *options]
    environment = {**os.environ, "OMP_NUM_THREADS": "1"}  # the browser needs a core too
    with subprocess.Popen(command, stderr=subprocess.PIPE, text=True, env=environment) as server:
        try:
            assert server.stderr is not None
            said = next((line for line in server.stderr if "listens on" in line), None)
            assert said is not None, "the server did not start"
            yield said.split()[-1]
        finally:
            server.terminate()
            server.communicate()


@dataclass
class Watched:
    """A page, and everything that it asked for or complained about."""

    page: Page
    address: str
    expected: set[int] = field(default_factory=set)  # statuses of refusals that a test provokes
    complaints: list[str] = field(default_factory=list)
    requests: list[Request] = field(default_factory=list)

    def listen(self) -> None:
        self.page.on("console", self._console)
        self.page.on("pageerror", lambda error: self.complaints.append(str(error)))
        self.page.on("request", lambda request: self.requests.append(request))
        self.page.add_init_script(_VIOLATIONS)

    def _console(self, message: ConsoleMessage) -> None:
        if message.type in ("error", "warning"):
            self.complaints.append(f"{message.text} ({message.location['url']})")

    def _is_expected(self, complaint: str) -> bool:
        status = re.search(r"the server responded with a status of (\d+)", complaint)
        return status is not None and int(status[1]) in self.expected

    def check(self) -> None:
        """Nothing went wrong, nothing was asked of others, and nothing is left in the browser."""
        assert [each for each in self.complaints if not self._is_expected(each)] == []
        foreign = [
            each.url for each in self.requests if not each.url.startswith((self.address, f"blob:{self.address}"))
        ]
        assert foreign == []
        left = "[localStorage.length, sessionStorage.length, document.cookie.length, location.search, location.hash]"
        assert self.page.evaluate(left) == [0, 0, 0, "", ""]


def download(button: Locator, folder: Path) -> list[Path]:
    """Press a button, and save what the browser downloads: the output, its card and the page of the card."""
    begun: list[Download] = []  # in any order

    def is_last(each: Download) -> bool:
        begun.append(each)
        return len(begun) == 3

    with button.page.expect_event("download", is_last):
        button.click()
    for each in begun:
        each.save_as(folder / each.suggested_filename)
    names = [each.suggested_filename for each in begun]
    return [folder / name for name in sorted(names, key=lambda name: (".card.html" in name, ".card.json" in name))]


def send(page: Page, file: Path, *, button: str = "Rewrite the file", **roles: str) -> Locator:
    """Choose a file and the roles of its columns, and press the button. Returns the newest job on the page."""
    page.locator("#file").set_input_files(file)
    for column, role in roles.items():
        page.get_by_label(column, exact=True).select_option(role)
    return press(page, button)


def press(page: Page, button: str) -> Locator:
    """Send the chosen file. Returns the newest job on the page."""
    before = page.locator(".job").count()
    page.get_by_role("button", name=button).click()
    expect(page.locator(".job")).to_have_count(before + 1)
    return page.locator(".job").first


def open_page(browser: Browser, address: str, *, width: int = 1100, dark: bool = False) -> Watched:
    """A page in a fresh browser profile."""
    size: ViewportSize = {"width": width, "height": 900}
    context = browser.new_context(viewport=size, color_scheme="dark" if dark else "light", reduced_motion="reduce")
    context.set_default_timeout(_PATIENCE)
    expect.set_options(timeout=_PATIENCE)
    watched = Watched(context.new_page(), address)
    watched.listen()
    watched.page.goto(address)
    # What a person would wait for: the page has a budget, or asks for a token. Before that, fields are still filled in.
    watched.page.locator("#text-go:enabled, #token-form:not([hidden])").first.wait_for(state="attached")
    return watched
