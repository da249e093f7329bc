// Written from docs/openapi.json by `python -m scripts.console_types`. Do not edit.

export type AcceptBody = { name: string };

export type AcceptInvitationBody = { name: string; password: string; token: string };

export type AcceptResetBody = { password: string; token: string };

export type AccountBody = { create_service_account_only?: boolean | null; expires_in_seconds?: number | null; name: string };

export type AccountChange = { name?: string | null; role?: "owner" | "member" | null };

export type AccountKeyBody = { expires_in_seconds?: number | null; name?: string | null; scopes?: Array<string> };

export type Adjustment = { amount_nanousd: number; corrects: string; created_at: number; created_by: string; id: string; object: "organization.adjustment"; project_id: string | null; reason: string; usage_event_id: string | null };

export type AdjustmentBody = { amount_nanousd: number; corrects: string; idempotency_key: string; project_id: string; reason: string };

export type AdjustmentPage = { data: Array<Adjustment>; first_id: string | null; has_more: boolean; last_id: string | null; object: "list" };

export type AdminKey = { created_at: number; expires_at: number | null; id: string; ip_allow_list: Array<string>; last_used_at: number | null; name: string; object: "organization.admin_api_key"; owner: AdminKeyOwner; redacted_value: string; role: "owner" | "admin" | "billing" | "viewer" | "member" };

export type AdminKeyBody = { expires_in_seconds?: number | null; ip_allow_list?: Array<string>; name: string; role?: "owner" | "admin" | "billing" | "viewer" | "member"; user_id?: string | null };

export type AdminKeyOwner = { created_at: number | null; id: string | null; name: string | null; object: "organization.user"; role: "owner" | "admin" | "billing" | "viewer" | "member" | null; type: "user" };

export type AdminKeyPage = { data: Array<AdminKey>; first_id: string | null; has_more: boolean; last_id: string | null; object: "list" };

export type AlertChannel = { recipients: Array<string>; subject_prefix: string | null; type: "email" };

export type AlertDelivery = { attempts: number; channel: string; delivered_at: number | null; id: string; last_error: string | null; next_attempt_at: number | null; object: "organization.alert.delivery"; target: string };

export type AlertEpisode = { announced_at: number | null; fired_at: number; id: string; last_values: Record<string, unknown>; object: "organization.alert_episode"; project_id: string | null; quiet_since: number | null; resolved_at: number | null; scope: string; severity: "page" | "ticket" | "info"; silence_id: string | null; source: string; state: "open" | "resolved"; values: Record<string, unknown> };

export type AlertEpisodePage = { data: Array<AlertEpisode>; first_id: string | null; has_more: boolean; last_id: string | null; object: "list" };

export type AlertRecord = { created_at: number; data: Record<string, unknown>; id: string; object: "organization.alert"; project_id: string | null; type: string };

export type AlertRecordDetail = { created_at: number; data: Record<string, unknown>; deliveries: Array<AlertDelivery>; id: string; object: "organization.alert"; project_id: string | null; type: string };

export type AlertRecordPage = { data: Array<AlertRecord>; first_id: string | null; has_more: boolean; last_id: string | null; object: "list" };

export type AlertSilence = { created_at: number; created_by: string; ends_at: number; id: string; object: "organization.alert_silence"; project_id: string | null; reason: string; scope: string | null; source: string | null; starts_at: number };

export type AlertSilencePage = { data: Array<AlertSilence>; first_id: string | null; has_more: boolean; last_id: string | null; object: "list" };

export type AllowanceBody = { amount_nanousd: number };

export type Amount = { currency: "usd"; value: number };

export type ApiKey = { created_at: number; expires_at: number | null; id: string; ip_allow_list: Array<string>; last_used_at: number | null; name: string; object: "organization.project.api_key"; owner: ApiKeyOwner; owner_project_access: "active" | "inactive"; redacted_value: string; scopes: Array<string> };

export type ApiKeyOwner = { service_account: KeyAccount | null; type: "service_account" | "user" | null; user: KeyUser | null };

export type ApiKeyPage = { data: Array<ApiKey>; first_id: string | null; has_more: boolean; last_id: string | null; object: "list" };

export type AuditAccount = { id: string };

export type AuditActor = { api_key: AuditKey | null; ip_address?: string | null; session: AuditSession | null; system?: AuditSystem; type: "api_key" | "session" | null };

export type AuditKey = { id: string; service_account?: AuditAccount; type: "service_account" | "user" | null; user?: AuditUser };

export type AuditLog = { action: string; actor: AuditActor; details: Record<string, unknown>; effective_at: number; id: string; project: AuditProject | null; request_id: string | null; resource: AuditResource; type: string };

export type AuditLogPage = { data: Array<AuditLog>; first_id: string | null; has_more: boolean; last_id: string | null; object: "list" };

export type AuditProject = { id: string; name: string | null };

export type AuditResource = { id: string; type: string };

export type AuditSession = { ip_address: string | null; user: AuditUser };

export type AuditSystem = { id: string };

export type AuditUser = { email: string | null; id: string };

export type Batch = { cancelled_at: number | null; cancelling_at: number | null; completed_at: number | null; completion_window: string; created_at: number | null; endpoint: string; error_file_id: string | null; errors: BatchErrors | null; expired_at: number | null; expires_at: number | null; failed_at: number | null; finalizing_at: number | null; id: string; in_progress_at: number | null; input_file_id: string; metadata: Record<string, string> | null; model: string | null; object: "batch"; output_file_id: string | null; request_counts: BatchCounts; status: string; usage: ResponseUsage };

export type BatchCounts = { completed: number; failed: number; total: number };

export type BatchErrors = { data: Array<Record<string, unknown>>; object: "list" };

export type BatchPage = { data: Array<Batch>; first_id: string | null; has_more: boolean; last_id: string | null; object: "list" };

export type Breakdown = { compare_end_time: number | null; compare_start_time: number | null; data: Array<BreakdownGroup>; end_time: number; has_more: boolean; object: "organization.usage.breakdown"; start_time: number; total: ComparedSums };

export type BreakdownGroup = { amount_nanousd: number; api_key_id?: string | null; class?: string | null; compared: Sums | null; endpoint?: string | null; input_cached_tokens: number; input_tokens: number; model?: string | null; num_model_requests: number; output_tokens: number; pool_id?: string | null; project_id?: string | null; status?: string | null };

export type Budget = { created_at: number; current_period: CurrentPeriod; id: string; is_hard: boolean; key_id: string | null; limit_nanousd: number; object: "organization.budget"; period: "daily" | "weekly" | "monthly" | "prepaid"; project_id: string | null; scope: "organization" | "tenant" | "key"; zone: string };

export type BudgetAlert = { budget_id: string; created_at: number; id: string; object: "organization.budget.alert"; recipients: Array<string>; subject_prefix: string | null; threshold_nanousd: number | null; threshold_percent: number | null };

export type BudgetAlertBody = { recipients?: Array<string>; subject_prefix?: string | null; threshold_nanousd?: number | null; threshold_percent?: number | null };

export type BudgetAlertPage = { data: Array<BudgetAlert>; first_id: string | null; has_more: boolean; last_id: string | null; object: "list" };

export type BudgetBody = { is_hard?: boolean; key_id?: string | null; limit_nanousd: number; period: "daily" | "weekly" | "monthly" | "prepaid"; project_id?: string | null; zone?: string };

export type BudgetChange = { is_hard?: boolean | null; limit_nanousd?: number | null };

export type BudgetPage = { data: Array<Budget>; first_id: string | null; has_more: boolean; last_id: string | null; object: "list" };

export type BudgetPeriod = { held_nanousd: number; id: string; object: "organization.budget.period"; spent_nanousd: number };

export type BudgetPeriodPage = { data: Array<BudgetPeriod>; first_id: string | null; has_more: boolean; last_id: string | null; object: "list" };

export type CachedTokens = { cache_write_tokens?: number; cached_tokens: number };

export type ChangedBudget = { consequence: string | null; created_at: number; current_period: CurrentPeriod; id: string; is_hard: boolean; key_id: string | null; limit_nanousd: number; object: "organization.budget"; period: "daily" | "weekly" | "monthly" | "prepaid"; project_id: string | null; scope: "organization" | "tenant" | "key"; zone: string };

export type ChatChoice = { finish_reason: string | null; index: number; logprobs?: Record<string, unknown> | null; message: ChatMessage };

export type ChatChunkChoice = { delta: ChatDelta; finish_reason?: string | null; index: number; logprobs?: Record<string, unknown> | null };

export type ChatCompletion = { choices: Array<ChatChoice>; created: number; id: string; model: string; object: "chat.completion"; usage: TokenUsage };

export type ChatCompletionChunk = { choices: Array<ChatChunkChoice>; created: number; id: string; model: string; object: "chat.completion.chunk"; usage?: TokenUsage | null };

export type ChatDelta = { content?: string | null; role?: string | null; tool_calls?: Array<Record<string, unknown>> | null };

export type ChatMessage = { content: string | null; role: "assistant"; tool_calls?: Array<Record<string, unknown>> | null };

export type ComparedSums = { amount_nanousd: number; compared: Sums | null; input_cached_tokens: number; input_tokens: number; num_model_requests: number; output_tokens: number };

export type Completion = { choices: Array<CompletionChoice>; created: number; id: string; model: string; object: "text_completion"; usage?: TokenUsage | null };

export type CompletionChoice = { finish_reason?: string | null; index: number; logprobs?: Record<string, unknown> | null; text: string };

export type CompletionsBucket = { end_time: number; object: "bucket"; results: Array<CompletionsResult>; start_time: number };

export type CompletionsBucketCursorPage = { data: Array<CompletionsBucket>; has_more: boolean; next_page: string | null; object: "page" };

export type CompletionsResult = { api_key_id: string | null; api_source: string | null; batch: boolean | null; input_audio_tokens: number; input_cached_audio_tokens: number; input_cached_image_tokens: number; input_cached_text_tokens: number; input_cached_tokens: number; input_image_tokens: number; input_text_tokens: number; input_tokens: number; input_uncached_tokens: number; model: string | null; num_model_requests: number; object: "organization.usage.completions.result"; output_audio_tokens: number; output_image_tokens: number; output_text_tokens: number; output_tokens: number; project_id: string | null; service_tier: string | null; user_id: string | null };

export type CostsBucket = { end_time: number; object: "bucket"; results: Array<CostsResult>; start_time: number };

export type CostsBucketCursorPage = { data: Array<CostsBucket>; has_more: boolean; next_page: string | null; object: "page" };

export type CostsResult = { amount: Amount; amount_nanousd: number; api_key_id: string | null; api_source: string | null; line_item: string | null; object: "organization.costs.result"; project_id: string | null; quantity: number | null; quantity_unit: "tokens" | null; user_id: string | null };

export type Credit = { amount_nanousd: number; budget_id: string | null; created_at: number; created_by: string; id: string; object: "organization.credit"; project_id: string | null; reason: string; usage_event_id: string | null };

export type CreditBody = { amount_nanousd: number; budget_id?: string | null; idempotency_key: string; project_id?: string | null; reason: string };

export type CreditPage = { data: Array<Credit>; first_id: string | null; has_more: boolean; last_id: string | null; object: "list" };

export type CurrentPeriod = { ends_at: number | null; held_nanousd: number; id: string; is_exhausted: boolean; remaining_nanousd: number; spent_nanousd: number; starts_at: number | null };

export type CustomerBody = { project_id: string; stripe_customer_id: string };

export type DataFile = { bytes: number; created_at: number; expires_at: number | null; filename: string; id: string; object: "file"; purpose: string; status: "processed"; status_details: null };

export type DataFilePage = { data: Array<DataFile>; first_id: string | null; has_more: boolean; last_id: string | null; object: "list" };

export type Deleted = { deleted: boolean; id: string; object: string };

export type Delivery = { attempts: number; created_at: number; delivered_at: number | null; event_id: string; event_type: string; id: string; last_error: string | null; next_attempt_at: number | null; object: "webhook_endpoint.delivery"; occurred_at: number; project_id: string | null; status: "pending" | "delivered" | "failed" };

export type DeliveryAttempt = { answer: string | null; duration_ms: number; error: string | null; number: number; started_at: number; status_code: number | null };

export type DeliveryDetail = { attempts: number; created_at: number; delivered_at: number | null; event_id: string; event_type: string; id: string; last_error: string | null; log: Array<DeliveryAttempt>; next_attempt_at: number | null; object: "webhook_endpoint.delivery"; occurred_at: number; project_id: string | null; status: "pending" | "delivered" | "failed" };

export type DeliveryPage = { data: Array<Delivery>; first_id: string | null; has_more: boolean; last_id: string | null; object: "list" };

export type Embedding = { embedding: Array<number> | string; index: number; object: "embedding" };

export type EmbeddingList = { data: Array<Embedding>; model: string; object: "list"; usage: TokenUsage };

export type EmbeddingsBucket = { end_time: number; object: "bucket"; results: Array<EmbeddingsResult>; start_time: number };

export type EmbeddingsBucketCursorPage = { data: Array<EmbeddingsBucket>; has_more: boolean; next_page: string | null; object: "page" };

export type EmbeddingsResult = { api_key_id: string | null; input_tokens: number; model: string | null; num_model_requests: number; object: "organization.usage.embeddings.result"; project_id: string | null; user_id: string | null };

export type Endpoint = { created_at: number; event_types: Array<string>; id: string; name: string; object: "webhook_endpoint"; signing_secret_hint: string; updated_at: number; url: string };

export type EndpointBody = { event_types: Array<string>; format?: "standard" | "slack" | "pagerduty" | "alertmanager"; name: string; routing_key?: string | null; url?: string };

export type EndpointChange = { event_types?: Array<string> | null; name?: string | null; routing_key?: string | null; url?: string | null };

export type EndpointDeleted = { deleted: true; id: string; object: "webhook_endpoint.deleted" };

export type EndpointPage = { data: Array<Endpoint>; first_id: string | null; has_more: boolean; last_id: string | null; object: "list" };

export type EndpointTested = { event_type: string; object: "webhook_endpoint.test"; status_code: number; success: true; webhook_endpoint_id: string };

export type Enforcement = { status: "enforcing" | "inactive" };

export type EngineSpec = { autoscaler?: "tollway" | "external"; ca_bundle?: string | null; flags?: Record<string, unknown>; gpus?: Array<number | string>; kind?: "tollway" | "vllm" | "sglang" | "external"; kubernetes?: KubernetesNeeds | null; max_replicas?: number; max_surge?: number; max_unavailable?: number | null; min_replicas?: number; model: string; pipeline_parallel?: number; scaling?: Scaling; served_names: Array<string>; tensor_parallel?: number; urls?: Array<string> };

export type EventTypes = { data: Array<string>; object: "list" };

export type Export = { attempts: number; created_at: number; destination: string; end_date: string; error: string | null; files: Array<ExportFile> | null; finished_at: number | null; format: string; id: string; object: "organization.export"; project_id: string | null; rows: number | null; scheduled: boolean; start_date: string; status: string; totals: Record<string, unknown> | null };

export type ExportBody = { end_date: string; format: "csv" | "jsonl" | "parquet" | "focus" | "stripe"; project_id?: string | null; start_date: string };

export type ExportFile = { bytes: number; name: string; rows: number; sha256: string };

export type ExportPage = { data: Array<Export>; first_id: string | null; has_more: boolean; last_id: string | null; object: "list" };

export type Found = { data: Array<Hit>; object: "organization.search" };

export type GrantedSession = { access_expires_at: number; created_at: number; expires_at: number; id: string; ip_address: string | null; is_current: boolean; last_used_at: number; method: "password" | "invite" | "oidc"; object: "organization.session"; refresh_expires_at: number; user: Person; user_agent: string | null };

export type Health = { status: "ok" };

export type Hit = { id: string; kind: "project" | "api_key" | "model" | "request"; name: string; project_id: string | null };

export type Idempotency = { enabled: boolean; object: "organization.project.idempotency"; project_id: string };

export type IdempotencyBody = { enabled: boolean };

export type IdentityProvider = { allows_registration: boolean; client_id: string; default_role: "owner" | "admin" | "billing" | "viewer" | "member"; enabled: boolean; has_client_secret: boolean; issuer: string; name: string; object: "organization.identity_provider"; origin: string; redirect_uri: string; role_claim: string | null; role_map: Record<string, "owner" | "admin" | "billing" | "viewer" | "member">; scopes: Array<string> };

export type IdentityProviderDeleted = { deleted: boolean; object: "organization.identity_provider.deleted" };

export type Invitation = { email: string; expires_at: number; object: "organization.invitation"; role: "owner" | "admin" | "billing" | "viewer" | "member" };

export type Invite = { accepted_at: number | null; created_at: number; email: string; expires_at: number; id: string; object: "organization.invite"; organization_role: "owner" | "admin" | "billing" | "viewer" | "member"; projects: Array<InviteProject>; role: "owner" | "reader"; status: "accepted" | "expired" | "pending" };

export type InviteBody = { email: string; projects?: Array<InvitedProject>; role: string };

export type InvitePage = { data: Array<Invite>; first_id: string | null; has_more: boolean; last_id: string | null; object: "list" };

export type InviteProject = { id: string; role: "owner" | "member" };

export type InvitedProject = { id: string; role: "owner" | "member" };

export type KeyAccount = { created_at: number; id: string; name: string; role: string };

export type KeyBody = { expires_in_seconds?: number | null; ip_allow_list?: Array<string>; name: string; scopes?: Array<string>; service_account_id?: string | null };

export type KeyChangeBody = { expires_in_seconds?: number | null; ip_allow_list?: Array<string> | null; scopes?: Array<string> | null };

export type KeyUser = { created_at: number; email: string | null; id: string; name: string };

export type KubernetesNeeds = { cpu?: string; gpus_per_host?: number; hosts?: number; image: string; memory?: string };

export type Limits = { concurrent_requests: number | null; id: string; key_id: string | null; max_output_tokens: number | null; max_prompt_tokens: number | null; object: "organization.project.limits"; project_id: string; requests_burst: number | null; requests_per_day: number | null; requests_per_min: number | null; served_model: string | null; tokens_per_min: number | null; updated_at: number };

export type LimitsBody = { concurrent_requests?: number | null; key_id?: string | null; max_output_tokens?: number | null; max_prompt_tokens?: number | null; requests_burst?: number | null; requests_per_day?: number | null; requests_per_min?: number | null; served_model?: string | null; tokens_per_min?: number | null };

export type LimitsPage = { data: Array<Limits>; first_id: string | null; has_more: boolean; last_id: string | null; object: "list" };

export type LinkedInvite = { accept_url: string | null; accepted_at: number | null; created_at: number; email: string; expires_at: number; id: string; mail_error: string | null; mailed: boolean; object: "organization.invite"; organization_role: "owner" | "admin" | "billing" | "viewer" | "member"; projects: Array<InviteProject>; role: "owner" | "reader"; status: "accepted" | "expired" | "pending" };

export type Load = { kv_usage: number; running: number; waiting: number };

export type LoginBody = { email: string; password: string };

export type LookupBody = { token: string };

export type LookupResetBody = { token: string };

export type Me = { is_bound_to_projects: boolean; kind: "user" | "admin_key"; may: Array<string>; object: "organization.me"; projects: Array<UserProject>; roles: Array<"owner" | "admin" | "billing" | "viewer" | "member">; session: MySession | null; user: Person | null };

export type Member = { added_at: number; email: string | null; id: string; name: string; object: "organization.project.user"; role: "owner" | "member" };

export type MemberBody = { email?: string | null; role: "owner" | "member"; user_id?: string | null };

export type MemberChange = { role?: "owner" | "member" | null };

export type MemberPage = { data: Array<Member>; first_id: string | null; has_more: boolean; last_id: string | null; object: "list" };

export type MeterEvent = { amount_nanousd: number; attempts: number; delivered_at: number | null; event_name: string; export_id: string; id: string; last_error: string | null; object: "organization.meter_event"; project_id: string; status: "pending" | "delivered" | "refused" | "expired" | "uncertain"; stripe_customer_id: string; timestamp: number };

export type MeterEventPage = { data: Array<MeterEvent>; first_id: string | null; has_more: boolean; last_id: string | null; object: "list" };

export type Model = { created: number; id: string; object: "model"; owned_by: string };

export type ModelList = { data: Array<Model>; object: "list" };

export type ModelPermissions = { mode: "allow_list" | "deny_list"; model_ids: Array<string>; object: "project.model_permissions" };

export type ModelPermissionsDeleted = { deleted: boolean; object: "project.model_permissions.deleted" };

export type MySession = { expires_at: number; id: string };

export type NewAdminKey = { created_at: number; expires_at: number | null; id: string; ip_allow_list: Array<string>; last_used_at: number | null; name: string; object: "organization.admin_api_key"; owner: AdminKeyOwner; redacted_value: string; role: "owner" | "admin" | "billing" | "viewer" | "member"; value: string };

export type NewApiKey = { created_at: number; expires_at: number | null; id: string; ip_allow_list: Array<string>; last_used_at: number | null; name: string; object: "organization.project.api_key"; owner: ApiKeyOwner; owner_project_access: "active" | "inactive"; redacted_value: string; scopes: Array<string>; value: string };

export type NewEndpoint = { created_at: number; event_types: Array<string>; id: string; name: string; object: "webhook_endpoint"; signing_secret: string; signing_secret_hint: string; updated_at: number; url: string };

export type NewOperatorEndpoint = { created_at: number; disabled_at: number | null; disabled_reason: string | null; event_types: Array<string>; format: "standard" | "slack" | "pagerduty" | "alertmanager"; id: string; name: string; object: "webhook_endpoint"; paused_until: number | null; project_id: string | null; signing_secret: string; signing_secret_hint: string; status: "enabled" | "paused" | "disabled"; updated_at: number; url: string };

export type NewServiceAccount = { api_key: ServiceAccountKey | null; created_at: number; id: string; name: string; object: "organization.project.service_account"; role: "owner" | "member" | "none" };

export type NewestAlert = { id: string; occurred_at: number; payload: Record<string, unknown>; project_id: string | null; type: string };

export type NewestChange = { action: string; actor_email: string | null; actor_id: string; actor_kind: "admin_key" | "api_key" | "user" | "system"; occurred_at: number; project_id: string | null; resource_id: string; resource_kind: string };

export type NotificationChannel = { recipients: Array<string>; subject_prefix?: string | null; type: "email" };

export type Objective = { class: "interactive" | "batch"; created_at: number; id: string; is_counted: boolean; model: string | null; object: "organization.objective"; project_id: string | null; sli: "availability" | "ttft" | "tpot"; target: number; threshold_ms: number | null; window_days: number };

export type ObjectiveBody = { class?: "interactive" | "batch"; model?: string | null; project_id?: string | null; sli: "availability" | "ttft" | "tpot"; target: number; threshold_ms?: number | null };

export type ObjectivePage = { data: Array<Objective>; first_id: string | null; has_more: boolean; last_id: string | null; object: "list" };

export type OperatorEndpoint = { created_at: number; disabled_at: number | null; disabled_reason: string | null; event_types: Array<string>; format: "standard" | "slack" | "pagerduty" | "alertmanager"; id: string; name: string; object: "webhook_endpoint"; paused_until: number | null; project_id: string | null; signing_secret_hint: string; status: "enabled" | "paused" | "disabled"; updated_at: number; url: string };

export type OperatorEndpointPage = { data: Array<OperatorEndpoint>; first_id: string | null; has_more: boolean; last_id: string | null; object: "list" };

export type OperatorEndpointTested = { answer: string; event_type: string; object: "webhook_endpoint.test"; status_code: number; success: true; webhook_endpoint_id: string };

export type OutageAllowance = { amount_nanousd: number; object: "organization.project.outage_allowance"; project_id: string };

export type Overview = { alerts: Array<NewestAlert> | null; at: number; changes: Array<NewestChange> | null; object: "organization.overview"; pools: Array<PoolNow> | null };

export type PasswordBody = { current_password: string; new_password: string };

export type PasswordChanged = { changed: boolean; object: "organization.me.password" };

export type PasswordLink = { email: string; expires_at: number; object: "organization.user.password_link"; url: string; user_id: string };

export type PasswordReset = { email: string; expires_at: number; object: "organization.password_reset" };

export type PasswordResetRequested = { object: "organization.password_reset.requested"; requested: boolean };

export type Percentiles = { count: number; p50_ms: number | null; p95_ms: number | null; p99_ms: number | null };

export type PermissionBody = { mode: "allow_list" | "deny_list"; model_ids: Array<string> };

export type Person = { email: string | null; id: string; name: string; role: "owner" | "admin" | "billing" | "viewer" | "member" };

export type Pool = { desired_state: "running" | "stopped"; generation: number; has_api_key: boolean; id: string; name: string; nodes: Array<PoolNode>; object: "organization.pool"; replicas: Array<Replica>; reserved_projects: Array<string>; spec: EngineSpec; traffic: TrafficPolicy };

export type PoolBody = { api_key?: string | null; name: string; reserved_projects?: Array<string>; spec: EngineSpec; traffic?: TrafficPolicy };

export type PoolChange = { api_key?: string | null; desired_state?: "running" | "stopped" | null; max_replicas?: number | null; min_replicas?: number | null; name?: string | null; reserved_projects?: Array<string> | null; spec?: EngineSpec | null; traffic?: TrafficPolicy | null };

export type PoolNode = { node: string; phase: "settled" | "starting" | "rolling" | "blocked" | "crashing" | "stopping" | "stopped"; reason: string; replicas: number | null; scaled_at: number | null; scaled_for: string | null; since: number; wanted_replicas: number };

export type PoolNow = { desired_state: "running" | "stopped"; id: string; is_rolling: boolean; name: string; ready: number; replicas: Array<ReplicaNow> };

export type PoolPage = { data: Array<Pool>; first_id: string | null; has_more: boolean; last_id: string | null; object: "list" };

export type PoolSample = { end_time: number; object: "organization.pool.sample"; replicas: Array<ReplicaPoint>; start_time: number };

export type PoolSampleCursorPage = { data: Array<PoolSample>; has_more: boolean; next_page: string | null; object: "page" };

export type Price = { component: "input" | "cached_input" | "output" | "batch_input" | "batch_cached_input" | "batch_output"; id: string; nanousd_per_token: string; object: "organization.price"; sku: string; valid_from: number; valid_until: number | null };

export type PriceBody = { batch_cached_input_nanousd_per_token?: number | string | null; batch_factor?: number | string; batch_input_nanousd_per_token?: number | string | null; batch_output_nanousd_per_token?: number | string | null; cached_input_nanousd_per_token: number | string; input_nanousd_per_token: number | string; output_nanousd_per_token: number | string; sku: string; valid_from?: string | null };

export type PricePage = { data: Array<Price>; first_id: string | null; has_more: boolean; last_id: string | null; object: "list" };

export type Project = { archived_at: number | null; created_at: number; fairness_weight: number; id: string; name: string; object: "organization.project"; status: "active" | "archived" };

export type ProjectBody = { fairness_weight?: number; name: string };

export type ProjectChange = { fairness_weight?: number | null; name?: string | null };

export type ProjectPage = { data: Array<Project>; first_id: string | null; has_more: boolean; last_id: string | null; object: "list" };

export type PromiseBody = { target: number; threshold_ms?: number | null };

export type ProviderBody = { allows_registration?: boolean; client_id: string; client_secret?: string | null; default_role?: "viewer" | "member"; enabled?: boolean; issuer: string; name?: string; origin: string; role_claim?: string | null; role_map?: Record<string, "owner" | "admin" | "billing" | "viewer" | "member">; scopes?: Array<string> };

export type RateLimit = { id: string; max_requests_per_1_day: number; max_requests_per_1_minute: number; max_tokens_per_1_minute: number; model: string; object: "project.rate_limit" };

export type RateLimitBody = { batch_1_day_max_input_tokens?: number | null; max_audio_megabytes_per_1_minute?: number | null; max_images_per_1_minute?: number | null; max_requests_per_1_day?: number | null; max_requests_per_1_minute?: number | null; max_tokens_per_1_minute?: number | null };

export type RateLimitPage = { data: Array<RateLimit>; first_id: string | null; has_more: boolean; last_id: string | null; object: "list" };

export type Readiness = { reason?: string; status: "ready" | "not ready" };

export type ReasoningTokens = { reasoning_tokens: number };

export type Refusal = { code: string | null; message: string; param: string | null; type: string };

export type Refused = { error: Refusal };

export type Replica = { created_at: number; devices: Array<string>; generation: number; gpus: Array<number>; id: string; last_error: string | null; load: Load | null; node: string; object: "organization.pool.replica"; pool_id: string; ready_at: number | null; restarts: number; state: string; url: string | null };

export type ReplicaNow = { id: string; kv_usage: number | null; last_error: string | null; node: string; restarts: number; running: number | null; sampled_at: number | null; state: "starting" | "ready" | "draining" | "failed" | "lost"; tokens_per_second: number | null; waiting: number | null };

export type ReplicaPage = { data: Array<Replica>; first_id: string | null; has_more: boolean; last_id: string | null; object: "list" };

export type ReplicaPoint = { kv_usage_max: number; preemptions: number | null; replica_id: string; running: number; tokens_per_s: number | null; waiting: number; waiting_max: number };

export type RequestAttempt = { attempt: number; billed_input_tokens: number; billed_output_tokens: number; e2e_ms: number | null; engine_epoch?: string | null; finish_reason: string | null; input_cached_tokens: number | null; input_tokens: number | null; output_tokens: number | null; overrun_tokens: number | null; queue_ms: number | null; replica_id?: string | null; resumed_from: number | null; ttft_ms: number | null; unbilled_reason: string | null };

export type RequestCorrection = { amount_nanousd: number; created_by?: string; event_id: string; input_cached_tokens: number; input_tokens: number; kind: string; occurred_at: number; output_tokens: number; reason: string | null };

export type RequestDetail = { amount_nanousd: number; api_key_id: string | null; attempts: Array<RequestAttempt>; cached_input_nanousd: number; class: string; client_retry_count: number; corrections: Array<RequestCorrection>; e2e_ms: number | null; end_user: string | null; endpoint: string; error_code: string | null; event_id: string; id: string; input_cached_tokens: number; input_nanousd: number; input_tokens: number; is_provisional: boolean; model: string; net_amount_nanousd: number; object: "organization.request"; occurred_at: number; output_nanousd: number; output_tokens: number; over_hold_nanousd: number; pool_id?: string | null; prices: Array<RequestPrice>; project_id: string; queue_ms: number | null; reasoning_tokens: number; recorded_at: number; route_id?: string | null; status: "ok" | "partial" | "cancelled" | "error" | "unknown"; stream: boolean; tpot_us: number | null; ttft_ms: number | null; user_id: string | null };

export type RequestLine = { amount_nanousd: number; api_key_id: string | null; class: string; client_retry_count: number; e2e_ms: number | null; endpoint: string; error_code: string | null; event_id: string; id: string; input_cached_tokens: number; input_tokens: number; model: string; net_amount_nanousd: number; object: "organization.request"; occurred_at: number; output_tokens: number; pool_id?: string | null; project_id: string; queue_ms: number | null; reasoning_tokens: number; route_id?: string | null; status: "ok" | "partial" | "cancelled" | "error" | "unknown"; stream: boolean; tpot_us: number | null; ttft_ms: number | null; user_id: string | null };

export type RequestLineCursorPage = { data: Array<RequestLine>; has_more: boolean; next_page: string | null; object: "page" };

export type RequestPrice = { component: string; id: number; nanousd_per_token: string; sku: string; valid_from: number };

export type RequestResetBody = { email: string };

export type Response = { created_at: number; error: Record<string, unknown> | null; id: string; incomplete_details: Record<string, unknown> | null; model: string; object: "response"; output: Array<Record<string, unknown>>; status: "in_progress" | "completed" | "incomplete" | "failed"; usage: ResponseUsage | null };

export type ResponseEvent = { response?: Response; sequence_number: number; type: string };

export type ResponseUsage = { input_tokens: number; input_tokens_details: CachedTokens; output_tokens: number; output_tokens_details: ReasoningTokens; total_tokens: number };

export type RotateBody = { grace_s?: number; idempotency_key: string };

export type RotatedApiKey = { created_at: number; expires_at: number | null; id: string; ip_allow_list: Array<string>; last_used_at: number | null; name: string; object: "organization.project.api_key"; owner: ApiKeyOwner; owner_project_access: "active" | "inactive"; redacted_value: string; scopes: Array<string>; value: string | null };

export type Route = { created_at: number; default_max_output: number; id: string; object: "organization.route"; pool_id: string; project_id: string | null; published: boolean; served_model: string; sku: string };

export type RouteBody = { default_max_output?: number; pool_id: string; project_id?: string | null; published?: boolean; served_model: string; sku: string };

export type RouteChange = { default_max_output?: number | null; pool_id?: string | null; published?: boolean | null; sku?: string | null };

export type RoutePage = { data: Array<Route>; first_id: string | null; has_more: boolean; last_id: string | null; object: "list" };

export type SampleWanted = { event_type: string };

export type Scaling = { cooldown_s?: number; down_after_s?: number; queue_delay_s?: number; up_after_s?: number; waiting_per_replica?: number };

export type SecretRotation = { keep_old_secret_active_for_24_hours?: boolean };

export type ServiceAccount = { created_at: number; id: string; name: string; object: "organization.project.service_account"; role: "owner" | "member" | "none" };

export type ServiceAccountKey = { created_at: number; expires_at: number | null; id: string; name: string; object: "organization.project.service_account.api_key"; value: string };

export type ServiceAccountPage = { data: Array<ServiceAccount>; first_id: string | null; has_more: boolean; last_id: string | null; object: "list" };

export type Session = { created_at: number; expires_at: number; id: string; ip_address: string | null; is_current: boolean; last_used_at: number; method: "password" | "invite" | "oidc"; object: "organization.session"; user_agent: string | null };

export type SessionEnded = { ended: boolean; object: "organization.session.ended"; sessions?: number };

export type SessionPage = { data: Array<Session>; first_id: string | null; has_more: boolean; last_id: string | null; object: "list" };

export type SignInMethods = { object: "organization.session.methods"; oidc: SignInProvider | null; password: boolean; password_reset: "mail" | "owner" };

export type SignInProvider = { name: string; start_path: string };

export type SilenceBody = { lasts_s: number; project_id?: string | null; reason: string; scope?: string | null; source?: string | null; starts_in_s?: number };

export type SloBucket = { counts: Array<SloCount>; e2e: Percentiles; end_time: number; object: "organization.slo.bucket"; start_time: number; tpot: Percentiles; ttft: Percentiles };

export type SloBucketCursorPage = { data: Array<SloBucket>; has_more: boolean; next_page: string | null; object: "page" };

export type SloCount = { good: number; sli: "availability" | "ttft" | "tpot"; threshold_ms: number | null; total: number };

export type SloLine = { budget_left: number | null; burn_1h: number | null; evaluated_at: number | null; id: string; model: string | null; object: "organization.slo.line"; project_id: string | null; scope: "project" | "all_projects"; series: Array<SloSeries>; tokens_per_s: number; tpot_p95_ms: number | null; trend: SloTrend | null; ttft_p95_ms: number | null };

export type SloLineCursorPage = { data: Array<SloLine>; has_more: boolean; next_page: string | null; object: "page" };

export type SloSeries = { budget_left: number | null; burn: Record<string, number | null>; class: "interactive" | "batch"; good: number; objective_id: string; sli: "availability" | "ttft" | "tpot"; target: number; threshold_ms: number | null; total: number };

export type SloTrend = { burn: Array<number | null>; start_time: number; step_s: number; tokens_per_s: Array<number>; tpot_p95_ms: Array<number | null>; ttft_p95_ms: Array<number | null> };

export type SpendAlert = { currency: "USD"; id: string; interval: "month"; notification_channel: AlertChannel; object: "organization.spend_alert" | "project.spend_alert"; threshold_amount: number };

export type SpendAlertBody = { currency: "USD"; interval: "month"; notification_channel: NotificationChannel; threshold_amount: number };

export type SpendAlertPage = { data: Array<SpendAlert>; first_id: string | null; has_more: boolean; last_id: string | null; object: "list" };

export type SpendLimit = { currency: "USD"; enforcement: Enforcement; interval: "month"; object: "organization.spend_limit" | "project.spend_limit"; threshold_amount: number };

export type SpendLimitBody = { currency: "USD"; interval: "month"; threshold_amount: number };

export type SpendLimitDeleted = { deleted: boolean; object: "organization.spend_limit.deleted" | "project.spend_limit.deleted" };

export type StripeCustomer = { created_at: number; id: string; object: "organization.stripe_customer"; project_id: string; stripe_customer_id: string };

export type StripeCustomerPage = { data: Array<StripeCustomer>; first_id: string | null; has_more: boolean; last_id: string | null; object: "list" };

export type Sums = { amount_nanousd: number; input_cached_tokens: number; input_tokens: number; num_model_requests: number; output_tokens: number };

export type SwitchBody = { served_model?: string | null; to_pool_id: string };

export type TokenUsage = { completion_tokens?: number; prompt_tokens: number; total_tokens: number };

export type TrafficPolicy = { between_tokens_timeout_s?: number | null; connect_timeout_s?: number | null; first_token_timeout_s?: number | null; keep_alive_s?: number | null; strategy?: "prefix" | "least_loaded" | "round_robin" | "consistent_hash"; total_timeout_s?: number | null };

export type UsageEvent = { adjustment_nanousd: number; amount_nanousd: number; api_key_id: string | null; cached_input_nanousd: number; class: string; client_retry_count: number; completion_tokens: number; corrects: string | null; e2e_ms: number | null; endpoint: string; error_code: string | null; id: string; input_nanousd: number; kind: string; model: string; object: "organization.usage_event"; occurred_at: number; output_nanousd: number; pool_id: string | null; project_id: string; prompt_cached_tokens: number; prompt_uncached_tokens: number; reasoning_tokens: number; recorded_at: number; request_id: string; status: "ok" | "partial" | "cancelled" | "error" | "unknown"; stream: boolean; tpot_us: number | null; ttft_ms: number | null; user_ref: string | null };

export type UsageEventPage = { data: Array<UsageEvent>; first_id: string | null; has_more: boolean; last_id: string | null; object: "list" };

export type User = { added_at: number; created: number; email: string | null; id: string; is_scim_managed: boolean; is_service_account: boolean; name: string; object: "organization.user"; projects: UserProjects; role: "owner" | "admin" | "billing" | "viewer" | "member"; user: UserIdentity };

export type UserBody = { email: string; name: string; role: string };

export type UserChange = { name?: string | null; role?: string | null };

export type UserIdentity = { banned: boolean; banned_at: null; email: string | null; enabled: boolean; id: string; name: string; object: "user" };

export type UserPage = { data: Array<User>; first_id: string | null; has_more: boolean; last_id: string | null; object: "list" };

export type UserProject = { id: string; name: string; role: "owner" | "member" };

export type UserProjects = { data: Array<UserProject>; object: "list" };

export type Usual = { data: Array<UsualHour>; end_time: number; object: "organization.usage.usual"; start_time: number; total: UsualSums; weeks: number };

export type UsualHour = { amount_nanousd: number; end_time: number; highest: Sums | null; input_cached_tokens: number; input_tokens: number; lowest: Sums | null; num_model_requests: number; output_tokens: number; start_time: number; usual: Sums | null };

export type UsualSums = { amount_nanousd: number; highest: Sums | null; input_cached_tokens: number; input_tokens: number; lowest: Sums | null; num_model_requests: number; output_tokens: number; usual: Sums | null };

/** Every call: what its path and query take, its body, and its answer. */

export interface Operations {
  "GET /healthz": { path: {}; query: {}; body: undefined; answer: Health };
  "GET /metrics": { path: {}; query: {}; body: undefined; answer: unknown };
  "GET /readyz": { path: {}; query: {}; body: undefined; answer: Readiness };
  "GET /v1/batches": { path: {}; query: { after?: string; limit?: number }; body: undefined; answer: BatchPage };
  "POST /v1/batches": { path: {}; query: {}; body: { completion_window: string; endpoint: string; input_file_id: string; metadata?: Record<string, string> | null; output_expires_after?: { anchor: "created_at"; seconds: number } }; answer: Batch };
  "GET /v1/batches/{batch_id}": { path: { batch_id: string }; query: {}; body: undefined; answer: Batch };
  "POST /v1/batches/{batch_id}/cancel": { path: { batch_id: string }; query: {}; body: undefined; answer: Batch };
  "POST /v1/chat/completions": { path: {}; query: {}; body: { max_completion_tokens?: number; max_tokens?: number; messages: Array<Record<string, unknown>>; model: string; n?: number; response_format?: Record<string, unknown>; seed?: number; stop?: string | Array<string>; stream?: boolean; stream_options?: { include_usage?: boolean }; temperature?: number; tool_choice?: unknown; tools?: Array<Record<string, unknown>>; top_p?: number; user?: string }; answer: ChatCompletion };
  "POST /v1/completions": { path: {}; query: {}; body: { max_tokens?: number; model: string; n?: number; prompt: unknown; seed?: number; stop?: string | Array<string>; stream?: boolean; stream_options?: { include_usage?: boolean }; temperature?: number; top_p?: number; user?: string }; answer: Completion };
  "POST /v1/embeddings": { path: {}; query: {}; body: { encoding_format?: string; input: unknown; model: string }; answer: EmbeddingList };
  "GET /v1/files": { path: {}; query: { after?: string; limit?: number; order?: string; purpose?: string }; body: undefined; answer: DataFilePage };
  "POST /v1/files": { path: {}; query: {}; body: undefined; answer: DataFile };
  "DELETE /v1/files/{file_id}": { path: { file_id: string }; query: {}; body: undefined; answer: Deleted };
  "GET /v1/files/{file_id}": { path: { file_id: string }; query: {}; body: undefined; answer: DataFile };
  "GET /v1/files/{file_id}/content": { path: { file_id: string }; query: {}; body: undefined; answer: unknown };
  "GET /v1/models": { path: {}; query: {}; body: undefined; answer: ModelList };
  "GET /v1/models/{model}": { path: { model: string }; query: {}; body: undefined; answer: Model };
  "GET /v1/organization/adjustments": { path: {}; query: { project_id?: string | null; limit?: number; after?: string | null }; body: undefined; answer: AdjustmentPage };
  "POST /v1/organization/adjustments": { path: {}; query: {}; body: AdjustmentBody; answer: Adjustment };
  "GET /v1/organization/adjustments/{adjustment_id}": { path: { adjustment_id: string }; query: {}; body: undefined; answer: Adjustment };
  "GET /v1/organization/admin_api_keys": { path: {}; query: { limit?: number; after?: string | null; order?: "asc" | "desc" }; body: undefined; answer: AdminKeyPage };
  "POST /v1/organization/admin_api_keys": { path: {}; query: {}; body: AdminKeyBody; answer: NewAdminKey };
  "DELETE /v1/organization/admin_api_keys/{key_id}": { path: { key_id: string }; query: {}; body: undefined; answer: Deleted };
  "GET /v1/organization/admin_api_keys/{key_id}": { path: { key_id: string }; query: {}; body: undefined; answer: AdminKey };
  "GET /v1/organization/alert_episodes": { path: {}; query: { state?: "open" | "resolved" | null; source?: string | null; project_id?: string | null; limit?: number; after?: string | null }; body: undefined; answer: AlertEpisodePage };
  "GET /v1/organization/alert_episodes/{episode_id}": { path: { episode_id: string }; query: {}; body: undefined; answer: AlertEpisode };
  "GET /v1/organization/alert_silences": { path: {}; query: { state?: "open" | "over" | null; limit?: number; after?: string | null }; body: undefined; answer: AlertSilencePage };
  "POST /v1/organization/alert_silences": { path: {}; query: {}; body: SilenceBody; answer: AlertSilence };
  "DELETE /v1/organization/alert_silences/{silence_id}": { path: { silence_id: string }; query: {}; body: undefined; answer: Deleted };
  "GET /v1/organization/alert_silences/{silence_id}": { path: { silence_id: string }; query: {}; body: undefined; answer: AlertSilence };
  "GET /v1/organization/alerts": { path: {}; query: { project_id?: string | null; type?: string | null; limit?: number; after?: string | null }; body: undefined; answer: AlertRecordPage };
  "GET /v1/organization/alerts/{record_id}": { path: { record_id: string }; query: {}; body: undefined; answer: AlertRecordDetail };
  "GET /v1/organization/audit_logs": { path: {}; query: { limit?: number; after?: string | null; before?: string | null; actor_ids?: Array<string>; actor_emails?: Array<string>; event_types?: Array<string>; project_ids?: Array<string>; resource_ids?: Array<string>; tenant_only?: boolean; "effective_at[gt]"?: number | null; "effective_at[gte]"?: number | null; "effective_at[lt]"?: number | null; "effective_at[lte]"?: number | null }; body: undefined; answer: AuditLogPage };
  "GET /v1/organization/budgets": { path: {}; query: { project_id?: string | null; scope?: "organization" | "tenant" | "key" | null; limit?: number; after?: string | null }; body: undefined; answer: BudgetPage };
  "POST /v1/organization/budgets": { path: {}; query: {}; body: BudgetBody; answer: ChangedBudget };
  "DELETE /v1/organization/budgets/{budget_id}": { path: { budget_id: string }; query: {}; body: undefined; answer: Deleted };
  "GET /v1/organization/budgets/{budget_id}": { path: { budget_id: string }; query: {}; body: undefined; answer: Budget };
  "POST /v1/organization/budgets/{budget_id}": { path: { budget_id: string }; query: {}; body: BudgetChange; answer: ChangedBudget };
  "GET /v1/organization/budgets/{budget_id}/alerts": { path: { budget_id: string }; query: { limit?: number; after?: string | null }; body: undefined; answer: BudgetAlertPage };
  "POST /v1/organization/budgets/{budget_id}/alerts": { path: { budget_id: string }; query: {}; body: BudgetAlertBody; answer: BudgetAlert };
  "DELETE /v1/organization/budgets/{budget_id}/alerts/{alert_id}": { path: { budget_id: string; alert_id: string }; query: {}; body: undefined; answer: Deleted };
  "GET /v1/organization/budgets/{budget_id}/alerts/{alert_id}": { path: { budget_id: string; alert_id: string }; query: {}; body: undefined; answer: BudgetAlert };
  "POST /v1/organization/budgets/{budget_id}/alerts/{alert_id}": { path: { budget_id: string; alert_id: string }; query: {}; body: BudgetAlertBody; answer: BudgetAlert };
  "GET /v1/organization/budgets/{budget_id}/periods": { path: { budget_id: string }; query: { limit?: number; after?: string | null }; body: undefined; answer: BudgetPeriodPage };
  "GET /v1/organization/costs": { path: {}; query: { start_time: number; end_time?: number | null; page?: string | null; bucket_width?: "1d"; limit?: number; project_ids?: Array<string>; api_key_ids?: Array<string>; line_items?: Array<string>; group_by?: Array<"project_id" | "user_id" | "api_key_id" | "line_item" | "api_source"> }; body: undefined; answer: CostsBucketCursorPage };
  "GET /v1/organization/credits": { path: {}; query: { project_id?: string | null; limit?: number; after?: string | null }; body: undefined; answer: CreditPage };
  "POST /v1/organization/credits": { path: {}; query: {}; body: CreditBody; answer: Credit };
  "GET /v1/organization/credits/{credit_id}": { path: { credit_id: string }; query: {}; body: undefined; answer: Credit };
  "GET /v1/organization/exports": { path: {}; query: { project_id?: string | null; limit?: number; after?: string | null }; body: undefined; answer: ExportPage };
  "POST /v1/organization/exports": { path: {}; query: {}; body: ExportBody; answer: Export };
  "GET /v1/organization/exports/{export_id}": { path: { export_id: string }; query: {}; body: undefined; answer: Export };
  "GET /v1/organization/exports/{export_id}/files/{name}": { path: { export_id: string; name: string }; query: {}; body: undefined; answer: unknown };
  "DELETE /v1/organization/identity_provider": { path: {}; query: {}; body: undefined; answer: IdentityProviderDeleted };
  "GET /v1/organization/identity_provider": { path: {}; query: {}; body: undefined; answer: IdentityProvider };
  "POST /v1/organization/identity_provider": { path: {}; query: {}; body: ProviderBody; answer: IdentityProvider };
  "POST /v1/organization/invitations/accept": { path: {}; query: {}; body: AcceptInvitationBody; answer: GrantedSession };
  "POST /v1/organization/invitations/lookup": { path: {}; query: {}; body: LookupBody; answer: Invitation };
  "GET /v1/organization/invites": { path: {}; query: { limit?: number; after?: string | null }; body: undefined; answer: InvitePage };
  "POST /v1/organization/invites": { path: {}; query: {}; body: InviteBody; answer: LinkedInvite };
  "DELETE /v1/organization/invites/{invite_id}": { path: { invite_id: string }; query: {}; body: undefined; answer: Deleted };
  "GET /v1/organization/invites/{invite_id}": { path: { invite_id: string }; query: {}; body: undefined; answer: Invite };
  "POST /v1/organization/invites/{invite_id}/accept": { path: { invite_id: string }; query: {}; body: AcceptBody; answer: User };
  "POST /v1/organization/invites/{invite_id}/link": { path: { invite_id: string }; query: {}; body: undefined; answer: LinkedInvite };
  "GET /v1/organization/me": { path: {}; query: {}; body: undefined; answer: Me };
  "POST /v1/organization/me/password": { path: {}; query: {}; body: PasswordBody; answer: PasswordChanged };
  "GET /v1/organization/meter_events": { path: {}; query: { project_id?: string | null; status?: "pending" | "delivered" | "refused" | "expired" | "uncertain" | null; limit?: number; after?: string | null }; body: undefined; answer: MeterEventPage };
  "GET /v1/organization/objectives": { path: {}; query: { limit?: number; after?: string | null }; body: undefined; answer: ObjectivePage };
  "POST /v1/organization/objectives": { path: {}; query: {}; body: ObjectiveBody; answer: Objective };
  "DELETE /v1/organization/objectives/{objective_id}": { path: { objective_id: string }; query: {}; body: undefined; answer: Deleted };
  "GET /v1/organization/objectives/{objective_id}": { path: { objective_id: string }; query: {}; body: undefined; answer: Objective };
  "POST /v1/organization/objectives/{objective_id}": { path: { objective_id: string }; query: {}; body: PromiseBody; answer: Objective };
  "GET /v1/organization/openapi.json": { path: {}; query: {}; body: undefined; answer: Record<string, unknown> };
  "GET /v1/organization/overview": { path: {}; query: {}; body: undefined; answer: Overview };
  "POST /v1/organization/password_resets": { path: {}; query: {}; body: RequestResetBody; answer: PasswordResetRequested };
  "POST /v1/organization/password_resets/accept": { path: {}; query: {}; body: AcceptResetBody; answer: GrantedSession };
  "POST /v1/organization/password_resets/lookup": { path: {}; query: {}; body: LookupResetBody; answer: PasswordReset };
  "GET /v1/organization/pools": { path: {}; query: { limit?: number; after?: string | null }; body: undefined; answer: PoolPage };
  "POST /v1/organization/pools": { path: {}; query: {}; body: PoolBody; answer: Pool };
  "DELETE /v1/organization/pools/{pool_id}": { path: { pool_id: string }; query: {}; body: undefined; answer: Deleted };
  "GET /v1/organization/pools/{pool_id}": { path: { pool_id: string }; query: {}; body: undefined; answer: Pool };
  "PATCH /v1/organization/pools/{pool_id}": { path: { pool_id: string }; query: {}; body: PoolChange; answer: Pool };
  "POST /v1/organization/pools/{pool_id}": { path: { pool_id: string }; query: {}; body: PoolChange; answer: Pool };
  "GET /v1/organization/pools/{pool_id}/samples": { path: { pool_id: string }; query: { start_time?: number | null; end_time?: number | null; step_s?: number; limit?: number; page?: string | null }; body: undefined; answer: PoolSampleCursorPage };
  "POST /v1/organization/pools/{pool_id}/switch": { path: { pool_id: string }; query: {}; body: SwitchBody; answer: RoutePage };
  "GET /v1/organization/prices": { path: {}; query: { sku?: string | null; component?: "input" | "cached_input" | "output" | "batch_input" | "batch_cached_input" | "batch_output" | null; at?: number | null; limit?: number; after?: string | null }; body: undefined; answer: PricePage };
  "POST /v1/organization/prices": { path: {}; query: {}; body: PriceBody; answer: PricePage };
  "GET /v1/organization/projects": { path: {}; query: { limit?: number; after?: string | null; include_archived?: boolean }; body: undefined; answer: ProjectPage };
  "POST /v1/organization/projects": { path: {}; query: {}; body: ProjectBody; answer: Project };
  "GET /v1/organization/projects/{project_id}": { path: { project_id: string }; query: {}; body: undefined; answer: Project };
  "POST /v1/organization/projects/{project_id}": { path: { project_id: string }; query: {}; body: ProjectChange; answer: Project };
  "GET /v1/organization/projects/{project_id}/api_keys": { path: { project_id: string }; query: { limit?: number; after?: string | null; owner_project_access?: "active" | "inactive" | "any" }; body: undefined; answer: ApiKeyPage };
  "POST /v1/organization/projects/{project_id}/api_keys": { path: { project_id: string }; query: {}; body: KeyBody; answer: NewApiKey };
  "DELETE /v1/organization/projects/{project_id}/api_keys/{key_id}": { path: { project_id: string; key_id: string }; query: {}; body: undefined; answer: Deleted };
  "GET /v1/organization/projects/{project_id}/api_keys/{key_id}": { path: { project_id: string; key_id: string }; query: {}; body: undefined; answer: ApiKey };
  "POST /v1/organization/projects/{project_id}/api_keys/{key_id}": { path: { project_id: string; key_id: string }; query: {}; body: KeyChangeBody; answer: ApiKey };
  "POST /v1/organization/projects/{project_id}/api_keys/{key_id}/rotate": { path: { project_id: string; key_id: string }; query: {}; body: RotateBody; answer: RotatedApiKey };
  "POST /v1/organization/projects/{project_id}/archive": { path: { project_id: string }; query: {}; body: undefined; answer: Project };
  "POST /v1/organization/projects/{project_id}/chat/completions": { path: { project_id: string }; query: {}; body: { max_completion_tokens?: number; max_tokens?: number; messages: Array<Record<string, unknown>>; model: string; n?: number; response_format?: Record<string, unknown>; seed?: number; stop?: string | Array<string>; stream?: boolean; stream_options?: { include_usage?: boolean }; temperature?: number; tool_choice?: unknown; tools?: Array<Record<string, unknown>>; top_p?: number; user?: string }; answer: ChatCompletion };
  "GET /v1/organization/projects/{project_id}/idempotency": { path: { project_id: string }; query: {}; body: undefined; answer: Idempotency };
  "POST /v1/organization/projects/{project_id}/idempotency": { path: { project_id: string }; query: {}; body: IdempotencyBody; answer: Idempotency };
  "GET /v1/organization/projects/{project_id}/limits": { path: { project_id: string }; query: { limit?: number; after?: string | null }; body: undefined; answer: LimitsPage };
  "POST /v1/organization/projects/{project_id}/limits": { path: { project_id: string }; query: {}; body: LimitsBody; answer: Limits };
  "DELETE /v1/organization/projects/{project_id}/limits/{limit_id}": { path: { project_id: string; limit_id: string }; query: {}; body: undefined; answer: Deleted };
  "DELETE /v1/organization/projects/{project_id}/model_permissions": { path: { project_id: string }; query: {}; body: undefined; answer: ModelPermissionsDeleted };
  "GET /v1/organization/projects/{project_id}/model_permissions": { path: { project_id: string }; query: {}; body: undefined; answer: ModelPermissions };
  "POST /v1/organization/projects/{project_id}/model_permissions": { path: { project_id: string }; query: {}; body: PermissionBody; answer: ModelPermissions };
  "GET /v1/organization/projects/{project_id}/outage_allowance": { path: { project_id: string }; query: {}; body: undefined; answer: OutageAllowance };
  "POST /v1/organization/projects/{project_id}/outage_allowance": { path: { project_id: string }; query: {}; body: AllowanceBody; answer: OutageAllowance };
  "GET /v1/organization/projects/{project_id}/rate_limits": { path: { project_id: string }; query: { limit?: number; after?: string | null; before?: string | null }; body: undefined; answer: RateLimitPage };
  "POST /v1/organization/projects/{project_id}/rate_limits/{rate_limit_id}": { path: { project_id: string; rate_limit_id: string }; query: {}; body: RateLimitBody; answer: RateLimit };
  "GET /v1/organization/projects/{project_id}/service_accounts": { path: { project_id: string }; query: { limit?: number; after?: string | null }; body: undefined; answer: ServiceAccountPage };
  "POST /v1/organization/projects/{project_id}/service_accounts": { path: { project_id: string }; query: {}; body: AccountBody; answer: NewServiceAccount };
  "DELETE /v1/organization/projects/{project_id}/service_accounts/{account_id}": { path: { project_id: string; account_id: string }; query: {}; body: undefined; answer: Deleted };
  "GET /v1/organization/projects/{project_id}/service_accounts/{account_id}": { path: { project_id: string; account_id: string }; query: {}; body: undefined; answer: ServiceAccount };
  "POST /v1/organization/projects/{project_id}/service_accounts/{account_id}": { path: { project_id: string; account_id: string }; query: {}; body: AccountChange; answer: ServiceAccount };
  "POST /v1/organization/projects/{project_id}/service_accounts/{account_id}/api_keys": { path: { project_id: string; account_id: string }; query: {}; body: AccountKeyBody; answer: ServiceAccountKey };
  "GET /v1/organization/projects/{project_id}/spend_alerts": { path: { project_id: string }; query: { limit?: number; after?: string | null; before?: string | null; order?: "asc" | "desc" }; body: undefined; answer: SpendAlertPage };
  "POST /v1/organization/projects/{project_id}/spend_alerts": { path: { project_id: string }; query: {}; body: SpendAlertBody; answer: SpendAlert };
  "DELETE /v1/organization/projects/{project_id}/spend_alerts/{alert_id}": { path: { project_id: string; alert_id: string }; query: {}; body: undefined; answer: Deleted };
  "GET /v1/organization/projects/{project_id}/spend_alerts/{alert_id}": { path: { project_id: string; alert_id: string }; query: {}; body: undefined; answer: SpendAlert };
  "POST /v1/organization/projects/{project_id}/spend_alerts/{alert_id}": { path: { project_id: string; alert_id: string }; query: {}; body: SpendAlertBody; answer: SpendAlert };
  "DELETE /v1/organization/projects/{project_id}/spend_limit": { path: { project_id: string }; query: {}; body: undefined; answer: SpendLimitDeleted };
  "GET /v1/organization/projects/{project_id}/spend_limit": { path: { project_id: string }; query: {}; body: undefined; answer: SpendLimit };
  "POST /v1/organization/projects/{project_id}/spend_limit": { path: { project_id: string }; query: {}; body: SpendLimitBody; answer: SpendLimit };
  "GET /v1/organization/projects/{project_id}/users": { path: { project_id: string }; query: { limit?: number; after?: string | null }; body: undefined; answer: MemberPage };
  "POST /v1/organization/projects/{project_id}/users": { path: { project_id: string }; query: {}; body: MemberBody; answer: Member };
  "DELETE /v1/organization/projects/{project_id}/users/{user_id}": { path: { project_id: string; user_id: string }; query: {}; body: undefined; answer: Deleted };
  "GET /v1/organization/projects/{project_id}/users/{user_id}": { path: { project_id: string; user_id: string }; query: {}; body: undefined; answer: Member };
  "POST /v1/organization/projects/{project_id}/users/{user_id}": { path: { project_id: string; user_id: string }; query: {}; body: MemberChange; answer: Member };
  "GET /v1/organization/projects/{project_id}/webhook_endpoints": { path: { project_id: string }; query: { limit?: number; after?: string | null }; body: undefined; answer: OperatorEndpointPage };
  "POST /v1/organization/projects/{project_id}/webhook_endpoints": { path: { project_id: string }; query: {}; body: EndpointBody; answer: NewOperatorEndpoint };
  "DELETE /v1/organization/projects/{project_id}/webhook_endpoints/{endpoint_id}": { path: { project_id: string; endpoint_id: string }; query: {}; body: undefined; answer: EndpointDeleted };
  "GET /v1/organization/projects/{project_id}/webhook_endpoints/{endpoint_id}": { path: { project_id: string; endpoint_id: string }; query: {}; body: undefined; answer: OperatorEndpoint };
  "POST /v1/organization/projects/{project_id}/webhook_endpoints/{endpoint_id}": { path: { project_id: string; endpoint_id: string }; query: {}; body: EndpointChange; answer: OperatorEndpoint };
  "GET /v1/organization/projects/{project_id}/webhook_endpoints/{endpoint_id}/deliveries": { path: { project_id: string; endpoint_id: string }; query: { status?: "pending" | "delivered" | "failed" | null; limit?: number; after?: string | null }; body: undefined; answer: DeliveryPage };
  "GET /v1/organization/projects/{project_id}/webhook_endpoints/{endpoint_id}/deliveries/{delivery_id}": { path: { project_id: string; endpoint_id: string; delivery_id: string }; query: {}; body: undefined; answer: DeliveryDetail };
  "POST /v1/organization/projects/{project_id}/webhook_endpoints/{endpoint_id}/deliveries/{delivery_id}/replay": { path: { project_id: string; endpoint_id: string; delivery_id: string }; query: {}; body: undefined; answer: DeliveryDetail };
  "POST /v1/organization/projects/{project_id}/webhook_endpoints/{endpoint_id}/enable": { path: { project_id: string; endpoint_id: string }; query: {}; body: undefined; answer: OperatorEndpoint };
  "POST /v1/organization/projects/{project_id}/webhook_endpoints/{endpoint_id}/rotate_secret": { path: { project_id: string; endpoint_id: string }; query: {}; body: SecretRotation; answer: NewOperatorEndpoint };
  "POST /v1/organization/projects/{project_id}/webhook_endpoints/{endpoint_id}/test": { path: { project_id: string; endpoint_id: string }; query: {}; body: SampleWanted; answer: OperatorEndpointTested };
  "GET /v1/organization/projects/{project_id}/webhook_event_types": { path: { project_id: string }; query: {}; body: undefined; answer: EventTypes };
  "GET /v1/organization/replicas": { path: {}; query: { pool_id?: string | null; limit?: number; after?: string | null }; body: undefined; answer: ReplicaPage };
  "GET /v1/organization/replicas/{replica_id}": { path: { replica_id: string }; query: {}; body: undefined; answer: Replica };
  "GET /v1/organization/requests": { path: {}; query: { limit?: number; page?: string | null; start_time?: number | null; end_time?: number | null; project_id?: string | null; api_key_id?: string | null; user_id?: string | null; model?: string | null; pool_id?: string | null; class?: string | null; status?: Array<"ok" | "partial" | "cancelled" | "error" | "unknown">; stream?: boolean | null }; body: undefined; answer: RequestLineCursorPage };
  "GET /v1/organization/requests/{request_id}": { path: { request_id: string }; query: {}; body: undefined; answer: RequestDetail };
  "GET /v1/organization/routes": { path: {}; query: { limit?: number; after?: string | null }; body: undefined; answer: RoutePage };
  "POST /v1/organization/routes": { path: {}; query: {}; body: RouteBody; answer: Route };
  "DELETE /v1/organization/routes/{route_id}": { path: { route_id: string }; query: {}; body: undefined; answer: Deleted };
  "GET /v1/organization/routes/{route_id}": { path: { route_id: string }; query: {}; body: undefined; answer: Route };
  "PATCH /v1/organization/routes/{route_id}": { path: { route_id: string }; query: {}; body: RouteChange; answer: Route };
  "POST /v1/organization/routes/{route_id}": { path: { route_id: string }; query: {}; body: RouteChange; answer: Route };
  "GET /v1/organization/search": { path: {}; query: { q: string }; body: undefined; answer: Found };
  "GET /v1/organization/sessions": { path: {}; query: { limit?: number; after?: string | null }; body: undefined; answer: SessionPage };
  "POST /v1/organization/sessions": { path: {}; query: {}; body: LoginBody; answer: GrantedSession };
  "POST /v1/organization/sessions/logout": { path: {}; query: {}; body: undefined; answer: SessionEnded };
  "POST /v1/organization/sessions/logout_everywhere": { path: {}; query: {}; body: undefined; answer: SessionEnded };
  "GET /v1/organization/sessions/methods": { path: {}; query: {}; body: undefined; answer: SignInMethods };
  "POST /v1/organization/sessions/refresh": { path: {}; query: {}; body: undefined; answer: GrantedSession };
  "DELETE /v1/organization/sessions/{session_id}": { path: { session_id: string }; query: {}; body: undefined; answer: Deleted };
  "GET /v1/organization/slo/board": { path: {}; query: { limit?: number; page?: string | null; project_ids?: Array<string>; models?: Array<string> }; body: undefined; answer: SloLineCursorPage };
  "GET /v1/organization/slo/series": { path: {}; query: { start_time: number; end_time?: number | null; page?: string | null; bucket_width?: "1m" | "1h" | "1d"; limit?: number | null; project_ids?: Array<string>; models?: Array<string>; pool_ids?: Array<string>; class?: "interactive" | "batch"; latencies?: Array<"ttft" | "tpot" | "e2e"> }; body: undefined; answer: SloBucketCursorPage };
  "GET /v1/organization/spend_alerts": { path: {}; query: { limit?: number; after?: string | null; before?: string | null; order?: "asc" | "desc" }; body: undefined; answer: SpendAlertPage };
  "POST /v1/organization/spend_alerts": { path: {}; query: {}; body: SpendAlertBody; answer: SpendAlert };
  "DELETE /v1/organization/spend_alerts/{alert_id}": { path: { alert_id: string }; query: {}; body: undefined; answer: Deleted };
  "GET /v1/organization/spend_alerts/{alert_id}": { path: { alert_id: string }; query: {}; body: undefined; answer: SpendAlert };
  "POST /v1/organization/spend_alerts/{alert_id}": { path: { alert_id: string }; query: {}; body: SpendAlertBody; answer: SpendAlert };
  "DELETE /v1/organization/spend_limit": { path: {}; query: {}; body: undefined; answer: SpendLimitDeleted };
  "GET /v1/organization/spend_limit": { path: {}; query: {}; body: undefined; answer: SpendLimit };
  "POST /v1/organization/spend_limit": { path: {}; query: {}; body: SpendLimitBody; answer: SpendLimit };
  "GET /v1/organization/stripe_customers": { path: {}; query: { limit?: number; after?: string | null }; body: undefined; answer: StripeCustomerPage };
  "POST /v1/organization/stripe_customers": { path: {}; query: {}; body: CustomerBody; answer: StripeCustomer };
  "GET /v1/organization/usage/breakdown": { path: {}; query: { start_time: number; end_time?: number | null; group_by: "project_id" | "api_key_id" | "model" | "pool_id" | "endpoint" | "class" | "status"; order_by?: "cost" | "requests" | "input_tokens" | "output_tokens"; limit?: number; compare_start_time?: number | null; compare_end_time?: number | null; project_ids?: Array<string>; api_key_ids?: Array<string>; models?: Array<string>; pool_ids?: Array<string>; classes?: Array<string>; statuses?: Array<"ok" | "partial" | "cancelled" | "error" | "unknown"> }; body: undefined; answer: Breakdown };
  "GET /v1/organization/usage/completions": { path: {}; query: { start_time: number; end_time?: number | null; page?: string | null; bucket_width?: "1m" | "1h" | "1d"; limit?: number | null; project_ids?: Array<string>; api_key_ids?: Array<string>; user_ids?: Array<string>; models?: Array<string>; batch?: boolean | null; group_by?: Array<"project_id" | "user_id" | "api_key_id" | "model" | "batch" | "service_tier" | "api_source"> }; body: undefined; answer: CompletionsBucketCursorPage };
  "GET /v1/organization/usage/embeddings": { path: {}; query: { start_time: number; end_time?: number | null; page?: string | null; bucket_width?: "1m" | "1h" | "1d"; limit?: number | null; project_ids?: Array<string>; api_key_ids?: Array<string>; user_ids?: Array<string>; models?: Array<string>; group_by?: Array<"project_id" | "user_id" | "api_key_id" | "model"> }; body: undefined; answer: EmbeddingsBucketCursorPage };
  "GET /v1/organization/usage/usual": { path: {}; query: { weeks?: number; project_ids?: Array<string>; api_key_ids?: Array<string>; models?: Array<string> }; body: undefined; answer: Usual };
  "GET /v1/organization/usage_events": { path: {}; query: { project_id?: string | null; request_id?: string | null; model?: string | null; limit?: number; after?: string | null }; body: undefined; answer: UsageEventPage };
  "GET /v1/organization/users": { path: {}; query: { limit?: number; after?: string | null; emails?: Array<string> }; body: undefined; answer: UserPage };
  "POST /v1/organization/users": { path: {}; query: {}; body: UserBody; answer: User };
  "DELETE /v1/organization/users/{user_id}": { path: { user_id: string }; query: {}; body: undefined; answer: Deleted };
  "GET /v1/organization/users/{user_id}": { path: { user_id: string }; query: {}; body: undefined; answer: User };
  "POST /v1/organization/users/{user_id}": { path: { user_id: string }; query: {}; body: UserChange; answer: User };
  "POST /v1/organization/users/{user_id}/password_link": { path: { user_id: string }; query: {}; body: undefined; answer: PasswordLink };
  "GET /v1/organization/webhook_endpoints": { path: {}; query: { project_id?: string | null; limit?: number; after?: string | null }; body: undefined; answer: OperatorEndpointPage };
  "POST /v1/organization/webhook_endpoints": { path: {}; query: {}; body: EndpointBody; answer: NewOperatorEndpoint };
  "DELETE /v1/organization/webhook_endpoints/{endpoint_id}": { path: { endpoint_id: string }; query: {}; body: undefined; answer: EndpointDeleted };
  "GET /v1/organization/webhook_endpoints/{endpoint_id}": { path: { endpoint_id: string }; query: {}; body: undefined; answer: OperatorEndpoint };
  "POST /v1/organization/webhook_endpoints/{endpoint_id}": { path: { endpoint_id: string }; query: {}; body: EndpointChange; answer: OperatorEndpoint };
  "GET /v1/organization/webhook_endpoints/{endpoint_id}/deliveries": { path: { endpoint_id: string }; query: { status?: "pending" | "delivered" | "failed" | null; limit?: number; after?: string | null }; body: undefined; answer: DeliveryPage };
  "GET /v1/organization/webhook_endpoints/{endpoint_id}/deliveries/{delivery_id}": { path: { endpoint_id: string; delivery_id: string }; query: {}; body: undefined; answer: DeliveryDetail };
  "POST /v1/organization/webhook_endpoints/{endpoint_id}/deliveries/{delivery_id}/replay": { path: { endpoint_id: string; delivery_id: string }; query: {}; body: undefined; answer: DeliveryDetail };
  "POST /v1/organization/webhook_endpoints/{endpoint_id}/enable": { path: { endpoint_id: string }; query: {}; body: undefined; answer: OperatorEndpoint };
  "POST /v1/organization/webhook_endpoints/{endpoint_id}/rotate_secret": { path: { endpoint_id: string }; query: {}; body: SecretRotation; answer: NewOperatorEndpoint };
  "POST /v1/organization/webhook_endpoints/{endpoint_id}/test": { path: { endpoint_id: string }; query: {}; body: SampleWanted; answer: OperatorEndpointTested };
  "GET /v1/organization/webhook_event_types": { path: {}; query: {}; body: undefined; answer: EventTypes };
  "POST /v1/responses": { path: {}; query: {}; body: { input: unknown; instructions?: string; max_output_tokens?: number; model: string; stream?: boolean; text?: Record<string, unknown>; tools?: Array<Record<string, unknown>> }; answer: Response };
  "GET /v1/webhook_endpoints": { path: {}; query: { after?: string; limit?: number }; body: undefined; answer: EndpointPage };
  "POST /v1/webhook_endpoints": { path: {}; query: {}; body: { event_types: Array<string>; name: string; url: string }; answer: NewEndpoint };
  "DELETE /v1/webhook_endpoints/{endpoint_id}": { path: { endpoint_id: string }; query: {}; body: undefined; answer: EndpointDeleted };
  "GET /v1/webhook_endpoints/{endpoint_id}": { path: { endpoint_id: string }; query: {}; body: undefined; answer: Endpoint };
  "POST /v1/webhook_endpoints/{endpoint_id}": { path: { endpoint_id: string }; query: {}; body: { event_types?: Array<string>; name?: string; url?: string }; answer: Endpoint };
  "POST /v1/webhook_endpoints/{endpoint_id}/rotate_secret": { path: { endpoint_id: string }; query: {}; body: { keep_old_secret_active_for_24_hours?: boolean }; answer: NewEndpoint };
  "POST /v1/webhook_endpoints/{endpoint_id}/test": { path: { endpoint_id: string }; query: {}; body: { event_type: string }; answer: EndpointTested };
  "GET /v1/webhook_event_types": { path: {}; query: {}; body: undefined; answer: EventTypes };
}
