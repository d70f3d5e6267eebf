"""Samples that share prefixes: layouts that store every shared token once.

PrefixGroups and PrefixLayout describe one prompt with many responses in padded tensors, as in PrefixGrouper. PrefixTree and
PackedTreeLayout describe any shared prefixes in packed tensors. The functions here move rows between such tensors, which are
as in evenkeel.packing. They do not support gradients: for those, gather by ``TokenPlaces.indices()``.
"""

from __future__ import annotations

import ctypes
import itertools
from collections.abc import Iterable, Sequence
from typing import Any

import numpy as np
import numpy.typing as npt

from evenkeel import _arrays, _c
from evenkeel import _prototypes as c
from evenkeel._c import lib
from evenkeel._text import counted, describe_count
from evenkeel.packing import CpGroup, PackedLayout
from evenkeel.padding import c_mask, lengths_of_mask, mask_bytes

__all__ = [
    "PackedTreeLayout",
    "Predictions",
    "PrefixGroups",
    "PrefixLayout",
    "PrefixTree",
    "TokenPlaces",
    "concat_input",
    "convert_padding",
    "group",
    "groups_from_masks",
    "places_of_mask",
    "split_output",
    "tree_rows",
    "ungroup",
]

Int32s = npt.NDArray[np.int32]
Int64s = npt.NDArray[np.int64]

_UNLIMITED = 2**63 - 1
_KEYS = {"packed": c.EVENKEEL_KEYS_PACKED, "gathered": c.EVENKEEL_KEYS_GATHERED}
_SIDES = {"right": c.EVENKEEL_PAD_RIGHT, "left": c.EVENKEEL_PAD_LEFT}
_SHORT_PREFIXES = {"error": 0, "pad": 1}


class PrefixGroups:
    """The lengths of b prefix groups in tokens: PrefixGrouper's group_info.

    One list per group: the prefix's length, then those of its suffixes. Suffixes are numbered over all groups. Raises
    InputError if there is no group, a group has no suffix or a length is negative.
    """

    __slots__ = ("_offsets", "_lengths")

    def __init__(self, group_info: Iterable[Any]) -> None:
        self._lengths, self._offsets = _arrays.concatenate(group_info, "group_info")
        found = ctypes.c_void_p()
        lib.evenkeel_prefix_split(self._struct("right", None), 0, 0, ctypes.byref(found))  # checks the lengths
        lib.evenkeel_arrays_destroy(found)

    def _struct(self, padding: str, mask: Any) -> Any:
        return c.evenkeel_prefix_groups(len(self), _c.address(self._offsets), _c.address(self._lengths),
                                        _c.value_of(_SIDES, padding, "padding"), mask)

    @staticmethod
    def from_masks(prefix_mask: Any, suffix_mask: Any, group_sizes: Any) -> PrefixGroups:
        """Returns the groups of padded prefixes [b, any] and suffixes [n, any], given masks and each group's number of suffixes."""
        prefixes, suffixes = (lengths_of_mask(mask).tolist() for mask in (prefix_mask, suffix_mask))
        sizes = _arrays.integers(group_sizes, "group_sizes").tolist()
        if len(sizes) != len(prefixes):
            _c.refuse("group sizes", f"{describe_count(len(sizes), 'size')} for {counted(len(prefixes), 'prefix', 'prefixes')}")
        if min(sizes, default=0) < 0:
            _c.refuse("group sizes", f"contain {min(sizes)}; a size cannot be negative")
        if sum(sizes) != len(suffixes):
            _c.refuse("group sizes", f"add up to {sum(sizes)}, but the number of suffixes is {len(suffixes)}")
        following = iter(suffixes)
        return PrefixGroups([prefix, *itertools.islice(following, size)] for prefix, size in zip(prefixes, sizes))

    def __len__(self) -> int:
        return len(self._offsets) - 1

    @property
    def num_suffixes(self) -> int:
        return len(self._lengths) - len(self)

    @property
    def prefixes(self) -> Int64s:
        """Lengths of all prefixes: [b] int64."""
        return self._lengths.take(self._offsets[:-1])

    @property
    def suffixes(self) -> Int64s:
        """Lengths of all suffixes, group after group: [n] int64."""
        return np.delete(self._lengths, self._offsets[:-1])

    def to_lists(self) -> list[list[int]]:
        """Returns the group_info."""
        return [lengths.tolist() for lengths in np.split(self._lengths, self._offsets[1:-1])]

    def __eq__(self, other: object) -> bool:
        return isinstance(other, PrefixGroups) and self.to_lists() == other.to_lists()

    __hash__ = None  # type: ignore[assignment]

    def __repr__(self) -> str:
        return f"PrefixGroups({self.to_lists()})"

    def __reduce__(self) -> tuple[Any, ...]:
        return PrefixGroups, (self.to_lists(),)


class TokenPlaces:
    """The positions of tokens 0..n-1 in a padded [batch, width] tensor.

    Two TokenPlaces with the same number of tokens describe a copy, in either direction.
    """

    __slots__ = ("_shape", "_runs", "_struct")

    def __init__(self, shape: Sequence[int], runs: Int64s) -> None:
        """Takes (batch, width), and the row, first column and number of tokens of each run: [runs, 3] int64."""
        self._shape, self._runs = (shape[0], shape[1]), runs
        self._struct = c.evenkeel_places(*shape, len(runs), _c.address(runs))

    @staticmethod
    def from_mask(mask: Any) -> TokenPlaces:
        """Returns the positions at which a mask [batch, width] is 1, row by row."""
        entries = mask_bytes(mask)
        return TokenPlaces(entries.shape, _arrays.named_arrays(lib.evenkeel_places_of_mask, c_mask(entries))["runs"])

    @staticmethod
    def from_lengths(lengths: Any, *, width: int | None = None, side: str = "right") -> TokenPlaces:
        """Returns the positions in dense rows of these lengths, padded on one side to ``width``, by default the maximum length."""
        sizes, at_left = _arrays.integers(lengths, "lengths"), _c.value_of(_SIDES, side, "side") == c.EVENKEEL_PAD_LEFT
        shape = (len(sizes), int(sizes.max(initial=0)) if width is None else _c.int64(width))
        if shape[1] < 0:
            _c.refuse("width", f"is {shape[1]}; it must be at least 0")
        if (wrong := (sizes < 0) | (sizes > shape[1])).any():
            row = int(wrong.argmax())
            _c.refuse(f"lengths[{row}]", f"is {sizes[row]}; it must be from 0 to the width, {shape[1]}")
        runs = np.stack([np.arange(len(sizes)), shape[1] - sizes if at_left else np.zeros_like(sizes), sizes], axis=1)
        return TokenPlaces(shape, runs[sizes > 0])

    def __len__(self) -> int:
        return int(self._runs[:, 2].sum())

    @property
    def shape(self) -> tuple[int, int]:
        """(batch, width)."""
        return self._shape

    def mask(self) -> npt.NDArray[np.bool_]:
        """Returns where tokens are: bool [batch, width]."""
        mask = np.zeros(self._shape, np.bool_)
        mask.reshape(-1)[self.indices()] = True
        return mask

    def indices(self) -> Int64s:
        """Returns row * width + column of every token: [n] int64, for index_select and index_add on a flattened tensor."""
        rows, columns, sizes = self._runs.T
        return _arrays.ranges(rows * self._shape[1] + columns, sizes)

    def __eq__(self, other: object) -> bool:
        return isinstance(other, TokenPlaces) and self._shape == other._shape and np.array_equal(self._runs, other._runs)

    __hash__ = None  # type: ignore[assignment]


Places = tuple[TokenPlaces, TokenPlaces]


class PrefixLayout:
    """Shared-prefix tensors of b groups with n suffixes, as in PrefixGrouper.

    Has the positions of every token in the grouped tensor [b, s], with rows ``[prefix | suffix 1 | ... | suffix G]``; in the
    prefix tensor [b, sp], left-padded; and in the suffix tensor [n, ss], right-padded. ``padding`` is the side of the grouped
    tensor's padding; ``mask``, [b, s], specifies the tokens' positions instead.
    """

    __slots__ = ("_groups", "_mask", "_struct", "_grouped", "_prefix", "_suffix")

    def __init__(self, groups: PrefixGroups, *, padding: str = "right", mask: Any = None) -> None:
        self._groups, self._mask = groups, None if mask is None else mask_bytes(mask)
        self._struct = groups._struct(padding, None if self._mask is None else ctypes.pointer(c_mask(self._mask)))
        self._grouped, self._prefix, self._suffix = self._split(0, "error")

    def _split(self, include_prefix_last: int, short_prefix: str) -> tuple[TokenPlaces, Places, Places]:
        found = _arrays.named_arrays(lib.evenkeel_prefix_split, self._struct, _c.int64(include_prefix_last),
                                     _c.value_of(_SHORT_PREFIXES, short_prefix, "short_prefix"))
        grouped, prefix, suffix = found["shapes"].tolist()
        return (TokenPlaces(grouped, found["grouped"]),
                (TokenPlaces(grouped, found["prefix_source"]), TokenPlaces(prefix, found["prefix"])),
                (TokenPlaces(grouped, found["suffix_source"]), TokenPlaces(suffix, found["suffix"])))

    @property
    def groups(self) -> PrefixGroups:
        return self._groups

    @property
    def grouped(self) -> TokenPlaces:
        """The positions of all tokens in the grouped tensor."""
        return self._grouped

    @property
    def prefix(self) -> Places:
        """The positions of the prefixes' tokens in the grouped tensor, and in the prefix tensor."""
        return self._prefix

    @property
    def suffix(self) -> Places:
        """The positions of the suffixes' tokens in the grouped tensor, and in the suffix tensor."""
        return self._suffix

    def suffix_keys(self) -> Places:
        """Returns the keys of suffix attention: their positions in the grouped tensor, and in a tensor [n, sp + ss]."""
        return self._split(int(self._groups.prefixes.max()), "pad")[2]

    def split(self, include_prefix_last: int = 0, *, short_prefix: str = "error") -> tuple[Places, Places]:
        """Returns (prefix, suffix) like the properties, but with the last tokens of every prefix before each of its suffixes.
        ``short_prefix`` is the treatment of a prefix with fewer tokens: "error" or "pad"."""
        return self._split(include_prefix_last, short_prefix)[1:]

    def position_ids(self, padding: int = 0) -> Int64s:
        """Returns [b, s] int64: a prefix counts from 0, a suffix from its prefix's length; ``padding`` elsewhere."""
        ids = np.empty(self._grouped.shape, np.int64)
        lib.evenkeel_prefix_position_ids(self._struct, _c.int64(padding), _c.address(ids))
        return ids

    def __eq__(self, other: object) -> bool:
        return isinstance(other, PrefixLayout) and self._groups == other._groups and self._grouped == other._grouped

    __hash__ = None  # type: ignore[assignment]


class PrefixTree:
    """Samples that share prefixes, and prefixes of prefixes, with every shared token once.

    Segments are numbered depth-first: a parent, then the subtree of each child. Their rows are concatenated in that order. A
    sample is the path of segments from a root to the one where it ends (-1 for an empty sample). The constructor takes the
    structure: each segment's parent (-1 for a root) and number of tokens, and the segment where each sample ends.
    """

    __slots__ = ("_parents", "_tokens", "_ends", "_struct", "_segments")

    def __init__(self, parents: Any, tokens: Any, sample_ends: Any) -> None:
        before, lengths = _arrays.integers(parents, "parents"), _arrays.integers(tokens, "tokens")
        if len(before) != len(lengths):
            _c.raise_error("input", "tokens", f"has {counted(len(lengths), 'entry', 'entries')} for {counted(len(before), 'segment')}")
        self._set(before, lengths, _arrays.integers(sample_ends, "sample_ends"))

    def _set(self, parents: Int64s, tokens: Int64s, sample_ends: Int64s) -> None:
        self._parents, self._tokens, self._ends = parents, tokens, sample_ends
        self._struct = c.evenkeel_tree(len(parents), _c.address(parents), _c.address(tokens), len(sample_ends),
                                       _c.address(sample_ends))
        self._segments = self._query(lib.evenkeel_tree_segments)

    @classmethod
    def _of(cls, structure: dict[str, Any]) -> PrefixTree:
        tree = cls.__new__(cls)
        tree._set(structure["parents"], structure["tokens"], structure["sample_ends"])
        return tree

    def _query(self, function: Any, *arguments: Any) -> dict[str, Any]:
        return _arrays.named_arrays(function, ctypes.byref(self._struct), *arguments)

    @staticmethod
    def from_tokens(samples: Iterable[Any], *, ahead: int = 0) -> PrefixTree:
        """Returns the tree of samples, given as one integer array of tokens per sample. Two samples share their common prefix
        except its last `ahead` tokens, so that the `ahead` tokens after a shared token are equal, too. Takes time proportional to
        the samples' total length."""
        tokens, offsets = _arrays.concatenate(samples, "samples")
        return PrefixTree._of(_arrays.named_arrays(lib.evenkeel_tree_of_tokens, _c.address(tokens), _c.address(offsets),
                                                   len(offsets) - 1, _c.int64(ahead)))

    @staticmethod
    def from_groups(groups: PrefixGroups) -> PrefixTree:
        """Returns the tree of PrefixGroups, without knowing their tokens: samples are the suffixes."""
        parents: list[int] = []
        tokens: list[int] = []
        ends: list[int] = []
        for prefix, *suffixes in groups.to_lists():
            parents += [-1, *[len(parents)] * len(suffixes)]
            ends += range(len(tokens) + 1, len(tokens) + 1 + len(suffixes))
            tokens += [prefix, *suffixes]
        return PrefixTree(parents, tokens, ends)

    def __len__(self) -> int:
        return len(self._parents)

    @property
    def num_rows(self) -> int:
        """Number of tokens, with each shared token counted once."""
        return int(self._tokens.sum())

    @property
    def num_samples(self) -> int:
        return len(self._ends)

    @property
    def sample_ends(self) -> Int64s:
        """The segment where each sample ends; -1 for an empty sample: [num_samples] int64."""
        return self._ends.copy()

    @property
    def parents(self) -> Int64s:
        """The parent of each segment; -1 for a root: [segments] int64."""
        return self._parents.copy()

    @property
    def lengths(self) -> Int64s:
        """Number of tokens in each segment: [segments] int64."""
        return self._tokens.copy()

    def _segment_values(self, name: str) -> Int64s:
        return self._segments[name].copy()

    @property
    def depths(self) -> Int64s:
        """Number of tokens before each segment in its samples: [segments] int64."""
        return self._segment_values("depths")

    @property
    def first_samples(self) -> Int64s:
        """The lowest number of a sample that contains each segment: [segments] int64."""
        return self._segment_values("first_samples")

    @property
    def samples_through(self) -> Int64s:
        """Number of samples that contain each segment: [segments] int64."""
        return self._segment_values("samples_through")

    def sample_length(self, sample: int) -> int:
        """Returns the length of a sample in tokens."""
        end = int(self._ends[_arrays.checked_index(sample, self.num_samples, "sample")])
        return 0 if end < 0 else int(self._segments["depths"][end] + self._tokens[end])

    def _sample(self, sample: int, name: str) -> Int64s:
        at = _arrays.checked_index(sample, self.num_samples, "sample")
        return self._query(lib.evenkeel_tree_sample, at)[name]

    def rows_of(self, sample: int) -> Int64s:
        """Returns the row of every token of a sample: int64."""
        return self._sample(sample, "rows")

    def prediction_rows(self, sample: int) -> Int64s:
        """Returns the row that predicts each token of a sample; -1 for the first: int64."""
        return self._sample(sample, "prediction_rows")

    def path_to(self, segment: int) -> list[int]:
        """Returns the segments from a root to this one, both included."""
        path = [_arrays.checked_index(segment, len(self), "segment")]
        while self._parents[path[-1]] >= 0:
            path.append(int(self._parents[path[-1]]))
        return path[::-1]

    def subtree(self, samples: Any) -> PrefixTree:
        """Returns the tree of some of the samples, numbered as listed."""
        numbers = _arrays.integers(samples, "samples")
        return PrefixTree._of(self._query(lib.evenkeel_tree_subtree, _c.address(numbers), len(numbers)))

    def position_ids(self) -> Int64s:
        """Returns every row's position in its samples: [num_rows] int64."""
        return self._query(lib.evenkeel_tree_rows)["position_ids"]

    def branch_states(self) -> dict[str, Any]:
        """Returns a dict for layers that carry a state from token to token. For every segment: the segment whose last state it
        starts from (``from``; -1: zero), how many segments start from its own (``uses``), and the last of them (``last_use``), after
        which the state may be freed. ``peak_kept`` is the maximum number of states kept at once."""
        return self._query(lib.evenkeel_tree_branch_states)

    def ancestor_intervals(self) -> tuple[Int64s, Int64s]:
        """Returns (tin, tout), [num_rows] int64 each: query row q sees key row k if and only if tin[k] <= tin[q] < tout[k]."""
        rows = self._query(lib.evenkeel_tree_rows)
        return rows["tin"], rows["tout"]

    def savings(self) -> dict[str, int]:
        """Returns numbers of tokens and of query-key pairs of causal attention, with sharing and with separate samples."""
        return self._query(lib.evenkeel_tree_savings)

    def __eq__(self, other: object) -> bool:
        return isinstance(other, PrefixTree) and all(map(np.array_equal, self._structure(), other._structure()))

    __hash__ = None  # type: ignore[assignment]

    def _structure(self) -> tuple[Int64s, Int64s, Int64s]:
        return self._parents, self._tokens, self._ends

    def __repr__(self) -> str:
        return f"PrefixTree({self.num_samples} samples, {self.num_rows} rows in {len(self)} segments)"

    def __reduce__(self) -> tuple[Any, ...]:
        return PrefixTree, self._structure()


class Predictions:
    """The position of each response token's prediction.

    One entry per response token, sample by sample. A row before a branch predicts a token of every sample after it, so it is
    listed for each.
    """

    __slots__ = ("_arrays",)

    def __init__(self, arrays: dict[str, Any]) -> None:
        self._arrays = arrays

    def __len__(self) -> int:
        return len(self._arrays["row"])

    @property
    def offsets(self) -> Int64s:
        """Offsets of each sample's entries: [samples + 1] int64."""
        return self._arrays["offsets"].copy()

    @property
    def rank(self) -> Int32s:
        """The CP rank that holds the row; -1 for a first token, which nothing predicts: int32."""
        return self._arrays["rank"].copy()

    @property
    def row(self) -> Int64s:
        """The local row on that rank; -1 for a first token: int64."""
        return self._arrays["row"].copy()

    def on(self, cp_rank: int) -> tuple[Int64s, Int64s]:
        """Returns (rows, entries) of one CP rank: the local rows to gather, logits.index_select(0, rows), and the entry that each
        belongs to."""
        if _c.int32(cp_rank) < 0:
            _c.raise_error("input", "context-parallel rank", f"is {cp_rank}; it must be at least 0")
        entries = np.flatnonzero(self._arrays["rank"] == cp_rank)
        return self._arrays["row"][entries], entries


def schedule_of(found: dict[str, Any]) -> dict[str, Any]:
    """Converts the library's arrays of a schedule to a dict whose steps are pairs of a word and a piece."""
    kinds, pieces = found.pop("kinds").tolist(), found.pop("pieces").tolist()
    found["steps"] = [(("push", "visit", "pop")[kind], piece) for kind, piece in zip(kinds, pieces)]
    return found


class PackedTreeLayout:
    """A PrefixTree in one packed micro-batch.

    Its segments are concatenated, each aligned and cut over the CP ranks separately, as specified by ``segments``, a
    PackedLayout. Use that to pack and merge, with the rows of the tree as ragged rows.
    """

    __slots__ = ("_tree", "_segments", "_struct")

    def __init__(
        self, tree: PrefixTree, *, alignment: int | None = None, cp: CpGroup | int = CpGroup(), tp: int = 1
    ) -> None:
        self._set(tree, PackedLayout(tree._tokens, alignment=alignment, cp=cp, tp=tp))

    def _set(self, tree: PrefixTree, segments: PackedLayout) -> None:
        self._tree, self._segments = tree, segments
        of = segments._struct
        self._struct = c.evenkeel_layout(of.num_sequences, of.cu_seqlens, of.cu_seqlens_padded, of.alignment, of.cp_size,
                                         of.cp_layout, ctypes.pointer(tree._struct))

    @classmethod
    def _of(cls, tree: PrefixTree, segments: PackedLayout) -> PackedTreeLayout:
        layout = cls.__new__(cls)
        layout._set(tree, segments)
        return layout

    def _query(self, function: Any, *arguments: Any) -> dict[str, Any]:
        return _arrays.named_arrays(function, ctypes.byref(self._struct), *arguments)

    @staticmethod
    def from_sequences(sequences: PackedLayout) -> PackedTreeLayout:
        """Returns the layout of sequences that share nothing, each with its own root, for use of the same masks."""
        roots = _arrays.named_arrays(lib.evenkeel_tree_of_sequences, ctypes.byref(sequences._struct))
        return PackedTreeLayout._of(PrefixTree._of(roots), sequences)

    @property
    def tree(self) -> PrefixTree:
        return self._tree

    @property
    def segments(self) -> PackedLayout:
        return self._segments

    def position_ids(self, *, cp_rank: int = 0) -> Int64s:
        """Returns position ids of a CP rank's rows, [local_rows] int64: each segment counts from its depth, through pad rows."""
        ids = np.empty(self._segments.local_rows, np.int64)
        lib.evenkeel_position_ids(ctypes.byref(self._struct), _c.int32(cp_rank), _c.address(ids))
        return ids

    def ancestor_intervals(self, *, cp_rank: int = 0) -> tuple[Int64s, Int64s]:
        """Returns (tin, tout) of a CP rank's rows, including pad rows. All ranks use the same numbers: concatenate the ranks' lists
        in the order in which an all-gather concatenates their keys. No query sees a pad row."""
        rows = self._query(lib.evenkeel_tree_intervals, _c.int32(cp_rank))
        return rows["tin"], rows["tout"]

    def depth_first(self, *, max_kept: int | None = None) -> dict[str, Any]:
        """Returns a schedule for a trainer with one path in memory at a time, as a dict. ``steps`` are ('push', 'visit' or 'pop',
        piece). Pieces of segments are the local ``rows`` [pieces, 2], have ``parents``, and attend to the keys and values of
        ``keys_before`` rows on their path and to their own. ``peak_keys`` and ``peak_kept`` are the maximum numbers of rows whose
        keys and values, and of rows whose other data, are in memory at once. With ``max_kept``, no more rows are kept, and the rows
        ``recomputed`` are pushed and later visited."""
        return schedule_of(self._query(lib.evenkeel_tree_depth_first, _UNLIMITED if max_kept is None else _c.int64(max_kept)))

    def attention(self, *, cp_rank: int = 0) -> dict[str, Any]:
        """Returns the arguments of a varlen attention kernel on a CP rank, as a dict. Queries are the rank's rows in order; keys and
        values are those of the whole micro-batch at key_rows. Attention is causal, aligned at the last query and key."""
        return self._query(lib.evenkeel_tree_attention, _c.int32(cp_rank))

    def block_mask(
        self, *, cp_rank: int = 0, keys: str = "packed", block_size: tuple[int, int] = (128, 128)
    ) -> dict[str, Int32s]:
        """Returns FlexAttention's mask of a CP rank: the eight int32 tensors of torch's BlockMask, by name.

        Queries are the rank's rows, keys all rows of the micro-batch: ``packed`` concatenates segments, ``gathered`` concatenates
        the rows of CP ranks. ``block_size`` is (queries, keys) of a tile. Pass the arrays to ``BlockMask`` with a ``mask_mod`` that
        compares ``ancestor_intervals()``: it is called only in partial tiles."""
        queries, columns = block_size
        return self._query(lib.evenkeel_tree_block_mask, *_rank_and_keys(cp_rank, keys), _c.int64(queries), _c.int64(columns))

    def startend_row_indices(self, *, cp_rank: int = 0, keys: str = "packed") -> Int32s:
        """Returns FlashMask's mask of a CP rank, without ``causal``: for every key, the first row below it that is masked, and the
        end of the masked rows above it: [keys, 2] int32."""
        return self._query(lib.evenkeel_tree_column_mask, *_rank_and_keys(cp_rank, keys))["startend"]

    def attention_slices(self, *, cp_rank: int = 0, keys: str = "packed") -> tuple[Int32s, Int32s, Int32s]:
        """Returns MagiAttention's mask of a CP rank: q_ranges [n, 2], k_ranges [n, 2] and attn_type_map [n], all int32. Type 0 is
        full, 1 is causal. Slices do not overlap."""
        slices = self._query(lib.evenkeel_tree_slices, *_rank_and_keys(cp_rank, keys))
        return slices["q_ranges"], slices["k_ranges"], slices["kinds"]

    def additive_mask(self, *, cp_rank: int = 0, keys: str = "packed") -> npt.NDArray[np.float32]:
        """Returns 0 where a query sees a key, minus infinity elsewhere: [queries, keys] float32. For small micro-batches."""
        return self._query(lib.evenkeel_tree_additive_mask, *_rank_and_keys(cp_rank, keys))["mask"]

    def predictions(self, prompt_lengths: Any) -> Predictions:
        """Returns the predictions of all response tokens. ``prompt_lengths`` has one entry per sample."""
        prompts = _arrays.integers(prompt_lengths, "prompt_lengths")
        return Predictions(self._query(lib.evenkeel_tree_predictions, _c.address(prompts), len(prompts)))

    def __eq__(self, other: object) -> bool:
        return isinstance(other, PackedTreeLayout) and self._tree == other._tree and self._segments == other._segments

    __hash__ = None  # type: ignore[assignment]


def _rank_and_keys(cp_rank: int, keys: str) -> tuple[int, int]:
    return _c.int32(cp_rank), _c.value_of(_KEYS, keys, "keys")


def groups_from_masks(prefix_mask: Any, suffix_mask: Any, group_sizes: Any) -> PrefixGroups:
    """Returns the groups of padded prefixes [b, any] and padded suffixes [n, any], whose masks define the lengths.
    ``group_sizes`` is the number of suffixes of each group, or one number for all of them."""
    if isinstance(group_sizes, int):
        group_sizes = [group_sizes] * prefix_mask.shape[0]
    return PrefixGroups.from_masks(prefix_mask, suffix_mask, group_sizes)


def places_of_mask(mask: Any) -> TokenPlaces:
    """Returns the positions at which a mask [batch, width] is 1, row by row."""
    return TokenPlaces.from_mask(mask)


def concat_input(
    layout: PrefixLayout, prefix: Any, prefix_mask: Any, suffix: Any, suffix_mask: Any, *, pad: Any = 0
) -> Any:
    """Combines padded prefixes [b, any, ...] and padded suffixes [n, any, ...] into the grouped tensor [b, s, ...], with ``pad``
    in padding. Raises InputError if a mask has a number of ones other than the number of tokens of its prefix or suffix.
    """
    prefixes, suffixes = _matching_rows(prefix, suffix, leading=2)
    _require_lengths(prefix_mask, layout.groups.prefixes, "prefix")
    _require_lengths(suffix_mask, layout.groups.suffixes, "suffix")
    target = _allocate_at(prefixes, layout.grouped, heads_first=False)
    for rows, mask, places in ((prefixes, prefix_mask, layout.prefix), (suffixes, suffix_mask, layout.suffix)):
        _move((TokenPlaces.from_mask(mask), places[0]), rows, target, heads_first=False)
    _fill(layout.grouped, target, _pad_row(prefixes, 2, pad), heads_first=False)
    return target.value


def group(layout: PrefixLayout, prefix: Any, suffix: Any, *, pad: Any = 0, heads_first: bool = False) -> Any:
    """Combines prefixes [b, sp, ...] and suffixes [n, ss, ...] of the layout into the grouped tensor [b, s, ...]. With
    ``heads_first``, tensors are [batch, heads, width, ...]."""
    leading = 3 if heads_first else 2
    prefixes, suffixes = _matching_rows(prefix, suffix, leading)
    _require_width(prefixes, layout.prefix[1], heads_first, "prefix")
    _require_width(suffixes, layout.suffix[1], heads_first, "suffix")
    target = _allocate_at(prefixes, layout.grouped, heads_first)
    for rows, (grouped, places) in ((prefixes, layout.prefix), (suffixes, layout.suffix)):
        _move((places, grouped), rows, target, heads_first)
    _fill(layout.grouped, target, _pad_row(prefixes, leading, pad), heads_first)
    return target.value


def ungroup(layout: PrefixLayout, grouped: Any, *, pad: Any = 0, heads_first: bool = False) -> tuple[Any, Any]:
    """The inverse of group(): returns (prefixes, left-padded; suffixes, right-padded)."""
    prefix, suffix = (_move_padded(places, grouped, pad, heads_first) for places in (layout.prefix, layout.suffix))
    return prefix, suffix


def split_output(
    layout: PrefixLayout,
    output: Any,
    *,
    include_prefix_last: int = 0,
    short_prefix: str = "error",
    pad: Any = 0,
    heads_first: bool = False,
) -> tuple[Any, npt.NDArray[Any], Any, npt.NDArray[Any]]:
    """Splits a model's output for the grouped tensor into (prefixes, their bool mask, suffixes, their bool mask).

    With ``include_prefix_last=1``, row i of the suffixes has the predictions of each token of suffix i, then that of the next
    token. ``short_prefix`` is the treatment of a prefix with fewer tokens: "error" or "pad". Masks have the type of ``output``.
    """
    prefix, suffix = layout.split(include_prefix_last, short_prefix=short_prefix)
    return (
        _move_padded(prefix, output, pad, heads_first),
        _arrays.convert_like(prefix[1].mask(), output),
        _move_padded(suffix, output, pad, heads_first),
        _arrays.convert_like(suffix[1].mask(), output),
    )


def convert_padding(
    source: TokenPlaces, target: TokenPlaces, values: Any, *, pad: Any = 0, heads_first: bool = False
) -> Any:
    """Moves the tokens of a padded tensor to other positions in their rows, with ``pad`` elsewhere: from padding on one side to
    the other, or to a mask. Raises InputError if a row has different numbers of tokens in ``source`` and ``target``."""
    return _move_padded((source, target), values, pad, heads_first, same_rows=True)


def tree_rows(tree: PrefixTree, samples: Sequence[Any]) -> Any:
    """Returns the rows of a tree, [num_rows, ...], taken from each sample's rows [length, ...]: the rows that
    PackedTreeLayout.segments packs. A shared row is taken from the first sample that has it."""
    if len(samples) != tree.num_samples:
        _c.raise_error("input", "samples", f"{describe_count(len(samples), 'sample')}, but the tree has {tree.num_samples}")
    for i, sample in enumerate(samples):
        if sample.shape[0] != tree.sample_length(i):
            _c.raise_error("input", f"samples[{i}]", f"has {counted(sample.shape[0], 'row')}, but sample {i} of the tree has "
                           f"{counted(tree.sample_length(i), 'token')}")
    if len(tree) == 0:
        return samples[0][:0] if samples else np.empty(0, np.int64)
    places = zip(tree.first_samples.tolist(), tree.depths.tolist(), tree.lengths.tolist())
    parts = [samples[first][depth : depth + length] for first, depth, length in places]
    if _arrays.is_tensor(parts[0]):
        import torch

        return torch.cat(parts)
    return np.concatenate(parts)


def _matching_rows(prefix: Any, suffix: Any, leading: int) -> tuple[_arrays.Rows, _arrays.Rows]:
    """Returns two tensors as Rows. Raises InputError unless their rows fit into one tensor."""
    rows = _arrays.Rows(prefix, "prefix"), _arrays.Rows(suffix, "suffix")
    for part, name in zip(rows, ("prefix", "suffix")):
        if part.array.ndim < leading:
            _c.raise_error("input", name, f"has {counted(part.array.ndim, 'dimension')}; it must have at least {leading}")
    if rows[0].dtype != rows[1].dtype:
        _c.raise_error("input", "suffix", f"has the dtype {rows[1].dtype}; the prefix has {rows[0].dtype}")
    if rows[0].array.shape[leading:] != rows[1].array.shape[leading:]:
        _c.raise_error("input", "suffix", f"has rows of shape {rows[1].array.shape[leading:]}; the prefix has rows of shape "
                          f"{rows[0].array.shape[leading:]}")
    if leading == 3 and rows[0].array.shape[1] != rows[1].array.shape[1]:
        _c.raise_error("input", "suffix", f"has {counted(rows[1].array.shape[1], 'head')}; the prefix has "
                          f"{rows[0].array.shape[1]}")
    return rows


def _require_lengths(mask: Any, lengths: Int64s, name: str) -> None:
    """Raises InputError unless a mask has one row per length, with that many ones."""
    found = lengths_of_mask(mask_bytes(mask))
    if len(found) != len(lengths):
        _c.refuse(f"{name} mask", f"has {counted(len(found), 'row')}; it must have {len(lengths)}, one for each {name}")
    if (wrong := found != lengths).any():
        row = int(wrong.argmax())
        _c.refuse(f"{name} mask", f"row {row} has {counted(found[row], 'one')}; {name} {row} has {counted(lengths[row], 'token')}")


def _require_width(rows: _arrays.Rows, places: TokenPlaces, heads_first: bool, name: str) -> None:
    shape = (rows.array.shape[0], rows.array.shape[2 if heads_first else 1])
    if shape != places.shape:
        _c.raise_error("input", name, f"batch size and width are {list(shape)}; they must be {list(places.shape)}")


def _allocate_at(like: _arrays.Rows, places: TokenPlaces, heads_first: bool) -> _arrays.Rows:
    """Returns memory for these positions, with rows like those of ``like``: [batch, width, ...] or [batch, heads, width, ...]."""
    batch, width = places.shape
    shape = like.array.shape
    return like.empty(batch, shape[1], width, *shape[3:]) if heads_first else like.empty(batch, width, *shape[2:])


def _pad_row(rows: _arrays.Rows, leading: int, pad: Any) -> npt.NDArray[Any]:
    return rows.row_of(pad, "pad", leading)


def _move_padded(places: Places, values: Any, pad: Any, heads_first: bool, same_rows: bool = False) -> Any:
    rows = _arrays.Rows(values, "values")
    leading = 3 if heads_first else 2
    if rows.array.ndim < leading:
        _c.raise_error("input", "values", f"have {counted(rows.array.ndim, 'dimension')}; they must have at least {leading}")
    _require_width(rows, places[0], heads_first, "values")
    target = _allocate_at(rows, places[1], heads_first)
    pad_row = _pad_row(rows, leading, pad)
    _move(places, rows, target, heads_first, same_rows)
    _fill(places[1], target, pad_row, heads_first)
    return target.value


def _format_of(array: npt.NDArray[Any], heads_first: bool) -> tuple[int, int]:
    """Returns the number of heads, and the bytes of a row."""
    return (array.shape[1], _arrays.row_bytes_of(array, 3)) if heads_first else (1, _arrays.row_bytes_of(array, 2))


def _move(places: Places, rows: _arrays.Rows, target: _arrays.Rows, heads_first: bool, same_rows: bool = False) -> None:
    lib.evenkeel_move_tokens(places[0]._struct, places[1]._struct, same_rows, *_format_of(rows.array, heads_first),
                             _arrays.readable(rows.array, "values"), _arrays.writable(target.array, "out"))


def _fill(places: TokenPlaces, target: _arrays.Rows, pad_row: npt.NDArray[Any], heads_first: bool) -> None:
    lib.evenkeel_fill_padding(places._struct, *_format_of(target.array, heads_first), _arrays.readable(pad_row, "pad"),
                              _arrays.writable(target.array, "out"))
