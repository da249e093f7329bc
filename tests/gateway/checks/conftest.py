"""A real installation, gathered: what each test then breaks."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from typing import Any

import pytest

from gateway.checks.gather import Places, gather
from gateway.checks.types import Facts
from tests.harness import Gateway


@pytest.fixture
def gathered(gateway: Gateway) -> Callable[..., Awaitable[Facts]]:
    async def ask(**changes: Any) -> Facts:
        return await gather(gateway.settings, Places(gateway.url, gateway.admin_key, **changes))

    return ask
