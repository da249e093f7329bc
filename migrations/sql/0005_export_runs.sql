-- Tables of the exports. A statement ends with a semicolon that is followed by an empty line.

CREATE TABLE export_run (
    id TEXT NOT NULL,
    format TEXT NOT NULL,
    tenant_id TEXT,
    period_start DATE NOT NULL,
    period_end DATE NOT NULL,
    destination TEXT NOT NULL,
    is_scheduled BOOLEAN DEFAULT false NOT NULL,
    requested_by TEXT NOT NULL,
    status TEXT DEFAULT 'queued' NOT NULL,
    attempts INTEGER DEFAULT 0 NOT NULL,
    next_attempt_at TIMESTAMP WITH TIME ZONE DEFAULT now(),
    error TEXT,
    manifest JSONB,
    created_at TIMESTAMP WITH TIME ZONE DEFAULT now() NOT NULL,
    finished_at TIMESTAMP WITH TIME ZONE,
    CONSTRAINT pk_export_run PRIMARY KEY (id),
    CONSTRAINT fk_export_run_tenant_id_tenant FOREIGN KEY (tenant_id) REFERENCES tenant (id),
    CONSTRAINT ck_export_run_format CHECK (format IN ('csv', 'jsonl', 'parquet', 'focus', 'stripe')),
    CONSTRAINT ck_export_run_status CHECK (status IN ('queued', 'running', 'succeeded', 'failed')),
    CONSTRAINT ck_export_run_period CHECK (period_start < period_end),
    CONSTRAINT ck_export_run_succeeded_has_manifest CHECK ((status = 'succeeded') = (manifest IS NOT NULL))
);

CREATE UNIQUE INDEX uq_export_run_scheduled ON export_run (format, period_start, period_end) WHERE is_scheduled;

CREATE INDEX ix_export_run_due ON export_run (next_attempt_at) WHERE status IN ('queued', 'running');

CREATE TABLE stripe_customer (
    tenant_id TEXT NOT NULL,
    customer_id TEXT NOT NULL,
    created_at TIMESTAMP WITH TIME ZONE DEFAULT now() NOT NULL,
    CONSTRAINT pk_stripe_customer PRIMARY KEY (tenant_id),
    CONSTRAINT fk_stripe_customer_tenant_id_tenant FOREIGN KEY (tenant_id) REFERENCES tenant (id)
);

CREATE TABLE meter_event (
    identifier TEXT NOT NULL,
    run_id TEXT NOT NULL,
    tenant_id TEXT NOT NULL,
    customer_id TEXT NOT NULL,
    event_name TEXT NOT NULL,
    happened_at TIMESTAMP WITH TIME ZONE NOT NULL,
    amount_nanousd BIGINT NOT NULL,
    status TEXT DEFAULT 'pending' NOT NULL,
    attempts INTEGER DEFAULT 0 NOT NULL,
    next_attempt_at TIMESTAMP WITH TIME ZONE DEFAULT now() NOT NULL,
    unanswered_at TIMESTAMP WITH TIME ZONE,
    last_error TEXT,
    delivered_at TIMESTAMP WITH TIME ZONE,
    created_at TIMESTAMP WITH TIME ZONE DEFAULT now() NOT NULL,
    CONSTRAINT pk_meter_event PRIMARY KEY (identifier),
    CONSTRAINT fk_meter_event_run_id_export_run FOREIGN KEY (run_id) REFERENCES export_run (id),
    CONSTRAINT ck_meter_event_status CHECK (status IN ('pending', 'delivered', 'refused', 'expired', 'uncertain'))
);

CREATE INDEX ix_meter_event_due ON meter_event (next_attempt_at) WHERE status = 'pending';

GRANT SELECT, INSERT, UPDATE ON export_run, meter_event TO tollway_app;

-- Whom a tenant is billed to is written once.
GRANT SELECT, INSERT ON stripe_customer TO tollway_app;

-- Events come in the order of their recording, so a few pages of index find the late ones of any day.
CREATE INDEX ix_usage_event_recorded_at_brin ON usage_event USING brin (recorded_at);
