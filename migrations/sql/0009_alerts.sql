-- Revision 0009. Frozen: later changes are later revisions. A statement ends with a semicolon and an empty line.

CREATE TABLE spend_alert (
    id TEXT NOT NULL,
    tenant_id TEXT,
    budget_id TEXT,
    threshold_nanousd BIGINT,
    threshold_percent INTEGER,
    recipients TEXT[] NOT NULL,
    subject_prefix TEXT,
    created_at TIMESTAMP WITH TIME ZONE DEFAULT now() NOT NULL,
    updated_at TIMESTAMP WITH TIME ZONE DEFAULT now() NOT NULL,
    CONSTRAINT pk_spend_alert PRIMARY KEY (id),
    CONSTRAINT ck_spend_alert_one_threshold CHECK (num_nonnulls(threshold_nanousd, threshold_percent) = 1),
    CONSTRAINT ck_spend_alert_amount CHECK (threshold_nanousd > 0),
    CONSTRAINT ck_spend_alert_percent CHECK (threshold_percent BETWEEN 1 AND 1000 AND budget_id IS NOT NULL OR threshold_percent IS NULL),
    CONSTRAINT fk_spend_alert_tenant_id_tenant FOREIGN KEY(tenant_id) REFERENCES tenant (id),
    CONSTRAINT fk_spend_alert_budget_id_budget FOREIGN KEY(budget_id) REFERENCES budget (id) ON DELETE CASCADE
);

CREATE INDEX ix_spend_alert_tenant_id_id ON spend_alert (tenant_id, id);

CREATE INDEX ix_spend_alert_budget_id ON spend_alert (budget_id);

CREATE TABLE alert_firing (
    subject TEXT NOT NULL,
    period_key TEXT NOT NULL,
    threshold_nanousd BIGINT NOT NULL,
    fired_at TIMESTAMP WITH TIME ZONE DEFAULT now() NOT NULL,
    CONSTRAINT pk_alert_firing PRIMARY KEY (subject, period_key)
);

CREATE TABLE alert_record (
    id TEXT NOT NULL,
    type TEXT NOT NULL,
    tenant_id TEXT,
    payload JSONB NOT NULL,
    occurred_at TIMESTAMP WITH TIME ZONE NOT NULL,
    CONSTRAINT pk_alert_record PRIMARY KEY (id)
);

CREATE INDEX ix_alert_record_occurred_at_id ON alert_record (occurred_at, id);

CREATE INDEX ix_alert_record_tenant_id_occurred_at_id ON alert_record (tenant_id, occurred_at, id);

CREATE TABLE delivery (
    id TEXT NOT NULL,
    record_id TEXT NOT NULL,
    channel TEXT NOT NULL,
    target_key TEXT NOT NULL,
    target JSONB NOT NULL,
    attempts INTEGER DEFAULT 0 NOT NULL,
    next_attempt_at TIMESTAMP WITH TIME ZONE DEFAULT now(),
    delivered_at TIMESTAMP WITH TIME ZONE,
    last_error TEXT,
    created_at TIMESTAMP WITH TIME ZONE DEFAULT now() NOT NULL,
    CONSTRAINT pk_delivery PRIMARY KEY (id),
    CONSTRAINT uq_delivery_record_id_channel_target_key UNIQUE (record_id, channel, target_key),
    CONSTRAINT fk_delivery_record_id_alert_record FOREIGN KEY(record_id) REFERENCES alert_record (id) ON DELETE CASCADE
);

CREATE INDEX ix_delivery_next_attempt_at ON delivery (next_attempt_at) WHERE next_attempt_at IS NOT NULL;

GRANT SELECT, INSERT, UPDATE, DELETE ON spend_alert, alert_firing, delivery TO tollway_app;

-- Old records go with their retention; nobody changes one.
GRANT SELECT, INSERT, DELETE ON alert_record TO tollway_app;
