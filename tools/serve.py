"""Shows the rendered book on this machine only, compressed, as a public server would send it."""

import argparse
import functools
import gzip
import http.server
import io
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
TEXT = {".html", ".css", ".js", ".json", ".svg"}


class Quiet(http.server.SimpleHTTPRequestHandler):
    def log_message(self, *_):
        pass

    def send_head(self):
        name = self.headers.get("Host", "localhost").partition(":")[0]
        if name not in ("localhost", "127.0.0.1"):  # a page elsewhere that says so
            return self.send_error(421)
        root, path = Path(self.directory), Path(self.translate_path(self.path))
        if "\0" in str(path) or not path.resolve().is_relative_to(root.resolve()):
            return self.send_error(404)
        accepts = "gzip" in self.headers.get("Accept-Encoding", "")
        if path.suffix not in TEXT or not path.is_file() or not accepts:
            return super().send_head()
        content = compressed(path, path.stat().st_mtime_ns)
        self.send_response(200)
        self.send_header("Content-Type", self.guess_type(str(path)))
        self.send_header("Content-Encoding", "gzip")
        self.send_header("Content-Length", str(len(content)))
        self.send_header("Cache-Control", "no-cache")
        self.end_headers()
        return io.BytesIO(content)


@functools.lru_cache(maxsize=64)
def compressed(path: Path, changed: int) -> bytes:
    """The file's content, compressed; anew when the file has changed."""
    return gzip.compress(path.read_bytes(), compresslevel=6, mtime=0)


def server(folder: Path, port: int = 0) -> http.server.ThreadingHTTPServer:
    """A server of ``folder``; port 0 takes any that is free."""
    handler = functools.partial(Quiet, directory=folder)
    return http.server.ThreadingHTTPServer(("127.0.0.1", port), handler)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--port", default="8000")
    said = parser.parse_args().port
    if not said.isdecimal() or not 0 < int(said) < 2**16:
        raise SystemExit(
            f"decoder-only: {said!r} is no port; choose one from 1024 to 65535: "
            "make serve PORT=8000"
        )
    port = int(said)
    try:
        running = server(ROOT / "_build" / "html", port)
    except OSError as error:
        raise SystemExit(
            f"decoder-only: port {port} cannot be used ({error.strerror}); "
            f"choose another: make serve PORT={8000 if port == 2**16 - 1 else port + 1}"
        ) from None
    print(f"The book is at http://127.0.0.1:{port}/ (stop with Control-C)", flush=True)
    try:
        running.serve_forever()
    except KeyboardInterrupt:
        print()


if __name__ == "__main__":
    main()
