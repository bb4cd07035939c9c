"""How quick the story machine is: tokens a second, and the first token on a slow line.

    make book && python tools/measure_live.py

The page is served from this machine. The line is throttled to 10 megabits a second.
"""

import threading
from pathlib import Path

import browser
import serve

SITE = Path(__file__).resolve().parent.parent / "_build" / "html"
BYTES = 10e6 / 8  # a second
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


def main() -> None:
    running = serve.server(SITE)
    threading.Thread(target=running.serve_forever, daemon=True).start()
    address = f"http://127.0.0.1:{running.server_port}/book/story_machine.html"
    with browser.started() as chromium:
        for name in ("hamlet", "full"):
            page = chromium.new_page()
            page.goto(address)
            page.wait_for_function("globalThis.live && live.machine")
            line = page.context.new_cdp_session(page)
            rates = {"downloadThroughput": BYTES, "uploadThroughput": BYTES}
            line.send("Network.enable")
            line.send(
                "Network.emulateNetworkConditions",
                {"offline": False, "latency": 0, **rates},
            )
            first = page.evaluate(
                """async (name) => {
                  const { the, parts } = live.machine;
                  parts.model.value = the.name = name;
                  const start = performance.now();
                  parts.play.click();
                  while (the.ids.length < 2) await new Promise((done) => setTimeout(done, 5));
                  the.playing = false;
                  return performance.now() - start;
                }""",
                name,
            )
            speed = max(page.evaluate(SPEED, 150) for _ in range(3))
            print(
                f"{name}: first token after {first / 1000:.2f} s, {speed:.0f} tokens a second"
            )
    running.shutdown()


if __name__ == "__main__":
    main()
