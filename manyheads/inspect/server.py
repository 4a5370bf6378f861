"""The live page: a user types and changes things and the model answers, on this machine only.

The standard library's server is enough for one user, a few requests and no streaming.
"""

from __future__ import annotations

import html
import json
import secrets
from collections.abc import Callable, Sequence
from contextlib import suppress
from dataclasses import dataclass
from http import HTTPStatus
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from threading import Lock
from typing import Any

from manyheads.inspect.attention_page import MODULES, AttentionPage, read_source
from manyheads.inspect.interventions import read_intervention

HOST = "127.0.0.1"
POLICY = "default-src 'none'; script-src 'self'; style-src 'self'; connect-src 'self'; " + (
    "img-src data: blob:; base-uri 'none'; form-action 'none'; frame-ancestors 'none'"
)
KINDS = {"html": "text/html", "css": "text/css", "js": "text/javascript"}
FILES = ("page.css", "live.js", *MODULES)
LARGEST = 1_000_000  # bytes of a request

Inspect = Callable[..., AttentionPage]


@dataclass(frozen=True)
class LiveModel:
    """A model as the live page calls it."""

    name: str
    inspect: Inspect  # takes the input, interventions, and which `tokens` of a long text
    asks: str = "text"  # the input: a "text", the "seconds" to generate, or "" for none
    text: str = ""  # the first input


class PageServer(ThreadingHTTPServer):
    """Serve models under an address with a secret token."""

    daemon_threads = True

    def __init__(self, models: Sequence[LiveModel], port: int = 0):
        super().__init__((HOST, port), PageHandler)
        self.models = {one.name: one for one in models}
        self.token = secrets.token_urlsafe(16)
        self.lock = Lock()  # inspecting changes a network for a moment: one request at a time

    @property
    def own_host(self) -> str:
        return f"{HOST}:{self.server_port}"

    @property
    def url(self) -> str:
        return f"http://{self.own_host}/{self.token}/"

    def answer(self, asked: Any) -> AttentionPage:
        given = asked if isinstance(asked, dict) else {}
        name, text = given.get("model", next(iter(self.models))), given.get("text")
        if name not in [*self.models]:
            raise ValueError(f"there is no model {name!r} here; there are {', '.join(self.models)}")
        model = self.models[name]
        if model.asks == "text" and (not isinstance(text, str) or not text.strip()):
            raise ValueError("a text to look at has at least one word, a blank one came")
        told = given.get("interventions", [])
        if not isinstance(told, list):
            raise ValueError(f"interventions are a list, got {told!r}")
        edits = [read_intervention(one) for one in told]
        part = {"tokens": given["tokens"]} if given.get("tokens") else {}
        with self.lock:
            return model.inspect(str(text), edits, **part)


class PageHandler(BaseHTTPRequestHandler):
    """Answer only requests that come from the server's own page."""

    server: PageServer

    def do_GET(self) -> None:
        name = self.asked_for()
        if name == "":
            self.reply(make_live_page([*self.server.models.values()]).encode(), KINDS["html"])
        elif name in FILES:
            self.reply(read_source(name).encode(), KINDS[name.rpartition(".")[2]])
        elif name is not None:
            self.refuse(HTTPStatus.NOT_FOUND, f"there is no {name}")

    def do_POST(self) -> None:
        name = self.asked_for()
        if name is None:
            return
        try:
            asked = self.read_json()
            page = self.server.answer(asked)
        except ValueError as error:
            self.refuse(HTTPStatus.BAD_REQUEST, str(error))
            return
        if name == "save":
            tried = asked.get("tried", [])
            self.reply(page.with_about(tried=tried).html().encode(), KINDS["html"])
        else:
            self.reply(page.payload(), "application/octet-stream")

    def asked_for(self) -> str | None:
        """Return the name after the token; requests of other sites lack token and host."""
        own, origin = self.server.own_host, self.headers.get("Origin")
        _, _, rest = self.path.partition("?")[0].partition("/")
        token, _, name = rest.partition("/")
        known = secrets.compare_digest(token.encode(), self.server.token.encode())
        if self.headers.get("Host") != own or origin not in (None, f"http://{own}") or not known:
            self.refuse(HTTPStatus.FORBIDDEN, "this address is not that of the page")
            return None
        return name

    def read_json(self) -> Any:
        length = self.headers.get("Content-Length", "")
        if not length.isdecimal() or int(length) > LARGEST:
            raise ValueError(
                f"a request has {LARGEST:,} bytes at most, got {length or 'no length'}"
            )
        try:
            return json.loads(self.rfile.read(int(length)))
        except (ValueError, RecursionError):
            raise ValueError("a request is JSON, this one cannot be read") from None

    def refuse(self, status: HTTPStatus, sentence: str) -> None:
        self.reply(json.dumps({"error": sentence}).encode(), "application/json", status)

    def reply(self, body: bytes, kind: str, status: HTTPStatus = HTTPStatus.OK) -> None:
        self.send_response(status)
        self.send_header("Content-Type", f"{kind}; charset=utf-8")
        self.send_header("Content-Length", str(len(body)))
        self.send_header("Content-Security-Policy", POLICY)
        for name, value in (
            ("Cache-Control", "no-store"),
            ("Referrer-Policy", "no-referrer"),
            ("X-Content-Type-Options", "nosniff"),
            ("Cross-Origin-Resource-Policy", "same-origin"),
        ):
            self.send_header(name, value)
        with suppress(ConnectionError):  # the page was closed while the model worked
            self.end_headers()
            self.wfile.write(body)

    def log_message(self, format: str, *args: Any) -> None:
        """Do not print each request to the terminal."""


def make_live_page(models: Sequence[LiveModel]) -> str:
    """Return the page with its modules as files, and with input fields."""
    page = read_source("page.html").replace("<!-- policy -->", "").replace("<!-- data -->", "")
    page = page.replace("<!-- style -->", '<link rel="stylesheet" href="page.css">')
    page = page.replace("<!-- script -->", '<script type="module" src="live.js"></script>')
    told = json.dumps([{"name": one.name, "asks": one.asks, "text": one.text} for one in models])
    return page.replace('data-models=""', f'data-models="{html.escape(told, quote=True)}"')
