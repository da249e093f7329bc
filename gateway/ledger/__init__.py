"""Money truth: reserve before an engine sees a request, settle when it has ended, exactly once."""

from gateway.ledger.service import Ledger

__all__ = ["Ledger"]
