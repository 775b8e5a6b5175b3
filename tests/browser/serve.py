"""A web server for the built site: compressed, as a host would send it."""

import gzip
import http.server
import sys
import threading
from contextlib import contextmanager
from functools import cache
from pathlib import Path

PACKED = {".png", ".woff", ".woff2", ".ico", ".gz"}


@cache
def compressed(path):
    """The bytes of a file as they travel."""
    content = path.read_bytes()
    return content if path.suffix in PACKED else gzip.compress(content, 6)


class Handler(http.server.SimpleHTTPRequestHandler):
    """Files with gzip and a length, over connections that stay open."""

    protocol_version = "HTTP/1.1"

    def do_GET(self):
        path = Path(self.translate_path(self.path))
        path = path / "index.html" if path.is_dir() else path
        if not path.is_file():
            self.send_error(404)
            return
        body = compressed(path)
        self.server.sent[path.relative_to(self.directory).as_posix()] = len(body)
        self.send_response(200)
        self.send_header("Content-Type", self.guess_type(str(path)))
        self.send_header("Content-Length", str(len(body)))
        self.send_header("Cache-Control", "max-age=600")
        if path.suffix not in PACKED:
            self.send_header("Content-Encoding", "gzip")
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, *args):
        pass


class Server(http.server.ThreadingHTTPServer):
    """Serves `folder` on a free port of this machine.

    Attributes:
      url: where, with a slash at the end.
      sent: {path: bytes} of what was sent; clear it to measure a page.
    """

    daemon_threads = True

    def __init__(self, folder, port=0):
        self.sent = {}
        handler = type("SiteHandler", (Handler,), {})
        super().__init__(
            ("127.0.0.1", port), lambda *args: handler(*args, directory=str(folder))
        )
        self.url = f"http://127.0.0.1:{self.server_port}/"

    def handle_error(self, request, client_address):
        """A browser that hangs up is no error; anything else is."""
        if not isinstance(sys.exception(), ConnectionError):
            super().handle_error(request, client_address)


@contextmanager
def serving(folder):
    """Serve a folder while the block runs."""
    with Server(folder) as server:
        threading.Thread(target=server.serve_forever, daemon=True).start()
        yield server
        server.shutdown()
