"""Alembic's entry: runs the revisions on a connection that `gateway.migrate` hands over.

It imports the models' metadata and nothing else of the gateway. Partitions of `usage_event` are made by a
function of the database, not by models, so comparison leaves them out.
"""

import re

from alembic import context

import gateway.alerts.models
import gateway.audit.models
import gateway.batches.models
import gateway.exports.models
import gateway.idempotency.models
import gateway.ledger.models
import gateway.pool.models
import gateway.routing.models
import gateway.sessions.models
import gateway.slo.models
import gateway.tenancy.models  # noqa: F401  (each import registers its tables)
from gateway.db import Base

_PARTITION = re.compile(r"usage_event_\d{4}_\d{2}")


def _is_ours(name: str | None, kind: str, _parents: object) -> bool:
    return not (kind == "table" and name is not None and _PARTITION.fullmatch(name))


context.configure(
    connection=context.config.attributes["connection"],
    target_metadata=Base.metadata,
    include_name=_is_ours,
    transaction_per_migration=True,
)
with context.begin_transaction():
    context.run_migrations()
