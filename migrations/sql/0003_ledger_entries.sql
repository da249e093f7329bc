-- Revision 0003. Frozen: later changes are later revisions. A constant default rewrites no row, and a check that is
-- not valid yet reads none: whatever was accepted before, it accepts too.

ALTER TABLE usage_event
    ADD COLUMN kind TEXT DEFAULT 'request' NOT NULL,
    ADD COLUMN adjustment_nanousd BIGINT DEFAULT 0 NOT NULL;

ALTER TABLE usage_event
    DROP CONSTRAINT ck_usage_event_amount_is_sum,
    DROP CONSTRAINT ck_usage_event_negative_only_if_correction;

ALTER TABLE usage_event
    ADD CONSTRAINT ck_usage_event_kind CHECK (kind IN ('request', 'adjustment', 'credit')) NOT VALID,
    ADD CONSTRAINT ck_usage_event_adjustment_by_hand CHECK (
        (kind = 'request') = (adjustment_nanousd = 0) AND (kind <> 'adjustment' OR corrects IS NOT NULL)
        AND (kind <> 'credit' OR corrects IS NULL)) NOT VALID,
    ADD CONSTRAINT ck_usage_event_amount_is_sum CHECK (
        amount_nanousd = input_nanousd + cached_input_nanousd + output_nanousd + adjustment_nanousd) NOT VALID,
    ADD CONSTRAINT ck_usage_event_negative_only_if_correction CHECK (
        kind <> 'request' OR corrects IS NOT NULL OR least(prompt_uncached_tokens, prompt_cached_tokens,
        completion_tokens, reasoning_tokens, amount_nanousd, over_hold_nanousd) >= 0) NOT VALID;

ALTER TABLE usage_event
    VALIDATE CONSTRAINT ck_usage_event_kind,
    VALIDATE CONSTRAINT ck_usage_event_adjustment_by_hand,
    VALIDATE CONSTRAINT ck_usage_event_amount_is_sum,
    VALIDATE CONSTRAINT ck_usage_event_negative_only_if_correction;

CREATE TABLE ledger_entry (
    idempotency_key TEXT NOT NULL,
    kind TEXT NOT NULL,
    tenant_id TEXT,
    amount_nanousd BIGINT NOT NULL,
    reason TEXT NOT NULL,
    created_by TEXT NOT NULL,
    occurred_at TIMESTAMP WITH TIME ZONE NOT NULL,
    request_id TEXT,
    budget_id TEXT,
    event_id UUID,
    recorded_at TIMESTAMP WITH TIME ZONE DEFAULT now() NOT NULL,
    CONSTRAINT pk_ledger_entry PRIMARY KEY (idempotency_key),
    CONSTRAINT ck_ledger_entry_kind CHECK (kind IN ('adjustment', 'credit', 'top_up')),
    CONSTRAINT ck_ledger_entry_not_zero CHECK (amount_nanousd <> 0),
    CONSTRAINT ck_ledger_entry_about CHECK ((kind = 'adjustment') = (request_id IS NOT NULL) AND (kind = 'top_up') = (budget_id IS NOT NULL) AND (kind = 'top_up') = (event_id IS NULL) AND (kind = 'top_up' OR tenant_id IS NOT NULL)),
    CONSTRAINT fk_ledger_entry_tenant_id_tenant FOREIGN KEY(tenant_id) REFERENCES tenant (id)
);

CREATE INDEX ix_ledger_entry_tenant_id_occurred_at ON ledger_entry (tenant_id, occurred_at);

-- Written once, like the facts that they explain.
GRANT SELECT, INSERT ON ledger_entry TO tollway_app;
