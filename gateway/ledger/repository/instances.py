"""Gateway runs: a row per run, its heartbeat by the database's clock."""

from sqlalchemy import text

from gateway.db import Lane, Prepared, WriteConnection, rows_of

__all__ = ["beat", "mark_stopped", "stop_earlier_runs"]

_BEAT = Prepared(
    """
    WITH beaten AS (
        INSERT INTO gateway_instance (instance_id, gateway_id) VALUES (:instance_id, :gateway_id)
        ON CONFLICT (instance_id) DO UPDATE SET heartbeat_at = now()
    )
    SELECT revision FROM config_revision WHERE topic = 'budget'
    """
)
_STOPPED = text("UPDATE gateway_instance SET stopped_at = now() WHERE instance_id = :instance_id")
# A silence would prove the same thirty seconds later: the lock on the spool says that no other run has this id.
_STOP_EARLIER = text(
    """
    UPDATE gateway_instance SET stopped_at = now()
    WHERE gateway_id = :gateway_id AND instance_id <> :instance_id AND stopped_at IS NULL
    """
)


async def beat(connection: WriteConnection | Lane, instance_id: str, gateway_id: str) -> int:
    """Returns the budgets' revision: in one statement, since each gateway runs it each second."""
    values = {"instance_id": instance_id, "gateway_id": gateway_id}
    return int((await rows_of(connection, _BEAT, values))[0][0])


async def mark_stopped(connection: WriteConnection, instance_id: str) -> None:
    await connection.execute(_STOPPED, {"instance_id": instance_id})


async def stop_earlier_runs(connection: WriteConnection, instance_id: str, gateway_id: str) -> None:
    """Their holds are nobody's from now on: the reconciler need not wait for their silence."""
    await connection.execute(_STOP_EARLIER, {"instance_id": instance_id, "gateway_id": gateway_id})
