"""Measures how heavy and how quick the built pages are for a first visitor on a slow line.

    python tools/measure_pages.py                 # the table for `_build/html`
    python tools/measure_pages.py --runs 5 book/03_attention book/index

Each page is opened in a new browser without a cache, from a server that compresses as a public one
does, over a line of 1.6 megabits a second with 150 ms to the server (Lighthouse's slow 4G). The
narrow window stands for a phone: its processor is slowed down four times. Times are medians, which
need an idle machine; on a busy one, `--best` tells the quickest visit instead.

- first paint: first contentful paint. load: the `load` event.
- formulas: the last time that a formula changed its size, up to two seconds after `load`.
- kB before paint, kB loaded: what came over the line, compressed, without any scrolling.
- shift: cumulative layout shift. typeface: in what the title is really set.
"""

import argparse
import statistics
import sys
import threading
from collections import Counter
from dataclasses import dataclass
from pathlib import Path

import browser
import serve

ROOT = Path(__file__).resolve().parent.parent
PAGES = [
    "book/index",
    "book/00_overview",
    "book/03_attention",
    "book/10_scaling",
    "book/14_interpretation",
    "book/claims",
    "search",
]
DESKTOP = {"width": 1440, "height": 900}
PHONE = {"width": 390, "height": 844}
LINE = {
    "offline": False,
    "latency": 150,  # milliseconds
    "downloadThroughput": 1_600_000 / 8,  # bytes a second
    "uploadThroughput": 750_000 / 8,
}
SLOWDOWN = 4  # a phone's processor beside this machine's
LATE = 2000  # milliseconds after `load` in which a formula may still change

WATCH = """(() => {
  const seen = { formulas: 0, shift: 0 };
  window.measured = seen;
  new PerformanceObserver((list) =>
    list.getEntries().forEach((entry) => (seen.shift += entry.value))
  ).observe({ type: 'layout-shift', buffered: true });
  let before = '';
  setInterval(() => {
    const formulas = [...document.querySelectorAll('.bd-article :is(math, .math)')];
    const sizes = formulas.slice(0, 40).map((formula) => {
      const { width, height } = formula.getBoundingClientRect();
      return `${Math.round(width)}x${Math.round(height)}`;
    });
    const now = `${formulas.length} ${sizes}`;
    if (formulas.length && now !== before) seen.formulas = performance.now();
    before = now;
  }, 50);
})()"""


@dataclass(frozen=True)
class Visit:
    """What one first visit to one page cost. Times in seconds, sizes in bytes."""

    first_paint: float
    load: float
    formulas: float
    before_paint: int
    loaded: int
    requests: int
    shift: float
    typeface: str


def visit(chromium, url: str, size: dict[str, int], *, slowdown: float = 1) -> Visit:
    """Opens ``url`` as a stranger does and notes what comes when; ``slowdown`` of the processor."""
    context = chromium.new_context(viewport=size)
    page = context.new_page()
    line = context.new_cdp_session(page)
    began, came, sizes = [], [], {}

    def sent(event: dict) -> None:
        if not event["request"]["url"].startswith("data:"):
            began.append(event["timestamp"])
            sizes[event["requestId"]] = 0

    def received(event: dict) -> None:
        came.append((event["timestamp"], event["requestId"], event["dataLength"]))

    def finished(event: dict) -> None:
        if event["requestId"] in sizes:
            sizes[event["requestId"]] = event["encodedDataLength"]

    line.on("Network.requestWillBeSent", sent)
    line.on("Network.dataReceived", received)
    line.on("Network.loadingFinished", finished)
    for command in ("Network.enable", "DOM.enable", "CSS.enable"):
        line.send(command)
    line.send("Network.emulateNetworkConditions", LINE)
    line.send("Emulation.setCPUThrottlingRate", {"rate": slowdown})
    page.add_init_script(WATCH)
    page.goto(url, wait_until="load")
    page.wait_for_timeout(LATE)
    painted, loaded = page.evaluate(
        """() => [
          performance.getEntriesByName('first-contentful-paint')[0].startTime / 1000,
          performance.getEntriesByType('navigation')[0].loadEventStart / 1000,
        ]"""
    )
    measured = page.evaluate("window.measured")
    typeface = typeface_of(line, ".bd-article h1, .bd-search-container h1")
    context.close()
    # A piece is told by its size when unpacked; the line carried its share of the packed whole.
    unpacked = Counter()
    for _, request, size in came:
        unpacked[request] += size
    early = sum(
        sizes[request] * size / unpacked[request]
        for at, request, size in came
        if at - began[0] <= painted and sizes.get(request)
    )
    return Visit(
        first_paint=painted,
        load=loaded,
        formulas=measured["formulas"] / 1000,
        before_paint=round(early),
        loaded=sum(sizes.values()),
        requests=len(sizes),
        shift=measured["shift"],
        typeface=typeface,
    )


def typeface_of(line, selector: str) -> str:
    """The font in which most letters of the first such element are set, as the browser says."""
    root = line.send("DOM.getDocument")["root"]["nodeId"]
    found = line.send("DOM.querySelector", {"nodeId": root, "selector": selector})
    fonts = line.send("CSS.getPlatformFontsForNode", {"nodeId": found["nodeId"]})
    most = max(fonts["fonts"], key=lambda font: font["glyphCount"], default={})
    return most.get("familyName", "-")


def together(visits: list[Visit], time=statistics.median) -> Visit:
    """The median of each time, or another of them; of the rest, the worst."""
    middle = {
        name: time([getattr(visit, name) for visit in visits])
        for name in ("first_paint", "load", "formulas")
    }
    worst = {
        name: max(getattr(visit, name) for visit in visits)
        for name in ("before_paint", "loaded", "requests", "shift")
    }
    faces = sorted({visit.typeface for visit in visits})
    return Visit(**middle, **worst, typeface=", ".join(faces))


def row(page: str, size: dict[str, int], seen: Visit) -> str:
    formulas = f"{seen.formulas:.2f} s" if seen.formulas else "–"
    return (
        f"| {page}, {size['width']} | {seen.first_paint:.2f} s | {seen.load:.2f} s "
        f"| {formulas} | {seen.before_paint / 1000:.0f} | {seen.loaded / 1000:.0f} "
        f"| {seen.requests} | {seen.shift:.3f} | {seen.typeface} |"
    )


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("pages", nargs="*", default=PAGES, help="such as book/index")
    parser.add_argument("--runs", type=int, default=3, help="visits to each page")
    parser.add_argument("--best", action="store_true", help="not the medians")
    parser.add_argument("--html", type=Path, default=ROOT / "_build" / "html")
    asked = parser.parse_args()
    if reason := browser.missing():
        sys.exit(f"decoder-only: {reason}")
    for page in asked.pages:
        if not (asked.html / f"{page}.html").is_file():
            sys.exit(
                f"decoder-only: there is no page {page!r} in {asked.html}; build the book "
                "first (make book), or name another page"
            )
    time = min if asked.best else statistics.median
    running = serve.server(asked.html)
    threading.Thread(target=running.serve_forever, daemon=True).start()
    print("| page, width | first paint | load | formulas | kB before paint", end="")
    print(" | kB loaded | requests | shift | typeface |\n|" + "---|" * 9)
    with browser.started() as chromium:
        for page in asked.pages:
            for size in (DESKTOP, PHONE):
                url = f"http://127.0.0.1:{running.server_port}/{page}.html"
                slowdown = SLOWDOWN if size == PHONE else 1
                visits = [
                    visit(chromium, url, size, slowdown=slowdown)
                    for _ in range(asked.runs)
                ]
                print(row(page, size, together(visits, time)), flush=True)
    running.shutdown()


if __name__ == "__main__":
    main()
