"""Every text of a format is valid, whoever checks it."""

from __future__ import annotations

import ipaddress
import json
import random
import re
import uuid
from collections.abc import Callable
from datetime import date, datetime, time
from urllib.parse import urlsplit

import pytest

from engine.text.schema import schema_grammar
from engine.text.schema.formats import FORMATS
from tests.grammars import accepts, bound, walk
from tests.seeds import seed_of_test

_HOST = re.compile(r"(?=.{1,253}$)[a-z0-9]([a-z0-9-]{0,61}[a-z0-9])?(\.[a-z0-9]([a-z0-9-]{0,61}[a-z0-9])?)*")
CHECKS: dict[str, Callable[[str], object]] = {
    "date": date.fromisoformat,
    "time": lambda text: time.fromisoformat(text.replace("Z", "+00:00")).tzinfo,
    "date-time": lambda text: datetime.fromisoformat(text.replace("Z", "+00:00")).tzinfo,
    "duration": lambda text: re.fullmatch(
        r"P(?!$)(\d+Y)?(\d+M)?(\d+W)?(\d+D)?(T(?=\d)(\d+H)?(\d+M)?(\d+S)?)?", text
    ),
    "email": lambda text: len(text.split("@")) == 2 and _HOST.fullmatch(text.split("@")[1]),
    "hostname": _HOST.fullmatch,
    "ipv4": ipaddress.IPv4Address,
    "ipv6": ipaddress.IPv6Address,
    "uri": lambda text: urlsplit(text).scheme and _HOST.fullmatch(urlsplit(text).hostname or ""),
    "uri-reference": lambda text: urlsplit(text).path or urlsplit(text).netloc,
    "uuid": uuid.UUID,
    "json-pointer": lambda text: text == "" or text.startswith("/"),
}
EXAMPLES = {
    "date": "2024-02-28",
    "time": "23:59:01.5+02:00",
    "date-time": "2024-12-31T00:00:00Z",
    "duration": "P1DT2H",
    "email": "a.b+c@mail.example.org",
    "hostname": "www.example-1.org",
    "ipv4": "192.168.0.255",
    "ipv6": "2001:db8::1",
    "uri": "https://example.org:80/a/b?c=d#e",
    "uri-reference": "/a/b?c=d",
    "uuid": "123e4567-e89b-12d3-a456-426614174000",
    "json-pointer": "/a/0",
}


@pytest.mark.parametrize("name", FORMATS)
def test_formats(name: str) -> None:
    seed = seed_of_test()
    draw, grammar = random.Random(seed), bound("ebnf", schema_grammar({"type": "string", "format": name}))
    assert accepts(grammar, json.dumps(EXAMPLES[name]))
    assert not accepts(grammar, '"!"')
    for _ in range(15):
        text = json.loads(walk(grammar, draw, patience=draw.randrange(30)))
        assert CHECKS[name](text) or name == "json-pointer", text
