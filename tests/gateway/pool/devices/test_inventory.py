"""Names of devices, and which of them may be given."""

from dataclasses import replace

from gateway.pool.devices import Gpu, Inventory, merged
from gateway.pool.devices.inventory import GONE

A = Gpu(0, "GPU-a", "0000:18:00.0")
B = Gpu(1, "GPU-b", "0000:3b:00.0")
C = Gpu(2, "GPU-c", "0000:86:00.0")
ALL = Inventory((A, B, C))


def test_a_device_is_one_by_whatever_name() -> None:
    """A device that one pool names by its index and another by its UUID is not given twice."""
    assert ALL.free([0, "GPU-a", 1], []) == ["GPU-a", "GPU-b"]
    assert ALL.free([0, 1, 2], ["GPU-b"]) == ["GPU-a", "GPU-c"]
    assert ALL.free(["GPU-b", "GPU-c"], [1, "2"]) == []
    assert ALL.indices(["GPU-c", "GPU-a"]) == (2, 0)


def test_without_a_driver_names_stay_as_they_are() -> None:
    nothing = Inventory()
    assert nothing.free([3, 4, "GPU-x"], ["4"]) == ["3", "GPU-x"]
    assert nothing.indices(["3"]) == (3,)
    assert nothing.indices(["GPU-x"]) == ()
    assert nothing.fault(["3", "GPU-x"]) is None


def test_a_device_in_trouble_is_given_to_nobody() -> None:
    broken, doubtful = replace(A, fault="GPU is lost"), replace(B, doubt="a reset is recommended")
    inventory = Inventory((broken, doubtful, C))
    assert inventory.free([0, 1, 2], []) == ["GPU-c"]
    assert inventory.why_not("GPU-b") == "a reset is recommended"
    assert inventory.fault(["GPU-b", "GPU-c"]) is None, "what runs there may end its work"
    assert inventory.fault(["GPU-c", "0"]) == "GPU-a (GPU 0): GPU is lost"


def test_one_that_is_not_listed_any_more_keeps_its_place() -> None:
    """The others are counted anew by the driver; here an index means what it meant."""
    now = merged(ALL, Inventory((A, replace(C, index=1))))
    assert [(gpu.index, gpu.uuid, gpu.fault) for gpu in now.gpus] == [
        (0, "GPU-a", None),
        (1, "GPU-b", GONE),
        (2, "GPU-c", None),
    ]
    replaced = merged(now, Inventory((A, Gpu(1, "GPU-d", "0000:3b:00.0"), replace(C, index=2))))
    assert [(gpu.index, gpu.uuid) for gpu in replaced.gpus] == [
        (0, "GPU-a"),
        (1, "GPU-b"),
        (2, "GPU-c"),
        (3, "GPU-d"),
    ]
    assert merged(replaced, ALL).find("GPU-b") == B, "and it is well again when it is back"
