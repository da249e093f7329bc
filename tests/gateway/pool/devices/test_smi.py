"""What nvidia-smi and the kernel say, read in the forms of several generations of drivers."""

import asyncio
import os
from pathlib import Path

import pytest

from gateway.pool.devices.smi import NvidiaSmi, lost_devices, parse_smi, parse_xids
from tests.gateway.pool.devices.smi import FIRST, KERNEL_LOG, LOST, SECOND, a100, h200, say, v100


def source(directory: Path, kmsg: str = "") -> NvidiaSmi:
    log = directory / "kmsg"
    log.write_text(kmsg)
    return NvidiaSmi({"PATH": f"{directory}:{os.environ['PATH']}"}, log)


def test_devices_are_counted_as_the_driver_lists_them() -> None:
    found = parse_smi(h200())
    assert found is not None
    assert [(gpu.index, gpu.uuid, gpu.bus_id) for gpu in found.gpus] == [
        (0, FIRST, "00000000:18:00.0"),
        (1, SECOND, "00000000:3B:00.0"),
    ]
    assert [gpu.fault or gpu.doubt for gpu in found.gpus] == [None, None]


@pytest.mark.parametrize(
    ("said", "fault", "doubt"),
    [
        (h200(("Reset",)), "the driver asks for recovery: Reset", None),
        (h200(("Drain and Reset",)), "the driver asks for recovery: Drain and Reset", None),
        (h200(pending="Yes"), None, "a broken memory row waits for a reset to be replaced"),
        (h200(uncorrectable=2), None, None),  # its driver vouches for it
        (a100(), None, None),
        (a100(uncorrectable=2), "2 uncorrectable memory errors since the driver was loaded", None),
        (a100(reset="Yes"), "it has to be reset", None),
        (a100(failure="Yes"), "a broken memory row could not be replaced", None),
        (a100(recommended="Yes"), None, "a reset is recommended"),
        (v100(), None, None),
        (v100(double_bit="1"), "1 uncorrectable memory errors since the driver was loaded", None),
        (v100(double_bit="N/A"), None, None),
        (v100(retirement="Yes"), None, "a broken memory page waits for a reset to be retired"),
        (v100(temperature="GPU is lost"), "GPU is lost", None),
        (v100(temperature="Unknown Error"), "Unknown Error", None),
    ],
)
def test_how_a_device_is(said: str, fault: str | None, doubt: str | None) -> None:
    found = parse_smi(said)
    assert found is not None
    assert (found.gpus[0].fault, found.gpus[0].doubt) == (fault, doubt)


@pytest.mark.parametrize(
    "said", ["", "NVIDIA-SMI has failed because it couldn't communicate", "<nvidia_smi_log>", *LOST]
)
def test_what_is_no_document_is_nothing(said: str) -> None:
    assert parse_smi(said) is None


def test_a_device_that_cannot_be_opened_is_named_by_its_bus() -> None:
    assert [lost_devices(said) for said in LOST] == [
        {"0:3b": "GPU is lost.  Reboot the system to recover this GPU"},
        {"0:3b": "Unknown Error"},
        {"0:3b": "Unknown Error"},
    ]


def test_only_fatal_xids_count() -> None:
    assert parse_xids(KERNEL_LOG.splitlines()) == {"0:3b": "Xid 79: GPU has fallen off the bus."}


async def test_one_that_falls_off_the_bus_is_known_from_before(tmp_path: Path) -> None:
    smi = source(tmp_path)
    say(tmp_path, h200())
    assert await smi.look() is not None
    say(tmp_path, LOST[0], code=15)
    found = await smi.look()
    assert found is not None
    assert [gpu.fault for gpu in found.gpus] == [None, "GPU is lost.  Reboot the system to recover this GPU"]


async def test_a_fatal_xid_counts_unless_the_driver_vouches_for_the_device(tmp_path: Path) -> None:
    log = KERNEL_LOG.replace("0000:3b", "0000:18")
    smi = source(tmp_path, log)
    for said, fault in ((a100(), "Xid 79: GPU has fallen off the bus."), (h200(), None)):
        say(tmp_path, said)
        found = await smi.look()
        assert found is not None
        assert found.gpus[0].fault == fault


async def test_without_the_program_there_are_no_devices_and_from_nonsense_nothing_is_known(
    tmp_path: Path,
) -> None:
    empty = await NvidiaSmi({"PATH": str(tmp_path / "none")}, tmp_path / "kmsg").look()
    assert empty is not None
    assert empty.gpus == ()
    smi = source(tmp_path)
    say(tmp_path, "NVIDIA-SMI has failed because it couldn't communicate with the NVIDIA driver.", code=9)
    assert await smi.look() is None


async def test_a_driver_that_hangs_is_asked_once(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("gateway.pool.devices.smi.TIMEOUT_S", 0.2)
    program = tmp_path / "nvidia-smi"
    program.write_text(f"#!/bin/sh\necho >> {tmp_path}/asked\nexec sleep 600\n")
    program.chmod(0o755)
    smi = source(tmp_path)
    assert await smi.look() is None
    asked = smi._asking
    assert asked is not None
    await asked.wait()  # it was killed
    say(tmp_path, h200())
    async with asyncio.timeout(60):
        found = await smi.look()
    assert found is not None
    assert len(found.gpus) == 2
