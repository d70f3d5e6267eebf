"""The autograd function of RowRoute.move."""

from __future__ import annotations

from typing import Any

import torch
import torch.distributed

from evenkeel.routes import RowRoute

__all__ = ["Moving"]


class Moving(torch.autograd.Function):  # type: ignore[misc]
    """Moves rows along a route; gradients take the reverse route."""

    @staticmethod
    def forward(ctx: Any, rows: torch.Tensor, route: RowRoute, group: Any) -> torch.Tensor:
        ctx.route, ctx.group = route, group
        return _move(rows, route, group)

    @staticmethod
    def backward(ctx: Any, gradient: torch.Tensor) -> tuple[torch.Tensor, None, None]:
        return _move(gradient.contiguous(), ctx.route.reversed(), ctx.group), None, None


def _move(rows: torch.Tensor, route: RowRoute, group: Any) -> torch.Tensor:
    sent = rows.index_select(0, route.send_rows)
    received = sent
    if len(route.send_counts) > 1:
        received = sent.new_empty((len(route.receive_rows), *rows.shape[1:]))
        torch.distributed.all_to_all_single(received, sent, route.receive_counts, route.send_counts, group=group)
    return rows.new_zeros((route.num_rows, *rows.shape[1:])).index_add_(0, route.receive_rows, received)
