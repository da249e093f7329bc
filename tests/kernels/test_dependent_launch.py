"""kernels.dependent_launch: what is only for a GPU leaves the interpreter alone."""

from __future__ import annotations

import torch

from kernels.dependent_launch import pdl_options


def test_only_a_gpu_launches_early() -> None:
    x = torch.zeros(1)
    assert pdl_options(x) == ({"launch_pdl": True} if x.is_cuda else {})
