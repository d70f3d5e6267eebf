"""Steps and micro-batches: the input of one rank's trainer (docs/micro-batches.md)."""

from __future__ import annotations

import contextlib
import ctypes
from collections.abc import Iterator
from typing import Any

import numpy as np
import numpy.typing as npt

from evenkeel import _arrays, _c, errors, routes
from evenkeel import _prototypes as c
from evenkeel._c import service as lib
from evenkeel._fields import RULES, SHAPE, Block, WithFields, columns_of, count_rows, field_of, fields_of, move_to_device, to_array_or_tensor
from evenkeel._text import counted
from evenkeel.packing import CpGroup, PackedLayout
from evenkeel.prefix import PackedTreeLayout, PrefixTree, schedule_of

__all__ = ["MicroBatch", "Step"]


class Pass(_arrays.Handle):
    """One pass over the samples of a step, and the results that were put into it."""

    __slots__ = ("results",)

    def __init__(self, pointer: Any) -> None:
        super().__init__(pointer, lib.evenkeel_step_destroy)
        self.results: _arrays.Handle | None = None

    def for_next_pass(self) -> Pass:
        """Moves the library's step to a new Pass, for the next pass. This Pass cannot be used afterwards."""
        pointer, self._as_parameter_ = self._as_parameter_, None
        return Pass(pointer)

    @property
    def is_used_up(self) -> bool:
        return self._as_parameter_ is None

    def put(self, micro_batch: int, name: str, kind: str, rows: Any) -> None:
        if self.results is None:
            self.results = _arrays.Handle(_arrays.create(lib.evenkeel_results_create, self), lib.evenkeel_results_destroy)
        try:
            own, counts = count_rows(kind, name, rows) if kind in RULES and RULES[kind].is_counted else (rows, None)
            field = field_of(name, kind, _arrays.Rows(own, name), counts)
        except Exception as error:
            lib.evenkeel_results_fail(self.results, _c.note(error, f"result {name!r}", "could not be added"))
            return
        with contextlib.suppress(errors.Error):  # the results keep the error
            lib.evenkeel_results_put(self.results, micro_batch, field)


class MicroBatch(WithFields):
    """The input of one forward and backward pass on one rank: named fields, ``cu_seqlens``, loss weights and their
    scale.

    Tensors are views of the packed memory of the micro-batch, and keep it alive. The trainer may modify them, except
    those that the ranks of a node share, which are read-only.
    """

    __slots__ = ("_pass", "_index", "_view", "_block", "_found")

    def __init__(self, of: Pass, index: int, view: Any, tensors: bool) -> None:
        # Refers to the Pass, not to the Step: the Step refers to this object, and only Python's garbage collector would
        # free the memory of such a cycle.
        super().__init__(tensors)
        self._pass, self._index, self._view = of, index, view
        self._block: Any = None
        self._found: dict[str, Any] | None = None

    @property
    def _of(self) -> Any:
        """The library's view of the micro-batch, with addresses in the memory of the pass."""
        if self._pass.is_used_up:
            _c.refuse("micro-batch", "belongs to a step that was run again", "Take the micro-batches of the later pass")
        return self._view

    def _details(self) -> dict[str, Any]:
        """Returns the arrays that are needed rarely."""
        if self._found is None:
            self._found = _arrays.named_arrays(lib.evenkeel_step_details, self._pass, self._index)
        return self._found

    def _shapes(self) -> npt.NDArray[Any]:
        view = self._of
        return _arrays.copy_of(ctypes.addressof(view.samples.contents) if view.samples else None, view.num_samples, SHAPE)

    def _ask_for_fields(self) -> list[tuple[Any, ...]]:
        view = self._of
        fields, memory = fields_of(view.num_fields)(), ctypes.c_void_p()
        lib.evenkeel_step_lend(self._pass, self._index, fields, ctypes.byref(memory))
        self._block = Block(_arrays.Handle(memory, lib.evenkeel_memory_destroy), view.arena, view.arena_bytes)
        return columns_of(self._block, fields)

    def _sums(self, address: int) -> npt.NDArray[np.int32]:
        """Returns a copy of cumulative lengths."""
        return _arrays.copy_of(address, self._view.num_sequences + 1, np.int32)

    @property
    def _true(self) -> npt.NDArray[np.int32]:
        return self._sums(self._of.cu_seqlens)

    @property
    def _padded(self) -> npt.NDArray[np.int32]:
        return self._sums(self._of.cu_seqlens_padded)

    @property
    def tensors(self) -> dict[str, Any]:
        """The tensors by name (docs/micro-batches.md#tensors); ``micro_batch[name]`` is one of them.

        Token and response-token fields are [local_rows, ...], and sample fields are [samples, ...]. A ``rows`` field is
        a tuple (rows [any number, ...], offsets [samples + 1]). ``text`` and ``bytes`` fields are lists with one value
        per sample. ``cu_seqlens``, ``cu_seqlens_padded`` and the number ``max_seqlen`` are included, as in a dump.

        With ``share: equal`` a ``rows`` field is a tuple (rows, ranges [samples, 2]). Sample i has the rows from
        ranges[i, 0] to before ranges[i, 1], and samples with equal values have the same range. NumPy rows are then
        shared by the ranks of the node: they are read-only, and may include rows of other samples. torch tensors are a
        copy with the rows of this micro-batch only, each value once."""
        return self._by_name()

    def _make(self, tensors: bool) -> dict[str, Any]:
        view, fields = self._of, super()._make(tensors)
        true, padded = (self._block.sums(address, view.num_sequences + 1, c.EVENKEEL_INT32)
                        for address in (view.cu_seqlens, view.cu_seqlens_padded))
        return {
            **fields,
            "cu_seqlens": to_array_or_tensor(true, "int32", tensors),
            "cu_seqlens_padded": to_array_or_tensor(padded, "int32", tensors),
            "max_seqlen": self.max_seqlen,
        }

    def __repr__(self) -> str:
        return f"MicroBatch({len(self.samples)} samples, {self.num_tokens} tokens: {', '.join(self)})"

    @property
    def samples(self) -> npt.NDArray[np.int64]:
        """The ids of the samples in packed order, [samples] int64. The id -1 marks filler and padding to a shape."""
        return self._shapes()["id"].copy()

    @property
    def empty(self) -> bool:
        """Whether the micro-batch has no sample. An empty micro-batch has weight 0, and exists so that ranks have equal
        numbers of micro-batches."""
        return bool(self._of.empty)

    @property
    def num_tokens(self) -> int:
        return int(self._of.num_tokens)

    @property
    def mini_batch(self) -> int:
        """The number of the optimizer update that the micro-batch belongs to, 0-based."""
        return int(self._of.mini_batch)

    @property
    def context(self) -> tuple[int, int, int]:
        """The group of ranks that runs the micro-batch together: its first place (``dp * cp_size + cp``), its number of
        places, and this rank's number in it. With ``mesh.cp: flexible`` places are DP ranks, and the groups of
        micro-batches differ in size."""
        view = self._of
        return view.context_first, view.context_size, view.context_rank

    @property
    def scale(self) -> float:
        """The factor for the sum of ``loss_weights * loss`` with which the trainer's reductions give the loss of the
        whole mini-batch."""
        return float(self._of.scale)

    @property
    def mean_weight(self) -> float:
        """The factor for the micro-batch's local mean, for trainers that require local means. It replaces ``scale``."""
        return float(self._of.mean_weight)

    @property
    def exact_loss_weights(self) -> Any:
        """``loss_weights`` in float64, before they are rounded to float32, for trainers that compute in float64. None
        if this rank has no ``loss_weights`` (some stages of a pipeline). Computed anew on each access."""
        return self.exact_loss_weights_at(0)

    def exact_loss_weights_at(self, depth: int) -> Any:
        """Returns ``loss_weights@depth`` in float64, for ``pack.predict_ahead``. Depth 0 is ``loss_weights``. None if
        this rank does not have the field."""
        field = f"loss_weights@{depth}" if depth else "loss_weights"
        places, rounded = next((own[-2:] for own in self._fields() if own[0] == field), (None, None))
        if rounded is None:
            return None
        by_sample = self._details()[f"token_weights@{depth}" if depth else "token_weights"]
        weights = np.zeros(len(rounded))  # filler comes after the samples and has weight 0
        counts = self._rows_of_samples(len(rounded)) if places is None else np.diff(places)
        known = np.repeat(by_sample, counts[: len(by_sample)])
        weights[: len(known)] = known
        weights[rounded == 0] = 0
        return to_array_or_tensor(weights, "float64", self._tensors)

    def per_row(self, name: str) -> Any:
        """Returns a sample field, such as an advantage, with one row per packed row of its samples on this rank:
        [rows, ...].

        The result has as many rows as ``loss_weights``, or as ``position_ids`` if there are no ``loss_weights``. Filler
        rows are 0. It is a copy. Raises InputError if the field is not a sample field, and MissingFieldError if it does
        not exist."""
        values = self[name]  # raises if the field does not exist
        if self.kinds().get(name) != "sample":
            _c.raise_error("input", f"field {name!r}", "does not have one row for each sample", "Take a sample field")
        like = self["loss_weights" if "loss_weights" in self else "position_ids"]
        counts = self._rows_of_samples(len(like))[: len(values)]
        if not self._tensors:
            spread = np.zeros((len(like), *values.shape[1:]), values.dtype)
            spread[: counts.sum()] = np.repeat(values, counts, axis=0)
            return spread
        import torch

        spread = values.new_zeros(len(like), *values.shape[1:])
        spread[: int(counts.sum())] = values.repeat_interleave(torch.from_numpy(counts), dim=0)
        return spread

    def _rows_of_samples(self, rows: int) -> npt.NDArray[np.int64]:
        """Returns how many of this rank's ``rows`` rows each sequence has. With shared prefixes, returns the number of
        predictions of each sample."""
        offsets = self._details()["prediction_offsets"] if self._of.shares_prefixes else None
        if offsets is None:
            padded = self._padded.astype(np.int64)  # over the CP group, whose ranks have equal numbers of rows
            offsets = padded * rows // padded[-1]
        return np.diff(offsets)

    @property
    def tree(self) -> PackedTreeLayout | None:
        """The tree of the segments with shared prefixes, whose sample i is ``samples[i]``. None if nothing is shared.

        The sequences of the micro-batch are then segments. ``tree.ancestor_intervals(cp_rank=...)`` is the attention
        mask."""
        return PackedTreeLayout._of(PrefixTree._of(self._details()), self.layout) if self._of.shares_prefixes else None

    @property
    def schedule(self) -> dict[str, Any] | None:
        """The steps that run the micro-batch with one path in memory at a time, in the form of ``tree.depth_first()``,
        with ``prefix.schedule: dfs``. None otherwise."""
        found = {name.removeprefix("schedule_"): value for name, value in self._details().items() if name.startswith("schedule_")}
        return schedule_of(found) if found else None

    @property
    def _member(self) -> tuple[int, int]:
        """This rank's number among the ranks over which the sequences are cut, and their number. They are those of
        ``context``, or 0 and 1 if the rank has whole samples."""
        view = self._of
        is_whole = view.local_rows == int(self._padded[-1])
        return (0, 1) if is_whole else (view.context_rank, view.context_size)

    @property
    def layout(self) -> PackedLayout:
        """The positions of the sequences, or of the segments with shared prefixes, over the whole CP group. With
        ``pack.deliver: samples``, the positions on this rank, as in a group of one."""
        view = self._of
        cp = CpGroup(self._member[1], "zigzag" if view.cp_layout == c.EVENKEEL_ZIGZAG else "contiguous")
        return PackedLayout._of(cp, self._true, self._padded, view.alignment, view.max_seqlen)

    def route(self, from_cut: str, to_cut: str, *, tp_rank: int = 0, tp: int = 1, dtype: str = "int64") -> routes.RowRoute:
        """Returns the route of the rows from one cut to another, for layers that need another cut than this rank's
        tensors have (``layout.cp.layout``). See evenkeel.routes.

        The rows move over the CP group, or with ``tp`` over the tp * cp ranks of sequence parallelism. The route has
        tensors if the service returns tensors."""
        route = routes.row_route(
            self.layout, from_cut, to_cut, cp_rank=self._member[0], tp_rank=tp_rank, tp=tp, dtype=dtype
        )
        return route.to("cpu") if self._tensors else route

    def sequence_runs(self, cut: str, *, tp_rank: int = 0, tp: int = 1) -> routes.SequenceRuns:
        """Returns this rank's runs of sequences in a cut, and the run whose state each of them starts from, for
        recurrent layers. With shared prefixes, these are runs of segments."""
        return routes.sequence_runs(self._sequences, cut, cp_rank=self._member[0], tp_rank=tp_rank, tp=tp)

    def halo_route(
        self, cut: str, width: int, *, tp_rank: int = 0, tp: int = 1, dtype: str = "int64"
    ) -> routes.RowRoute:
        """Returns the route of the rows before each run of ``sequence_runs(cut)``, for causal convolutions of this
        width."""
        route = routes.halo_route(
            self._sequences, cut, width, cp_rank=self._member[0], tp_rank=tp_rank, tp=tp, dtype=dtype
        )
        return route.to("cpu") if self._tensors else route

    @property
    def _sequences(self) -> PackedLayout | PackedTreeLayout:
        tree = self.tree
        return self.layout if tree is None else tree

    @property
    def prediction_offsets(self) -> Any:
        """The offsets of each sample's predictions on this rank with shared prefixes, [samples + 1] int64. None if
        nothing is shared.

        Sample i has the predictions from ``prediction_offsets[i]`` to before ``prediction_offsets[i + 1]``."""
        return to_array_or_tensor(self._details()["prediction_offsets"].copy(), "int64", self._tensors) if self._of.shares_prefixes else None

    @property
    def cu_seqlens(self) -> Any:
        """Prefix sums of the true lengths in tokens over the whole CP group, [sequences + 1] int32. With shared
        prefixes these are lengths of segments, which attend to other segments: see ``tree``."""
        return self["cu_seqlens"]

    @property
    def cu_seqlens_padded(self) -> Any:
        """Prefix sums of the aligned lengths in tokens over the whole CP group, [sequences + 1] int32."""
        return self["cu_seqlens_padded"]

    @property
    def max_seqlen(self) -> int:
        return int(self._of.max_seqlen)

    @property
    def max_length(self) -> int:
        """The maximum true length in tokens over the whole CP group. ``max_seqlen`` includes pad tokens."""
        return int(np.diff(self._true).max(initial=0))

    @property
    def shape(self) -> tuple[int, int, int, int] | None:
        """The shape that the micro-batch was padded to with ``micro_batch.shapes``: rows of token fields on this rank,
        sequences, ``max_seqlen``, and ranks of the context-parallel group. None without ``micro_batch.shapes``.

        A run has few shapes, so this is a key for CUDA graphs (docs/few-shapes.md)."""
        view = self._of
        return (view.local_rows, view.num_sequences, view.max_seqlen, view.context_size) if view.is_shape else None

    def to(self, device: Any, *, non_blocking: bool = False) -> dict[str, Any]:
        """Returns all tensors by name on a device, including ``cu_seqlens``. Text, bytes and ``max_seqlen`` are
        unchanged.

        device        the device; for any device except the CPU, one copy transfers all tensors in the micro-batch's
                      block of memory (docs/micro-batches.md#one-block)
        non_blocking  makes copies of pinned memory (``evenkeel.memory``) in the background. The step must live until
                      they are complete, as it does inside ``for step in service``

        The tensors of the block are views of one block on the device, and each of them keeps the whole block alive.
        Clone those that should live longer than the others.
        """
        tensors = self._as_tensors()
        return move_to_device(tensors, self._block.array, device, non_blocking)

    def nested(self, name: str, *, layout: Any = None) -> Any:
        """Returns a token field, or a ``rows`` field, as a nested tensor with one part per sample, without pad rows. It
        is a copy.

        layout  torch.jagged for a tensor [samples, rows, ...] with ``offsets()``; None: torch's default, torch.strided

        Raises InputError if this rank does not have whole samples: with context parallelism unless
        ``pack.deliver: samples`` is set, and with shared prefixes, where samples are divided into segments. Raises
        MissingFieldError if the field does not exist."""
        import torch

        parts = self.parts(name)
        return torch.nested.nested_tensor(parts) if layout is None else torch.nested.nested_tensor(parts, layout=layout)

    def parts(self, name: str) -> list[Any]:
        """Returns the rows of each sample in a token field or a ``rows`` field as torch tensors, without pad rows. They
        are views. Raises the errors of ``nested``."""
        self[name]  # raises if the field does not exist
        rows = self._as_tensors()[name]
        if isinstance(rows, tuple):
            rows, places = rows
            ranges = places if places.ndim == 2 else zip(places[:-1], places[1:])
            return [rows[begin:end] for begin, end in ranges]
        padded, true = self._padded, self._true
        kind = self.kinds().get(name)
        if kind is None or not RULES[kind].is_cut:
            _c.raise_error("input", f"field {name!r}", "has no rows of tokens", "Take a token field, or one of kind rows")
        if len(rows) != int(padded[-1]) or self.tree is not None:
            _c.raise_error(
                "input",
                f"field {name!r}",
                f"has {counted(len(rows), 'row')} here, not those of {counted(len(self.samples), 'whole sequence')}",
                "Set mesh.cp: 1 or pack.deliver: samples, and prefix.share: false",
            )
        starts, lengths = padded[:-1].tolist(), np.diff(true).tolist()
        return [rows[start : start + length] for start, length in zip(starts, lengths)]

    def _as_tensors(self) -> dict[str, Any]:
        return self.tensors if self._tensors else self._make(True)

    def packed_seq_params(self, group: Any = None, *, device: Any = None) -> dict[str, Any]:
        """Returns the arguments of Megatron's PackedSeqParams:
        ``PackedSeqParams(**mb.packed_seq_params(device="cuda"))``.

        group   the process group of this micro-batch, for ``mesh.cp: flexible``. Megatron then uses it instead of its
                usual one (``cp_group`` and ``local_cp_size``, which older versions do not have)
        device  the device of the tensors; None: unchanged

        Raises InputError with shared prefixes, since their segments attend to other segments: see ``tree``.
        """
        return self._packed_seq_params(self._ends(device), group)

    def _packed_seq_params(self, ends: dict[str, Any], group: Any = None) -> dict[str, Any]:
        """Returns these arguments with the given cumulative lengths.

        Without pad rows the true and the padded lengths are one object. Transformer Engine then knows that there
        are no pads between sequences, without a comparison on the device."""
        self._require_whole_sequences("packed_seq_params")
        own = {} if group is None else {"cp_group": group, "local_cp_size": self.context[1]}
        padded = ends["cu_seqlens_padded"]
        view, size = self._of, 4 * (self._view.num_sequences + 1)
        has_pad = ctypes.string_at(view.cu_seqlens, size) != ctypes.string_at(view.cu_seqlens_padded, size)
        true = ends["cu_seqlens"] if has_pad else padded
        return {
            **own,
            "qkv_format": "thd",
            "cu_seqlens_q": true,
            "cu_seqlens_kv": true,
            "cu_seqlens_q_padded": padded,
            "cu_seqlens_kv_padded": padded,
            "max_seqlen_q": self.max_seqlen,
            "max_seqlen_kv": self.max_seqlen,
        }

    def flash_attn_varlen_kwargs(self, *, device: Any = None) -> dict[str, Any]:
        """Returns the arguments of flash_attn_varlen_func, with tensors on ``device`` (None: their current one).

        Pad rows count as the ends of their sequences. Raises InputError if context parallelism leaves this rank parts
        of sequences only, and with shared prefixes. For shared prefixes, ``tree.attention()`` returns the
        arguments, and the rows of the keys and values to gather."""
        self._require_whole_sequences("flash_attn_varlen_kwargs")
        ranks = self._member[1]
        if ranks > 1:
            _c.raise_error("input", "flash_attn_varlen_kwargs", f"describes whole sequences; {ranks} ranks share them here",
                              "Set mesh.cp: 1 or pack.deliver: samples, or take packed_seq_params() for attention over the ranks")
        offsets = self._ends(device)["cu_seqlens_padded"]
        return {
            "cu_seqlens_q": offsets,
            "cu_seqlens_k": offsets,
            "max_seqlen_q": self.max_seqlen,
            "max_seqlen_k": self.max_seqlen,
        }

    def _ends(self, device: Any) -> dict[str, Any]:
        """Returns the cumulative lengths on a device. None: as the service returns them."""
        names = ("cu_seqlens", "cu_seqlens_padded")
        if device is None:
            return {name: self[name] for name in names}
        tensors = self._as_tensors()
        return {name: tensors[name].to(device) for name in names}

    def _require_whole_sequences(self, what: str) -> None:
        if self.tree is None:
            return
        _c.raise_error(
            "input",
            what,
            "describes whole sequences; samples share prefixes here, and their segments see others",
            "Take micro_batch.tree.attention(), or one of its masks (docs/prefix-sharing.md), or set prefix.share: false",
        )

    def put(self, name: str, rows: Any, *, kind: str) -> None:
        """Adds a result of this micro-batch. The rows are copied.

        name  the name of the result
        rows  for the kinds "token" and "response_token", one row per local packed row; for "sample", one row per
              sequence; for "rows", "text" and "bytes", the values that Samples accepts, for all samples of the
              micro-batch including filler
        kind  the kind of field

        Errors are raised on all ranks when the results are collected.
        """
        self._pass.put(self._index, name, kind, rows)


class Step:
    """The micro-batches and figures of one step on this rank."""

    __slots__ = ("_pass", "_tensors", "_micro_batches", "_info", "_seconds", "_profile")

    def __init__(self, of: Pass, tensors: bool, brought: float = 0.0) -> None:
        """``brought`` is the time in seconds that reading the samples took."""
        self._pass, self._tensors = of, tensors
        self._info, seconds = c.evenkeel_step_info(), c.evenkeel_seconds()
        lib.evenkeel_step_get_info(of, self._info)
        lib.evenkeel_step_get_seconds(of, seconds)
        seconds.read += brought
        self._info.waited_seconds += brought
        self._seconds = {phase: float(getattr(seconds, phase)) for phase, _ in seconds._fields_}
        self._profile = _c.text(self._info.profile)
        views = [c.evenkeel_micro_batch() for _ in range(self._info.num_micro_batches)]
        for m, view in enumerate(views):
            lib.evenkeel_step_micro_batch(of, m, view)
        self._micro_batches = [MicroBatch(of, m, view, tensors) for m, view in enumerate(views)]

    @property
    def micro_batches(self) -> list[MicroBatch]:
        """The micro-batches in the order in which to run them. Empty after another pass over the step (``step_again``)."""
        return [] if self._pass.is_used_up else self._micro_batches

    def __iter__(self) -> Iterator[MicroBatch]:
        """Iterates over the micro-batches in the order in which to run them."""
        return iter(self.micro_batches)

    def __len__(self) -> int:
        """Number of micro-batches on this rank."""
        return len(self.micro_batches)

    def __repr__(self) -> str:
        of = f" of profile {self.profile}" if self.profile else ""
        return (
            f"Step({self.index}{of}: {len(self)} micro-batches here, {self.num_samples} samples and "
            f"{self.num_tokens} tokens over all ranks)"
        )

    @property
    def index(self) -> int:
        return int(self._info.index)

    @property
    def profile(self) -> str:
        return self._profile

    @property
    def num_samples(self) -> int:
        """Number of samples over all ranks."""
        return int(self._info.num_samples)

    @property
    def num_tokens(self) -> int:
        """Number of tokens over all ranks."""
        return int(self._info.num_tokens)

    @property
    def num_loss_tokens(self) -> int:
        """Number of tokens that carry loss, over all ranks. If it is 0, the step trains nothing."""
        return int(self._info.num_loss_tokens)

    @property
    def seconds(self) -> dict[str, float]:
        """Seconds per phase on this rank: ``read``, ``gather``, ``plan``, ``agree``, ``exchange`` and ``pack``."""
        return dict(self._seconds)

    @property
    def waited_seconds(self) -> float:
        """Seconds that the trainer waited for the step."""
        return float(self._info.waited_seconds)
