"""The plan itself: model, GPU and wishes → sequences that fit, replicas and GPUs. Pure arithmetic.

Joins `weights`, `kv` and `measured`. Files are read by `source`; `report` shows what comes out.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, field

from workbench.capacity import kv
from workbench.capacity.errors import PlanError
from workbench.capacity.gpus import GIB, Gpu
from workbench.capacity.measured import Measured, Slo
from workbench.capacity.shape import Attention
from workbench.capacity.source import Model

_PARALLEL = (1, 2, 4, 8, 16)
DEFAULT_CONTEXT = 4096


@dataclass(frozen=True, slots=True, kw_only=True)
class Wishes:
    """What the operator wants."""

    gpu: Gpu
    tensor_parallel: int | None = None
    """GPUs of a replica; None: the fewest on which a sequence fits."""
    context_tokens: int | None = None
    """Prompt and answer of the sequences planned for; None: 4,096, or what the model knows if that is less."""
    output_tokens: int = 256
    kv_type: str = "bf16"
    utilization: float = 0.9
    workspace_gib: float = 1.0
    """Per GPU: activations, graphs, communication."""
    target_qps: float | None = None
    qps_per_replica: float | None = None
    headroom: float = 0.0
    """Share of a replica's rate that stays unused."""
    spare: int = 1
    """Replicas beyond the load, for the one that fails or is rolled."""
    slo: Slo = field(default_factory=Slo)


@dataclass(frozen=True, slots=True)
class Fit:
    """What a replica holds."""

    tensor_parallel: int
    weights_per_gpu: float
    kv_room_per_gpu: float
    bytes_per_token: int
    bytes_per_sequence: int
    sequences: int
    sequences_within_tpot: int | None
    """How many of them a step can read within the TPOT objective at the memory's bandwidth."""
    tpot_floor_ms: float | None
    """A step at that number of sequences: weights and KV read once at the stated bandwidth. No server is faster."""


@dataclass(frozen=True, slots=True)
class Replicas:
    """Replicas for a rate."""

    target_qps: float
    qps_per_replica: float
    source: str
    needed: int
    spare: int
    gpus_needed: int
    gpus_spare: int


@dataclass(frozen=True, slots=True)
class Plan:
    model: Model
    wishes: Wishes
    context_tokens: int
    fit: Fit
    replicas: Replicas | None
    notes: tuple[str, ...]


def make_plan(model: Model, wishes: Wishes, measured: Measured | None = None) -> Plan:
    """Raises `PlanError` where nothing fits, with what would."""
    context = _context(model, wishes)
    fit = _fit(model, wishes, context)
    replicas, notes = _replicas(wishes, fit, context, measured)
    return Plan(model, wishes, context, fit, replicas, (*_notes(model, wishes, context, fit), *notes))


def replicas_for(target_qps: float, qps_per_replica: float, headroom: float) -> int:
    """140 a second at 35 a replica: 4. A rounding error of the division must not cost a GPU."""
    usable = qps_per_replica * (1 - headroom)
    return max(1, math.ceil(target_qps / usable - 1e-9))


def _context(model: Model, wishes: Wishes) -> int:
    known = model.shape.max_positions
    context = wishes.context_tokens or min(DEFAULT_CONTEXT, known)
    if context > known:
        raise PlanError(f"--context {context:,} is more than the {known:,} positions that {model.name} knows")
    if wishes.output_tokens >= context:
        raise PlanError(
            f"--output-tokens {wishes.output_tokens:,} leave no room for a prompt in --context {context:,}"
        )
    return context


def _fit(model: Model, wishes: Wishes, context: int) -> Fit:
    attention, wished = model.shape.attention, wishes.tensor_parallel
    if wished is None:
        sizes = [tp for tp in _PARALLEL if _is_divisible(attention, tp)]
    else:
        _check_parallel(attention, wished)
        sizes = [wished]
    fits = [_fit_on(model, wishes, context, tp) for tp in sizes]
    for fit in fits:
        if fit.sequences:
            return fit
    raise PlanError(
        f"{_nothing_fits(model, wishes, context, fits[-1])}; {_what_would(model, wishes, context)}"
    )


def _fit_on(model: Model, wishes: Wishes, context: int, tp: int) -> Fit:
    attention, gpu = model.shape.attention, wishes.gpu
    element = kv.KV_BYTES[wishes.kv_type]
    weights = model.weights.per_gpu(tp, attention.num_kv_heads)
    room = gpu.memory_bytes * wishes.utilization - weights - wishes.workspace_gib * GIB
    share = kv.share_per_gpu(attention, tp)
    sequence = kv.bytes_per_sequence(attention, context, element)
    sequences = max(0, math.floor(room / (sequence * share)))
    within = _within_tpot(model, wishes, tp, sequence * share, sequences)
    return Fit(
        tensor_parallel=tp,
        weights_per_gpu=weights,
        kv_room_per_gpu=max(0.0, room),
        bytes_per_token=round(kv.bytes_per_token(attention, element)),
        bytes_per_sequence=round(sequence),
        sequences=sequences,
        sequences_within_tpot=within,
        tpot_floor_ms=_step_ms(model, wishes, tp, sequence * share, sequences if within is None else within),
    )


def _step_ms(model: Model, wishes: Wishes, tp: int, sequence: float, rows: int) -> float | None:
    if wishes.gpu.bandwidth_gb_s is None or rows < 1:
        return None
    read = model.weights.read_per_step(model.shape.active_expert_share, rows) / tp + rows * sequence
    return read / wishes.gpu.bandwidth_gb_s / 1e6


def _within_tpot(model: Model, wishes: Wishes, tp: int, sequence: float, sequences: int) -> int | None:
    """A step grows with its rows: the most that keep the objective are found by halving."""
    limit = wishes.slo.tpot_ms
    if limit is None or wishes.gpu.bandwidth_gb_s is None:
        return None
    low, high = 0, sequences
    while low < high:
        middle = (low + high + 1) // 2
        step = _step_ms(model, wishes, tp, sequence, middle)
        low, high = (middle, high) if step is not None and step <= limit else (low, middle - 1)
    return low


def _replicas(
    wishes: Wishes, fit: Fit, context: int, measured: Measured | None
) -> tuple[Replicas | None, list[str]]:
    if wishes.target_qps is None:
        return None, []
    rate, source, notes = _rate(wishes, fit, measured)
    if rate is None:
        return None, notes
    needed = replicas_for(wishes.target_qps, rate, wishes.headroom)
    gpus = fit.tensor_parallel
    found = Replicas(
        wishes.target_qps, rate, source, needed, wishes.spare, needed * gpus, wishes.spare * gpus
    )
    return found, notes


def _rate(wishes: Wishes, fit: Fit, measured: Measured | None) -> tuple[float | None, str, list[str]]:
    if wishes.qps_per_replica is not None:
        return wishes.qps_per_replica, "given", []
    if measured is not None:
        notes = [] if measured.is_limit else ["the sweep never left the objective: a replica can take more"]
        return measured.qps, "benchmark", notes
    rows = fit.sequences if fit.sequences_within_tpot is None else fit.sequences_within_tpot
    if fit.tpot_floor_ms is None or rows < 1:
        return None, "", ["give --qps-per-replica or --benchmark for the number of replicas"]
    bound = rows / (wishes.output_tokens * fit.tpot_floor_ms / 1e3)
    return bound, "bandwidth", [
        "the rate per replica is what the memory's bandwidth allows at most, prompts not counted: the replicas are no "
        "fewer than these; measure with `tollway bench` and give --benchmark"
    ]  # fmt: skip


def _notes(model: Model, wishes: Wishes, context: int, fit: Fit) -> list[str]:
    notes = []
    windowed = sum(window is not None for window in model.shape.attention.windows)
    if windowed:
        whole = fit.bytes_per_token * context / fit.bytes_per_sequence
        notes.append(
            f"{windowed} of {len(model.shape.attention.windows)} layers have a window: {whole:.1f}x smaller"
        )
    if fit.tensor_parallel > model.shape.attention.num_kv_heads:
        notes.append(f"{fit.tensor_parallel} GPUs repeat the {model.shape.attention.num_kv_heads} KV heads")
    if fit.tensor_parallel > 1:
        notes.append("Tollway's own engine takes one GPU; a pool of kind vllm or sglang serves on several")
    if wishes.slo.ttft_ms is not None and wishes.qps_per_replica is None:
        notes.append(
            "a TTFT objective is judged from --benchmark alone: no arithmetic tells a queue's length"
        )
    if fit.sequences_within_tpot == 0:
        notes.append(
            "reading the weights alone takes longer than --slo-tpot-ms: take fp8 or more GPUs per replica"
        )
    return notes


def _is_divisible(attention: Attention, tp: int) -> bool:
    kv_heads = attention.num_kv_heads
    return attention.num_heads % tp == 0 and (kv_heads % tp == 0 or tp % kv_heads == 0)


def _check_parallel(attention: Attention, tp: int) -> None:
    if not _is_divisible(attention, tp):
        good = [str(size) for size in range(1, 17) if _is_divisible(attention, size)]
        raise PlanError(
            f"{attention.num_heads} heads with {attention.num_kv_heads} KV heads cannot be divided among {tp} GPUs; "
            f"{', '.join(good)} are possible"
        )


def _nothing_fits(model: Model, wishes: Wishes, context: int, fit: Fit) -> str:
    per_gpu = fit.bytes_per_sequence * kv.share_per_gpu(model.shape.attention, fit.tensor_parallel)
    return (
        f"no sequence of {context:,} tokens fits: on each of {fit.tensor_parallel} x {wishes.gpu.name} weights take "
        f"{fit.weights_per_gpu / GIB:.1f} GiB, the sequence {per_gpu / GIB:.2f} GiB and work space "
        f"{wishes.workspace_gib:.1f} GiB of {wishes.gpu.memory_gib * wishes.utilization:.1f} GiB"
    )


def _what_would(model: Model, wishes: Wishes, context: int) -> str:
    for tp in _PARALLEL:
        if _is_divisible(model.shape.attention, tp) and _fit_on(model, wishes, context, tp).sequences:
            return f"it fits on {tp}: --tensor-parallel {tp}"
    return "take a larger --gpu, --weights fp8 or int4, --kv fp8, or a smaller --context"
