"""The page, live: a person types and changes things, the model answers, on this machine alone.

The standard library's server is enough: one person, a few requests, nothing streamed.
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
    """A model as the live page asks it."""

    name: str
    inspect: Inspect  # of what was asked, what is to be otherwise, and which `tokens` of much
    asks: str = "text"  # that is typed; or "seconds" that are to be written on; or "", nothing
    text: str = ""  # what is asked at first


class PageServer(ThreadingHTTPServer):
    """Serves models under an address that only who started it knows."""

    daemon_threads = True

    def __init__(self, models: Sequence[LiveModel], port: int = 0):
        super().__init__((HOST, port), PageHandler)
        self.models = {one.name: one for one in models}
        self.token = secrets.token_urlsafe(16)
        self.lock = Lock()  # a network is changed while it is looked at: one at a time

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
    """Answers nothing that does not come from its own page."""

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
        """The name after the token; a page of another site knows neither the token nor the host."""
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
        with suppress(ConnectionError):  # a page that was left while the model worked
            self.end_headers()
            self.wfile.write(body)

    def log_message(self, format: str, *args: Any) -> None:
        """A terminal shows the address, not each request."""


def make_live_page(models: Sequence[LiveModel]) -> str:
    """The same page with its modules as files, and a place to type and to choose."""
    page = read_source("page.html").replace("<!-- policy -->", "").replace("<!-- data -->", "")
    page = page.replace("<!-- style -->", '<link rel="stylesheet" href="page.css">')
    page = page.replace("<!-- script -->", '<script type="module" src="live.js"></script>')
    told = json.dumps([{"name": one.name, "asks": one.asks, "text": one.text} for one in models])
    return page.replace('data-models=""', f'data-models="{html.escape(told, quote=True)}"')
