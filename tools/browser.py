"""A headless Chromium, where the machine has one: for the tests of the pages, and for printing."""

import os
import shutil
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

NAMES = ("chromium", "chromium-browser", "google-chrome", "google-chrome-stable")
# No sandbox within containers, and no process that only starts others (its children wait behind
# all others on a busy machine); nothing that Chromium fetches for itself.
SWITCHES = [
    "--no-sandbox",
    "--no-zygote",
    "--disable-gpu",
    "--disable-dev-shm-usage",
    "--disable-background-networking",
    "--disable-component-update",
    "--hide-scrollbars",
]


def missing() -> str | None:
    """Nothing, or in one line what a browser would need here."""
    try:
        import playwright  # noqa: F401
    except ImportError:
        return (
            "the Python package playwright is missing; it comes with requirements.txt"
        )
    if chromium() is None:
        return (
            "no Chromium found; on Debian or Ubuntu: apt-get install chromium "
            "(or name one in CHROMIUM=)"
        )
    return None


def chromium() -> str | None:
    """The path of the browser: ``CHROMIUM``, or the first that stands on the PATH."""
    named = os.environ.get("CHROMIUM")
    if named:
        return named if Path(named).exists() else None
    return next((found for name in NAMES if (found := shutil.which(name))), None)


@contextmanager
def started() -> Iterator:
    """The running browser, of Playwright's type ``Browser``."""
    from playwright.sync_api import sync_playwright

    with sync_playwright() as play:
        browser = play.chromium.launch(executable_path=chromium(), args=SWITCHES)
        try:
            yield browser
        finally:
            browser.close()
