"""Fields of a body that reach the inside of somebody's engine: other requests' caches, weights, code, addresses.

Unknown fields pass to third-party engines, since they are what those are chosen for. These do not: an engine has one
trusted caller, the gateway, and takes from it what no tenant may say. What would change the answer is refused, and
what only steers the machinery is left out and named. It does not know which engine reads which: the names are vLLM's,
SGLang's, llama.cpp's, TensorRT-LLM's and those of gateways that stand in front of such engines.
"""

from __future__ import annotations

from gateway.errors import UnsupportedParameter
from gateway.wire.request import GenerationRequest

__all__ = ["LEFT_OUT", "REFUSED", "left_out", "refuse_inside"]

REFUSED = frozenset(
    {
        # Whose memory: pages of other requests, sessions, prompts that nobody has counted, state that is given out.
        *("kv_transfer_params", "ec_transfer_params", "disaggregated_params", "session_params", "session_id"),
        *("bootstrap_host", "bootstrap_port", "bootstrap_room", "prompt_embeds", "input_embeds", "input_ids"),
        *("return_hidden_states", "return_routed_experts"),
        # What is computed: other weights than those that are paid for, code and templates of the caller's.
        *("lora", "lora_path", "lora_request", "adapter_id", "logits_processors", "custom_logit_processor"),
        *("custom_params", "vllm_xargs", "extra_args", "nvext", "chat_template"),
        # Files and addresses that the engine would fetch.
        *("image_data", "video_data", "audio_data", "mm_processor_kwargs", "multi_modal_data"),
        # Where a gateway behind this one would go instead, and as whom.
        *("models", "fallbacks", "provider", "route", "api_base", "base_url", "api_key", "user_config"),
        *("custom_llm_provider", "mock_response"),
    }
)
LEFT_OUT = frozenset(
    {
        # The gateway's own: a tenant's salt, its place in the queue, the names of its requests.
        *("cache_salt", "extra_key", "priority", "rid", "request_id", "service_tier"),
        # Which part of the engine works on it, and what it keeps.
        *("data_parallel_rank", "routed_dp_rank", "disagg_prefill_dp_rank", "id_slot", "slot_id"),
        *("cache_prompt", "n_keep", "n_discard", "n_cache_reuse", "keep_alive", "options", "store"),
        *("log_metrics",),
    }
)
_PRIVATE = "_"
"""How names begin that are nobody's business outside."""


def refuse_inside(request: GenerationRequest) -> None:
    """Raises UnsupportedParameter. Null is as if it were not there."""
    for name in sorted(REFUSED & request.fields.keys()):
        if request.fields[name] is not None:
            raise UnsupportedParameter(name)


def left_out(request: GenerationRequest) -> frozenset[str]:
    """What of the body does not go to the engine."""
    private = {name for name in request.fields if name.startswith(_PRIVATE)}
    return (LEFT_OUT | REFUSED) & request.fields.keys() | private
