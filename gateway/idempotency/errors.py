"""What a used idempotency key is answered with."""

from gateway.errors import ClientError, InvalidRequest, InvalidValue

__all__ = ["KeyNotUsable", "KeyReused", "StillInFlight"]

HEADER = "Idempotency-Key"


class KeyReused(InvalidRequest):
    """The key belongs to another body: the caller would take the wrong answer for its own."""

    def __init__(self) -> None:
        super().__init__(f"This {HEADER} was used for a request with another body.", HEADER)


class StillInFlight(ClientError):
    """The first request under the key has not ended yet."""

    def __init__(self) -> None:
        super().__init__(
            f"A request with this {HEADER} is in flight. Please retry in a moment.",
            status=409,
            param=HEADER,
            retryable=True,
            retry_after_s=1.0,
        )


class KeyNotUsable(InvalidValue):
    def __init__(self, length_max: int) -> None:
        super().__init__(f"An {HEADER} has 1 to {length_max} printable ASCII characters.", HEADER)
