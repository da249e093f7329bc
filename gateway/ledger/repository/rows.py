"""Rows in sets: a whole batch of one table travels as one JSON parameter.

One statement and one parameter for any number of rows is several times cheaper than a bind per column. Columns are
named one by one, so that a newer schema may have more of them.
"""

from collections.abc import Collection

from gateway.db import Base

__all__ = ["insert_recordset"]


def insert_recordset(model: type[Base], parameter: str, skip: Collection[str] = ()) -> str:
    """`INSERT INTO … SELECT … FROM json_populate_recordset(…)`. Columns in `skip` keep their defaults."""
    table = model.__tablename__
    columns = ", ".join(column.name for column in model.__table__.columns if column.name not in skip)
    return (
        f"INSERT INTO {table} ({columns}) SELECT {columns} "
        f"FROM json_populate_recordset(CAST(NULL AS {table}), CAST(:{parameter} AS json))"
    )
