"""What a browser is given: types, caching, the page for every address, compressed or not."""

from __future__ import annotations

import gzip
from dataclasses import dataclass
from pathlib import Path

import pytest

from gateway.errors import MethodNotAllowed, UnknownUrl
from gateway.http.call import Call, Message
from gateway.http.console import DIST, ConsoleFiles
from gateway.http.security import CONSOLE_HEADERS
from tests.harness import Gateway

PAGE = b"<!doctype html><title>Tollway</title>"
SCRIPT = b"export const answer = 42;\n" * 40


@dataclass(frozen=True, slots=True)
class Answer:
    status: int
    headers: dict[str, str]
    body: bytes


@pytest.fixture
def files(tmp_path: Path) -> ConsoleFiles:
    (tmp_path / "assets").mkdir()
    (tmp_path / "index.html").write_bytes(PAGE)
    (tmp_path / "icon.svg").write_bytes(b"<svg/>")
    (tmp_path / "sources.sha256").write_text("nobody's business")
    (tmp_path / "assets" / "index-abc.js").write_bytes(SCRIPT)
    return ConsoleFiles(tmp_path)


async def ask(files: ConsoleFiles, path: str, method: str = "GET", **headers: str) -> Answer:
    sent: list[Message] = []

    async def send(message: Message) -> None:
        sent.append(message)

    async def receive() -> Message:
        return {"type": "http.request", "body": b""}

    given = [(name.replace("_", "-").encode(), value.encode()) for name, value in headers.items()]
    call = Call({"method": method, "path": path, "headers": given}, receive, send, "req_1", lambda: 0.0)
    await files(call)
    answered = {name.decode(): value.decode() for name, value in sent[0]["headers"]}
    return Answer(sent[0]["status"], answered, sent[1]["body"])


async def test_assets_are_kept_for_ever_and_the_page_is_asked_for_again(files: ConsoleFiles) -> None:
    script = await ask(files, "/console/assets/index-abc.js")
    assert (script.status, script.body) == (200, SCRIPT)
    assert script.headers["content-type"] == "text/javascript; charset=utf-8"
    assert "immutable" in script.headers["cache-control"]
    page = await ask(files, "/console/")
    assert page.body == PAGE
    assert page.headers["content-type"] == "text/html; charset=utf-8"
    assert page.headers["cache-control"] == "no-cache"
    assert CONSOLE_HEADERS.items() <= page.headers.items()


async def test_every_address_without_a_file_is_the_page(files: ConsoleFiles) -> None:
    for path in (
        "/console/tenants/proj_1",
        "/console/sources.sha256",
        "/console/../../etc/passwd",
        "/console/x.js",
    ):
        answer = await ask(files, path)
        assert (answer.status, answer.body) == (200, PAGE), path
    with pytest.raises(
        UnknownUrl
    ):  # an older page's script: its page has to be fetched anew, not run as a script
        await ask(files, "/console/assets/index-old.js")


async def test_compressed_for_who_takes_it(files: ConsoleFiles) -> None:
    path = "/console/assets/index-abc.js"
    packed = await ask(files, path, accept_encoding="br, gzip;q=0.8")
    assert packed.headers["content-encoding"] == "gzip"
    assert packed.headers["vary"] == "accept-encoding"
    assert gzip.decompress(packed.body) == SCRIPT
    assert len(packed.body) < len(SCRIPT)
    for accepted in ("", "br", "gzip;q=0"):
        assert "content-encoding" not in (await ask(files, path, accept_encoding=accepted)).headers


async def test_what_is_known_is_not_sent_again(files: ConsoleFiles) -> None:
    tag = (await ask(files, "/console/")).headers["etag"]
    for known in (tag, f'"x", W/{tag}'):
        again = await ask(files, "/console/tenants", if_none_match=known)
        assert (again.status, again.body) == (304, b"")
    assert (await ask(files, "/console/", if_none_match='"x"')).status == 200


async def test_only_read(files: ConsoleFiles) -> None:
    assert (await ask(files, "/console/", "HEAD")).status == 200
    with pytest.raises(MethodNotAllowed):
        await ask(files, "/console/", "POST")


async def test_a_package_without_the_console_says_so(tmp_path: Path) -> None:
    with pytest.raises(UnknownUrl):
        await ask(ConsoleFiles(tmp_path), "/console/")


async def test_through_the_gateway(gateway: Gateway) -> None:
    """Whoever opens the gateway's address in a browser is led to the console; nobody needs a key to read it."""
    answer = await gateway.request("GET", "/")
    assert str(answer.url).endswith("/console/")
    assert await answer.read() == (DIST / "index.html").read_bytes()
