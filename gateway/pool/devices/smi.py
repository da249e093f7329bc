"""Asking NVIDIA's driver which GPUs there are and how they are, through `nvidia-smi -q -x` and the kernel's log.

Place: under the local launcher. The XML is read leniently: drivers add and rename elements, and say `N/A` for what a card
does not have. A driver that says which recovery a card needs is believed; of one that does not, the counters of
uncorrectable memory errors and the fatal Xids of the kernel's log are. Knows no pools.
"""

import asyncio
import contextlib
import os
import re
import shutil
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import replace
from pathlib import Path
from typing import Protocol
from xml.etree import ElementTree

from gateway.obs.logging import get_logger
from gateway.pool.devices.inventory import Gpu, Inventory

__all__ = ["DeviceSource", "NvidiaSmi", "lost_devices", "parse_smi", "parse_xids", "with_xids"]

TIMEOUT_S = 20.0
"""A driver that hangs hangs whoever asks it."""
KMSG = Path("/dev/kmsg")
KMSG_RECORD_BYTES = 8192

# Double-bit error, page remapping failed, link or firmware dead, off the bus, uncontained memory error.
FATAL_XIDS = frozenset({48, 62, 64, 79, 95, 119, 120, 140})

_XID = re.compile(r"NVRM: Xid \(PCI:([0-9A-Fa-f:.]+)\): (\d+)(?:, (.*))?")
_LOST = re.compile(
    r"Unable to determine the device handle for (?:GPU|gpu)\s?\d*:?\s?([0-9A-Fa-f]{4,8}:[0-9A-Fa-f:.]+): (.+)"
)
_SAYS_IT_IS_BROKEN = ("GPU is lost", "GPU requires reset", "Unknown Error")
_UNCORRECTABLE = (
    "dram_uncorrectable",
    "sram_uncorrectable",
    "sram_uncorrectable_parity",
    "sram_uncorrectable_secded",
)


class DeviceSource(Protocol):
    async def look(self) -> Inventory | None:
        """What is there now; None when nobody could tell."""
        ...


class NvidiaSmi:
    """One question at a time: a driver that hangs gets no second one before the first has ended."""

    def __init__(self, environ: Mapping[str, str] = os.environ, kmsg: Path = KMSG) -> None:
        self._path = environ.get("PATH")
        self._kmsg = kmsg
        self._asking: asyncio.subprocess.Process | None = None
        self._last = Inventory()
        self._log = get_logger(__name__)

    async def look(self) -> Inventory | None:
        program = shutil.which("nvidia-smi", path=self._path)
        if program is None:
            return Inventory()
        if self._asking is not None and self._asking.returncode is None:
            return None
        self._asking = await asyncio.create_subprocess_exec(
            program, "-q", "-x", stdout=asyncio.subprocess.PIPE, stderr=asyncio.subprocess.STDOUT
        )
        try:
            async with asyncio.timeout(TIMEOUT_S):
                said, _ = await self._asking.communicate()
        except TimeoutError:
            self._log.error("nvidia-smi does not answer", seconds=TIMEOUT_S)
            with contextlib.suppress(ProcessLookupError):
                self._asking.kill()
            return None
        return self._read(said.decode(errors="replace"))

    def _read(self, text: str) -> Inventory | None:
        found = parse_smi(text)
        if found is None:
            lost = lost_devices(text)
            if not lost:
                self._log.error("nvidia-smi says nothing that can be read", said=text[:200])
                return None
            # It stops at the first card that it cannot open; of the others nothing new is known.
            found = Inventory(
                tuple(replace(gpu, fault=lost.get(_bus(gpu.bus_id), gpu.fault)) for gpu in self._last.gpus)
            )
        self._last = with_xids(found, parse_xids(_kernel_log(self._kmsg)))
        return self._last


def parse_smi(text: str) -> Inventory | None:
    """Of the XML document in `text`; None if there is none."""
    start, end = text.find("<nvidia_smi_log"), text.rfind("</nvidia_smi_log>")
    if start < 0 or end < 0:
        return None
    try:
        root = ElementTree.fromstring(text[start : end + len("</nvidia_smi_log>")])
    except ElementTree.ParseError:
        return None
    gpus = [_gpu(index, element) for index, element in enumerate(root.findall("gpu"))]
    return Inventory(tuple(gpu for gpu in gpus if gpu is not None))


def lost_devices(text: str) -> dict[str, str]:
    """By bus: what nvidia-smi could not open, in its words."""
    return {_bus(found[1]): found[2].strip() for found in _LOST.finditer(text)}


def parse_xids(lines: Iterable[str]) -> dict[str, str]:
    """By bus: the last fatal error that the driver has written into the kernel's log."""
    fatal = {}
    for line in lines:
        found = _XID.search(line)
        if found is not None and int(found[2]) in FATAL_XIDS:
            words = (found[3] or "").rstrip().rpartition(", ")[2]
            fatal[_bus(found[1])] = f"Xid {found[2]}" + (f": {words}" if words else "")
    return fatal


def with_xids(inventory: Inventory, fatal: Mapping[str, str]) -> Inventory:
    """A card that its driver vouches for is not judged by an old line."""
    return Inventory(
        tuple(
            replace(gpu, fault=gpu.fault or (None if gpu.is_vouched_for else fatal.get(_bus(gpu.bus_id))))
            for gpu in inventory.gpus
        )
    )


def _gpu(index: int, element: ElementTree.Element) -> Gpu | None:
    uuid, bus_id = _text(element, "uuid"), element.get("id") or _text(element, "pci/pci_bus_id")
    if not uuid:
        return None
    action = _text(element, "gpu_recovery_action")
    return Gpu(
        index,
        uuid,
        bus_id,
        _fault(element, action),
        _doubt(element),
        is_vouched_for=action == "None",
    )


def _fault(element: ElementTree.Element, action: str) -> str | None:
    broken = {(one.text or "").strip() for one in element.iter()}
    for words in _SAYS_IT_IS_BROKEN:
        if words in broken:
            return words
    if action not in ("None", "N/A", ""):
        return f"the driver asks for recovery: {action}"
    if _text(element, "gpu_reset_status/reset_required") == "Yes":
        return "it has to be reset"
    if _text(element, "remapped_rows/remapped_row_failure") == "Yes":
        return "a broken memory row could not be replaced"
    errors = sum(_number(element, f"ecc_errors/volatile/{name}") for name in _UNCORRECTABLE)
    errors += _number(element, "ecc_errors/volatile/double_bit/total")
    if errors and action != "None":
        return f"{errors} uncorrectable memory errors since the driver was loaded"
    return None


def _doubt(element: ElementTree.Element) -> str | None:
    if _text(element, "gpu_reset_status/drain_and_reset_recommended") == "Yes":
        return "a reset is recommended"
    if _text(element, "remapped_rows/remapped_row_pending") == "Yes":
        return "a broken memory row waits for a reset to be replaced"
    retired = {
        _text(element, f"retired_pages/{name}") for name in ("pending_blacklist", "pending_retirement")
    }
    return "a broken memory page waits for a reset to be retired" if "Yes" in retired else None


def _text(element: ElementTree.Element, path: str) -> str:
    return (element.findtext(path) or "").strip()


def _number(element: ElementTree.Element, path: str) -> int:
    text = _text(element, path)
    return int(text) if text.isdecimal() else 0


def _bus(text: str) -> str:
    """Domain and bus: the kernel leaves the function out, and nvidia-smi writes a longer domain."""
    domain, bus = text.split(":")[:2] if text.count(":") >= 1 else (text, "")
    return f"{int(domain or '0', 16):x}:{bus.lower()}"


def _kernel_log(path: Path) -> Iterator[str]:
    """What the kernel still has; nothing where it may not be read."""
    try:
        log = os.open(path, os.O_RDONLY | os.O_NONBLOCK)
    except OSError:
        return
    try:
        while record := _next_record(log):
            yield from record.decode(errors="replace").splitlines()
    finally:
        os.close(log)


def _next_record(log: int) -> bytes:
    """Empty at the end. One that was overwritten while it was read is passed over."""
    while True:
        try:
            return os.read(log, KMSG_RECORD_BYTES)
        except BrokenPipeError:
            continue
        except OSError:
            return b""
