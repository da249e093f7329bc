"""EngineSpec: what a pool runs, validated once, and the command line that starts it.

Place: stored as JSON in `pool.spec`, read by the supervisor and the admin API. Knows how to start an
engine, not where (ports, devices and keys are given by a launcher).
"""

import sys
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Literal

from pydantic import AnyHttpUrl, BaseModel, ConfigDict, Field, StrictBool, StringConstraints, model_validator

from gateway.pool.access import trusting

__all__ = [
    "NOT_STARTED_WITH",
    "EngineKind",
    "EngineSpec",
    "FlagValue",
    "KubernetesNeeds",
    "Placement",
    "Scaling",
    "ServedName",
]

EngineKind = Literal["tollway", "vllm", "sglang", "external"]
ServedName = Annotated[str, StringConstraints(pattern=r"^[A-Za-z0-9][A-Za-z0-9._:/-]{0,127}$")]
FlagName = Annotated[str, StringConstraints(pattern=r"^[a-z][a-z0-9-]{0,63}$")]
GpuName = (
    Annotated[int, Field(ge=0, le=1023)]
    | Annotated[str, StringConstraints(pattern=r"^(GPU|MIG)-[0-9A-Za-z/-]{8,100}$")]
)
FlagValue = StrictBool | int | float | str

# Given by the specification or by the launcher; a flag that contradicts them would start a different engine.
OWNED_FLAGS = frozenset(
    {
        "model", "model-path", "served-model-name", "host", "port", "api-key", "internal-key", "journal-dir",
        "tensor-parallel-size", "pipeline-parallel-size", "tp-size", "pp-size", "device",
    }
)  # fmt: skip


NOT_STARTED_WITH = (
    *("min_replicas", "max_replicas", "max_surge", "max_unavailable", "autoscaler", "scaling"),
    "ca_bundle",
)
"""What says how many engines there are, or how they are spoken to: a change of it replaces none."""

CA_BUNDLE_CHARS_MAX = 256 * 1024


@dataclass(frozen=True, slots=True)
class Placement:
    """Where one replica runs, as its launcher decided."""

    host: str
    port: int
    gpus: tuple[int, ...]
    journal_dir: Path
    key: str
    """What the gateway proves itself by: our engines' internal key, any other engine's API key."""
    is_open: bool = False
    """Our engine answers its public routes without a key."""

    @property
    def url(self) -> str:
        return f"http://{self.host}:{self.port}"


class Scaling(BaseModel):
    """When the number of replicas follows the queue."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    waiting_per_replica: float = Field(default=4.0, gt=0, le=10_000)
    """A longer queue asks for more replicas,"""
    queue_delay_s: float = Field(default=2.0, gt=0, le=3600)
    """and so does a longer wait, as our engines predict it."""
    up_after_s: float = Field(default=30.0, ge=1, le=3600)
    """When it has lasted so long."""
    down_after_s: float = Field(default=300.0, ge=1, le=24 * 3600)
    """One replica leaves after so long without a queue, if the others can take the work."""
    cooldown_s: float = Field(default=60.0, ge=0, le=24 * 3600)
    """Between two changes."""


class KubernetesNeeds(BaseModel):
    """What a replica takes of a cluster, which chooses node and devices itself."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    image: str = Field(min_length=1, max_length=512)
    """Best with its digest: what the next pod of the same tag gets may be another engine."""
    hosts: int = Field(default=1, ge=1, le=64)
    """Pods that are one engine together."""
    gpus_per_host: int = Field(default=0, ge=0, le=64)
    cpu: str = Field(default="1", pattern=r"^[0-9]{1,6}m?$")
    memory: str = Field(default="4Gi", pattern=r"^[0-9]{1,6}[MGT]i$")
    """Of each host, asked for and not exceeded."""


class EngineSpec(BaseModel):
    model_config = ConfigDict(frozen=True, extra="forbid")

    kind: EngineKind = "tollway"
    model: str = Field(min_length=1)
    """A path, a GGUF file or a repository name, as the engine understands it."""
    served_names: tuple[ServedName, ...] = Field(min_length=1, max_length=16)
    tensor_parallel: int = Field(default=1, ge=1, le=64)
    pipeline_parallel: int = Field(default=1, ge=1, le=64)
    gpus: tuple[GpuName, ...] = ()
    """Devices dedicated to this pool, by UUID or by nvidia-smi's index; none means the CPU."""
    flags: dict[FlagName, FlagValue] = Field(default_factory=dict)
    """Engine flags without dashes, by vLLM's names; `true` is a bare flag."""
    urls: tuple[AnyHttpUrl, ...] = ()
    """Where an `external` engine answers; somebody else starts it."""
    ca_bundle: str | None = Field(default=None, max_length=CA_BUNDLE_CHARS_MAX)
    """Certificates (PEM) of the authorities that vouch for an `external` engine, in place of the system's."""
    min_replicas: int = Field(default=1, ge=0, le=256)
    max_replicas: int = Field(default=1, ge=1, le=256)
    max_surge: int = Field(default=1, ge=1, le=256)
    """How many more than are wanted may run while a newer specification replaces them; the leaving ones count."""
    max_unavailable: int | None = Field(default=None, ge=0, le=256)
    """How many of them may be missing then, if no device is free for a new one; by default one, but not the last."""

    autoscaler: Literal["tollway", "external"] = "tollway"
    """Who chooses a number between the two; `external`: somebody who writes `min_replicas`."""
    scaling: Scaling = Scaling()
    kubernetes: KubernetesNeeds | None = None
    """Its replicas run in a cluster, by a supervisor that is there; else on machines, by theirs."""

    @property
    def gpus_per_replica(self) -> int:
        return self.tensor_parallel * self.pipeline_parallel if self.gpus else 0

    @property
    def replicas(self) -> int:
        """How many should run while the pool is wanted, if nobody has chosen more."""
        return len(self.urls) if self.kind == "external" else self.min_replicas

    @property
    def follows_queue(self) -> bool:
        """Whether the number between the two is ours to choose."""
        return self.kind != "external" and self.autoscaler == "tollway"

    @property
    def addresses(self) -> tuple[str, ...]:
        """`urls` as a replica's row has them."""
        return tuple(str(url).rstrip("/") for url in self.urls)

    def unavailable_max(self, wanted: int) -> int:
        return min(1, max(wanted - 1, 0)) if self.max_unavailable is None else self.max_unavailable

    @model_validator(mode="after")
    def _consistent(self) -> "EngineSpec":
        if len(set(self.served_names)) != len(self.served_names):
            raise ValueError("served_names: a name is given twice")
        if self.kind == "external":
            return self._consistent_external()
        if self.ca_bundle is not None:
            raise ValueError("ca_bundle: only for kind 'external'; the others are on this machine")
        if self.urls:
            raise ValueError("urls: only for kind 'external'; a launcher gives the others their address")
        if self.kubernetes is not None:
            self._consistent_in_cluster(self.kubernetes)
        if self.min_replicas > self.max_replicas:
            raise ValueError("min_replicas: more than max_replicas")
        if len(set(self.gpus)) != len(self.gpus):
            raise ValueError("gpus: a device is given twice")
        if self.max_replicas * self.gpus_per_replica > len(self.gpus):
            needed = self.max_replicas * self.gpus_per_replica
            raise ValueError(
                f"gpus: {self.max_replicas} replicas need {needed} devices, not {len(self.gpus)}"
            )
        for name, value in self.flags.items():
            if name in OWNED_FLAGS:
                raise ValueError(f"flags: --{name} is set by the pool")
            if value is False:
                raise ValueError(f"flags: --{name} cannot be false; leave it out or name its opposite")
        return self

    def _consistent_in_cluster(self, needs: KubernetesNeeds) -> None:
        if self.gpus:
            raise ValueError("gpus: a cluster chooses its devices; say kubernetes.gpus_per_host")
        if needs.hosts > 1 and self.kind == "tollway":
            raise ValueError("kubernetes.hosts: our engine is on one host")
        shards = self.tensor_parallel * self.pipeline_parallel
        given = needs.hosts * needs.gpus_per_host
        if given and given != shards:
            raise ValueError(f"kubernetes.gpus_per_host: {given} GPUs for {shards} parts of the model")

    def _consistent_external(self) -> "EngineSpec":
        if not self.urls:
            raise ValueError("urls: an external engine needs at least one")
        if len(set(self.urls)) != len(self.urls):
            raise ValueError("urls: an address is given twice")
        for url in self.urls:
            if url.username or url.password or url.query is not None or url.fragment is not None:
                # Not named in the message: it may hold a password.
                raise ValueError(
                    "urls: an address has no user, password, query or fragment; it is shown in clear"
                )
        if self.ca_bundle is not None:
            if not any(url.scheme == "https" for url in self.urls):
                raise ValueError("ca_bundle: no address of the pool is https")
            trusting(self.ca_bundle)
        if self.flags or self.gpus or self.kubernetes is not None:
            raise ValueError("flags, gpus, kubernetes: an external engine is not started here and takes none")
        return self

    def command(self, placement: Placement) -> tuple[str, ...]:
        """The argument vector of one replica."""
        assert self.kind != "external", "nobody starts an external engine"
        names = ("--served-model-name", *self.served_names)
        where = ("--host", placement.host, "--port", str(placement.port))
        flags = tuple(part for name, value in self.flags.items() for part in _flag(name, value))
        match self.kind:
            case "tollway":
                head = (sys.executable, "-m", "engine", "serve", "--model", self.model, *names, *where)
                journal = ("--journal-dir", str(placement.journal_dir))
                parallel = self._parallel("tensor-parallel-size", "pipeline-parallel-size")
                return (*head, *journal, *parallel, *flags)
            case "vllm":
                parallel = self._parallel("tensor-parallel-size", "pipeline-parallel-size")
                return ("vllm", "serve", self.model, *names, *where, *parallel, *flags)
            case "sglang":
                head = (sys.executable, "-m", "sglang.launch_server", "--model-path", self.model)
                name = ("--served-model-name", self.served_names[0])  # it takes one only
                key = ("--api-key", placement.key)  # and reads it from nowhere else
                return (*head, *name, *where, *key, *self._parallel("tp-size", "pp-size"), *flags)

    def environ(self, placement: Placement) -> dict[str, str]:
        """Keys go here where the engine allows it: command lines are visible to the machine's other users."""
        match self.kind:
            case "tollway":
                internal = {"TOLLWAY_ENGINE_INTERNAL_KEY": placement.key}
                return internal if placement.is_open else internal | {"TOLLWAY_ENGINE_API_KEY": placement.key}
            case "vllm":
                return {"VLLM_API_KEY": placement.key}
            case "sglang" | "external":
                return {}

    def _parallel(self, tensor: str, pipeline: str) -> tuple[str, ...]:
        given = ((tensor, self.tensor_parallel), (pipeline, self.pipeline_parallel))
        return tuple(part for name, size in given if size > 1 for part in (f"--{name}", str(size)))


def _flag(name: str, value: FlagValue) -> tuple[str, ...]:
    return (f"--{name}",) if value is True else (f"--{name}", str(value))
