"""Formats of strings as regular expressions, each a part of what its standard allows: any answer is valid.

The 29th of February and compressed IPv6 addresses of all kinds are left out for want of a short expression.
"""

from __future__ import annotations

from collections.abc import Mapping

_DATE = r"[1-9]\d{3}-((0[1-9]|1[0-2])-(0[1-9]|1\d|2[0-8])|(0[13-9]|1[0-2])-(29|30)|(0[13578]|1[02])-31)"
_TIME = r"([01]\d|2[0-3]):[0-5]\d:[0-5]\d(\.\d{1,6})?(Z|[+-]([01]\d|2[0-3]):[0-5]\d)"
_LABEL = r"[a-z0-9]{1,16}(-[a-z0-9]{1,16}){0,2}"
_HOST = rf"{_LABEL}(\.{_LABEL}){{0,4}}\.[a-z]{{2,12}}"
_OCTET = r"(\d|[1-9]\d|1\d\d|2[0-4]\d|25[0-5])"
_SEGMENT = r"[A-Za-z0-9._~-]+"
_TAIL = rf"(/{_SEGMENT})*/?(\?[A-Za-z0-9._~=&-]+)?(#{_SEGMENT})?"
_URI = rf"(https?|ftp|wss?)://{_HOST}(:[1-9]\d{{0,3}})?{_TAIL}"
_GROUP = r"[0-9a-f]{1,4}"
_CLOCK = r"T(\d{1,3}H(\d{1,2}M(\d{1,2}S)?)?|\d{1,3}M(\d{1,2}S)?|\d{1,3}S)"

FORMATS: Mapping[str, str] = {
    "date": _DATE,
    "time": _TIME,
    "date-time": rf"{_DATE}T{_TIME}",
    "duration": rf"P(\d{{1,3}}W|\d{{1,3}}D({_CLOCK})?|\d{{1,4}}Y(\d{{1,2}}M(\d{{1,2}}D)?)?|\d{{1,3}}M(\d{{1,2}}D)?|{_CLOCK})",
    "email": rf"[A-Za-z0-9_+-]+(\.[A-Za-z0-9_+-]+)*@{_HOST}",
    "hostname": _HOST,
    "ipv4": rf"{_OCTET}(\.{_OCTET}){{3}}",
    "ipv6": rf"(({_GROUP}:){{7}}{_GROUP}|({_GROUP}:){{1,6}}:{_GROUP}|::{_GROUP})",
    "uri": _URI,
    "uri-reference": rf"({_URI}|/{_SEGMENT}{_TAIL})",
    "uuid": r"[0-9a-f]{8}-[0-9a-f]{4}-[1-8][0-9a-f]{3}-[89ab][0-9a-f]{3}-[0-9a-f]{12}",
    "json-pointer": r"(/[A-Za-z0-9_-]+)*",
}
