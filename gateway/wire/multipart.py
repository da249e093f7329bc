"""`multipart/form-data` as it arrives: small fields in memory, the contents of a file in pieces.

Push in bytes as the network gives them, take out events; any chunking of the same bytes gives the same events. What
the fields mean is not known here. Everything has a limit, and what makes no sense is the caller's mistake.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass
from email.message import Message

from gateway.errors import InvalidRequest

__all__ = ["Field", "FileBegins", "FilePiece", "MultipartReader", "boundary_of"]

HEADER_BYTES_MAX = 8 * 1024
FIELD_BYTES_MAX = 64 * 1024
PARTS_MAX = 64
_BOUNDARY = re.compile(r"[0-9A-Za-z'()+_,./:=? -]{0,69}[0-9A-Za-z'()+_,./:=?-]")


@dataclass(frozen=True, slots=True)
class Field:
    name: str
    value: str


@dataclass(frozen=True, slots=True)
class FileBegins:
    """Its pieces follow, until another event comes."""

    name: str
    filename: str


@dataclass(frozen=True, slots=True)
class FilePiece:
    data: bytes


Event = Field | FileBegins | FilePiece


def boundary_of(content_type: str | None) -> bytes:
    """Raises InvalidRequest for a body that is no form."""
    message = Message()
    message["content-type"] = content_type or ""
    boundary = message.get_param("boundary")
    is_form = message.get_content_type() == "multipart/form-data" and isinstance(boundary, str)
    if not is_form or not _BOUNDARY.fullmatch(str(boundary)):
        raise InvalidRequest("The request must be multipart/form-data with a boundary.")
    return str(boundary).encode()


class MultipartReader:
    """`feed` until `is_complete`; what follows the last boundary is not read."""

    def __init__(self, boundary: bytes) -> None:
        self._delimiter = b"\r\n--" + boundary
        # The first delimiter has no line before it.
        self._waiting = b"\r\n"
        self._is_in_part = False
        self._field: tuple[str, bytearray] | None = None
        self._parts = 0
        self.is_complete = False

    def feed(self, data: bytes) -> Iterator[Event]:
        self._waiting += data
        while not self.is_complete:
            before = len(self._waiting), self._is_in_part
            if self._is_in_part:
                yield from self._content()
            else:
                yield from self._headers()
            if (len(self._waiting), self._is_in_part) == before:
                return

    def _content(self) -> Iterator[Event]:
        """Everything before the next delimiter, as far as it can be told from one."""
        end = self._waiting.find(self._delimiter)
        until = end if end >= 0 else max(0, len(self._waiting) - len(self._delimiter) + 1)
        data, self._waiting = self._waiting[:until], self._waiting[until:]
        if self._field is None:
            if data:
                yield FilePiece(data)
        else:
            self._field[1].extend(data)
            if len(self._field[1]) > FIELD_BYTES_MAX:
                raise InvalidRequest(f"The field '{self._field[0]}' is too long.", self._field[0])
        if end >= 0:
            self._is_in_part = False
            if self._field is not None:
                name, value = self._field
                self._field = None
                yield Field(name, _text(bytes(value), name))

    def _headers(self) -> Iterator[Event]:
        """The delimiter and the part's headers, once all of them are there."""
        start = self._waiting.find(self._delimiter)
        after = start + len(self._delimiter)
        if start >= 0 and self._waiting[after : after + 2] == b"--":
            self.is_complete = True
            return
        end = self._waiting.find(b"\r\n\r\n", after) if start >= 0 else -1
        if end < 0:
            if len(self._waiting) > HEADER_BYTES_MAX:
                raise InvalidRequest("The multipart body could not be read: a part has no proper headers.")
            return
        self._parts += 1
        if self._parts > PARTS_MAX or self._waiting[after : after + 2] != b"\r\n":
            raise InvalidRequest("The multipart body could not be read.")
        name, filename = _disposition(self._waiting[after + 2 : end])
        self._waiting = self._waiting[end + 4 :]
        self._is_in_part = True
        self._field = (name, bytearray()) if filename is None else None
        if filename is not None:
            yield FileBegins(name, filename)


def _disposition(headers: bytes) -> tuple[str, str | None]:
    for line in headers.split(b"\r\n"):
        header, _, value = line.partition(b":")
        if header.strip().lower() == b"content-disposition":
            message = Message()
            message["content-disposition"] = _text(value.strip(), None)
            name = message.get_param("name", header="content-disposition")
            filename = message.get_filename()
            if isinstance(name, str) and message.get_content_disposition() == "form-data":
                return name, filename
    raise InvalidRequest("The multipart body could not be read: a part has no name.")


def _text(value: bytes, param: str | None) -> str:
    try:
        return value.decode()
    except UnicodeDecodeError:
        raise InvalidRequest("The multipart body holds text that is not UTF-8.", param) from None
