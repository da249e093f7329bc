"""Objectives, what counts towards them, and their usual values.

Counting begins with this revision for settled requests, and goes back as far as they are kept for refusals.
"""

from alembic import op

revision = "0021"
down_revision = "0020"
branch_labels = None
depends_on = None

_OBJECTIVE = """
CREATE TABLE objective (
    id TEXT NOT NULL,
    tenant_id TEXT,
    served_model TEXT,
    request_class TEXT NOT NULL,
    sli TEXT NOT NULL,
    threshold_us BIGINT NOT NULL,
    target_ppm INTEGER NOT NULL,
    is_recounted BOOLEAN DEFAULT false NOT NULL,
    created_at TIMESTAMP WITH TIME ZONE DEFAULT now() NOT NULL,
    updated_at TIMESTAMP WITH TIME ZONE DEFAULT now() NOT NULL,
    CONSTRAINT pk_objective PRIMARY KEY (id),
    CONSTRAINT ck_objective_sli CHECK (sli IN ('availability', 'ttft', 'tpot')),
    CONSTRAINT ck_objective_request_class CHECK (request_class IN ('interactive', 'batch')),
    CONSTRAINT ck_objective_target CHECK (target_ppm BETWEEN 1 AND 999999),
    CONSTRAINT ck_objective_threshold CHECK ((sli = 'availability') = (threshold_us = 0) AND threshold_us >= 0),
    CONSTRAINT fk_objective_tenant_id_tenant FOREIGN KEY(tenant_id) REFERENCES tenant (id)
)
"""
_UNIQUE = """
CREATE UNIQUE INDEX uq_objective_scope ON objective (tenant_id, served_model, request_class, sli) NULLS NOT DISTINCT
"""
_SLO = """
CREATE TABLE slo_{unit} (
    bucket TIMESTAMP WITH TIME ZONE NOT NULL,
    tenant_id TEXT NOT NULL,
    served_model TEXT NOT NULL,
    request_class TEXT NOT NULL,
    sli TEXT NOT NULL,
    threshold_us BIGINT NOT NULL,
    good BIGINT NOT NULL,
    total BIGINT NOT NULL,
    CONSTRAINT pk_slo_{unit} PRIMARY KEY (bucket, tenant_id, served_model, request_class, sli, threshold_us)
)
"""
_LATENCY = """
CREATE TABLE latency_{unit} (
    bucket TIMESTAMP WITH TIME ZONE NOT NULL,
    tenant_id TEXT NOT NULL,
    served_model TEXT NOT NULL,
    request_class TEXT NOT NULL,
    pool_id TEXT NOT NULL,
    ttft JSONB NOT NULL,
    tpot JSONB NOT NULL,
    e2e JSONB NOT NULL,
    CONSTRAINT pk_latency_{unit} PRIMARY KEY (bucket, tenant_id, served_model, request_class, pool_id)
)
"""
_STATE = """
CREATE TABLE objective_state (
    tenant_id TEXT NOT NULL,
    served_model TEXT NOT NULL,
    request_class TEXT NOT NULL,
    sli TEXT NOT NULL,
    objective_id TEXT NOT NULL,
    threshold_us BIGINT NOT NULL,
    target_ppm INTEGER NOT NULL,
    good BIGINT NOT NULL,
    total BIGINT NOT NULL,
    budget_left DOUBLE PRECISION,
    burn JSONB NOT NULL,
    evaluated_at TIMESTAMP WITH TIME ZONE NOT NULL,
    CONSTRAINT pk_objective_state PRIMARY KEY (tenant_id, served_model, request_class, sli)
)
"""
_HISTOGRAM_SUM = """
CREATE FUNCTION histogram_sum(a jsonb, b jsonb) RETURNS jsonb LANGUAGE sql IMMUTABLE STRICT PARALLEL SAFE AS $$
    SELECT coalesce(jsonb_object_agg(bound, total), '{}') FROM (
        SELECT bound, sum(number::bigint) AS total
        FROM (SELECT * FROM jsonb_each_text(a) UNION ALL SELECT * FROM jsonb_each_text(b)) AS each (bound, number)
        GROUP BY bound
    ) AS sums
$$
"""
# How many of a row's requests have been counted. The index holds the rows that are not done, and no others.
_REFUSALS = """
ALTER TABLE refusal_minute ADD COLUMN counted BIGINT DEFAULT 0 NOT NULL
"""
_UNCOUNTED = """
CREATE INDEX ix_refusal_minute_uncounted ON refusal_minute (bucket) WHERE counted <> requests
"""
_USUAL = """
INSERT INTO objective (id, request_class, sli, threshold_us, target_ppm, is_recounted) VALUES
    ('objective_interactive_availability', 'interactive', 'availability', 0, 999000, true),
    ('objective_interactive_ttft', 'interactive', 'ttft', 800000, 950000, true),
    ('objective_interactive_tpot', 'interactive', 'tpot', 40000, 950000, true),
    ('objective_batch_availability', 'batch', 'availability', 0, 999000, true),
    ('objective_batch_ttft', 'batch', 'ttft', 3000000, 950000, true),
    ('objective_batch_tpot', 'batch', 'tpot', 80000, 950000, true)
"""
_UNITS = ("minute", "hour", "day")


def upgrade() -> None:
    connection = op.get_bind()
    connection.exec_driver_sql("SET LOCAL lock_timeout = '5s'")
    for statement in (_OBJECTIVE, _UNIQUE, _STATE, _HISTOGRAM_SUM, _REFUSALS, _UNCOUNTED, _USUAL):
        connection.exec_driver_sql(statement)
    for unit in _UNITS:
        for table, statement in ((f"slo_{unit}", _SLO), (f"latency_{unit}", _LATENCY)):
            connection.exec_driver_sql(statement.format(unit=unit))
            connection.exec_driver_sql(
                f"CREATE INDEX ix_{table}_tenant_id_bucket ON {table} (tenant_id, bucket)"
            )
            connection.exec_driver_sql(f"GRANT SELECT, INSERT, UPDATE, DELETE ON {table} TO tollway_app")
    connection.exec_driver_sql(
        "GRANT SELECT, INSERT, UPDATE, DELETE ON objective, objective_state TO tollway_app"
    )
