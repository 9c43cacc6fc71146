# ClickHouse's engine (chdb-core of PyPI) behind as much of its HTTP interface as examples/clickhouse.js uses:
# python chdb-front.py PORT FOLDER. A query comes in the URL, rows in the body, settings as parameters.

import sys
from http.server import BaseHTTPRequestHandler, HTTPServer
from urllib.parse import parse_qs, urlsplit

from chdb import session

engine = session.Session(sys.argv[2])


class Front(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"

    def do_POST(self):
        length = int(self.headers.get("Content-Length", 0))
        sent = self.rfile.read(length)
        if len(sent) < length:
            # ClickHouse inserts nothing of a body that is cut off.
            self.close_connection = True
            return
        body = sent.decode()
        parameters = {name: values[0] for name, values in parse_qs(urlsplit(self.path).query).items()}
        query = parameters.pop("query")
        try:
            if query.startswith("INSERT"):
                settings = ", ".join(f"{name} = '{value}'" for name, value in parameters.items())
                into, form = query.split(" FORMAT ")
                result = engine.query(f"{into} {'SETTINGS ' + settings if settings else ''} FORMAT {form}\n{body}")
            else:
                result = engine.query(query)
            self.answer(200, result.bytes() if result is not None else b"")
        except Exception as error:
            self.answer(400, str(error).encode())

    def answer(self, status, body):
        self.send_response(status)
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, *_):
        pass


HTTPServer(("127.0.0.1", int(sys.argv[1])), Front).serve_forever()
