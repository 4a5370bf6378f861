"""The live page answers its own page, and nobody else."""

import http.client
import json
from collections.abc import Iterator
from threading import Thread
from typing import Any

import pytest
from payloads import read_payload

from manyheads import Forced, Off, Overwritten
from manyheads.inspect.interventions import Intervention, read_intervention
from manyheads.inspect.server import FILES, LiveModel, PageServer
from manyheads.models import load
from manyheads.tasks.seq2seq.model import Translator

TEXT = "Ich habe keine Zeit."


@pytest.fixture(scope="module")
def model() -> Translator:
    return load("de-en", "cpu")


@pytest.fixture(scope="module")
def server(model: Translator) -> Iterator[PageServer]:
    made = PageServer([LiveModel("de-en", model.inspect_live, text='"<b>')])
    Thread(target=made.serve_forever, daemon=True).start()
    yield made
    made.shutdown()
    made.server_close()


def ask(
    server: PageServer, path: str, body: Any = None, **headers: str
) -> tuple[int, bytes, http.client.HTTPMessage]:
    connection = http.client.HTTPConnection(server.own_host, timeout=60)
    method, sent = ("GET", None) if body is None else ("POST", body)
    sent = json.dumps(sent).encode() if isinstance(sent, dict | list) else sent
    connection.request(method, path, sent, headers)
    answer = connection.getresponse()
    found = answer.status, answer.read(), answer.headers
    connection.close()
    return found


def test_the_page_and_its_modules_are_served_under_the_token(server: PageServer) -> None:
    status, page, headers = ask(server, f"/{server.token}/")
    assert status == 200
    assert b"&quot;text&quot;: &quot;\\&quot;&lt;b&gt;&quot;" in page, "what was typed stays text"
    assert "'unsafe-inline'" not in headers["Content-Security-Policy"]
    assert "Access-Control-Allow-Origin" not in headers
    for name in FILES:
        assert ask(server, f"/{server.token}/{name}")[0] == 200
    for name in ("../server.py", "server.py", "%2e%2e/server.py"):
        assert ask(server, f"/{server.token}/{name}")[0] == 404


@pytest.mark.parametrize(
    ("path", "headers"),
    [
        ("/", {}),
        ("/wrong/inspect", {}),
        ("/{}/inspect", {"Host": "evil.example"}),
        ("/{}/inspect", {"Host": "127.0.0.1"}),
        ("/{}/inspect", {"Origin": "http://evil.example"}),
        ("/{}/inspect", {"Origin": "null"}),
    ],
)
def test_another_site_cannot_drive_it(
    server: PageServer, path: str, headers: dict[str, str]
) -> None:
    status, body, given = ask(server, path.format(server.token), {"text": TEXT}, **headers)
    assert status == 403
    assert json.loads(body) == {"error": "this address is not that of the page"}
    assert "Access-Control-Allow-Origin" not in given


def test_what_is_changed_changes_what_is_written(server: PageServer, model: Translator) -> None:
    path, target = f"/{server.token}/inspect", model.task.codecs.target
    before, _ = read_payload(ask(server, path, {"text": TEXT})[1])
    assert before["wrote"] == model.translate(TEXT)
    (token,) = target.encode("You")
    forced = {"kind": "forced", "place": 0, "token": token}
    after, _ = read_payload(ask(server, path, {"text": TEXT, "interventions": [forced]})[1])
    assert after["wrote"].startswith("You ")
    first = before["candidates"][0]["id"]
    forbidden = {"kind": "forbidden", "place": 0, "token": first}
    after, _ = read_payload(ask(server, path, {"text": TEXT, "interventions": [forbidden]})[1])
    assert after["candidates"][0]["id"] != first
    dumb = [
        {"kind": "off", "layer": f"decoder.{layer}.cross", "head": head}
        for layer in range(3)
        for head in range(6)
    ]
    after, maps = read_payload(ask(server, path, {"text": TEXT, "interventions": dumb})[1])
    assert after["wrote"] != before["wrote"], "it reads nothing"
    assert not maps[[layer["name"] for layer in after["layers"]].index("decoder.1.cross")].any()


def test_a_saved_page_keeps_what_was_tried(server: PageServer) -> None:
    tried = [{"what": "</script>", "wrote": "x", "log": -1.0}]
    status, page, _ = ask(server, f"/{server.token}/save", {"text": TEXT, "tried": tried})
    assert status == 200
    assert page.count(b"</script>") == 2


@pytest.mark.parametrize(
    ("body", "sentence"),
    [
        (b"{", "a request is JSON, this one cannot be read"),
        ([1], "a text to look at has at least one word, a blank one came"),
        ({"model": "fr-en", "text": TEXT}, "no model 'fr-en' here; there are de-en"),
        ({"model": [], "text": TEXT}, "no model [] here; there are de-en"),
        ({"text": TEXT, "interventions": 5}, "interventions are a list, got 5"),
        (
            {"text": TEXT, "interventions": [{"kind": "off", "layer": [], "head": 0}]},
            "there is no layer []",
        ),
        (b"[" * 100_000, "a request is JSON, this one cannot be read"),
        ({"text": "  "}, "a text to look at has at least one word, a blank one came"),
        ({"text": TEXT, "interventions": [{"kind": "off", "layer": "x", "head": 0}]}, "no layer"),
        (
            {"text": TEXT, "interventions": [{"kind": "forced", "place": 0, "token": 10**9}]},
            "names",
        ),
    ],
)
def test_what_cannot_be_done_is_one_sentence(server: PageServer, body: Any, sentence: str) -> None:
    status, answer, _ = ask(server, f"/{server.token}/inspect", body)
    assert status == 400
    assert sentence in json.loads(answer)["error"]


@pytest.mark.parametrize(
    ("told", "meant"),
    [
        ({"kind": "off", "layer": "0.self", "head": 2, "by": "mean"}, Off("0.self", 2, "mean")),
        ({"kind": "forced", "place": 1, "token": 5}, Forced(1, 5)),
        (
            {"kind": "overwritten", "layer": "0.self", "head": 0, "place": 1, "weights": {"3": 1}},
            Overwritten("0.self", 0, 1, {3: 1.0}),
        ),
    ],
)
def test_interventions_are_read_from_json(told: dict[str, Any], meant: Intervention) -> None:
    assert read_intervention(told) == meant


@pytest.mark.parametrize(
    ("told", "sentence"),
    [
        (7, "an intervention is one of off, overwritten, forced, forbidden, got None"),
        ({"kind": "forced", "place": -1, "token": 5}, "place is a whole number from 0 on, got -1"),
        ({"kind": "forced", "where": 1}, "forced takes place, token, got where"),
        ({"kind": "off"}, "off takes layer, head, by, got none"),
        ({"kind": "overwritten", "weights": {"0": 2}}, "weights are shares from 0 to 1"),
    ],
)
def test_what_is_no_intervention_is_refused(told: Any, sentence: str) -> None:
    with pytest.raises(ValueError, match=sentence):
        read_intervention(told)
