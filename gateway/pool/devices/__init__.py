"""The GPUs of a node: which there are, by names that outlive a reboot, and which of them can be trusted."""

from gateway.pool.devices.inventory import Gpu, Inventory, merged
from gateway.pool.devices.smi import DeviceSource, NvidiaSmi
from gateway.pool.devices.watch import DeviceWatch

__all__ = ["DeviceSource", "DeviceWatch", "Gpu", "Inventory", "NvidiaSmi", "merged"]
