"""Rows of a micro-batch in another cut, for models whose layers need different ones (docs/hybrid-models.md).

A cut says how the rows of a packed micro-batch are spread over the ranks of its group:

- ``"zigzag"``: each sequence in 2 * cp chunks, of which rank r has chunks r and 2 * cp - 1 - r: equal work in attention;
- ``"contiguous"``: each sequence in cp parts, in order;
- ``"flat"``: the whole micro-batch in cp parts, in order, wherever sequences begin, as flash-linear-attention's context
  parallelism wants it.

The group are the CP ranks or, where sequence parallelism cuts the rows of each of them into ``tp`` equal parts, the tp * cp
ranks, of which member ``cp_rank * tp + tp_rank`` is this one.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np
import numpy.typing as npt

from evenkeel import _core
from evenkeel._core import PackedLayout, PackedTreeLayout

if TYPE_CHECKING:
    import torch

__all__ = ["RowRoute", "SequenceRuns", "halo_route", "row_route", "sequence_runs"]


class RowRoute(NamedTuple):
    """Rows that move between the members of a group, as one of them sees it: gather ``send_rows``, exchange (it fits
    ``all_to_all_single``), and put what arrives at ``receive_rows``. Rows that stay are sent to oneself. Arrays, or tensors
    on any device; counts are lists, as collectives take them."""

    send_rows: Any
    """Local rows, those for member 0 first."""
    send_counts: list[int]
    """How many of them each member gets."""
    receive_rows: Any
    """Where the rows that arrive land, those of member 0 first."""
    receive_counts: list[int]
    """How many of them each member sends."""
    num_rows_before: int
    """Rows of the tensor that rows are sent from."""
    num_rows: int
    """Rows of the tensor that they land in; those where nothing lands are zeros."""

    def reversed(self) -> RowRoute:
        """The way back, which gradients take, too."""
        return RowRoute(
            self.receive_rows, self.receive_counts, self.send_rows, self.send_counts, self.num_rows, self.num_rows_before
        )

    def to(self, device: Any) -> RowRoute:
        """The same with its rows as tensors on a device: once for a micro-batch, for all of its layers."""
        import torch

        send, receive = (torch.as_tensor(rows, device=device) for rows in (self.send_rows, self.receive_rows))
        return self._replace(send_rows=send, receive_rows=receive)

    def move(self, rows: torch.Tensor, *, group: Any = None) -> torch.Tensor:
        """Collective over a process group of torch.distributed (None: all ranks), whose ranks are the members in order, or
        local for one member: a tensor [num_rows_before, ...] in the other cut, [num_rows, ...]. Gradients take the way back,
        and are added up where a row went to several places."""
        if rows.shape[0] != self.num_rows_before:
            _core.raise_error("input", "rows", f"there are {rows.shape[0]}; the route is of {self.num_rows_before}")
        from evenkeel.routes.moving import Moving  # for those who have torch

        return Moving.apply(rows, self.to(rows.device), group)


class SequenceRuns(NamedTuple):
    """Runs of rows that follow each other in a sequence and on one member, in the order of its rows, which they cover:
    [runs] int64 each. A recurrent layer begins each of them with the state after another one."""

    sequence: npt.NDArray[np.int64]
    """Its number in the micro-batch; with shared prefixes, the segment's."""
    begin: npt.NDArray[np.int64]
    """Its first row on the member."""
    end: npt.NDArray[np.int64]
    """The row after its last one, pad rows included."""
    first: npt.NDArray[np.int64]
    """Which row of the sequence its first one is. 0: the sequence begins here."""
    tokens: npt.NDArray[np.int64]
    """True rows; pad rows follow them."""
    member_before: npt.NDArray[np.int64]
    """The member with the state to begin with; -1: the state is zero."""
    run_before: npt.NDArray[np.int64]
    """Which of that member's runs: the state after all of its tokens."""
    row_before: npt.NDArray[np.int64]
    """That run's last token, a row of that member."""
    sequence_before: npt.NDArray[np.int64]
    """That run's sequence; with shared prefixes it may be a segment before this one."""

    @property
    def cu_seqlens(self) -> npt.NDArray[np.int32]:
        """The runs as a varlen kernel takes them: [runs + 1] int32."""
        return np.concatenate([np.zeros(1, np.int32), self.end.astype(np.int32)])


def row_route(
    layout: PackedLayout,
    from_cut: str,
    to_cut: str,
    *,
    cp_rank: int,
    tp_rank: int = 0,
    tp: int = 1,
    dtype: str = "int64",
) -> RowRoute:
    """From one cut to another, for one member: both lists of rows are permutations of its rows. A tree's route is that of its
    ``segments``. ``dtype`` is int32 or int64. Raises InputError where a sequence cannot be cut so: align to 2 * cp * tp."""
    lists = _core.row_route(layout, from_cut, to_cut, cp_rank, tp_rank, tp, dtype)
    return _route(lists, layout.local_rows // tp, layout.local_rows // tp)


def sequence_runs(
    layout: PackedLayout | PackedTreeLayout, cut: str, *, cp_rank: int, tp_rank: int = 0, tp: int = 1
) -> SequenceRuns:
    """A member's runs of sequences, or of the segments of a tree, in a cut. Raises InputError as row_route does."""
    return SequenceRuns(**_core.sequence_runs(layout, cut, cp_rank, tp_rank, tp))


def halo_route(
    layout: PackedLayout | PackedTreeLayout,
    cut: str,
    width: int,
    *,
    cp_rank: int,
    tp_rank: int = 0,
    tp: int = 1,
    dtype: str = "int64",
) -> RowRoute:
    """The tokens before each of a member's runs, for causal convolutions of this width: rows of tensors in this cut land in
    zeros [runs * (width - 1), ...], width - 1 rows a run, oldest first. Raises InputError as row_route does."""
    lists = _core.halo_route(layout, cut, width, cp_rank, tp_rank, tp, dtype)
    runs = len(_core.sequence_runs(layout, cut, cp_rank, tp_rank, tp)["tokens"])
    segments = layout.segments if isinstance(layout, PackedTreeLayout) else layout
    return _route(lists, segments.local_rows // tp, runs * (width - 1))


def _route(lists: tuple[Any, Any, Any, Any], before: int, after: int) -> RowRoute:
    send_rows, send_counts, receive_rows, receive_counts = lists
    return RowRoute(send_rows, send_counts.tolist(), receive_rows, receive_counts.tolist(), before, after)
