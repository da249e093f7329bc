"""One request while it is in flight: what was decided for it, what each attempt did, and how it is settled.

Used by the pipeline. Knows the ledger's and the dialects' types; not HTTP, not which replica is best.
"""

from gateway.exchange.attempts import Attempts
from gateway.exchange.call import AttemptFailed, UpstreamCalls
from gateway.exchange.closer import Closer
from gateway.exchange.ending import Ending, settlement_of
from gateway.exchange.identity import Pseudonyms
from gateway.exchange.sink import ClientGone, Sink
from gateway.exchange.sizes import Sizes, sizes_of
from gateway.exchange.state import Attempt, Caller, Exchange

__all__ = [
    "Attempt",
    "AttemptFailed",
    "Attempts",
    "Caller",
    "ClientGone",
    "Closer",
    "Ending",
    "Exchange",
    "Pseudonyms",
    "Sink",
    "Sizes",
    "UpstreamCalls",
    "settlement_of",
    "sizes_of",
]
