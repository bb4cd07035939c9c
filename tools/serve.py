"""Shows the rendered book on this machine only."""

import argparse
import functools
import http.server
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent


class Quiet(http.server.SimpleHTTPRequestHandler):
    def log_message(self, *_):
        pass


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--port", type=int, default=8000)
    port = parser.parse_args().port
    handler = functools.partial(Quiet, directory=ROOT / "_build" / "html")
    try:
        server = http.server.ThreadingHTTPServer(("127.0.0.1", port), handler)
    except OSError as error:
        raise SystemExit(
            f"decoder-only: port {port} cannot be used ({error.strerror}); "
            f"choose another: make serve PORT={port + 1}"
        ) from None
    print(f"The book is at http://127.0.0.1:{port}/ (stop with Control-C)", flush=True)
    try:
        server.serve_forever()
    except KeyboardInterrupt:
        print()


if __name__ == "__main__":
    main()
