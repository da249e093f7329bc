-- Revision 0025. Frozen: later changes are later revisions. A statement ends with a semicolon and an empty line.

CREATE TABLE webhook_endpoint (
    id TEXT NOT NULL,
    tenant_id TEXT,
    name TEXT NOT NULL,
    url TEXT NOT NULL,
    event_types TEXT[] NOT NULL,
    format TEXT DEFAULT 'standard' NOT NULL,
    secrets_sealed BYTEA NOT NULL,
    secret_hint TEXT NOT NULL,
    paused_until TIMESTAMP WITH TIME ZONE,
    disabled_at TIMESTAMP WITH TIME ZONE,
    disabled_reason TEXT,
    created_at TIMESTAMP WITH TIME ZONE DEFAULT now() NOT NULL,
    updated_at TIMESTAMP WITH TIME ZONE DEFAULT now() NOT NULL,
    CONSTRAINT pk_webhook_endpoint PRIMARY KEY (id),
    CONSTRAINT ck_webhook_endpoint_format CHECK (format IN ('standard', 'slack', 'pagerduty', 'alertmanager')),
    CONSTRAINT ck_webhook_endpoint_disabled CHECK ((disabled_at IS NULL) = (disabled_reason IS NULL)),
    CONSTRAINT fk_webhook_endpoint_tenant_id_tenant FOREIGN KEY(tenant_id) REFERENCES tenant (id)
);

CREATE INDEX ix_webhook_endpoint_tenant_id_id ON webhook_endpoint (tenant_id, id);

-- Of which attempt the schedule counts from: the first, or the one that a replay began with.
ALTER TABLE delivery ADD COLUMN retries_from INTEGER DEFAULT 0 NOT NULL;

CREATE INDEX ix_delivery_channel_target_key_id ON delivery (channel, target_key, id);

CREATE TABLE delivery_attempt (
    delivery_id TEXT NOT NULL,
    number INTEGER NOT NULL,
    started_at TIMESTAMP WITH TIME ZONE NOT NULL,
    duration_ms BIGINT NOT NULL,
    status_code INTEGER,
    error TEXT,
    answer TEXT,
    CONSTRAINT pk_delivery_attempt PRIMARY KEY (delivery_id, number),
    CONSTRAINT fk_delivery_attempt_delivery_id_delivery FOREIGN KEY(delivery_id) REFERENCES delivery (id) ON DELETE CASCADE
);

GRANT SELECT, INSERT, UPDATE, DELETE ON webhook_endpoint, delivery_attempt TO tollway_app;
