"""A caller of the admin API: for the command line, which knows the gateway by its URL and an admin key alone.

Every failure is an `AdminCallFailed` with one sentence. Knows no resource.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from types import TracebackType
from typing import Any, Self

import aiohttp

__all__ = ["AdminCallFailed", "AdminClient"]

PREFIX = "/v1/organization"
_TIMEOUT_S = 60.0
_PAGE = 100


class AdminCallFailed(Exception):
    """A sentence for whoever typed the command."""


class AdminClient:
    """`async with` it."""

    def __init__(self, url: str, key: str) -> None:
        self._url = url.rstrip("/").removesuffix("/v1")
        self._headers = {"authorization": f"Bearer {key}"}
        self._session: aiohttp.ClientSession | None = None

    async def __aenter__(self) -> Self:
        self._session = aiohttp.ClientSession(timeout=aiohttp.ClientTimeout(total=_TIMEOUT_S))
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        assert self._session is not None, "it was entered"
        await self._session.close()

    async def get(self, path: str, **query: str | int) -> dict[str, Any]:
        return await self._call("GET", path, query, None)

    async def post(self, path: str, body: Mapping[str, Any]) -> dict[str, Any]:
        return await self._call("POST", path, {}, body)

    async def delete(self, path: str) -> dict[str, Any]:
        return await self._call("DELETE", path, {}, None)

    async def all(self, path: str, **query: str | int) -> list[dict[str, Any]]:
        """Every page of a list."""
        found: list[dict[str, Any]] = []
        asked: dict[str, str | int] = {**query, "limit": _PAGE}
        while True:
            page = await self.get(path, **asked)
            found += page["data"]
            if not page.get("has_more"):
                return found
            asked["after"] = page["last_id"]

    async def _call(
        self, method: str, path: str, query: Mapping[str, str | int], body: Mapping[str, Any] | None
    ) -> dict[str, Any]:
        assert self._session is not None, "it was entered"
        url = f"{self._url}{PREFIX}{path}"
        try:
            async with self._session.request(
                method, url, params=query, json=body, headers=self._headers
            ) as answer:
                text = await answer.text()
                status = answer.status
        except TimeoutError:
            raise AdminCallFailed(f"{self._url} did not answer within {_TIMEOUT_S:g} s") from None
        except (aiohttp.ClientError, OSError, ValueError) as error:
            raise AdminCallFailed(f"{self._url} cannot be reached: {error or type(error).__name__}") from None
        return _answer(self._url, status, text)


def _answer(url: str, status: int, text: str) -> dict[str, Any]:
    try:
        found = json.loads(text) if text else {}
    except ValueError:
        found = None
    if not isinstance(found, dict):
        raise AdminCallFailed(f"{url} is no Tollway gateway: it answered {status} without a JSON object")
    if status < 300:
        return found
    error = found.get("error")
    if not isinstance(error, dict) or "message" not in error:
        raise AdminCallFailed(f"{url} is no Tollway gateway: it answered {status}")
    param = f" ({error['param']})" if error.get("param") else ""
    raise AdminCallFailed(f"{error['message']}{param}")
