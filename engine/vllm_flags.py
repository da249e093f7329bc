"""Flags of `vllm serve` that are not settings here, each with what becomes of it.

A command line that is moved over either works or is told, in one sentence, what to say instead. Flags that mean the
same are settings of `engine.config` and not listed. `python -m engine.vllm_flags` prints the table of
docs/vllm-flags.md. Knows no engine.
"""

from __future__ import annotations

import argparse
import sys
from collections.abc import Collection, Iterable, Sequence
from dataclasses import dataclass
from typing import Any, Literal

Takes = Literal["nothing", "one", "many"]


@dataclass(frozen=True, slots=True)
class VllmFlag:
    """One flag and its fate: taken without an effect (`neutral` None or holding the value), or refused."""

    names: tuple[str, ...]
    says: str
    takes: Takes = "one"
    neutral: frozenset[str] | None = frozenset()
    """Values that ask for what happens anyway; None: every value does. Empty: the flag is refused."""

    @property
    def spellings(self) -> tuple[str, ...]:
        """With the `--no-` forms of a switch."""
        return self.names + tuple(f"--no-{name[2:]}" for name in self.names if self.takes == "nothing")

    def takes_as(self, spelling: str, values: Collection[str]) -> bool:
        """What a refused switch is not to do does not happen anyway."""
        if self.neutral is None or (self.takes == "nothing" and spelling not in self.names):
            return True
        return bool(values) and self.neutral.issuperset(values)

    @property
    def fate(self) -> str:
        if self.neutral is None:
            return "taken"
        if self.neutral == _UP_TO_20:
            return "taken up to 20"
        values = ", ".join(sorted(self.neutral))
        return f"taken as {values}" if values else "refused"


def add_vllm_flags(parser: argparse.ArgumentParser) -> None:
    """Notes on what was taken without an effect collect in the namespace's `vllm_notes`."""
    parser.set_defaults(vllm_notes=())
    for row in VLLM_FLAGS:
        parser.add_argument(
            *row.spellings,
            dest="vllm_notes",
            action=_TakeOrRefuse,
            nargs={"nothing": 0, "one": None, "many": "+"}[row.takes],
            row=row,
            default=argparse.SUPPRESS,
            help=argparse.SUPPRESS,
        )


class _TakeOrRefuse(argparse.Action):
    def __init__(self, *args: Any, row: VllmFlag, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        self.row = row

    def __call__(
        self,
        parser: argparse.ArgumentParser,
        namespace: argparse.Namespace,
        values: str | Sequence[Any] | None,
        option_string: str | None = None,
    ) -> None:
        spelling = option_string or ""
        given = [values] if isinstance(values, str) else list(values or ())
        if not self.row.takes_as(spelling, given):
            parser.error(f"{' '.join([spelling, *given])}: {self.row.says}")
        namespace.vllm_notes = (*namespace.vllm_notes, f"{spelling}: {self.row.says}")


def _taken(*names: str, says: str, takes: Takes = "one") -> VllmFlag:
    return VllmFlag(names, says, takes, None)


def _only(*names: str, values: Iterable[str], says: str) -> VllmFlag:
    return VllmFlag(names, says, "one", frozenset(values))


def _refused(*names: str, says: str, takes: Takes = "one") -> VllmFlag:
    return VllmFlag(names, says, takes)


_UP_TO_20 = frozenset(map(str, range(21)))

_LOCAL = "nothing is downloaded: --model names files on this machine"
_ONE_GPU = (
    "a replica runs on one GPU; give a pool more replicas, or halve the weights with --quantization fp8"
)
_REPLICAS = "replicas are a pool's, and the gateway spreads requests over them"
_NO_CODE = "no code is loaded at run time"
_TEXT_ONLY = "models read and write text only"
_NO_DRAFTS = "there is no speculative decoding"
_NO_ADAPTERS = "there are no adapters: merge them into the weights and serve the result under its own name"
_TLS = "TLS ends at the gateway's ingress; engines listen on a private address"
_BROWSERS = "browsers talk to the gateway, never to an engine"
_GRAPHS = (
    "there is no compiler, and the sizes of CUDA graphs are chosen here; --enforce-eager goes without graphs"
)
_PACED = "prompts are always cut and paced beside answers: see --max-num-mixed-tokens"
_PROMPTS_SECRET = "prompts are never logged; --journal-dir keeps one record of each request's tokens"
_CONFIG_JSON = "shape and rope come from config.json: change it there"
_GRAMMARS = "grammars are xgrammar's, compiled beside the engine"
_NO_EXPERTS = "no family with experts is served"
_NO_STATES = "models keep keys and values, and no other state"
_BY_SHAPE = "kernels are chosen by shape"
_FIGURES = "figures are at /metrics, not in the log"
_NO_TRANSFER = "pages are not moved between replicas: prompts and answers run in the same engine"

VLLM_FLAGS: tuple[VllmFlag, ...] = (
    # Model and files
    _taken("--trust-remote-code", takes="nothing", says=f"{_NO_CODE}; the families are built in"),
    _taken("--download-dir", "--hf-token", says=_LOCAL),
    _refused("--revision", "--tokenizer-revision", "--code-revision", says=_LOCAL),
    _only("--tokenizer-mode", values=("auto", "hf"), says="tokenizers are read from tokenizer.json"),
    _refused("--skip-tokenizer-init", takes="nothing", says="texts are always tokenised here"),
    _refused("--rope-scaling", "--rope-theta", "--hf-overrides", says=_CONFIG_JSON),
    _only("--config-format", values=("auto", "hf"), says=_CONFIG_JSON),
    _refused("--hf-config-path", says=_CONFIG_JSON),
    _only("--model-impl", values=("auto", "vllm"), says="every family has one implementation"),
    _refused(
        "--override-generation-config",
        says="give --generation-config a directory with another generation_config.json, or none",
    ),
    _refused(
        "--model-loader-extra-config", says="weights are read from safetensors or GGUF files as they are"
    ),
    _taken("--safetensors-load-strategy", says="files are mapped, and read in parallel"),
    _taken("--use-tqdm-on-load", takes="nothing", says="progress is in the log"),
    _refused("--disable-sliding-window", takes="nothing", says="a model's window is part of the model"),
    _refused("--limit-mm-per-prompt", "--mm-processor-kwargs", "--allowed-local-media-path", says=_TEXT_ONLY),
    _taken("--language-model-only", "--skip-mm-profiling", takes="nothing", says=_TEXT_ONLY),
    _taken("--mm-processor-cache-gb", "--mm-encoder-tp-mode", says=_TEXT_ONLY),
    _taken("--disable-chunked-mm-input", "--interleave-mm-strings", takes="nothing", says=_TEXT_ONLY),
    _refused("--enable-prompt-embeds", takes="nothing", says="prompts are texts or tokens"),
    _taken("--max-parallel-loading-workers", says="files are mapped, and read in parallel"),
    _taken("--ignore-patterns", "--pt-load-map-location", says="only safetensors and GGUF files are read"),
    _only("--mamba-cache-dtype", "--mamba-ssm-cache-dtype", values=("auto",), says=_NO_STATES),
    _refused("--enable-lora", takes="nothing", says=_NO_ADAPTERS),
    _refused("--lora-modules", takes="many", says=_NO_ADAPTERS),
    _refused("--max-loras", "--max-lora-rank", "--max-cpu-loras", says=_NO_ADAPTERS),
    _only("--task", values=("auto", "generate", "embed"), says="one engine answers and embeds; see --runner"),
    _only("--convert", values=("auto", "none", "embed"), says="decoders give embeddings as they are"),
    # Parallelism
    _only("--tensor-parallel-size", "-tp", values="1", says=_ONE_GPU),
    _only("--pipeline-parallel-size", "-pp", values="1", says=_ONE_GPU),
    _only("--data-parallel-size", "-dp", values="1", says=_REPLICAS),
    _refused(
        "--data-parallel-address", "--data-parallel-rpc-port", "--data-parallel-size-local", says=_REPLICAS
    ),
    _refused(
        *("--data-parallel-rank", "--data-parallel-start-rank", "--data-parallel-backend"), says=_REPLICAS
    ),
    _refused("--data-parallel-hybrid-lb", "--data-parallel-external-lb", takes="nothing", says=_REPLICAS),
    _refused("--headless", takes="nothing", says=_REPLICAS),
    _only("--nnodes", "-n", values=("1",), says=_ONE_GPU),
    _only("--node-rank", "-r", values=("0",), says=_ONE_GPU),
    _taken("--master-addr", "--master-port", "--distributed-timeout-seconds", says=_ONE_GPU),
    _only("--decode-context-parallel-size", "-dcp", values=("1",), says=_ONE_GPU),
    _only("--prefill-context-parallel-size", "-pcp", values=("1",), says=_ONE_GPU),
    _taken("--ray-workers-use-nsight", takes="nothing", says=_ONE_GPU),
    _only("--distributed-executor-backend", values=("mp", "uni"), says=_ONE_GPU),
    _taken("--disable-custom-all-reduce", takes="nothing", says=_ONE_GPU),
    _refused(
        "--enable-expert-parallel", "-ep", "--enable-eplb", "--enable-dbo", takes="nothing", says=_NO_EXPERTS
    ),
    _taken("--moe-backend", "--all2all-backend", "--expert-placement-strategy", says=_NO_EXPERTS),
    # Scheduling
    _taken("--enable-chunked-prefill", takes="nothing", says=_PACED),
    _taken("--max-num-partial-prefills", "--max-long-partial-prefills", says=_PACED),
    _taken("--long-prefill-token-threshold", says=_PACED),
    _taken("--async-scheduling", takes="nothing", says="steps always overlap with their preparation"),
    _taken("--num-scheduler-steps", says="steps always overlap with their preparation"),
    _only(
        *("--scheduling-policy",),
        values=("fcfs", "priority"),
        says="interactive goes before batch, ids of a class share by weight; priority orders an id's own requests",
    ),
    _refused("--speculative-config", "--speculative-model", "--num-speculative-tokens", says=_NO_DRAFTS),
    # Memory
    _only("--block-size", values=("16",), says="a page holds 16 tokens"),
    _only("--prefix-caching-hash-algo", values=("sha256", "sha256_cbor"), says="pages are found by SHA-256"),
    _only(
        "--cpu-offload-gb",
        values=("0", "0.0"),
        says="weights stay on the GPU: halve them with --quantization fp8",
    ),
    _taken("--swap-space", says="for swapping give --kv-offload-gib, and --preemption-mode swap"),
    _refused("--enable-sleep-mode", takes="nothing", says="a pool that is not needed has no replicas"),
    _refused("--kv-transfer-config", "--kv-events-config", says=_NO_TRANSFER),
    _taken(
        "--calculate-kv-scales", takes="nothing", says="scales of an eight-bit cache follow from the weights"
    ),
    _taken("--attention-backend", "--attention-config", "--performance-mode", says=_BY_SHAPE),
    _taken("--enable-flashinfer-autotune", takes="nothing", says=_BY_SHAPE),
    _taken("--disable-hybrid-kv-cache-manager", takes="nothing", says="windows free their pages behind them"),
    _taken("--use-v2-block-manager", "--multi-step-stream-outputs", takes="nothing", says="there is one way"),
    _only("--num-lookahead-slots", values=("0",), says=_NO_DRAFTS),
    _refused("--kv-sharing-fast-prefill", takes="nothing", says="every layer keeps its own keys and values"),
    _refused("--kv-offloading-backend", says="host memory is --kv-offload-gib"),
    _taken(
        "--disable-cascade-attn", takes="nothing", says="rows that begin alike share the work of one kernel"
    ),
    _taken("--compilation-config", "-O", "-cc", "--optimization-level", says=_GRAPHS),
    _taken("--max-seq-len-to-capture", "--max-cudagraph-capture-size", says=_GRAPHS),
    _taken("--cuda-graph-sizes", "--cudagraph-capture-sizes", takes="many", says=_GRAPHS),
    # Requests and answers
    _only("--response-role", values=("assistant",), says="answers are the assistant's"),
    _only("--chat-template-content-format", values=("auto", "string"), says="text parts are joined"),
    _only("--max-logprobs", values=_UP_TO_20, says="a request may ask for 20 a token, as OpenAI's may"),
    _refused(
        "--return-tokens-as-token-ids",
        takes="nothing",
        says="ask with return_tokens_as_token_ids in the request",
    ),
    _refused(
        *("--enable-force-include-usage",),
        takes="nothing",
        says="ask with stream_options.include_usage in the request; the gateway always does",
    ),
    _taken("--enable-prompt-tokens-details", takes="nothing", says="usage always names cached tokens"),
    _taken("--enable-request-id-headers", takes="nothing", says="every answer has its x-request-id"),
    _taken("--enable-server-load-tracking", takes="nothing", says="/load and every answer's headers tell it"),
    _only("--guided-decoding-backend", values=("auto", "xgrammar"), says=_GRAMMARS),
    _only("--structured-outputs-config.backend", values=("auto", "xgrammar"), says=_GRAMMARS),
    _refused("--structured-outputs-config", says=_GRAMMARS),
    _only(
        "--logprobs-mode",
        values=("raw_logprobs",),
        says="log-probabilities are the model's own, before temperature",
    ),
    _refused(
        *("--exclude-tools-when-tool-choice-none",),
        takes="nothing",
        says="leave tools out of the request to keep them out of the prompt",
    ),
    _refused("--default-chat-template-kwargs", says="give chat_template_kwargs in the request"),
    _taken("--stream-interval", says="a stream is written once a step"),
    _taken("--enable-reasoning", takes="nothing", says="--reasoning-parser decides"),
    _refused("--tool-parser-plugin", "--reasoning-parser-plugin", says=_NO_CODE),
    _refused("--logits-processors", takes="many", says=_NO_CODE),
    _refused("--scheduler-cls", "--io-processor-plugin", "--logits-processor-pattern", says=_NO_CODE),
    _refused("--tool-server", says="tools are called by whoever asks, never by the engine"),
    _refused("--override-pooler-config", says="give --pooler-config"),
    _refused("--worker-cls", "--worker-extension-cls", "--additional-config", "--middleware", says=_NO_CODE),
    # Server
    _taken("--disable-frontend-multiprocessing", takes="nothing", says="see --api-server-workers"),
    _taken("--uvicorn-log-level", "--max-log-len", says=_PROMPTS_SECRET),
    _taken("--disable-log-requests", "--disable-uvicorn-access-log", takes="nothing", says=_PROMPTS_SECRET),
    _taken("--log-config-file", "--disable-access-log-for-endpoints", takes="many", says=_PROMPTS_SECRET),
    _refused("--enable-log-requests", "--enable-log-outputs", takes="nothing", says=_PROMPTS_SECRET),
    _taken("--enable-log-deltas", takes="nothing", says=_PROMPTS_SECRET),
    _taken("--log-error-stack", takes="nothing", says="errors of ours are logged with theirs"),
    _taken("--show-hidden-metrics-for-version", says=_FIGURES),
    _taken("--kv-cache-metrics", "--cudagraph-metrics", takes="nothing", says=_FIGURES),
    _taken("--enable-mfu-metrics", "--enable-layerwise-nvtx-tracing", takes="nothing", says=_FIGURES),
    _taken("--disable-log-stats", takes="nothing", says=_FIGURES),
    _taken(
        "--disable-fastapi-docs",
        takes="nothing",
        says="there are no pages, and /openapi.json needs the key like any route",
    ),
    _refused(
        "--otlp-traces-endpoint",
        "--collect-detailed-traces",
        says="timings are in the journal and at /metrics",
    ),
    _refused("--allowed-origins", "--allowed-methods", "--allowed-headers", says=_BROWSERS),
    _refused("--allow-credentials", takes="nothing", says=_BROWSERS),
    _refused("--ssl-keyfile", "--ssl-certfile", "--ssl-ca-certs", "--ssl-cert-reqs", says=_TLS),
    _refused("--root-path", says="a path before /v1 is the proxy's to take away"),
    _taken(
        "--h11-max-incomplete-event-size", "--h11-max-header-count", says="heads of up to 64 KiB are read"
    ),
    _refused("--uds", says="engines listen on --host and --port"),
    _refused("--config", says="give the flags themselves; a pool keeps them in its spec"),
)


def table() -> str:
    """The rows as Markdown."""
    lines = ["| flag | | what happens here |", "|---|---|---|"]
    for row in VLLM_FLAGS:
        names = " ".join(f"`{name}`" for name in row.names)
        lines.append(f"| {names} | {row.fate} | {row.says} |")
    return "\n".join(lines)


if __name__ == "__main__":
    sys.stdout.write(f"{table()}\n")
