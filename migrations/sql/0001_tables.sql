-- Tables of revision 0001. Frozen: later changes are later revisions.

CREATE TABLE admin_api_key (
    id TEXT NOT NULL,
    name TEXT NOT NULL,
    public_id TEXT NOT NULL,
    secret_hmac BYTEA NOT NULL,
    pepper_id TEXT NOT NULL,
    scopes TEXT[] DEFAULT '{}' NOT NULL,
    expires_at TIMESTAMP WITH TIME ZONE,
    revoked_at TIMESTAMP WITH TIME ZONE,
    last_used_at TIMESTAMP WITH TIME ZONE,
    created_at TIMESTAMP WITH TIME ZONE DEFAULT now() NOT NULL,
    CONSTRAINT pk_admin_api_key PRIMARY KEY (id),
    CONSTRAINT uq_admin_api_key_public_id UNIQUE (public_id),
    CONSTRAINT ck_admin_api_key_secret_hmac CHECK (octet_length(secret_hmac) = 32)
);

CREATE TABLE attempt (
    request_id TEXT NOT NULL,
    attempt SMALLINT NOT NULL,
    tenant_id TEXT NOT NULL,
    replica_id TEXT,
    engine_epoch TEXT,
    prompt_tokens BIGINT NOT NULL,
    cached_tokens BIGINT NOT NULL,
    completion_tokens BIGINT NOT NULL,
    overrun_tokens BIGINT NOT NULL,
    billed_prompt_tokens BIGINT NOT NULL,
    billed_completion_tokens BIGINT NOT NULL,
    unbilled_reason TEXT,
    resumed_from SMALLINT,
    finish_reason TEXT,
    recorded_at TIMESTAMP WITH TIME ZONE DEFAULT now() NOT NULL,
    CONSTRAINT pk_attempt PRIMARY KEY (request_id, attempt),
    CONSTRAINT ck_attempt_unbilled_reason CHECK (unbilled_reason IN ('retry', 'our_error', 'resume_prefill', 'after_cancel', 'overrun')),
    CONSTRAINT ck_attempt_billed_within_produced CHECK (billed_prompt_tokens BETWEEN 0 AND prompt_tokens AND cached_tokens BETWEEN 0 AND prompt_tokens AND billed_completion_tokens BETWEEN 0 AND completion_tokens AND overrun_tokens >= 0),
    CONSTRAINT ck_attempt_unbilled_has_reason CHECK (unbilled_reason IS NOT NULL OR (billed_prompt_tokens = prompt_tokens AND billed_completion_tokens = completion_tokens))
);

CREATE TABLE audit_log (
    id UUID NOT NULL,
    occurred_at TIMESTAMP WITH TIME ZONE DEFAULT now() NOT NULL,
    actor_kind TEXT NOT NULL,
    actor_id TEXT NOT NULL,
    action TEXT NOT NULL,
    resource_kind TEXT NOT NULL,
    resource_id TEXT NOT NULL,
    tenant_id TEXT,
    request_id TEXT,
    client_ip TEXT,
    details JSONB DEFAULT '{}' NOT NULL,
    CONSTRAINT pk_audit_log PRIMARY KEY (id)
);

CREATE INDEX ix_audit_log_occurred_at_id ON audit_log (occurred_at, id);

CREATE INDEX ix_audit_log_tenant_id_occurred_at_id ON audit_log (tenant_id, occurred_at, id);

CREATE TABLE config_revision (
    topic TEXT NOT NULL,
    revision BIGINT NOT NULL,
    changed_at TIMESTAMP WITH TIME ZONE DEFAULT now() NOT NULL,
    CONSTRAINT pk_config_revision PRIMARY KEY (topic),
    CONSTRAINT ck_config_revision_topic CHECK (topic IN ('tenancy', 'routing', 'budget'))
);

CREATE TABLE engine_epoch (
    replica_id TEXT NOT NULL,
    epoch TEXT NOT NULL,
    first_seen_at TIMESTAMP WITH TIME ZONE DEFAULT now() NOT NULL,
    last_seen_at TIMESTAMP WITH TIME ZONE DEFAULT now() NOT NULL,
    CONSTRAINT pk_engine_epoch PRIMARY KEY (replica_id, epoch)
);

CREATE TABLE gateway_instance (
    instance_id TEXT NOT NULL,
    gateway_id TEXT NOT NULL,
    started_at TIMESTAMP WITH TIME ZONE DEFAULT now() NOT NULL,
    heartbeat_at TIMESTAMP WITH TIME ZONE DEFAULT now() NOT NULL,
    stopped_at TIMESTAMP WITH TIME ZONE,
    CONSTRAINT pk_gateway_instance PRIMARY KEY (instance_id)
);

CREATE INDEX ix_gateway_instance_heartbeat_at ON gateway_instance (heartbeat_at);

CREATE TABLE hold (
    request_id TEXT NOT NULL,
    instance_id TEXT NOT NULL,
    tenant_id TEXT NOT NULL,
    key_id TEXT NOT NULL,
    user_ref TEXT,
    served_model TEXT NOT NULL,
    route_id TEXT NOT NULL,
    pool_id TEXT NOT NULL,
    endpoint TEXT NOT NULL,
    request_class TEXT NOT NULL,
    is_stream BOOLEAN NOT NULL,
    client_retry_count SMALLINT NOT NULL,
    price_input_id BIGINT NOT NULL,
    price_cached_input_id BIGINT NOT NULL,
    price_output_id BIGINT NOT NULL,
    max_prompt_tokens BIGINT NOT NULL,
    max_output_tokens BIGINT NOT NULL,
    estimated_prompt_tokens BIGINT NOT NULL,
    amount_nanousd BIGINT NOT NULL,
    takes JSONB NOT NULL,
    reserved_at TIMESTAMP WITH TIME ZONE NOT NULL,
    expires_at TIMESTAMP WITH TIME ZONE NOT NULL,
    CONSTRAINT pk_hold PRIMARY KEY (request_id),
    CONSTRAINT ck_hold_not_negative CHECK (amount_nanousd >= 0)
);

CREATE INDEX ix_hold_expires_at ON hold (expires_at);

CREATE INDEX ix_hold_instance_id ON hold (instance_id);

CREATE TABLE journal_attempt (
    request_id TEXT NOT NULL,
    attempt SMALLINT NOT NULL,
    replica_id TEXT NOT NULL,
    epoch TEXT NOT NULL,
    has_ended BOOLEAN NOT NULL,
    prompt_tokens BIGINT NOT NULL,
    cached_tokens BIGINT NOT NULL,
    completion_tokens BIGINT NOT NULL,
    overrun_tokens BIGINT NOT NULL,
    finish_reason TEXT,
    queue_ms BIGINT,
    ttft_ms BIGINT,
    e2e_ms BIGINT,
    at TIMESTAMP WITH TIME ZONE NOT NULL,
    read_at TIMESTAMP WITH TIME ZONE DEFAULT now() NOT NULL,
    matched_at TIMESTAMP WITH TIME ZONE,
    CONSTRAINT pk_journal_attempt PRIMARY KEY (request_id, attempt)
);

CREATE INDEX ix_journal_attempt_unmatched ON journal_attempt (at) WHERE matched_at IS NULL;

CREATE TABLE journal_cursor (
    replica_id TEXT NOT NULL,
    cursor TEXT NOT NULL,
    read_at TIMESTAMP WITH TIME ZONE DEFAULT now() NOT NULL,
    CONSTRAINT pk_journal_cursor PRIMARY KEY (replica_id)
);

CREATE TABLE outbox (
    id BIGINT GENERATED ALWAYS AS IDENTITY,
    topic TEXT NOT NULL,
    tenant_id TEXT,
    payload JSONB NOT NULL,
    created_at TIMESTAMP WITH TIME ZONE DEFAULT now() NOT NULL,
    CONSTRAINT pk_outbox PRIMARY KEY (id)
);

CREATE INDEX ix_outbox_topic_id ON outbox (topic, id);

CREATE TABLE pool (
    id TEXT NOT NULL,
    name TEXT NOT NULL,
    spec JSONB NOT NULL,
    reserved_tenants TEXT[] DEFAULT '{}' NOT NULL,
    desired_state TEXT DEFAULT 'running' NOT NULL,
    generation BIGINT DEFAULT '1' NOT NULL,
    created_at TIMESTAMP WITH TIME ZONE DEFAULT now() NOT NULL,
    updated_at TIMESTAMP WITH TIME ZONE DEFAULT now() NOT NULL,
    CONSTRAINT pk_pool PRIMARY KEY (id),
    CONSTRAINT ck_pool_desired_state CHECK (desired_state IN ('running', 'stopped')),
    CONSTRAINT uq_pool_name UNIQUE (name)
);

CREATE TABLE price (
    id BIGINT GENERATED ALWAYS AS IDENTITY,
    sku TEXT NOT NULL,
    component TEXT NOT NULL,
    valid_from TIMESTAMP WITH TIME ZONE NOT NULL,
    nanousd_per_token NUMERIC(18, 6) NOT NULL,
    created_at TIMESTAMP WITH TIME ZONE DEFAULT now() NOT NULL,
    CONSTRAINT pk_price PRIMARY KEY (id),
    CONSTRAINT uq_price_sku_component_valid_from UNIQUE (sku, component, valid_from),
    CONSTRAINT ck_price_component CHECK (component IN ('input', 'cached_input', 'output')),
    CONSTRAINT ck_price_not_negative CHECK (nanousd_per_token >= 0)
);

CREATE TABLE refusal_minute (
    bucket TIMESTAMP WITH TIME ZONE NOT NULL,
    gateway_id TEXT NOT NULL,
    tenant_id TEXT NOT NULL,
    key_id TEXT NOT NULL,
    served_model TEXT NOT NULL,
    reason TEXT NOT NULL,
    requests BIGINT NOT NULL,
    CONSTRAINT pk_refusal_minute PRIMARY KEY (bucket, gateway_id, tenant_id, key_id, served_model, reason)
);

CREATE TABLE rollup_day (
    bucket TIMESTAMP WITH TIME ZONE NOT NULL,
    tenant_id TEXT NOT NULL,
    key_id TEXT NOT NULL,
    served_model TEXT NOT NULL,
    pool_id TEXT NOT NULL,
    endpoint TEXT NOT NULL,
    request_class TEXT NOT NULL,
    status TEXT NOT NULL,
    requests BIGINT NOT NULL,
    prompt_uncached_tokens BIGINT NOT NULL,
    prompt_cached_tokens BIGINT NOT NULL,
    completion_tokens BIGINT NOT NULL,
    reasoning_tokens BIGINT NOT NULL,
    input_nanousd BIGINT NOT NULL,
    cached_input_nanousd BIGINT NOT NULL,
    output_nanousd BIGINT NOT NULL,
    amount_nanousd BIGINT NOT NULL,
    CONSTRAINT pk_rollup_day PRIMARY KEY (bucket, tenant_id, key_id, served_model, pool_id, endpoint, request_class, status)
);

CREATE INDEX ix_rollup_day_tenant_id_bucket ON rollup_day (tenant_id, bucket);

CREATE TABLE rollup_hour (
    bucket TIMESTAMP WITH TIME ZONE NOT NULL,
    tenant_id TEXT NOT NULL,
    key_id TEXT NOT NULL,
    served_model TEXT NOT NULL,
    pool_id TEXT NOT NULL,
    endpoint TEXT NOT NULL,
    request_class TEXT NOT NULL,
    status TEXT NOT NULL,
    requests BIGINT NOT NULL,
    prompt_uncached_tokens BIGINT NOT NULL,
    prompt_cached_tokens BIGINT NOT NULL,
    completion_tokens BIGINT NOT NULL,
    reasoning_tokens BIGINT NOT NULL,
    input_nanousd BIGINT NOT NULL,
    cached_input_nanousd BIGINT NOT NULL,
    output_nanousd BIGINT NOT NULL,
    amount_nanousd BIGINT NOT NULL,
    CONSTRAINT pk_rollup_hour PRIMARY KEY (bucket, tenant_id, key_id, served_model, pool_id, endpoint, request_class, status)
);

CREATE INDEX ix_rollup_hour_tenant_id_bucket ON rollup_hour (tenant_id, bucket);

CREATE TABLE rollup_minute (
    bucket TIMESTAMP WITH TIME ZONE NOT NULL,
    tenant_id TEXT NOT NULL,
    key_id TEXT NOT NULL,
    served_model TEXT NOT NULL,
    pool_id TEXT NOT NULL,
    endpoint TEXT NOT NULL,
    request_class TEXT NOT NULL,
    status TEXT NOT NULL,
    requests BIGINT NOT NULL,
    prompt_uncached_tokens BIGINT NOT NULL,
    prompt_cached_tokens BIGINT NOT NULL,
    completion_tokens BIGINT NOT NULL,
    reasoning_tokens BIGINT NOT NULL,
    input_nanousd BIGINT NOT NULL,
    cached_input_nanousd BIGINT NOT NULL,
    output_nanousd BIGINT NOT NULL,
    amount_nanousd BIGINT NOT NULL,
    CONSTRAINT pk_rollup_minute PRIMARY KEY (bucket, tenant_id, key_id, served_model, pool_id, endpoint, request_class, status)
);

CREATE INDEX ix_rollup_minute_tenant_id_bucket ON rollup_minute (tenant_id, bucket);

CREATE TABLE settled_request (
    request_id TEXT NOT NULL,
    tenant_id TEXT NOT NULL,
    event_id UUID NOT NULL,
    occurred_at TIMESTAMP WITH TIME ZONE NOT NULL,
    is_provisional BOOLEAN NOT NULL,
    settled_at TIMESTAMP WITH TIME ZONE DEFAULT now() NOT NULL,
    CONSTRAINT pk_settled_request PRIMARY KEY (request_id)
);

CREATE INDEX ix_settled_request_settled_at ON settled_request (settled_at);

CREATE TABLE tenant (
    id TEXT NOT NULL,
    name TEXT NOT NULL,
    status TEXT DEFAULT 'active' NOT NULL,
    fairness_weight INTEGER DEFAULT '1' NOT NULL,
    cache_sharing_group TEXT,
    created_at TIMESTAMP WITH TIME ZONE DEFAULT now() NOT NULL,
    updated_at TIMESTAMP WITH TIME ZONE DEFAULT now() NOT NULL,
    archived_at TIMESTAMP WITH TIME ZONE,
    CONSTRAINT pk_tenant PRIMARY KEY (id),
    CONSTRAINT ck_tenant_status CHECK (status IN ('active', 'archived')),
    CONSTRAINT ck_tenant_fairness_weight CHECK (fairness_weight BETWEEN 1 AND 1000)
);

CREATE TABLE usage_event (
    occurred_at TIMESTAMP WITH TIME ZONE NOT NULL,
    event_id UUID NOT NULL,
    request_id TEXT NOT NULL,
    tenant_id TEXT NOT NULL,
    key_id TEXT NOT NULL,
    user_ref TEXT,
    served_model TEXT NOT NULL,
    route_id TEXT NOT NULL,
    pool_id TEXT NOT NULL,
    endpoint TEXT NOT NULL,
    request_class TEXT NOT NULL,
    is_stream BOOLEAN NOT NULL,
    status TEXT NOT NULL,
    error_code TEXT,
    prompt_uncached_tokens BIGINT NOT NULL,
    prompt_cached_tokens BIGINT NOT NULL,
    completion_tokens BIGINT NOT NULL,
    reasoning_tokens BIGINT NOT NULL,
    input_nanousd BIGINT NOT NULL,
    cached_input_nanousd BIGINT NOT NULL,
    output_nanousd BIGINT NOT NULL,
    amount_nanousd BIGINT NOT NULL,
    over_hold_nanousd BIGINT NOT NULL,
    price_input_id BIGINT NOT NULL,
    price_cached_input_id BIGINT NOT NULL,
    price_output_id BIGINT NOT NULL,
    queue_ms BIGINT,
    ttft_ms BIGINT,
    e2e_ms BIGINT,
    tpot_us BIGINT,
    client_retry_count SMALLINT NOT NULL,
    corrects UUID,
    recorded_at TIMESTAMP WITH TIME ZONE DEFAULT now() NOT NULL,
    CONSTRAINT pk_usage_event PRIMARY KEY (occurred_at, event_id),
    CONSTRAINT ck_usage_event_status CHECK (status IN ('ok', 'partial', 'cancelled', 'error', 'unknown')),
    CONSTRAINT ck_usage_event_amount_is_sum CHECK (amount_nanousd = input_nanousd + cached_input_nanousd + output_nanousd),
    CONSTRAINT ck_usage_event_negative_only_if_correction CHECK (corrects IS NOT NULL OR least(prompt_uncached_tokens, prompt_cached_tokens, completion_tokens, reasoning_tokens, amount_nanousd, over_hold_nanousd) >= 0)
)
 PARTITION BY RANGE (occurred_at);

CREATE INDEX ix_usage_event_occurred_at_brin ON usage_event USING brin (occurred_at);

CREATE INDEX ix_usage_event_request_id ON usage_event (request_id);

CREATE INDEX ix_usage_event_tenant_id_occurred_at_event_id ON usage_event (tenant_id, occurred_at DESC, event_id);

CREATE TABLE budget (
    id TEXT NOT NULL,
    scope TEXT NOT NULL,
    tenant_id TEXT,
    key_id TEXT,
    period TEXT NOT NULL,
    zone TEXT DEFAULT 'UTC' NOT NULL,
    limit_nanousd BIGINT NOT NULL,
    is_hard BOOLEAN DEFAULT true NOT NULL,
    created_at TIMESTAMP WITH TIME ZONE DEFAULT now() NOT NULL,
    updated_at TIMESTAMP WITH TIME ZONE DEFAULT now() NOT NULL,
    CONSTRAINT pk_budget PRIMARY KEY (id),
    CONSTRAINT ck_budget_scope CHECK (scope IN ('organization', 'tenant', 'key')),
    CONSTRAINT ck_budget_scope_ids CHECK ((scope = 'organization') = (tenant_id IS NULL) AND (scope = 'key') = (key_id IS NOT NULL)),
    CONSTRAINT ck_budget_period CHECK (period IN ('daily', 'weekly', 'monthly', 'prepaid')),
    CONSTRAINT ck_budget_limit_not_negative CHECK (limit_nanousd >= 0),
    CONSTRAINT fk_budget_tenant_id_tenant FOREIGN KEY(tenant_id) REFERENCES tenant (id)
);

CREATE UNIQUE INDEX uq_budget_scope_period ON budget (scope, tenant_id, key_id, period) NULLS NOT DISTINCT;

CREATE TABLE model_permission (
    tenant_id TEXT NOT NULL,
    mode TEXT NOT NULL,
    model_ids TEXT[] DEFAULT '{}' NOT NULL,
    updated_at TIMESTAMP WITH TIME ZONE DEFAULT now() NOT NULL,
    CONSTRAINT pk_model_permission PRIMARY KEY (tenant_id),
    CONSTRAINT ck_model_permission_mode CHECK (mode IN ('allow_list', 'deny_list')),
    CONSTRAINT fk_model_permission_tenant_id_tenant FOREIGN KEY(tenant_id) REFERENCES tenant (id)
);

CREATE TABLE replica (
    id TEXT NOT NULL,
    pool_id TEXT NOT NULL,
    node TEXT NOT NULL,
    state TEXT DEFAULT 'starting' NOT NULL,
    gpus INTEGER[] DEFAULT '{}' NOT NULL,
    url TEXT,
    pid INTEGER,
    pid_started_ticks BIGINT,
    epoch TEXT,
    journal_dir TEXT,
    pool_generation BIGINT DEFAULT '1' NOT NULL,
    lease_generation BIGINT DEFAULT '0' NOT NULL,
    restarts INTEGER DEFAULT '0' NOT NULL,
    last_error TEXT,
    ready_at TIMESTAMP WITH TIME ZONE,
    created_at TIMESTAMP WITH TIME ZONE DEFAULT now() NOT NULL,
    updated_at TIMESTAMP WITH TIME ZONE DEFAULT now() NOT NULL,
    CONSTRAINT pk_replica PRIMARY KEY (id),
    CONSTRAINT ck_replica_state CHECK (state IN ('starting', 'ready', 'draining', 'stopped', 'failed', 'lost')),
    CONSTRAINT fk_replica_pool_id_pool FOREIGN KEY(pool_id) REFERENCES pool (id)
);

CREATE INDEX ix_replica_pool_id ON replica (pool_id);

CREATE TABLE route (
    id TEXT NOT NULL,
    tenant_id TEXT,
    served_model TEXT NOT NULL,
    pool_id TEXT NOT NULL,
    sku TEXT NOT NULL,
    default_max_output INTEGER DEFAULT '4096' NOT NULL,
    published BOOLEAN DEFAULT true NOT NULL,
    created_at TIMESTAMP WITH TIME ZONE DEFAULT now() NOT NULL,
    updated_at TIMESTAMP WITH TIME ZONE DEFAULT now() NOT NULL,
    CONSTRAINT pk_route PRIMARY KEY (id),
    CONSTRAINT ck_route_default_max_output CHECK (default_max_output > 0),
    CONSTRAINT fk_route_tenant_id_tenant FOREIGN KEY(tenant_id) REFERENCES tenant (id),
    CONSTRAINT fk_route_pool_id_pool FOREIGN KEY(pool_id) REFERENCES pool (id)
);

CREATE INDEX ix_route_pool_id ON route (pool_id);

CREATE UNIQUE INDEX uq_route_tenant_id_served_model ON route (tenant_id, served_model) NULLS NOT DISTINCT;

CREATE TABLE service_account (
    tenant_id TEXT NOT NULL,
    id TEXT NOT NULL,
    name TEXT NOT NULL,
    role TEXT DEFAULT 'member' NOT NULL,
    created_at TIMESTAMP WITH TIME ZONE DEFAULT now() NOT NULL,
    deleted_at TIMESTAMP WITH TIME ZONE,
    CONSTRAINT pk_service_account PRIMARY KEY (tenant_id, id),
    CONSTRAINT uq_service_account_id UNIQUE (id),
    CONSTRAINT ck_service_account_role CHECK (role IN ('owner', 'member')),
    CONSTRAINT fk_service_account_tenant_id_tenant FOREIGN KEY(tenant_id) REFERENCES tenant (id)
);

CREATE TABLE supervisor_lease (
    node TEXT NOT NULL,
    owner TEXT NOT NULL,
    generation BIGINT NOT NULL,
    expires_at TIMESTAMP WITH TIME ZONE NOT NULL,
    CONSTRAINT pk_supervisor_lease PRIMARY KEY (node)
);

CREATE TABLE user_pseudonym (
    tenant_id TEXT NOT NULL,
    user_ref TEXT NOT NULL,
    end_user TEXT NOT NULL,
    created_at TIMESTAMP WITH TIME ZONE DEFAULT now() NOT NULL,
    CONSTRAINT pk_user_pseudonym PRIMARY KEY (tenant_id, user_ref),
    CONSTRAINT fk_user_pseudonym_tenant_id_tenant FOREIGN KEY(tenant_id) REFERENCES tenant (id)
);

CREATE TABLE api_key (
    tenant_id TEXT NOT NULL,
    id TEXT NOT NULL,
    name TEXT NOT NULL,
    public_id TEXT NOT NULL,
    secret_hmac BYTEA NOT NULL,
    pepper_id TEXT NOT NULL,
    service_account_id TEXT,
    scopes TEXT[] DEFAULT '{model.request}' NOT NULL,
    ip_allow_list TEXT[] DEFAULT '{}' NOT NULL,
    expires_at TIMESTAMP WITH TIME ZONE,
    revoked_at TIMESTAMP WITH TIME ZONE,
    rotated_from TEXT,
    rotation_key TEXT,
    last_used_at TIMESTAMP WITH TIME ZONE,
    created_at TIMESTAMP WITH TIME ZONE DEFAULT now() NOT NULL,
    CONSTRAINT pk_api_key PRIMARY KEY (tenant_id, id),
    CONSTRAINT uq_api_key_id UNIQUE (id),
    CONSTRAINT uq_api_key_public_id UNIQUE (public_id),
    CONSTRAINT uq_api_key_tenant_id_rotated_from_rotation_key UNIQUE (tenant_id, rotated_from, rotation_key),
    CONSTRAINT fk_api_key_tenant_id_service_account_id_service_account FOREIGN KEY(tenant_id, service_account_id) REFERENCES service_account (tenant_id, id),
    CONSTRAINT fk_api_key_tenant_id_rotated_from_api_key FOREIGN KEY(tenant_id, rotated_from) REFERENCES api_key (tenant_id, id),
    CONSTRAINT ck_api_key_secret_hmac CHECK (octet_length(secret_hmac) = 32),
    CONSTRAINT fk_api_key_tenant_id_tenant FOREIGN KEY(tenant_id) REFERENCES tenant (id)
);

CREATE TABLE budget_period (
    budget_id TEXT NOT NULL,
    period_key TEXT NOT NULL,
    held_nanousd BIGINT DEFAULT 0 NOT NULL,
    spent_nanousd BIGINT DEFAULT 0 NOT NULL,
    CONSTRAINT pk_budget_period PRIMARY KEY (budget_id, period_key),
    CONSTRAINT ck_budget_period_held_not_negative CHECK (held_nanousd >= 0)
)
 WITH (fillfactor = 50);

CREATE TABLE rate_limit (
    tenant_id TEXT NOT NULL,
    id TEXT NOT NULL,
    key_id TEXT,
    served_model TEXT,
    requests_per_min BIGINT,
    requests_burst BIGINT,
    tokens_per_min BIGINT,
    requests_per_day BIGINT,
    concurrent_requests BIGINT,
    max_prompt_tokens BIGINT,
    max_output_tokens BIGINT,
    updated_at TIMESTAMP WITH TIME ZONE DEFAULT now() NOT NULL,
    CONSTRAINT pk_rate_limit PRIMARY KEY (tenant_id, id),
    CONSTRAINT uq_rate_limit_id UNIQUE (id),
    CONSTRAINT fk_rate_limit_tenant_id_key_id_api_key FOREIGN KEY(tenant_id, key_id) REFERENCES api_key (tenant_id, id),
    CONSTRAINT ck_rate_limit_not_negative CHECK (least(requests_per_min, requests_burst, tokens_per_min, requests_per_day, concurrent_requests, max_prompt_tokens, max_output_tokens) >= 0),
    CONSTRAINT fk_rate_limit_tenant_id_tenant FOREIGN KEY(tenant_id) REFERENCES tenant (id)
);

CREATE UNIQUE INDEX uq_rate_limit_scope ON rate_limit (tenant_id, key_id, served_model) NULLS NOT DISTINCT;
