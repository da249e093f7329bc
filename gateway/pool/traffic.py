"""TrafficPolicy: how a pool's requests are spread over its replicas, and how long they may take. Validated once.

Place: columns of `pool`, written by the admin API, read by routing. Unlike the specification it says nothing of what
runs, so a change of it replaces no replica. What a strategy does is routing's.
"""

from typing import Annotated, Literal

from pydantic import BaseModel, BeforeValidator, ConfigDict, Field

__all__ = ["DEFAULT_TRAFFIC", "Strategy", "TrafficPolicy"]

Strategy = Literal["prefix", "least_loaded", "round_robin", "consistent_hash"]
ALIASES = {"least_conn": "least_loaded"}

# Below the time that money is held for: a request must end before its hold does.
TOTAL_S_MAX = 1100.0


def _by_its_name(value: object) -> object:
    return ALIASES.get(value, value) if isinstance(value, str) else value


class TrafficPolicy(BaseModel):
    """Times in seconds; None means what the gateway's settings say."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    strategy: Annotated[Strategy, BeforeValidator(_by_its_name)] = "prefix"
    connect_timeout_s: float | None = Field(default=None, gt=0, le=60)
    """To open a connection to a replica."""
    first_token_timeout_s: float | None = Field(default=None, gt=0, le=TOTAL_S_MAX)
    """Of one attempt at a streamed answer; another replica may be asked afterwards."""
    between_tokens_timeout_s: float | None = Field(default=None, gt=0, le=TOTAL_S_MAX)
    total_timeout_s: float | None = Field(default=None, gt=0, le=TOTAL_S_MAX)
    """Of one request, over all attempts."""
    keep_alive_s: float | None = Field(default=None, gt=0, le=TOTAL_S_MAX)
    """A stream without a token for so long gets a comment line, and again after as long."""


DEFAULT_TRAFFIC = TrafficPolicy()
