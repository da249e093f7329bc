"""Short ways to make the ledger's types in tests."""

from dataclasses import replace
from datetime import datetime
from decimal import Decimal
from typing import Any

from gateway.ids import KeyId, PoolId, RequestId, RouteId, TenantId
from gateway.ledger.types import AttemptRecord, Hold, Prices, Reservation, Settlement

PRICES = Prices(
    input_id=1,
    cached_input_id=2,
    output_id=3,
    input_nanousd=Decimal(100),
    cached_input_nanousd=Decimal(10),
    output_nanousd=Decimal(400),
)


def reservation(
    request_id: str, tenant_id: str = "proj_a", key_id: str = "key_a", **changes: Any
) -> Reservation:
    """By default at most 100 prompt and 100 output tokens: a bound of 50,000 nano-USD."""
    plain = Reservation(
        request_id=RequestId(request_id),
        tenant_id=TenantId(tenant_id),
        key_id=KeyId(key_id),
        served_model="tiny",
        route_id=RouteId("route_a"),
        pool_id=PoolId("pool_a"),
        endpoint="chat.completions",
        prices=PRICES,
        max_prompt_tokens=100,
        max_output_tokens=100,
    )
    return replace(plain, **changes)


def settlement(
    hold: Hold, at: datetime, prompt: int = 10, completion: int = 5, cached: int = 0, **changes: Any
) -> Settlement:
    """One billed attempt."""
    record = AttemptRecord.billed(
        0, None, "epoch_a", prompt_tokens=prompt, cached_tokens=cached, completion_tokens=completion
    )
    return replace(Settlement(hold=hold, status="ok", occurred_at=at, attempts=(record,)), **changes)
