"""`tollway plan`: its arguments. The arithmetic is `workbench.capacity`'s."""

import json
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from gateway.commands.calling import AsJson
from gateway.commands.failing import fail
from gateway.commands.screen import screen

if TYPE_CHECKING:
    from workbench.capacity.gpus import Gpu
    from workbench.capacity.measured import Measured, Slo


def plan(
    model: Annotated[Path, typer.Argument(help="A checkpoint directory, its config.json, or a GGUF file.")],
    gpu: Annotated[
        str, typer.Option(help="h100, h200, a100-80gb, l4 …; any name with --gpu-memory-gib.")
    ] = "h100",
    gpu_memory_gib: Annotated[float | None, typer.Option(help="Memory of a GPU.", min=0.001)] = None,
    gpu_bandwidth: Annotated[float | None, typer.Option(help="Its bandwidth, GB/s.", min=0.001)] = None,
    tensor_parallel: Annotated[
        int | None, typer.Option(help="GPUs of a replica; the fewest that do if not given.", min=1)
    ] = None,
    context: Annotated[
        int | None, typer.Option(help="Tokens of a sequence, prompt and answer; 4096.", min=2)
    ] = None,
    output_tokens: Annotated[int, typer.Option(help="Of them the answer's.", min=1)] = 256,
    weights: Annotated[
        str, typer.Option(help="auto (as stored), bf16, fp16, fp32, fp8, int8, int4.")
    ] = "auto",
    kv: Annotated[str, typer.Option(help="Keys and values as bf16, fp16, fp8 or fp32.")] = "bf16",
    as_family: Annotated[
        str | None,
        typer.Option("--as", help="Read an unknown config.json like this family's: llama, qwen3_moe …"),
    ] = None,
    gpu_memory_utilization: Annotated[
        float, typer.Option(help="Share of the memory used.", min=0.01, max=1)
    ] = 0.9,
    workspace_gib: Annotated[float, typer.Option(help="Per GPU beside weights and KV.", min=0)] = 1.0,
    qps: Annotated[float | None, typer.Option(help="Requests a second to plan for.", min=0.000001)] = None,
    qps_per_replica: Annotated[
        float | None, typer.Option(help="What a replica takes; else from --benchmark.", min=0.000001)
    ] = None,
    benchmark: Annotated[
        Path | None, typer.Option(help="JSON of `tollway bench`: the rate within the SLO.")
    ] = None,
    benchmark_label: Annotated[str | None, typer.Option(help="Which of its runs.")] = None,
    benchmark_replicas: Annotated[int, typer.Option(help="Replicas behind the measured URL.", min=1)] = 1,
    headroom: Annotated[
        float, typer.Option(help="Share of a replica's rate left free.", min=0, max=0.99)
    ] = 0.0,
    spare: Annotated[int, typer.Option(help="Replicas beyond the load.", min=0)] = 1,
    slo_ttft_ms: Annotated[float | None, typer.Option(help="First token within this.", min=0.001)] = None,
    slo_tpot_ms: Annotated[float | None, typer.Option(help="Then a token within this.", min=0.001)] = None,
    slo_share: Annotated[
        float, typer.Option(help="Share of requests that must keep it.", min=0.01, max=1)
    ] = 0.95,
    as_json: AsJson = False,
) -> None:
    """Capacity: weights, KV per token, sequences that fit, replicas and GPUs for a rate."""
    from workbench.capacity import report
    from workbench.capacity.errors import PlanError
    from workbench.capacity.kv import KV_BYTES
    from workbench.capacity.measured import Slo
    from workbench.capacity.plan import Wishes, make_plan
    from workbench.capacity.source import read_model

    if kv not in KV_BYTES:
        raise typer.BadParameter(f"{kv!r} is not one of {', '.join(KV_BYTES)}", param_hint="--kv")
    slo = Slo(slo_ttft_ms, slo_tpot_ms, slo_share)
    try:
        wishes = Wishes(
            gpu=_gpu(gpu, gpu_memory_gib, gpu_bandwidth),
            tensor_parallel=tensor_parallel,
            context_tokens=context,
            output_tokens=output_tokens,
            kv_type=kv,
            utilization=gpu_memory_utilization,
            workspace_gib=workspace_gib,
            target_qps=qps,
            qps_per_replica=qps_per_replica,
            headroom=headroom,
            spare=spare,
            slo=slo,
        )
        measured = _measured(benchmark, benchmark_label, slo, benchmark_replicas)
        made = make_plan(read_model(model, weights, as_family), wishes, measured)
    except PlanError as error:
        fail(error)
    if as_json:
        typer.echo(json.dumps(report.as_json(made), indent=2))
    else:
        screen().print(report.as_table(made))


def _gpu(name: str, memory_gib: float | None, bandwidth: float | None) -> "Gpu":
    from workbench.capacity.errors import PlanError
    from workbench.capacity.gpus import GPUS, Gpu

    if memory_gib is not None:
        return Gpu(name, memory_gib, bandwidth)
    if name.lower() not in GPUS:
        raise PlanError(f"--gpu {name} is not known: give --gpu-memory-gib, or one of {', '.join(GPUS)}")
    known = GPUS[name.lower()]
    return Gpu(known.name, known.memory_gib, bandwidth or known.bandwidth_gb_s)


def _measured(path: Path | None, label: str | None, slo: "Slo", replicas: int) -> "Measured | None":
    from workbench.capacity.measured import load, rate_within

    return None if path is None else rate_within(load(path, label), slo, replicas)
