"""Shapes that many answers share: pages, deletions, refusals."""

from __future__ import annotations

from typing import Any, Generic, Literal, TypeVar

from pydantic import ConfigDict
from typing_extensions import TypedDict

__all__ = ["OPEN", "CursorPage", "Deleted", "Json", "Page", "Refusal", "Refused"]

OPEN = ConfigDict(extra="allow")
"""Of a shape that may hold more than is written."""
Json = dict[str, Any]
Row = TypeVar("Row")


class Page(TypedDict, Generic[Row]):
    """A page of a list: the next one is `after=last_id`."""

    object: Literal["list"]
    data: list[Row]
    first_id: str | None
    last_id: str | None
    has_more: bool


class CursorPage(TypedDict, Generic[Row]):
    """A page of a query: the next one is `page=next_page`."""

    object: Literal["page"]
    data: list[Row]
    has_more: bool
    next_page: str | None


class Deleted(TypedDict):
    object: str
    id: str
    deleted: bool


class Refusal(TypedDict):
    message: str
    type: str
    param: str | None
    code: str | None


class Refused(TypedDict):
    """Every answer that is not 2xx."""

    error: Refusal
