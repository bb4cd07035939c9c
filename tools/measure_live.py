"""How quick the story machine is: tokens a second, and the first token on a slow line.

    make book && python tools/measure_live.py

The page is served from this machine, on a line throttled to 10 megabits a second from the moment
that the page is asked for. To choose a model is to ask for its weights. So a model is chosen, and
play is pressed at once or a second later; the first token counts once it is in the page.
"""

import statistics
import threading
from pathlib import Path

import browser
import serve

SITE = Path(__file__).resolve().parent.parent / "_build" / "html"
BYTES = 10e6 / 8  # a second
TIMES = 3
SPEED = """(n) => {
  const { the } = live.machine;
  const state = the.model.start();
  const start = performance.now();
  for (let i = 0; i < n; i++) {
    the.model.run(state, [i + 300]);
    live.choose(the.model.logits(state, i), { temperature: 0.8, topP: 1, seed: 1, place: i });
  }
  return n / (performance.now() - start) * 1000;
}"""
FIRST = """async ([name, pause]) => {
  const { the, parts } = live.machine;
  if (the.name !== name) {
    parts.model.value = name;
    parts.model.dispatchEvent(new Event('change'));
    await new Promise((done) => setTimeout(done, pause));
  }
  const start = performance.now();
  parts.play.click();
  const written = () => parts.story.querySelector("[data-at='1']:not(.caret)");
  while (!written()) await new Promise((done) => setTimeout(done, 5));
  const took = performance.now() - start;
  the.playing = false;
  return took / 1000;
}"""


def first_token(chromium, address: str, name: str, pause: int) -> tuple[float, float]:
    """Seconds from play to the first token, and the megabytes that came in between."""
    page = chromium.new_context().new_page()
    line = page.context.new_cdp_session(page)
    line.send("Network.enable")
    line.send("Network.setCacheDisabled", {"cacheDisabled": True})
    rates = {"downloadThroughput": BYTES, "uploadThroughput": BYTES}
    line.send(
        "Network.emulateNetworkConditions", {"offline": False, "latency": 0, **rates}
    )
    page.goto(address)
    page.wait_for_function("globalThis.live && live.machine")
    came = []
    line.on("Network.dataReceived", lambda data: came.append(data["encodedDataLength"]))
    took = page.evaluate(FIRST, [name, pause])
    page.context.close()
    return took, sum(came) / 1e6


def main() -> None:
    running = serve.server(SITE)
    threading.Thread(target=running.serve_forever, daemon=True).start()
    address = f"http://127.0.0.1:{running.server_port}/book/story_machine.html"
    with browser.started() as chromium:
        for name, pauses in (("hamlet", [0]), ("full", [0, 1000])):
            for pause in pauses:
                found = [
                    first_token(chromium, address, name, pause) for _ in range(TIMES)
                ]
                seconds = ", ".join(f"{took:.2f}" for took, _ in found)
                middle = statistics.median(took for took, _ in found)
                size = statistics.median(size for _, size in found)
                when = (
                    f"play {pause / 1000:.0f} s after its choice" if pause else "play"
                )
                print(
                    f"{name}: first token {middle:.2f} s after {when} ({seconds}), "
                    f"{size:.2f} MB",
                    flush=True,
                )
            page = chromium.new_page()
            page.goto(address)
            page.wait_for_function("globalThis.live && live.machine")
            page.evaluate(FIRST, [name, 0])
            speed = max(page.evaluate(SPEED, 150) for _ in range(3))
            print(f"{name}: {speed:.0f} tokens a second", flush=True)
    running.shutdown()


if __name__ == "__main__":
    main()
