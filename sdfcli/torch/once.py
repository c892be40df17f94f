"""Gradients without derivatives of their own: an error in place of wrong second derivatives."""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor


class _Once(torch.autograd.Function):
    generate_vmap_rule = True

    @staticmethod
    def forward(gradient: Tensor, *inputs: Tensor) -> Tensor:
        return gradient.clone()

    @staticmethod
    def setup_context(ctx: Any, inputs: tuple[Tensor, ...], output: Tensor) -> None:
        pass

    @staticmethod
    def backward(ctx: Any, _: Tensor) -> Any:
        raise RuntimeError("distances have first derivatives only: detach their gradients")


def once(gradient: Tensor, *inputs: Tensor) -> Tensor:
    """The gradient. Its derivative, which depends on the inputs, too, raises RuntimeError."""
    if not torch.is_grad_enabled():
        return gradient
    result: Tensor = _Once.apply(gradient, *inputs)
    return result
