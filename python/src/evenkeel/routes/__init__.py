"""Moves rows of a micro-batch to another split, for models whose layers need different ones (docs/hybrid-models.md).

A cut defines how the rows of a packed micro-batch are divided among the ranks of its group:

- ``"zigzag"``: each sequence in 2 * cp chunks, of which rank r has chunks r and 2 * cp - 1 - r, for equal work in attention;
- ``"contiguous"``: each sequence in cp parts, in order;
- ``"flat"``: the whole micro-batch in cp parts, in order, regardless of sequences, as flash-linear-attention's context
  parallelism requires.

The group is the CP ranks or, if sequence parallelism cuts each CP rank's rows into ``tp`` equal parts, the tp * cp ranks,
in which this rank is member ``cp_rank * tp + tp_rank``.
"""

from __future__ import annotations

import ctypes
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np
import numpy.typing as npt

from evenkeel import _arrays, _c
from evenkeel import _prototypes as c
from evenkeel._c import lib
from evenkeel._text import counted
from evenkeel.packing import PackedLayout
from evenkeel.prefix import PackedTreeLayout

if TYPE_CHECKING:
    import torch

__all__ = ["RowRoute", "SequenceRuns", "halo_route", "row_route", "sequence_runs"]


_CUTS = {"zigzag": c.EVENKEEL_ZIGZAG, "contiguous": c.EVENKEEL_CONTIGUOUS, "flat": c.EVENKEEL_FLAT}
_DTYPES = {"int32": c.EVENKEEL_INT32, "int64": c.EVENKEEL_INT64}


class RowRoute(NamedTuple):
    """The rows that move between the members of a group, from the perspective of one member: gather ``send_rows``,
    exchange them (as ``all_to_all_single`` does), and put received rows at ``receive_rows``. Rows that stay are sent to the
    member itself. Rows are arrays, or tensors on any device; counts are lists, as collectives take them."""

    send_rows: Any
    """Local rows to send, those for member 0 first."""
    send_counts: list[int]
    """Number of rows for each member."""
    receive_rows: Any
    """Positions of received rows, those from member 0 first."""
    receive_counts: list[int]
    """Number of rows from each member."""
    num_rows_before: int
    """Number of rows of the tensor that rows are sent from."""
    num_rows: int
    """Number of rows of the result; rows that receive nothing are zeros."""

    def reversed(self) -> RowRoute:
        """Returns the reverse route, which gradients take as well."""
        return RowRoute(
            self.receive_rows, self.receive_counts, self.send_rows, self.send_counts, self.num_rows, self.num_rows_before
        )

    def to(self, device: Any) -> RowRoute:
        """Returns the same route with its rows as tensors on a device. Call it once per micro-batch, for all of its layers."""
        import torch

        send, receive = (torch.as_tensor(rows, device=device) for rows in (self.send_rows, self.receive_rows))
        return self._replace(send_rows=send, receive_rows=receive)

    def move(self, rows: torch.Tensor, *, group: Any = None) -> torch.Tensor:
        """Moves a tensor [num_rows_before, ...] to the other cut, [num_rows, ...]. Collective over a process group of
        torch.distributed (None: all ranks), whose ranks are the members in order; local for one member. Gradients take the
        reverse route, and are added if a row was sent to several positions."""
        if rows.shape[0] != self.num_rows_before:
            _c.raise_error("input", "rows", f"has {counted(rows.shape[0], 'row')}, but the route is for {self.num_rows_before}")
        from evenkeel.routes.moving import Moving  # requires torch

        return Moving.apply(rows, self.to(rows.device), group)


class SequenceRuns(NamedTuple):
    """Runs of rows that are consecutive in a sequence and on one member. They cover its rows in order: [runs] int64
    each. A recurrent layer starts each run with the state after another run."""

    sequence: npt.NDArray[np.int64]
    """Number of the sequence in the micro-batch; with shared prefixes, of the segment."""
    begin: npt.NDArray[np.int64]
    """First row on the member."""
    end: npt.NDArray[np.int64]
    """The row after the last one, including pad rows."""
    first: npt.NDArray[np.int64]
    """Position of the first row in the sequence; 0 if the sequence begins here."""
    tokens: npt.NDArray[np.int64]
    """Number of true rows; pad rows follow them."""
    member_before: npt.NDArray[np.int64]
    """The member that has the initial state; -1: the state is zero."""
    run_before: npt.NDArray[np.int64]
    """The run of that member after whose tokens the state is taken."""
    row_before: npt.NDArray[np.int64]
    """The row of that run's last token on that member."""
    sequence_before: npt.NDArray[np.int64]
    """The sequence of that run; with shared prefixes, it may be a segment before this one."""

    @property
    def cu_seqlens(self) -> npt.NDArray[np.int32]:
        """Offsets of the runs in the form that varlen kernels take: [runs + 1] int32."""
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
    """Returns one member's route from one cut to another; both lists of rows are permutations of its rows. For a tree,
    pass its ``segments``. ``dtype`` is int32 or int64. Raises InputError if a sequence cannot be cut this way: align
    to 2 * cp * tp."""
    cuts = (_c.value_of(_CUTS, cut, name) for cut, name in ((from_cut, "from_cut"), (to_cut, "to_cut")))
    lists = _route(lib.evenkeel_layout_route, ctypes.byref(layout._struct), *cuts, _member(cp_rank, tp_rank, tp), dtype)
    return RowRoute(*lists, layout.local_rows // tp, layout.local_rows // tp)


def sequence_runs(
    layout: PackedLayout | PackedTreeLayout, cut: str, *, cp_rank: int, tp_rank: int = 0, tp: int = 1
) -> SequenceRuns:
    """Returns a member's runs of sequences, or of the segments of a tree, in a cut. Raises InputError like row_route."""
    chosen, of = _c.value_of(_CUTS, cut, "cut"), _struct_of(layout)
    return SequenceRuns(**_arrays.named_arrays(lib.evenkeel_layout_sequence_runs, ctypes.byref(of), chosen,
                                               _member(cp_rank, tp_rank, tp)))


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
    """Returns the route of the tokens before each of a member's runs, for causal convolutions of this width: rows of
    tensors in this cut are written to zeros [runs * (width - 1), ...], width - 1 rows per run, oldest first. Raises
    InputError like row_route."""
    chosen, of = _c.value_of(_CUTS, cut, "cut"), _struct_of(layout)
    lists = _route(lib.evenkeel_layout_halo_route, ctypes.byref(of), chosen, _c.int64(width), _member(cp_rank, tp_rank, tp), dtype)
    runs = len(sequence_runs(layout, cut, cp_rank=cp_rank, tp_rank=tp_rank, tp=tp).tokens)
    segments = layout.segments if isinstance(layout, PackedTreeLayout) else layout
    return RowRoute(*lists, segments.local_rows // tp, runs * (width - 1))


def _struct_of(layout: PackedLayout | PackedTreeLayout) -> Any:
    if not isinstance(layout, (PackedLayout, PackedTreeLayout)):
        raise TypeError(f"layout must be a PackedLayout or a PackedTreeLayout, not {type(layout).__name__}")
    return layout._struct


def _member(cp_rank: int, tp_rank: int, tp: int) -> Any:
    return ctypes.byref(c.evenkeel_member(_c.int32(cp_rank), _c.int32(tp_rank), _c.int32(tp)))


def _route(function: Any, *arguments: Any) -> tuple[Any, list[int], Any, list[int]]:
    """Returns the lists of a route, whose rows are arrays over its memory. The last argument is the name of a dtype."""
    found = _arrays.named_arrays(function, *arguments[:-1], _c.value_of(_DTYPES, arguments[-1], "dtype"))
    return found["send_rows"], found["send_counts"].tolist(), found["receive_rows"], found["receive_counts"].tolist()
