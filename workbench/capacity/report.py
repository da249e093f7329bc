"""A plan as a table for people and as JSON for programs. Knows the plan's records and no arithmetic of its own."""

from __future__ import annotations

from typing import Any

from rich.console import Group, RenderableType
from rich.table import Table
from rich.text import Text

from workbench.capacity.gpus import GIB
from workbench.capacity.plan import Plan

_SOURCES = {"given": "as given", "benchmark": "measured", "bandwidth": "at most, by bandwidth"}


def as_json(plan: Plan) -> dict[str, Any]:
    """Bytes and counts, unrounded."""
    model, fit, wishes, found = plan.model, plan.fit, plan.wishes, plan.replicas
    attention = model.shape.attention
    return {
        "format": "tollway-plan/1",
        "model": {
            "name": model.name,
            "family": model.shape.family,
            "parameters": model.shape.num_parameters,
            "layers": len(attention.windows),
            "windowed_layers": sum(window is not None for window in attention.windows),
            "heads": attention.num_heads,
            "kv_heads": attention.num_kv_heads,
            "head_dim": attention.head_dim,
            "max_positions": model.shape.max_positions,
        },
        "weights": {
            "format": model.weights.format,
            "bytes": round(model.weights.total),
            "bytes_per_gpu": round(fit.weights_per_gpu),
            "stored_bytes": model.stored_bytes,
        },
        "kv": {
            "type": wishes.kv_type,
            "bytes_per_token": fit.bytes_per_token,
            "context_tokens": plan.context_tokens,
            "bytes_per_sequence": fit.bytes_per_sequence,
        },
        "gpu": {
            "name": wishes.gpu.name,
            "memory_bytes": round(wishes.gpu.memory_bytes),
            "utilization": wishes.utilization,
            "workspace_bytes": round(wishes.workspace_gib * GIB),
            "kv_room_bytes": round(fit.kv_room_per_gpu),
            "per_replica": fit.tensor_parallel,
        },
        "sequences": fit.sequences,
        "sequences_within_tpot": fit.sequences_within_tpot,
        "tpot_floor_ms": fit.tpot_floor_ms,
        "slo": {"ttft_ms": wishes.slo.ttft_ms, "tpot_ms": wishes.slo.tpot_ms, "share": wishes.slo.share},
        "replicas": found and {
            "target_qps": found.target_qps,
            "qps_per_replica": found.qps_per_replica,
            "source": found.source,
            "headroom": wishes.headroom,
            "needed": found.needed,
            "spare": found.spare,
            "gpus_needed": found.gpus_needed,
            "gpus_spare": found.gpus_spare,
            "gpus": found.gpus_needed + found.gpus_spare,
        },
        "notes": list(plan.notes),
    }  # fmt: skip


def as_table(plan: Plan) -> RenderableType:
    table = Table(show_header=False, box=None, pad_edge=False)
    table.add_column(style="bold")
    table.add_column()
    for name, value in _rows(plan):
        table.add_row(name, value)
    return Group(table, *(Text(f"note: {note}") for note in plan.notes))


def _rows(plan: Plan) -> list[tuple[str, str]]:
    model, fit, wishes = plan.model, plan.fit, plan.wishes
    shape, gpu = model.shape, wishes.gpu
    attention = shape.attention
    stored = "" if model.stored_bytes is None else f", {_gib(model.stored_bytes)} on disk"
    rows = [
        ("model", f"{model.name} ({shape.family}), {shape.num_parameters / 1e9:.3g} billion parameters"),
        (
            "attention",
            f"{attention.kind}: {attention.num_heads} heads, {attention.num_kv_heads} KV heads of "
            f"{attention.head_dim} in {len(attention.windows)} layers",
        ),
        ("weights", f"{_gib(model.weights.total)} as {model.weights.format}{stored}"),
        ("KV per token", f"{fit.bytes_per_token / 1024:.6g} KiB as {wishes.kv_type}"),
        ("KV per sequence", f"{_gib(fit.bytes_per_sequence)} at {plan.context_tokens:,} tokens"),
        (
            "replica",
            f"{fit.tensor_parallel} x {gpu.name} ({gpu.memory_gib:g} GiB, {wishes.utilization:.0%} used): "
            f"{_gib(fit.weights_per_gpu)} weights, {wishes.workspace_gib:g} GiB work space, "
            f"{_gib(fit.kv_room_per_gpu)} KV each",
        ),
        ("sequences that fit", f"{fit.sequences:,}"),
    ]
    if fit.sequences_within_tpot is not None:
        rows.append(
            ("within the TPOT", f"at most {fit.sequences_within_tpot:,} at {wishes.slo.tpot_ms:g} ms")
        )
    if fit.tpot_floor_ms is not None:
        rows.append(("TPOT then", f"at least {fit.tpot_floor_ms:.1f} ms, by bandwidth"))
    return [*rows, *_replica_rows(plan)]


def _replica_rows(plan: Plan) -> list[tuple[str, str]]:
    found = plan.replicas
    if found is None:
        return []
    headroom = f", {plan.wishes.headroom:.0%} of it left free" if plan.wishes.headroom else ""
    rate = f"{found.qps_per_replica:.4g}/s ({_SOURCES[found.source]}){headroom}"
    return [
        ("rate per replica", rate),
        ("replicas", f"{found.needed} + {found.spare} spare for {found.target_qps:g}/s"),
        ("GPUs", f"{found.gpus_needed} + {found.gpus_spare} = {found.gpus_needed + found.gpus_spare}"),
    ]


def _gib(size: float) -> str:
    return f"{size / GIB:.4g} GiB" if size >= GIB / 100 else f"{size / 2**20:.4g} MiB"
