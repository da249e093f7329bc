"""Rows in sets: a whole batch of one table travels as one JSON parameter.

One statement and one parameter for any number of rows is several times cheaper than a bind per column. Columns are
named one by one, so that a newer schema may have more of them.
"""

from collections.abc import Collection
from typing import Any

from gateway.db import Base
from gateway.ledger.types import Reservation

__all__ = ["asked_columns", "insert_recordset"]


def asked_columns(asked: Reservation) -> dict[str, Any]:
    """The columns that a hold and a usage event both take from what was asked."""
    return {
        "request_id": asked.request_id,
        "tenant_id": asked.tenant_id,
        "key_id": asked.key_id,
        "user_ref": asked.user_ref,
        "served_model": asked.served_model,
        "route_id": asked.route_id,
        "pool_id": asked.pool_id,
        "endpoint": asked.endpoint,
        "request_class": asked.request_class,
        "is_stream": asked.is_stream,
        "client_retry_count": asked.client_retry_count,
    }


def insert_recordset(model: type[Base], parameter: str, skip: Collection[str] = ()) -> str:
    """`INSERT INTO … SELECT … FROM json_populate_recordset(…)`. Columns in `skip` keep their defaults."""
    table = model.__tablename__
    columns = ", ".join(column.name for column in model.__table__.columns if column.name not in skip)
    return (
        f"INSERT INTO {table} ({columns}) SELECT {columns} "
        f"FROM json_populate_recordset(CAST(NULL AS {table}), CAST(:{parameter} AS json))"
    )
