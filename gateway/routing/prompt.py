"""What routing looks at of a request: how long its prompt is, and whose beginnings it shares.

Hashes are made when a strategy asks for them, once: a pool of one replica never pays for them. Knows the wire's
request, no replica.
"""

from __future__ import annotations

from hashlib import blake2b

from gateway.routing.prefix import Chain, chain_of
from gateway.wire import GenerationRequest
from gateway.wire.request import canonical_prompt

__all__ = ["Prompt"]

KEY_BYTES = 16


class Prompt:
    __slots__ = ("_chain", "_key", "_request", "_salt", "is_streamed", "num_bytes")

    def __init__(self, request: GenerationRequest, salt: str) -> None:
        """`salt`: the one that the engines get, so that both sides share the same caches and no others."""
        self.num_bytes = request.body_bytes
        self.is_streamed = request.stream
        self._request = request
        self._salt = salt
        self._chain: Chain | None = None
        self._key: bytes | None = None

    @property
    def chain(self) -> Chain:
        if self._chain is None:
            self._chain = chain_of(self._salt, canonical_prompt(self._request))
        return self._chain

    @property
    def key(self) -> bytes:
        """The same for all requests of one user or, if none is named, of one beginning; the same on every gateway."""
        if self._key is None:
            whose = self._request.user
            subject = whose.encode() if whose is not None else self.chain[0] if self.chain else b""
            self._key = blake2b(subject, digest_size=KEY_BYTES, key=self._salt.encode()[:64]).digest()
        return self._key
