"""The pictures of the page on docs/serve.md, in light and in dark, taken from a running server by a real browser.

python docs/make_screenshot.py
"""

from __future__ import annotations

import sys
from pathlib import Path
from tempfile import TemporaryDirectory

REPOSITORY = Path(__file__).parent.parent
sys.path.insert(0, str(REPOSITORY))

from playwright.sync_api import Browser, sync_playwright  # noqa: E402

from tests.page.chromium import open_page, serving, start_chromium  # noqa: E402

IMAGES = REPOSITORY / "docs" / "images"
TEXT = "I saw my doctor in Leeds on Tuesday about my knee."  # made up for this page


def take(browser: Browser, address: str, *, dark: bool) -> None:
    """Write one picture: the slider, the examples, and a text next to what came out."""
    page = open_page(browser, address, width=1000, dark=dark).page
    page.locator("#examples .pair").first.wait_for()
    page.locator("#epsilon").fill("20")
    page.locator("#epsilon").press("Enter")
    page.locator("#texts").fill(TEXT)
    page.locator("#text-go").click()
    page.locator("#text-result .pair").wait_for()
    page.locator("[aria-busy]").first.wait_for(state="detached")
    page.locator("#texts").blur()
    page.evaluate("window.scrollTo(0, 0)")
    clip = {
        "x": 0,
        "y": 0,
        "width": 1000,
        "height": page.locator("#text-result").evaluate("(it) => it.offsetTop + it.offsetHeight"),
    }
    name = "serve-dark.png" if dark else "serve-light.png"
    page.screenshot(path=IMAGES / name, full_page=True, clip=clip)


def main() -> None:
    with TemporaryDirectory() as folder, sync_playwright() as playwright, serving(Path(folder) / "state") as address:
        browser = start_chromium(playwright)
        for dark in (False, True):
            take(browser, address, dark=dark)
        browser.close()


if __name__ == "__main__":
    main()
