"""What nvidia-smi prints, in the forms of three generations of drivers, and a program that prints it."""

from pathlib import Path

__all__ = ["FIRST", "KERNEL_LOG", "LOST", "SECOND", "a100", "h200", "say", "v100"]

FIRST = "GPU-7d1c0f6e-1b52-4f0e-9c59-2f3c1f0a9b01"
SECOND = "GPU-0e9a4b77-5f0d-43d8-8a0b-6f2f6c1d2e02"
_BUSES = ("00000000:18:00.0", "00000000:3B:00.0")


def _log(version: str, gpus: list[str]) -> str:
    parts = "\n".join(gpus)
    return (
        f'<?xml version="1.0" ?>\n<!DOCTYPE nvidia_smi_log SYSTEM "nvsmi_device_{version}.dtd">\n<nvidia_smi_log>\n'
        "\t<timestamp>Mon Nov 30 10:00:00 2026</timestamp>\n\t<driver_version>580.95.05</driver_version>\n"
        f"\t<cuda_version>13.0</cuda_version>\n\t<attached_gpus>{len(gpus)}</attached_gpus>\n{parts}\n</nvidia_smi_log>\n"
    )


def h200(actions: tuple[str, ...] = ("None", "None"), *, pending: str = "No", uncorrectable: int = 0) -> str:
    """A driver that says which recovery each card needs."""
    gpus = [
        f"""\t<gpu id="{bus}">
\t\t<product_name>NVIDIA H200</product_name>
\t\t<mig_mode>
\t\t\t<current_mig>Disabled</current_mig>
\t\t\t<pending_mig>Disabled</pending_mig>
\t\t</mig_mode>
\t\t<mig_devices>
\t\t\tNone
\t\t</mig_devices>
\t\t<uuid>{uuid}</uuid>
\t\t<minor_number>{7 - number}</minor_number>
\t\t<gpu_reset_status>
\t\t\t<reset_required>Requested functionality has been deprecated</reset_required>
\t\t\t<drain_and_reset_recommended>Requested functionality has been deprecated</drain_and_reset_recommended>
\t\t</gpu_reset_status>
\t\t<gpu_recovery_action>{action}</gpu_recovery_action>
\t\t<pci>
\t\t\t<pci_bus_id>{bus}</pci_bus_id>
\t\t</pci>
\t\t<ecc_errors>
\t\t\t<volatile>
\t\t\t\t<sram_correctable>0</sram_correctable>
\t\t\t\t<sram_uncorrectable_parity>0</sram_uncorrectable_parity>
\t\t\t\t<sram_uncorrectable_secded>0</sram_uncorrectable_secded>
\t\t\t\t<dram_correctable>3</dram_correctable>
\t\t\t\t<dram_uncorrectable>{uncorrectable}</dram_uncorrectable>
\t\t\t</volatile>
\t\t</ecc_errors>
\t\t<retired_pages>
\t\t\t<pending_blacklist>N/A</pending_blacklist>
\t\t\t<pending_retirement>N/A</pending_retirement>
\t\t</retired_pages>
\t\t<remapped_rows>
\t\t\t<remapped_row_corr>0</remapped_row_corr>
\t\t\t<remapped_row_unc>0</remapped_row_unc>
\t\t\t<remapped_row_pending>{pending}</remapped_row_pending>
\t\t\t<remapped_row_failure>No</remapped_row_failure>
\t\t</remapped_rows>
\t</gpu>"""
        for number, (bus, uuid, action) in enumerate(zip(_BUSES, (FIRST, SECOND), actions, strict=False))
    ]
    return _log("v13", gpus)


def a100(*, uncorrectable: int = 0, reset: str = "No", failure: str = "No", recommended: str = "No") -> str:
    """One that says no more than whether a reset is required."""
    return _log(
        "v12",
        [
            f"""\t<gpu id="{_BUSES[0]}">
\t\t<product_name>NVIDIA A100-SXM4-80GB</product_name>
\t\t<uuid>{FIRST}</uuid>
\t\t<gpu_reset_status>
\t\t\t<reset_required>{reset}</reset_required>
\t\t\t<drain_and_reset_recommended>{recommended}</drain_and_reset_recommended>
\t\t</gpu_reset_status>
\t\t<ecc_errors>
\t\t\t<volatile>
\t\t\t\t<sram_correctable>0</sram_correctable>
\t\t\t\t<sram_uncorrectable>0</sram_uncorrectable>
\t\t\t\t<dram_correctable>0</dram_correctable>
\t\t\t\t<dram_uncorrectable>{uncorrectable}</dram_uncorrectable>
\t\t\t</volatile>
\t\t</ecc_errors>
\t\t<remapped_rows>
\t\t\t<remapped_row_pending>No</remapped_row_pending>
\t\t\t<remapped_row_failure>{failure}</remapped_row_failure>
\t\t</remapped_rows>
\t</gpu>"""
        ],
    )


def v100(*, double_bit: str = "0", retirement: str = "No", temperature: str = "41 C") -> str:
    """One of before memory rows were remapped."""
    return _log(
        "v10",
        [
            f"""\t<gpu id="{_BUSES[0]}">
\t\t<product_name>Tesla V100-SXM2-32GB</product_name>
\t\t<uuid>{FIRST}</uuid>
\t\t<ecc_errors>
\t\t\t<volatile>
\t\t\t\t<double_bit>
\t\t\t\t\t<device_memory>{double_bit}</device_memory>
\t\t\t\t\t<total>{double_bit}</total>
\t\t\t\t</double_bit>
\t\t\t</volatile>
\t\t</ecc_errors>
\t\t<retired_pages>
\t\t\t<pending_retirement>{retirement}</pending_retirement>
\t\t</retired_pages>
\t\t<remapped_rows>N/A</remapped_rows>
\t\t<temperature>
\t\t\t<gpu_temp>{temperature}</gpu_temp>
\t\t</temperature>
\t</gpu>"""
        ],
    )


LOST = (
    "Unable to determine the device handle for GPU 0000:3B:00.0: GPU is lost.  Reboot the system to recover this GPU\n",
    "Unable to determine the device handle for GPU0000:3B:00.0: Unknown Error\n",
    "Unable to determine the device handle for GPU1: 0000:3B:00.0: Unknown Error\nNo devices were found\n",
)

KERNEL_LOG = """\
4,1200,345678901,-;nvidia 0000:3b:00.0: enabling device (0140 -> 0142)
 SUBSYSTEM=pci
3,1338,845678901,-;NVRM: Xid (PCI:0000:18:00): 31, pid=4242, name=python, Ch 00000008, intr 00000000. MMU Fault
3,1339,945678901,-;NVRM: Xid (PCI:0000:3b:00): 79, pid='<unknown>', name=<unknown>, GPU has fallen off the bus.
"""


def say(directory: Path, text: str, *, code: int = 0) -> None:
    """From now on the `nvidia-smi` of this directory prints that."""
    directory.mkdir(exist_ok=True)
    (directory / "said").write_text(text)
    program = directory / "nvidia-smi"
    fresh = directory / "nvidia-smi.new"
    fresh.write_text(f'#!/bin/sh\n[ "$*" = "-q -x" ] || exit 2\ncat {directory}/said\nexit {code}\n')
    fresh.chmod(0o755)
    fresh.replace(program)
