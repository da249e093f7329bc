"""Devices are looked at beside everything else, and only as often as is due."""

import asyncio

from gateway.pool.devices import DeviceWatch, Gpu, Inventory
from gateway.pool.devices.watch import EVERY_S
from tests.fakes.clock import ManualClock

A = Gpu(0, "GPU-a", "0000:18:00.0")


class Source:
    """Says what it is told to, when it is let."""

    def __init__(self) -> None:
        self.says: Inventory | OSError | None = Inventory((A,))
        self.let = asyncio.Event()
        self.looks = 0

    async def look(self) -> Inventory | None:
        self.looks += 1
        await self.let.wait()
        if isinstance(self.says, OSError):
            raise self.says
        return self.says


async def settle(watch: DeviceWatch) -> None:
    assert watch._looking is not None
    await watch._looking


async def test_the_first_look_is_waited_for_and_the_next_is_due_later() -> None:
    source, clock = Source(), ManualClock()
    source.let.set()
    watch = DeviceWatch(source, clock)
    await watch.refresh()
    assert watch.inventory.gpus == (A,)
    await watch.refresh()
    assert source.looks == 1
    clock.advance(EVERY_S)
    source.let.clear()
    source.says = Inventory()
    await watch.refresh()  # and does not wait
    await asyncio.sleep(0)  # it has begun
    assert watch.inventory.gpus == (A,)
    clock.advance(EVERY_S)
    await watch.refresh()
    await asyncio.sleep(0)
    assert source.looks == 2, "nobody is asked twice at a time"
    source.let.set()
    await settle(watch)
    assert watch.inventory.fault([0]) == (
        "GPU-a (GPU 0): the driver does not list it any more: it fell off the bus"
    )


async def test_who_cannot_tell_changes_nothing() -> None:
    source, clock = Source(), ManualClock()
    source.let.set()
    watch = DeviceWatch(source, clock)
    await watch.refresh()
    for says in (None, OSError("no memory")):
        source.says = says
        clock.advance(EVERY_S)
        await watch.refresh()
        await settle(watch)
        assert watch.inventory.gpus == (A,)
