"""What a step hands one rank: its micro-batches (docs/micro-batches.md)."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt

from evenkeel import _arrays, _core, routes
from evenkeel._core import PackedLayout, PackedTreeLayout
from evenkeel._fields import RULES, WithFields, counted, dtype_word, handed_out, on_device, raise_as_ours

if TYPE_CHECKING:
    from evenkeel import _service
else:
    from evenkeel._ranks import extension as _service

__all__ = ["MicroBatch", "Step"]


class MicroBatch(WithFields):
    """What one rank runs one forward and backward pass over. Tensors are views of its packed memory, which they keep; they
    are the trainer's own and may be changed, but for those that ranks of a node share, which are read-only."""

    __slots__ = ("_step", "_index")
    _core: _service.MicroBatch

    def __init__(self, core: _service.MicroBatch, step: _service.Step, index: int, tensors: bool) -> None:
        # Not the Step, which has this one: memory of such a circle waits for Python's collector.
        super().__init__(core, tensors)
        self._step, self._index = step, index

    @property
    def tensors(self) -> dict[str, Any]:
        """By name: token fields [local_rows, ...], sample fields [samples, ...] (docs/micro-batches.md); ``rows`` fields
        (rows [any number, ...], offsets [samples + 1]), ``text`` and ``bytes`` fields a list of one value a sample. With
        ``share: equal`` a ``rows`` field is (rows, ranges [samples, 2]): sample i has those from ranges[i, 0] to ranges[i, 1],
        and samples of equal values the same ones. Rows of NumPy are then the node's, to be read alone, and may be of other
        samples too; tensors of torch are a copy of this micro-batch's, each value once. With them ``cu_seqlens``,
        ``cu_seqlens_padded`` and the number ``max_seqlen``, as in a dump."""
        return self._by_name()

    def _made(self, tensors: bool) -> dict[str, Any]:
        true, padded = self._core.offsets()
        return {
            **super()._made(tensors),
            "cu_seqlens": handed_out(true, "int32", tensors),
            "cu_seqlens_padded": handed_out(padded, "int32", tensors),
            "max_seqlen": self.max_seqlen,
        }

    def __repr__(self) -> str:
        return f"MicroBatch({len(self.samples)} samples, {self.num_tokens} tokens: {', '.join(self)})"

    @property
    def samples(self) -> npt.NDArray[np.int64]:
        """Ids of its samples, in packed order; -1 is filler, and padding to a shape."""
        return self._core.samples

    @property
    def empty(self) -> bool:
        """Whether there is no sample in it: it weighs nothing, and is there so that all ranks have as many."""
        return self._core.empty

    @property
    def num_tokens(self) -> int:
        return self._core.num_tokens

    @property
    def mini_batch(self) -> int:
        """The optimizer update it belongs to, 0-based."""
        return self._core.mini_batch

    @property
    def context(self) -> tuple[int, int, int]:
        """Who runs it together: the first place (``dp * cp's size + cp``), how many there are, and this rank's number among
        them. With ``mesh.cp: flexible`` places are DP ranks, and micro-batches have groups of different sizes."""
        return self._core.context

    @property
    def scale(self) -> float:
        """Multiply the sum of ``loss_weights * loss`` by this, and the trainer's reductions give the un-split loss."""
        return self._core.scale

    @property
    def mean_weight(self) -> float:
        """For trainers that insist on local means: multiply the micro-batch's own mean by this instead."""
        return self._core.mean_weight

    @property
    def exact_loss_weights(self) -> Any:
        """``loss_weights`` without their rounding to float32, as float64: for trainers that compute in float64. None where
        there is no loss mask (stages of a pipeline). Made anew each time."""
        return self.exact_loss_weights_at(0)

    def exact_loss_weights_at(self, depth: int) -> Any:
        """The same of ``loss_weights@depth``, with ``pack.predict_ahead``."""
        field = f"loss_weights@{depth}" if depth else "loss_weights"
        places, rounded = next((own[-2:] for own in self._fields() if own[0] == field), (None, None))
        if rounded is None:
            return None
        by_sample = self._core.token_weights_ahead[depth - 1] if depth else self._core.token_weights
        weights = np.zeros(len(rounded))  # filler, behind the samples, weighs nothing
        counts = self._rows_of_samples(len(rounded)) if places is None else np.diff(places)
        known = np.repeat(by_sample, counts[: len(by_sample)])
        weights[: len(known)] = known
        weights[rounded == 0] = 0
        return handed_out(weights, "float64", self._tensors)

    def per_row(self, name: str) -> Any:
        """A sample field, such as an advantage, spread over its samples' packed rows on this rank: [rows, ...], as long as
        ``loss_weights`` (``position_ids`` where there is none), 0 in rows of filler. Copied."""
        values = self[name]  # raises where it is not there
        if self.kinds().get(name) != "sample":
            _core.raise_error("input", f"field {name!r}", "does not have one row for each sample", "Take a sample field")
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
        """Of so many rows on this rank, how many each sequence has; with shared prefixes each sample's predictions."""
        offsets = self._core.prediction_offsets
        if offsets is None:
            padded = self._core.cu_seqlens_padded.astype(np.int64)  # over the CP group, whose ranks have as many rows each
            offsets = padded * rows // padded[-1]
        counts: npt.NDArray[np.int64] = np.diff(offsets)
        return counts

    @property
    def tree(self) -> PackedTreeLayout | None:
        """With shared prefixes, whose sequences are segments: how these hang together, and its sample i is ``samples[i]``.
        ``tree.ancestor_intervals(cp_rank=...)`` is the attention mask. None where nothing is shared."""
        return self._core.tree

    @property
    def schedule(self) -> dict[str, Any] | None:
        """With ``prefix.schedule: dfs``: in which steps to run it with one path in memory at a time, as
        ``tree.depth_first()`` says. None otherwise."""
        return self._core.schedule

    @property
    def layout(self) -> PackedLayout:
        """Where its sequences are, or with shared prefixes their segments, over the whole CP group."""
        return self._core.layout

    def route(self, from_cut: str, to_cut: str, *, tp_rank: int = 0, tp: int = 1, dtype: str = "int64") -> routes.RowRoute:
        """How its rows move from one cut to another over its CP group, or with ``tp`` over the tp * cp ranks of sequence
        parallelism: for layers that need another cut than this rank's tensors have (``layout.cp.layout``). See
        evenkeel.routes. Tensors with a service of tensors."""
        route = routes.row_route(
            self.layout, from_cut, to_cut, cp_rank=self.context[2], tp_rank=tp_rank, tp=tp, dtype=dtype
        )
        return route.to("cpu") if self._tensors else route

    def sequence_runs(self, cut: str, *, tp_rank: int = 0, tp: int = 1) -> routes.SequenceRuns:
        """For recurrent layers: this rank's runs of sequences (of segments, with shared prefixes) in a cut, and whose states
        they begin with."""
        return routes.sequence_runs(self._sequences, cut, cp_rank=self.context[2], tp_rank=tp_rank, tp=tp)

    def halo_route(
        self, cut: str, width: int, *, tp_rank: int = 0, tp: int = 1, dtype: str = "int64"
    ) -> routes.RowRoute:
        """For causal convolutions of this width: the rows before each of ``sequence_runs(cut)``."""
        route = routes.halo_route(
            self._sequences, cut, width, cp_rank=self.context[2], tp_rank=tp_rank, tp=tp, dtype=dtype
        )
        return route.to("cpu") if self._tensors else route

    @property
    def _sequences(self) -> PackedLayout | PackedTreeLayout:
        tree = self.tree
        return self.layout if tree is None else tree

    @property
    def prediction_offsets(self) -> Any:
        """With shared prefixes: sample i has the predictions from ``prediction_offsets[i]`` to ``[i + 1]`` on this rank,
        [samples + 1] int64. None where nothing is shared."""
        offsets = self._core.prediction_offsets
        return None if offsets is None else handed_out(offsets, "int64", self._tensors)

    @property
    def cu_seqlens(self) -> Any:
        """[sequences + 1] int32, true tokens over the whole CP group; with shared prefixes of segments, which see others:
        see ``tree``."""
        return self["cu_seqlens"]

    @property
    def cu_seqlens_padded(self) -> Any:
        """The same of aligned tokens."""
        return self["cu_seqlens_padded"]

    @property
    def max_seqlen(self) -> int:
        return self._core.max_seqlen

    @property
    def max_length(self) -> int:
        """The longest true length, over the whole CP group; ``max_seqlen`` counts pads, too."""
        return self._core.max_length

    @property
    def shape(self) -> tuple[int, int, int, int] | None:
        """With ``micro_batch.shapes``: rows of token fields on this rank, sequences, ``max_seqlen``, and the ranks of
        its context-parallel group. A run has few: the key of a CUDA graph (docs/few-shapes.md). None without."""
        return self._core.shape

    def to(self, device: Any, *, non_blocking: bool = False) -> dict[str, Any]:
        """All tensors on a device, ``cu_seqlens`` too; text, bytes and ``max_seqlen`` as they are. To another device than the
        CPU one copy brings all that lies in the micro-batch's one block (docs/micro-batches.md): they are views of one block there,
        which any of them keeps, so clone what is to stay longer than the others. Copies of pinned memory (``evenkeel.memory``) with
        ``non_blocking`` go on while the program does: the step must live until they are done, as it does inside
        ``for step in service``."""
        return on_device(self._as_tensors(), self._core.arena(), device, non_blocking)

    def nested(self, name: str) -> Any:
        """A token field as a nested tensor, one true sequence a part, without pad. Copied. Raises InputError where this rank
        has no whole sequences: with context parallelism, and with shared prefixes, which leave segments."""
        import torch

        self[name]  # raises where it is not there
        rows = self._as_tensors()[name]
        padded, true = self._core.cu_seqlens_padded, self._core.cu_seqlens
        if isinstance(rows, (tuple, list)):
            _core.raise_error("input", f"field {name!r}", "has rows that samples count", "Take a token field")
        if len(rows) != int(padded[-1]) or self.tree is not None:
            _core.raise_error(
                "input",
                f"field {name!r}",
                f"has {len(rows)} rows here, which are not those of {len(self.samples)} whole sequences",
                "Take a token field, mesh.cp 1 and prefix.share false",
            )
        starts, lengths = padded[:-1].tolist(), np.diff(true).tolist()
        return torch.nested.nested_tensor([rows[start : start + length] for start, length in zip(starts, lengths)])

    def _as_tensors(self) -> dict[str, Any]:
        return self.tensors if self._tensors else self._made(True)

    def packed_seq_params(self, group: Any = None, *, device: Any = None) -> dict[str, Any]:
        """Megatron's PackedSeqParams, as keywords: ``PackedSeqParams(**mb.packed_seq_params(device="cuda"))``, with its
        tensors on that device. With ``mesh.cp: flexible``
        hand in the process group of this micro-batch: Megatron then takes it in place of its own (``cp_group`` and
        ``local_cp_size``, which older versions do not have). Raises InputError with shared prefixes, whose segments see more
        than themselves: see ``tree``."""
        return self._packed_seq_params(self._ends(device), group)

    def _packed_seq_params(self, ends: dict[str, Any], group: Any = None) -> dict[str, Any]:
        """The same with the ends of sequences that these tensors have. Without pad rows both lists are one object: Transformer
        Engine knows by that, without comparing them on the device, that nothing lies between sequences."""
        self._require_whole_sequences("packed_seq_params")
        own = {} if group is None else {"cp_group": group, "local_cp_size": self.context[1]}
        padded = ends["cu_seqlens_padded"]
        has_pad = not np.array_equal(self._core.cu_seqlens, self._core.cu_seqlens_padded)
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
        """Keywords of flash_attn_varlen_func, for a whole sequence on each rank (cp 1), with tensors on that device: rows of
        pad are sequences' ends. Raises InputError with context parallelism, which leaves a rank parts of sequences, and with
        shared prefixes: ``tree.attention()`` then has what the function takes, and the rows of keys and values to gather."""
        self._require_whole_sequences("flash_attn_varlen_kwargs")
        ranks = self.context[1]
        if ranks > 1:
            _core.raise_error("input", "flash_attn_varlen_kwargs", f"describes whole sequences; {ranks} ranks share them here",
                              "Set mesh.cp: 1, or take packed_seq_params() for attention over the ranks")
        offsets = self._ends(device)["cu_seqlens_padded"]
        return {
            "cu_seqlens_q": offsets,
            "cu_seqlens_k": offsets,
            "max_seqlen_q": self.max_seqlen,
            "max_seqlen_k": self.max_seqlen,
        }

    def _ends(self, device: Any) -> dict[str, Any]:
        """The cumulative lengths of sequences, on a device (None: as they are handed out)."""
        names = ("cu_seqlens", "cu_seqlens_padded")
        if device is None:
            return {name: self[name] for name in names}
        tensors = self._as_tensors()
        return {name: tensors[name].to(device) for name in names}

    def _require_whole_sequences(self, what: str) -> None:
        if self.tree is None:
            return
        _core.raise_error(
            "input",
            what,
            f"describes whole sequences; samples share prefixes here, and their {len(self.cu_seqlens) - 1} segments see others",
            "Take micro_batch.tree.attention(), or one of its masks (docs/prefix-sharing.md), or set prefix.share: false",
        )

    def put(self, name: str, rows: Any, *, kind: str) -> None:
        """Adds a result: a row a local packed row (kinds token and response_token) or a sequence (kind sample); for kinds
        rows, text and bytes what Samples take, of as many samples as the micro-batch has, filler too. Copied. What is wrong with it is told when results are collected, on all ranks."""

        def bring() -> tuple[str, npt.NDArray[Any], list[int] | None]:
            try:
                own, counts = counted(kind, name, rows) if kind in RULES and RULES[kind].is_counted else (rows, None)
                values = _arrays.Rows(own, name)
                return dtype_word(values), values.array, counts
            except Exception as error:
                raise_as_ours(error, f"result {name!r}", "could not be put")

        self._step.put(self._index, name, kind, bring)


class Step:
    """What a step hands one rank."""

    __slots__ = ("_core", "_tensors", "_micro_batches")

    def __init__(self, core: _service.Step, tensors: bool) -> None:
        self._core, self._tensors = core, tensors
        self._micro_batches = [
            MicroBatch(part, core, m, tensors) for m, part in enumerate(core.micro_batches())
        ]

    @property
    def micro_batches(self) -> list[MicroBatch]:
        """In the order to run them in. Empty once the step was passed over again."""
        return self._micro_batches if self._core.is_whole else []

    def __iter__(self) -> Iterator[MicroBatch]:
        """Its micro-batches, in the order to run them in."""
        return iter(self.micro_batches)

    def __len__(self) -> int:
        """How many micro-batches this rank has."""
        return len(self.micro_batches)

    def __repr__(self) -> str:
        of = f" of profile {self.profile}" if self.profile else ""
        return (
            f"Step({self.index}{of}: {len(self)} micro-batches here, {self.num_samples} samples and "
            f"{self.num_tokens} tokens over all ranks)"
        )

    @property
    def index(self) -> int:
        return self._core.index

    @property
    def profile(self) -> str:
        return self._core.profile

    @property
    def num_samples(self) -> int:
        """Over all ranks."""
        return self._core.num_samples

    @property
    def num_tokens(self) -> int:
        """Over all ranks."""
        return self._core.num_tokens

    @property
    def num_loss_tokens(self) -> int:
        """Tokens that carry loss, over all ranks. With 0 of them the step trains nothing."""
        return self._core.num_loss_tokens

    @property
    def seconds(self) -> dict[str, float]:
        """Of each phase, on this rank."""
        return self._core.seconds

    @property
    def waited(self) -> float:
        """Seconds that the trainer waited for it."""
        return self._core.waited
