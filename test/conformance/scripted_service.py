"""A service in this process that answers as a function says, and a client of it: for what no real service answers."""

import gzip
import http.server
import json
import os
import signal
import tempfile
import threading
import time

import sluice_client

# A program that hangs ends, in its children too.
signal.alarm(50)
FOLDER = os.environ["FOLDER"]
STORED = (202, {}, "{}")


class Service:
    """`answer(number, body)` gives status, headers and text; None where it wrote to the handler itself."""

    def __init__(self, answer=lambda number, body: STORED):
        self.bodies = []
        self.times = []
        self.answer = answer
        self.handler = None
        handler = type("Handler", (_Handler,), {"service": self})
        self._server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), handler)
        self._server.daemon_threads = True
        self.url = f"http://127.0.0.1:{self._server.server_address[1]}"
        threading.Thread(target=self._server.serve_forever, daemon=True).start()

    def names(self):
        return [event["name"] for body in self.bodies for event in body["events"]]


class _Handler(http.server.BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"

    def log_message(self, *_):
        pass

    def do_POST(self):
        packed = self.rfile.read(int(self.headers["Content-Length"]))
        body = json.loads(gzip.decompress(packed) if self.headers.get("Content-Encoding") == "gzip" else packed)
        self.service.bodies.append(body)
        self.service.times.append(time.monotonic())
        self.service.handler = self
        said = self.service.answer(len(self.service.bodies), body)
        if said is None:
            return
        status, headers, text = said
        self.send_response_only(status)
        for name, value in {"Date": self.date_time_string(), **headers}.items():
            self.send_header(name, value)
        self.send_header("Content-Length", str(len(text)))
        self.end_headers()
        self.wfile.write(text.encode())


class Dropped(list):
    """The hook: what it was given, as pairs of a reason and names."""

    def __call__(self, reason, events):
        self.append((reason, [event["name"] for event in events]))


def client(service, app="ak_scripted", **options):
    return sluice_client.Client(service if isinstance(service, str) else service.url, app, **{"flush_interval_s": 0.05, **options})


def until(what, is_there):
    ends = time.monotonic() + 30
    while not is_there():
        assert time.monotonic() < ends, what
        time.sleep(0.01)


def folder(**files):
    made = tempfile.mkdtemp(dir=FOLDER)
    for name, text in files.items():
        with open(os.path.join(made, name.replace("_", "-")), "w") as file:
            file.write(text)
    return made


def in_child(work):
    """The code with which a child ends that does this after a fork."""
    child = os.fork()
    if child == 0:
        code = 1
        try:
            signal.alarm(20)
            work()
            code = 0
        except BaseException:
            import traceback

            traceback.print_exc()
        finally:
            os._exit(code)
    return child


def ended(child):
    status = os.waitpid(child, 0)[1]
    assert status == 0, f"the child ended with {status}"
