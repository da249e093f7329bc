"""What a person has to look at, and by how much journal and ledger differ."""

from alembic import op

revision = "0004"
down_revision = "0003"
branch_labels = None
depends_on = None

_STATEMENTS = (
    """
    CREATE TABLE review_item (
        id BIGINT GENERATED ALWAYS AS IDENTITY,
        kind TEXT NOT NULL,
        subject TEXT NOT NULL,
        request_id TEXT,
        tenant_id TEXT,
        replica_id TEXT,
        details JSONB NOT NULL,
        created_at TIMESTAMP WITH TIME ZONE DEFAULT now() NOT NULL,
        resolved_at TIMESTAMP WITH TIME ZONE,
        resolution TEXT,
        CONSTRAINT pk_review_item PRIMARY KEY (id),
        CONSTRAINT ck_review_item_kind CHECK (kind IN
            ('unreadable_record', 'evidence_without_request', 'engine_gone', 'stale_settlement')),
        CONSTRAINT ck_review_item_resolution CHECK ((resolved_at IS NULL) = (resolution IS NULL)),
        CONSTRAINT uq_review_item_kind_subject UNIQUE (kind, subject)
    )
    """,
    "CREATE INDEX ix_review_item_open ON review_item (created_at) WHERE resolved_at IS NULL",
    "CREATE INDEX ix_review_item_request_id ON review_item (request_id)",
    "GRANT SELECT, INSERT, UPDATE ON review_item TO tollway_app",
    "ALTER TABLE journal_attempt ADD COLUMN resumed_from SMALLINT, ADD COLUMN drift_tokens BIGINT",
    "CREATE INDEX ix_journal_attempt_drift ON journal_attempt (matched_at) WHERE drift_tokens <> 0",
    "CREATE INDEX ix_journal_attempt_epoch ON journal_attempt (replica_id, epoch)",
)


def upgrade() -> None:
    connection = op.get_bind()
    connection.exec_driver_sql("SET LOCAL lock_timeout = '5s'")
    for statement in _STATEMENTS:
        connection.exec_driver_sql(statement)
