"""Gateway runs: a row per run, its heartbeat by the database's clock."""

from sqlalchemy import text

from gateway.db import WriteConnection

__all__ = ["beat", "mark_stopped"]

_BEAT = text(
    """
    INSERT INTO gateway_instance (instance_id, gateway_id) VALUES (:instance_id, :gateway_id)
    ON CONFLICT (instance_id) DO UPDATE SET heartbeat_at = now()
    """
)
_STOPPED = text("UPDATE gateway_instance SET stopped_at = now() WHERE instance_id = :instance_id")


async def beat(connection: WriteConnection, instance_id: str, gateway_id: str) -> None:
    await connection.execute(_BEAT, {"instance_id": instance_id, "gateway_id": gateway_id})


async def mark_stopped(connection: WriteConnection, instance_id: str) -> None:
    await connection.execute(_STOPPED, {"instance_id": instance_id})
