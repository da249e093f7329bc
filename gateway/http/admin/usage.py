"""`usage/completions` and `usage/embeddings`, as OpenAI has them: tokens and requests per bucket and group.

Read from the rollups, so a figure is as old as the worker's last turn (about a second). Everything that is not an
embedding counts as a completion. Tokens are text: no route takes audio or images. A project is a tenant, a user
the pseudonym of an end user whom a request named, a service tier the class in which a request was scheduled, and no
traffic comes from OpenAI's own agents.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Annotated, Literal, get_args

from fastapi import APIRouter, Query, Request, Response
from pydantic import Field

from gateway.errors import InvalidValue
from gateway.http.admin.common import AdminParts, Json, visible
from gateway.http.admin.usage_query import Ids, RangeParams, UsagePages, first_keys
from gateway.ledger.buckets import Width
from gateway.ledger.repository.usage import TOKEN_SUMS, Dimension, UsageFilter, UsageRow, UsageSums

__all__ = ["UsageRoutes"]

LIMITS: dict[Width, tuple[int, int]] = {"1m": (60, 1_440), "1h": (24, 168), "1d": (7, 31)}
"""Buckets of a page: when not asked for, and at most."""

OTHER_SOURCE = "unlabeled"

EmbeddingsField = Literal["project_id", "user_id", "api_key_id", "model"]
CompletionsField = Literal[EmbeddingsField, "batch", "service_tier", "api_source"]
_DIMENSIONS: dict[str, Dimension] = {
    "project_id": "tenant_id",
    "user_id": "user_ref",
    "api_key_id": "key_id",
    "model": "served_model",
    "batch": "is_batch",
    "service_tier": "request_class",
}


class UsageParams(RangeParams):
    bucket_width: Width = "1d"
    limit: Annotated[int, Field(ge=1)] | None = None
    project_ids: Ids = ()
    api_key_ids: Ids = ()
    user_ids: Ids = ()
    models: Ids = ()


class CompletionsParams(UsageParams):
    batch: bool | None = None
    group_by: Annotated[tuple[CompletionsField, ...], Field(max_length=10)] = ()


class EmbeddingsParams(UsageParams):
    group_by: Annotated[tuple[EmbeddingsField, ...], Field(max_length=10)] = ()


class UsageRoutes:
    def __init__(self, parts: AdminParts) -> None:
        self._p = parts
        self._pages = UsagePages(parts)

    def register(self, router: APIRouter) -> None:
        router.add_api_route("/usage/completions", self.completions, methods=["GET"])
        router.add_api_route("/usage/embeddings", self.embeddings, methods=["GET"])

    async def completions(self, request: Request, params: Annotated[CompletionsParams, Query()]) -> Response:
        key_ids = await first_keys(self._p, params.api_key_ids)
        wanted = _filter(request, params, key_ids, is_embeddings=False, is_batch=params.batch)
        return await self._answer(params, wanted, params.group_by, get_args(CompletionsField), _completions)

    async def embeddings(self, request: Request, params: Annotated[EmbeddingsParams, Query()]) -> Response:
        key_ids = await first_keys(self._p, params.api_key_ids)
        wanted = _filter(request, params, key_ids, is_embeddings=True)
        return await self._answer(params, wanted, params.group_by, get_args(EmbeddingsField), _embeddings)

    async def _answer(
        self,
        params: UsageParams,
        wanted: UsageFilter,
        group_by: Sequence[str],
        known: Sequence[str],
        shape: Callable[[UsageSums], Json],
    ) -> Response:
        """Every result has all the known fields; those that were not asked for are null, as at OpenAI."""
        usual, most = LIMITS[params.bucket_width]
        limit = params.limit or usual
        if limit > most:
            raise InvalidValue(f"'limit' is at most {most} for this bucket width.", "limit")
        fields = [name for name in known if name in group_by]
        dimensions = [_DIMENSIONS[name] for name in fields if name in _DIMENSIONS]
        ungrouped = dict.fromkeys(known)
        constant = {"api_source": OTHER_SOURCE} if "api_source" in fields else {}

        def results(rows: Sequence[UsageRow]) -> list[Json]:
            return [
                shape(row.sums)
                | ungrouped
                | constant
                | dict(zip((name for name in fields if name in _DIMENSIONS), row.group, strict=True))
                for row in rows
                if row.sums.requests or row.sums.prompt_tokens or row.sums.completion_tokens
            ]  # money that moved without a request (a credit) is no usage

        width = params.bucket_width
        return await self._pages.answer(params, width, limit, wanted, dimensions, TOKEN_SUMS, results)


def _filter(
    request: Request,
    params: UsageParams,
    key_ids: Sequence[str] | None,
    *,
    is_embeddings: bool,
    is_batch: bool | None = None,
) -> UsageFilter:
    return UsageFilter(
        tenant_ids=visible(request, params.project_ids),
        key_ids=key_ids,
        user_refs=params.user_ids or None,
        served_models=params.models or None,
        is_batch=is_batch,
        is_embeddings=is_embeddings,
    )


def _completions(sums: UsageSums) -> Json:
    return {
        "object": "organization.usage.completions.result",
        "num_model_requests": sums.requests,
        "input_tokens": sums.prompt_tokens,
        "input_uncached_tokens": sums.prompt_uncached_tokens,
        "input_cached_tokens": sums.prompt_cached_tokens,
        "input_text_tokens": sums.prompt_uncached_tokens,
        "input_cached_text_tokens": sums.prompt_cached_tokens,
        "input_audio_tokens": 0,
        "input_cached_audio_tokens": 0,
        "input_image_tokens": 0,
        "input_cached_image_tokens": 0,
        "output_tokens": sums.completion_tokens,
        "output_text_tokens": sums.completion_tokens,
        "output_audio_tokens": 0,
        "output_image_tokens": 0,
    }


def _embeddings(sums: UsageSums) -> Json:
    return {
        "object": "organization.usage.embeddings.result",
        "num_model_requests": sums.requests,
        "input_tokens": sums.prompt_tokens,
    }
