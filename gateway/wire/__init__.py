"""OpenAI's wire types as a gateway sees them: lenient, unknown fields kept.

Parses only what routing, limits and money need; everything else passes as it came. Knows no HTTP library, no
engine and no tenant.
"""

from gateway.wire.answer import Answer, read_answer, read_error
from gateway.wire.continuation import Continuation
from gateway.wire.request import CHAT, COMPLETIONS, EMBEDDINGS, Endpoint, GenerationRequest, parse_generation
from gateway.wire.stream import StreamScanner
from gateway.wire.usage import Usage

__all__ = [
    "CHAT",
    "COMPLETIONS",
    "EMBEDDINGS",
    "Answer",
    "Continuation",
    "Endpoint",
    "GenerationRequest",
    "StreamScanner",
    "Usage",
    "parse_generation",
    "read_answer",
    "read_error",
]
