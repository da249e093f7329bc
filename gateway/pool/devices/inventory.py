"""What is known of a node's GPUs, and how a specification's names for them are read. Pure.

A device is named by its index, as nvidia-smi counts, or by its UUID. Where the driver can be asked everything is turned
into UUIDs, since indices shift when a card is missing; where it cannot, names stay as they were given.
"""

from collections.abc import Collection, Iterable
from dataclasses import dataclass, replace

__all__ = ["Gpu", "Inventory", "merged"]

GONE = "the driver does not list it any more: it fell off the bus"


@dataclass(frozen=True, slots=True)
class Gpu:
    index: int
    uuid: str
    bus_id: str
    fault: str | None = None
    """Why nothing can run on it."""
    doubt: str | None = None
    """Why nothing new should be started on it; what runs may end its work."""
    is_vouched_for: bool = False
    """Its driver says which recovery a card needs, and that this one needs none."""


@dataclass(frozen=True, slots=True)
class Inventory:
    """Empty where no driver answers."""

    gpus: tuple[Gpu, ...] = ()

    def canonical(self, name: int | str) -> str:
        """By UUID if the device is known, else as it is."""
        gpu = self.find(name)
        return gpu.uuid if gpu is not None else str(name)

    def find(self, name: int | str) -> Gpu | None:
        return next((gpu for gpu in self.gpus if str(name) in (gpu.uuid, str(gpu.index))), None)

    def indices(self, names: Iterable[str]) -> tuple[int, ...]:
        """Of those that have one."""
        found = [self.find(name) for name in names]
        known = [gpu.index for gpu in found if gpu is not None]
        return tuple(known) if len(known) == len(found) else tuple(int(n) for n in names if n.isdecimal())

    def free(self, wanted: Collection[int | str], used: Collection[int | str]) -> list[str]:
        """Those of `wanted` that nobody uses and that can be trusted, in their order, each once."""
        taken = {self.canonical(name) for name in used}
        names = dict.fromkeys(self.canonical(name) for name in wanted)
        return [name for name in names if name not in taken and self.why_not(name) is None]

    def why_not(self, name: int | str) -> str | None:
        """Why nothing is started there."""
        gpu = self.find(name)
        return (gpu.fault or gpu.doubt) if gpu is not None else None

    def fault(self, names: Iterable[int | str]) -> str | None:
        """Why what runs on these cannot go on."""
        for name in names:
            gpu = self.find(name)
            if gpu is not None and gpu.fault is not None:
                return f"{gpu.uuid} (GPU {gpu.index}): {gpu.fault}"
        return None


def merged(before: Inventory, now: Inventory) -> Inventory:
    """`now`, with the devices that are missing from it, and the indices by which they were known while they were there."""
    present = {gpu.uuid for gpu in now.gpus}
    gone = [replace(gpu, fault=GONE, doubt=None) for gpu in before.gpus if gpu.uuid not in present]
    if not gone:
        return now
    known = {gpu.uuid: gpu.index for gpu in before.gpus}
    fresh = [gpu for gpu in now.gpus if gpu.uuid not in known]
    free = (index for index in range(len(known) + len(fresh)) if index not in known.values())
    kept = [replace(gpu, index=known[gpu.uuid]) for gpu in now.gpus if gpu.uuid in known]
    added = [replace(gpu, index=index) for gpu, index in zip(fresh, free, strict=False)]
    return Inventory(tuple(sorted([*kept, *added, *gone], key=lambda gpu: gpu.index)))
