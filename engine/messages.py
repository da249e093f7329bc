"""What crosses the boundary between the engine's API processes and its core process.

API process (tokens in, tokens out, no scheduling) → `AddRequest`, `AbortRequest` → core inbox;
core → `CoreReady`, one `StepOutputs` per step and API process → API process. Encoded with msgspec's
msgpack as tagged unions. Knows nothing of HTTP, text, tensors or tenants: fairness ids and cache salts
are opaque here.
"""

from __future__ import annotations

from typing import Literal

import msgspec

FinishReason = Literal["stop", "length", "abort", "error"]
RequestClass = Literal["interactive", "batch"]


GrammarKind = Literal["ebnf", "choice", "structural_tag"]


class GrammarSpec(msgspec.Struct, frozen=True):
    """The language that an answer must belong to, from its first token to its last.

    Checked for size and for what is supported at the server's edge; compiled in the core process, which may still
    refuse it: then the request ends with `invalid_grammar`.
    """

    kind: GrammarKind
    text: str
    """A grammar in EBNF with a rule `root`, a JSON array of the possible answers, or a structural tag of xgrammar as
    JSON (never a caller's: the server makes it)."""
    param: str = "structured_outputs"
    """The body field that asked for it, for error messages."""


PoolingKind = Literal["last", "mean"]
"""Which hidden states make an embedding: the last token's, or the mean of all."""


class SamplingParams(msgspec.Struct, frozen=True, kw_only=True):
    """How one request's tokens are chosen. Validated at the server's edge; trusted from here on.

    `seed` is always concrete: the server draws one when the caller sent none, so that the noise of a
    (seed, position) pair never depends on batch, preemption, replica or restart.
    """

    seed: int
    max_tokens: int
    min_tokens: int = 0
    temperature: float = 1.0
    """0 means greedy."""
    top_p: float = 1.0
    top_k: int = 0
    """0 means off."""
    min_p: float = 0.0
    repetition_penalty: float = 1.0
    presence_penalty: float = 0.0
    frequency_penalty: float = 0.0
    logit_bias: dict[int, float] = {}
    allowed_token_ids: tuple[int, ...] = ()
    """Empty means all."""
    bad_words: tuple[tuple[int, ...], ...] = ()
    """Sequences of tokens that must not stand in the answer: the last token of one is impossible behind the others."""
    stop_token_ids: tuple[int, ...] = ()
    """Tokens that end the answer, beside the model's own end tokens."""
    ignore_eos: bool = False
    num_logprobs: int | None = None
    """None: no logprobs. 0: the chosen token's only. n: also the n most likely."""
    num_prompt_logprobs: int | None = None
    """The same for the prompt's own tokens, from the second one on."""
    grammar: GrammarSpec | None = None
    """Every token keeps the answer within this language; an end token is possible once the answer belongs to it."""
    pooling: PoolingKind | None = None
    """An embedding of the prompt is wanted, in the place of an answer; `max_tokens` is 1 then."""


class AddRequest(msgspec.Struct, frozen=True, kw_only=True, tag="add"):
    """One sequence to generate. `request_id` is unique among live requests of this engine."""

    request_id: str
    worker: int
    """Index of the API process that gets the outputs."""
    prompt_token_ids: list[int]
    sampling: SamplingParams
    output_token_ids: list[int] = []
    """The answer so far, of a request that another engine began; fewer than `sampling.max_tokens`. They count for
    penalties and limits as if they had been sampled here."""
    cache_salt: bytes = b""
    fairness_id: str = ""
    fairness_weight: float = 1.0
    request_class: RequestClass = "interactive"
    priority: int = 0
    """Among the requests of its fairness id: the smallest goes first."""
    ttft_ms: float | None = None
    """Promise: the first token this long after the arrival in the core."""
    tpot_ms: float | None = None
    """Promise: the time from one output token to the next."""
    max_kv_fraction: float = 1.0
    """Share of the page pool that all requests of this fairness id may hold together, 0..1."""
    held_s: float = 0.0
    """How long it waited in the core before it came to the scheduler's line, for its grammar."""


class AbortRequest(msgspec.Struct, frozen=True, kw_only=True, tag="abort"):
    """The caller no longer wants these: stop, hop, disconnect. Unknown ids are ignored.

    Each known id still gets its one terminal `TokenOutput` (finish_reason "abort").
    """

    request_ids: list[str]


class WorkerGone(msgspec.Struct, frozen=True, kw_only=True, tag="worker_gone"):
    """An API process died: abort all its requests; nobody listens for their terminals."""

    worker: int


class Shutdown(msgspec.Struct, frozen=True, tag="shutdown"):
    """Finish nothing more: abort what is left and exit 0."""


CoreInbound = AddRequest | AbortRequest | WorkerGone | Shutdown


class TokenLogprobs(msgspec.Struct, frozen=True):
    """Raw log-probabilities (before temperature and masks) of one sampled position, or of a prompt's token."""

    token_logprob: float
    rank: int
    """1-based rank of the chosen token."""
    top_ids: list[int]
    top_logprobs: list[float]


class TokenOutput(msgspec.Struct, frozen=True, kw_only=True):
    """News about one request from one step. Exactly one output per request has a finish_reason."""

    request_id: str
    token_ids: list[int] = []
    logprobs: list[TokenLogprobs] | None = None
    prompt_logprobs: list[TokenLogprobs] | None = None
    """Of the next tokens of the prompt, the second one first; all of them come before the first sampled token."""
    finish_reason: FinishReason | None = None
    embedding: bytes | None = None
    """[hidden size] fp32, little-endian, as the model gives it; on the terminal output of a request that asked for it."""
    stop_token_id: int | None = None
    """Set when an end or stop token ended the answer; that token is the last of token_ids."""
    num_cached_tokens: int | None = None
    """Tokens known at the arrival that were found in the prefix cache; set on the first output of a request."""
    num_overrun_tokens: int = 0
    """On the terminal output: tokens computed after the end, to be journalled as unbilled."""
    queue_ms: float | None = None
    """Set with the first output: time from arrival in the core to the first scheduled step."""
    error_code: str | None = None
    """With finish_reason "error": `server_is_overloaded`, `context_length_exceeded`, `invalid_grammar`,
    `engine_error`."""
    error_message: str | None = None
    error_param: str | None = None
    """The body field at fault, if it is the caller's."""
    retry_after_s: float | None = None


class LoadStats(msgspec.Struct, frozen=True, kw_only=True):
    """The core's load and lifetime counters at the end of a step."""

    num_running: int = 0
    num_waiting: int = 0
    num_waiting_tokens: int = 0
    kv_usage: float = 0.0
    """Share of KV blocks that running requests hold, 0..1."""
    prefix_queries: int = 0
    """Prompt tokens looked up in the prefix cache so far (each request once)."""
    prefix_hits: int = 0
    num_preemptions: int = 0
    num_pages_offloaded: int = 0
    """Copied to host memory so far, and back from it."""
    num_pages_restored: int = 0
    steps: int = 0
    busy_s: float = 0.0
    """Time in steps so far."""
    step_ms: float = 0.0
    """Duration of the last finished step."""
    batch_tokens: int = 0
    """Of the last finished step, as are its rows and those of its tokens that prompts have."""
    batch_rows: int = 0
    batch_prompt_tokens: int = 0
    predicted_queue_delay_s: float = 0.0
    predicted_ttft_s: float = 0.0
    """Expected time to the first token of a request of the usual size that came now."""
    sustainable_rps: float = 0.0
    """Requests a second, of the kind that came lately, that the engine can go on answering; 0: not known yet."""
    page_waste: float = 0.0
    """Share of the held page slots that no token occupies, 0..1."""
    num_fairness_ids: int = 0
    """Ids that live or still owe, counted in each class."""
    fairness_spread: float = 0.0
    """Virtual tokens between the most and the least served of the ids that wait."""
    graph_hits: int = 0
    """Captured graphs replayed so far, and parts of steps launched without one; a CPU has neither."""
    graph_misses: int = 0
    num_refused: int = 0
    """Requests refused as overload so far: at the door, displaced, or past the queue deadline."""


class CoreReady(msgspec.Struct, frozen=True, kw_only=True, tag="ready"):
    """Weights loaded, worst case run, KV pool sized, graphs captured: requests may come."""

    epoch: str
    """New at every start of a core process; prefix caches and journals are named by it."""
    max_model_len: int
    max_num_seqs: int
    vocab_size: int
    eos_token_ids: tuple[int, ...]
    num_blocks: int
    block_size: int
    dtype: str
    device: str
    embedding_size: int = 0
    """Hidden width of the model."""
    startup_s: float = 0.0
    """From the start of the core process until now."""
    warm_up_s: float = 0.0
    """Of these, what the largest step, its kernels and the graphs took."""
    has_grammars: bool = False
    """Structured output is installed."""


class StepOutputs(msgspec.Struct, frozen=True, kw_only=True, tag="step"):
    """One message per step and API process; also the heartbeat, at least one a second when idle."""

    outputs: list[TokenOutput]
    load: LoadStats
