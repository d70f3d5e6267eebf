"""prefix_grouper, with PrefixGrouper's names and results: shared-prefix training around a model's own attention function.

    from evenkeel.drop_in.prefix_grouper import PrefixGrouper

In shapes, b is groups, n suffixes, s columns of grouped tensors, sp and ss those of prefix and suffix tensors, h heads, d elements.
Every operation accepts tensors of any dtype and device, and gradients flow. Invalid input raises evenkeel.InputError.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import Any

import torch

from evenkeel._text import counted
from evenkeel.drop_in import _native, _shared

__all__ = ["GroupInfo", "Info", "PrefixGrouper", "PrefixGrouperForPackedSequence"]


class Info(Sequence[int]):
    """One group's lengths in tokens; as a sequence, the prefix's followed by each suffix's."""

    def __init__(self, prefix_len: int, suffix_lens: Sequence[int]) -> None:
        self.prefix_len = int(prefix_len)
        self.suffix_lens = [int(length) for length in suffix_lens]

    @property
    def num_suffixes(self) -> int:
        return len(self.suffix_lens)

    @property
    def total_len(self) -> int:
        return self.prefix_len + sum(self.suffix_lens)

    def __getitem__(self, index: Any) -> Any:
        return [self.prefix_len, *self.suffix_lens][index]

    def __len__(self) -> int:
        return 1 + len(self.suffix_lens)

    def __repr__(self) -> str:
        return f"Info(prefix_len={self.prefix_len}, suffix_lens={self.suffix_lens})"


class GroupInfo(tuple[Info, ...]):
    """The groups of a PrefixGrouper, with one Info per group."""

    @property
    def batch_size(self) -> int:
        return len(self)


class PrefixGrouper:
    """b groups, each with one prefix and one or more suffixes of any lengths.

    ``group_info``         one list per group: the prefix's length in tokens, then those of its suffixes; None to call init()
                           later
    ``device``             the device of masks and indices; operations move them to the device of their tensors
    ``padding_mode``       the side of padding in grouped tensors [b, s], "right" or "left", or a mask [b, s] that is nonzero
                           at tokens
    ``strict_reference``   split_output() accepts more tokens than a prefix has

    Grouped rows are ``[prefix | suffix 1 | suffix 2 | ...]``. Prefix tensors [b, sp, ...] are padded on the left, suffix
    tensors [n, ss, ...] on the right. Raises InputError if there is no group, a group has no suffix, a length is negative, or
    a mask does not fit.
    """

    def __init__(
        self,
        group_info: Sequence[Sequence[int]] | None = None,
        device: Any = None,
        padding_mode: str | torch.Tensor = "right",
        *,
        strict_reference: bool = False,
    ) -> None:
        self.strict_reference = strict_reference
        if group_info is not None:
            self.init(group_info, device, padding_mode)

    def init(
        self, group_info: Sequence[Sequence[int]], device: Any = None, padding_mode: str | torch.Tensor = "right"
    ) -> None:
        """Sets the groups, as the constructor does."""
        layout, device = _layout_of(group_info, padding_mode), torch.device("cpu" if device is None else device)
        self.group_info = GroupInfo(Info(group[0], group[1:]) for group in group_info)
        self._layout = layout
        keys = layout.suffix_keys()
        self._prefix, self._suffix, self._keys = (_Move(places, device) for places in (layout.prefix, layout.suffix, keys))
        self._shape: tuple[int, ...] = layout.grouped.shape
        self.padding_mask = _mask_of(layout.grouped, device)
        self.grouped_prefix_mask, self.ungrouped_prefix_mask = (_mask_of(places, device) for places in layout.prefix)
        self.grouped_suffix_mask, self.ungrouped_suffix_mask = (_mask_of(places, device) for places in layout.suffix)
        self.prefix_attn_mask, self.suffix_attn_mask = self.ungrouped_prefix_mask, _mask_of(keys[1], device)

    @classmethod
    def from_ungrouped_masks(
        cls,
        prefix_mask: torch.Tensor,
        suffix_mask: torch.Tensor,
        group_sizes: int | Sequence[int],
        device: Any = None,
        padding_mode: str | torch.Tensor = "right",
        *,
        strict_reference: bool = False,
    ) -> PrefixGrouper:
        """Creates groups with the lengths of padded prefixes [b, any] and suffixes [n, any], which the masks define.
        ``group_sizes`` is the number of suffixes in every group, or a list with that of each group."""
        for name, mask in (("prefix_mask", prefix_mask), ("suffix_mask", suffix_mask)):
            _require_mask(mask, name)
        groups = prefix_mask.shape[0]
        sizes = [group_sizes] * groups if isinstance(group_sizes, int) else [int(size) for size in group_sizes]
        if len(sizes) != groups or sum(sizes) != suffix_mask.shape[0] or min(sizes, default=0) < 0:
            _shared.refuse("group_sizes", f"is {group_sizes}; the sizes of {counted(groups, 'group')} must be at least 0 and add up to "
                           f"{counted(suffix_mask.shape[0], 'suffix', 'suffixes')}")
        suffixes = iter(_lengths_of(suffix_mask).tolist())
        group_info = [[prefix, *(next(suffixes) for _ in range(size))]
                      for prefix, size in zip(_lengths_of(prefix_mask).tolist(), sizes)]
        return cls(group_info, device, padding_mode, strict_reference=strict_reference)

    @staticmethod
    def convert_padding(
        x: torch.Tensor, x_mask: torch.Tensor, padding_mode: str | torch.Tensor = "right"
    ) -> torch.Tensor:
        """Moves the tokens of a padded tensor [b, any, ...] to one side, in as many columns as the longest row has tokens,
        or to the nonzero positions of another mask [b, s]. Other positions are 0."""
        _require_mask(x_mask, "x_mask")
        if x.shape[:2] != x_mask.shape:
            _shared.refuse("x_mask", f"has the shape {tuple(x_mask.shape)}, but the tensor has {tuple(x.shape)}")
        lengths = _lengths_of(x_mask)
        if isinstance(padding_mode, str):
            width = int(lengths.max()) if lengths.numel() else 0
            wanted = torch.arange(width, device=lengths.device) < lengths[:, None]
            target = wanted.flip(1) if _side_of(padding_mode) == "left" else wanted
        else:
            _require_mask(padding_mode, "padding_mode")
            target = padding_mode.to(lengths.device) != 0
            if target.shape[0] != x_mask.shape[0]:
                _shared.refuse("padding_mode", f"has {counted(target.shape[0], 'row')}, but x_mask has {x_mask.shape[0]}")
            if not torch.equal(target.sum(1), lengths):
                _shared.refuse("padding_mode", "has a row with a different number of tokens than x_mask")
        rows = _shared.move_rows(x.flatten(0, 1), _flat(x_mask), _flat(target), target.numel())
        return rows.reshape(*target.shape, *x.shape[2:])

    # Tensors

    def concat_input(
        self, prefix: torch.Tensor, prefix_mask: torch.Tensor, suffix: torch.Tensor, suffix_mask: torch.Tensor
    ) -> torch.Tensor:
        """Combines padded prefixes [b, any, ...] and suffixes [n, any, ...], whose masks define their tokens, into a grouped
        tensor [b, s, ...], with 0 in padding."""
        self._require_lengths(prefix, prefix_mask, self.prefix_lens, "prefix")
        self._require_lengths(suffix, suffix_mask, self.ungrouped_suffix_lens, "suffix")
        rows = torch.cat([prefix.flatten(0, 1), suffix.flatten(0, 1)])
        source = torch.cat([_flat(prefix_mask), _flat(suffix_mask) + prefix_mask.numel()])
        return self._grouped(rows, source)

    def split_output(
        self, output: torch.Tensor, include_prefix_last: int = 0
    ) -> tuple[torch.Tensor, torch.Tensor, torch.Tensor, torch.Tensor]:
        """Splits a grouped tensor [b, s, ...] into prefixes, their mask, suffixes and their mask. The last `include_prefix_last`
        tokens k of every prefix precede each of its suffixes instead: prefixes [b, sp - k, ...], suffixes [n, k + ss, ...].
        With 1, row i of the suffixes has the predictions of each token of suffix i, then that of the next token.

        Raises InputError for a prefix of fewer than k tokens. With ``strict_reference``, its suffixes begin with padding
        instead, as the mask shows, and k is at most the longest prefix's length.
        """
        self._require_grouped(output, "output")
        k = int(include_prefix_last)
        if self.strict_reference:
            k = min(k, self.prefix_x_shape[1])
        prefix, suffix = self._layout.split(k, short_prefix="pad" if self.strict_reference else "error")
        masks = [_mask_of(places, output.device) for _, places in (prefix, suffix)]
        return self._move(prefix)(output), masks[0], self._move(suffix)(output), masks[1]

    def ungroup(
        self, q: torch.Tensor, k: torch.Tensor, v: torch.Tensor
    ) -> tuple[torch.Tensor, torch.Tensor, torch.Tensor, torch.Tensor, torch.Tensor, torch.Tensor]:
        """Splits grouped tensors [b, h, s, d] into the prefixes of all three, [b, h, sp, d], followed by their suffixes,
        [n, h, ss, d]."""
        for name, x in (("q", q), ("k", k), ("v", v)):
            self._require_heads(x, name)
        prefix, suffix = self._prefix.with_heads, self._suffix.with_heads
        return prefix(q), prefix(k), prefix(v), suffix(q), suffix(k), suffix(v)

    def group(self, o_prefix: torch.Tensor, o_suffix: torch.Tensor) -> torch.Tensor:
        """Combines attention outputs [b, sp, h, d] and [n, ss, h, d] into a grouped tensor [b, s, h, d]. Other trailing
        dimensions are accepted, too."""
        shapes = (self.prefix_x_shape, self.suffix_x_shape)
        for name, x, shape in zip(("o_prefix", "o_suffix"), (o_prefix, o_suffix), shapes):
            if tuple(x.shape[:2]) != tuple(shape):
                _shared.refuse(name, f"has the shape {tuple(x.shape)}; it must begin with {tuple(shape)}")
        rows = torch.cat([o_prefix.flatten(0, 1), o_suffix.flatten(0, 1)])
        return self._grouped(rows, torch.cat([self._prefix.target, self._suffix.target + self._prefix.size]))

    def forward(
        self, __attn_func: Callable[..., torch.Tensor], q: torch.Tensor, k: torch.Tensor, v: torch.Tensor,
        *args: Any, **kwargs: Any,
    ) -> torch.Tensor:
        """Computes attention over the groups. Queries, keys and values are [b, h, s, d], the result is [b, s, h, d]. Keys and
        values may have fewer heads.

        Calls ``__attn_func(q, k, v, attn_mask, *args, **kwargs)`` twice: for prefixes on themselves, and for suffixes on
        their prefix and themselves. It takes tensors [x, h, length, d] and a mask [x, keys] that is True at keys, and returns
        [x, queries, h, d]. It must be causal with the last query at the last key, as Flash Attention is.
        """
        for name, x in (("q", q), ("k", k), ("v", v)):
            self._require_heads(x, name)

        def attend(queries: _Move, keys: _Move, mask: torch.Tensor) -> torch.Tensor:
            held = queries.with_heads(q)
            if held.numel() == 0:
                return v.new_zeros(held.shape[0], held.shape[2], held.shape[1], v.shape[-1])
            return __attn_func(held, keys.with_heads(k), keys.with_heads(v), mask.to(q.device), *args, **kwargs)

        return self.group(
            attend(self._prefix, self._prefix, self.prefix_attn_mask), attend(self._suffix, self._keys, self.suffix_attn_mask)
        )

    def position_ids(self, padding: int = 0) -> torch.Tensor:
        """Returns position ids [b, s] int64: a prefix counts from 0, a suffix from its prefix's length; `padding` in padding."""
        return torch.from_numpy(self._layout.position_ids(padding)).to(self.padding_mask.device)

    def batch_repeat_cat(self, prefix: torch.Tensor, suffix: torch.Tensor, cat_dim: int) -> torch.Tensor:
        """Repeats each group's row of `prefix` for each of its suffixes, and concatenates it with `suffix` along `cat_dim`."""
        repeats = self.num_suffixes.to(prefix.device)
        return torch.cat([prefix.repeat_interleave(repeats, dim=0), suffix], dim=cat_dim)

    # Lengths, shapes and indices

    @property
    def prefix_lens(self) -> torch.Tensor:
        """Tokens of each prefix: [b] int64."""
        return self._counts(info.prefix_len for info in self.group_info)

    @property
    def grouped_suffix_lens(self) -> torch.Tensor:
        """Tokens of each group's suffixes: [b] int64."""
        return self._counts(sum(info.suffix_lens) for info in self.group_info)

    @property
    def ungrouped_suffix_lens(self) -> torch.Tensor:
        """Tokens of each suffix: [n] int64."""
        return self._counts(length for info in self.group_info for length in info.suffix_lens)

    @property
    def num_suffixes(self) -> torch.Tensor:
        """Number of suffixes in each group: [b] int64."""
        return self._counts(info.num_suffixes for info in self.group_info)

    num_samples = num_suffixes

    @property
    def total_lens(self) -> torch.Tensor:
        """Tokens of each group: [b] int64."""
        return self._counts(info.total_len for info in self.group_info)

    @property
    def x_shape(self) -> torch.Size:
        return self.padding_mask.shape

    @property
    def prefix_x_shape(self) -> torch.Size:
        return self.ungrouped_prefix_mask.shape

    @property
    def suffix_x_shape(self) -> torch.Size:
        return self.ungrouped_suffix_mask.shape

    @property
    def grouped_prefix_indices(self) -> torch.Tensor:
        """Row and column of each prefix token in a grouped tensor: [tokens, 2] int64. The other indices have the same form."""
        return self.grouped_prefix_mask.nonzero()

    @property
    def grouped_suffix_indices(self) -> torch.Tensor:
        return self.grouped_suffix_mask.nonzero()

    @property
    def ungrouped_prefix_indices(self) -> torch.Tensor:
        return self.ungrouped_prefix_mask.nonzero()

    @property
    def ungrouped_suffix_indices(self) -> torch.Tensor:
        return self.ungrouped_suffix_mask.nonzero()

    def get_ungroup_args(self, device: Any = None) -> tuple[tuple[torch.Tensor, ...], tuple[torch.Size, torch.Size]]:
        """Returns the four index tensors, ungrouped ones first, and the shapes of prefix and suffix tensors."""
        indices = (self.ungrouped_prefix_indices, self.ungrouped_suffix_indices, self.grouped_prefix_indices,
                   self.grouped_suffix_indices)
        return tuple(index.to(device) for index in indices), (self.prefix_x_shape, self.suffix_x_shape)

    def _counts(self, values: Any) -> torch.Tensor:
        return torch.tensor(list(values), dtype=torch.long, device=self.padding_mask.device)

    def _grouped(self, rows: torch.Tensor, source: torch.Tensor) -> torch.Tensor:
        """Moves the rows of all prefixes' tokens, followed by those of all suffixes, to their positions in a grouped tensor."""
        target = torch.cat([self._prefix.source, self._suffix.source])
        grouped = _shared.move_rows(rows, source, target, math.prod(self._shape))
        return grouped.reshape(*self._shape, *rows.shape[1:])

    def _move(self, places: Any) -> _Move:
        """Returns a move of tokens out of this class's grouped tensors."""
        return _Move(places)

    def _require_grouped(self, x: torch.Tensor, name: str) -> None:
        if tuple(x.shape[: len(self._shape)]) != self._shape:
            _shared.refuse(name, f"has the shape {tuple(x.shape)}; it must begin with {self._shape}")

    def _require_heads(self, x: torch.Tensor, name: str) -> None:
        if x.dim() != 4:
            _shared.refuse(name, f"has the shape {tuple(x.shape)}; it must be [batch, heads, width, elements]")
        self._require_grouped(x.transpose(1, 2), f"{name}.transpose(1, 2)")

    @staticmethod
    def _require_lengths(x: torch.Tensor, mask: torch.Tensor, lengths: torch.Tensor, name: str) -> None:
        _require_mask(mask, f"{name}_mask")
        if x.shape[:2] != mask.shape:
            _shared.refuse(f"{name}_mask", f"has the shape {tuple(mask.shape)}, but the tensor has {tuple(x.shape)}")
        found = _lengths_of(mask).tolist()
        if found != lengths.tolist():
            _shared.refuse(f"{name}_mask", f"has rows with {found} tokens, but group_info has {lengths.tolist()}")


class PrefixGrouperForPackedSequence(PrefixGrouper):
    """The same groups without a batch dimension: grouped tensors are [s, ...], the concatenated tokens of the groups.

    ``group_info``     as for PrefixGrouper
    ``padding_mode``   None: every row is a token; or a mask [s] that is nonzero at tokens

    Prefix and suffix tensors are PrefixGrouper's, and so are all methods but these: ungroup() takes [s, h, d] and returns
    [b, sp, h, d] and [n, ss, h, d]; forward() takes and returns [s, h, d], with PrefixGrouper's ``__attn_func``;
    position_ids() returns [s]. For variable-length attention, prepare_packed_qkv() returns queries, keys and values, whose
    sequences are in cu_seq_lens_q and cu_seq_lens_kv: each prefix, and each suffix after its prefix.
    """

    def __init__(
        self, group_info: Sequence[Sequence[int]] | None = None, device: Any = None,
        padding_mode: torch.Tensor | None = None, *, strict_reference: bool = False,
    ) -> None:
        super().__init__(group_info, device, padding_mode, strict_reference=strict_reference)

    def init(
        self, group_info: Sequence[Sequence[int]], device: Any = None, padding_mode: torch.Tensor | None = None
    ) -> None:
        """Sets the groups, as the constructor does."""
        super().init(group_info, device, "right")
        padded = self.padding_mask
        tokens = int(padded.sum())
        mask = torch.ones(tokens) if padding_mode is None else padding_mode
        if not isinstance(mask, torch.Tensor) or mask.dim() != 1 or int((mask != 0).sum()) != tokens:
            _shared.refuse("padding_mode", f"is not a mask [s] of the {counted(tokens, 'token')} that group_info has")
        _shared.require_flags(mask, "padding_mode")
        mask = (mask != 0).to(padded.device)
        self._tokens = mask.nonzero()[:, 0]
        self._packed = torch.full((padded.numel(),), -1, dtype=torch.long, device=padded.device)
        self._packed[padded.flatten()] = self._tokens  # maps positions in a padded tensor to those in a packed one
        for move in (self._prefix, self._suffix, self._keys):
            move.take_from(self._packed)
        self._shape = (len(mask),)
        self._padded_mask, self.padding_mask = padded, mask
        for name in ("grouped_prefix_mask", "grouped_suffix_mask"):
            grouped = torch.zeros_like(mask)
            grouped[self._packed[getattr(self, name).flatten()]] = True
            setattr(self, name, grouped)

    @classmethod
    def from_ungrouped_masks(
        cls, prefix_mask: torch.Tensor, suffix_mask: torch.Tensor, group_sizes: int | Sequence[int], device: Any = None,
        padding_mode: torch.Tensor | None = None, *, strict_reference: bool = False,
    ) -> PrefixGrouperForPackedSequence:
        """Like PrefixGrouper.from_ungrouped_masks()."""
        made = super().from_ungrouped_masks(
            prefix_mask, suffix_mask, group_sizes, device, padding_mode, strict_reference=strict_reference)
        return made  # type: ignore[return-value]

    def ungroup(
        self, q: torch.Tensor, k: torch.Tensor, v: torch.Tensor
    ) -> tuple[torch.Tensor, torch.Tensor, torch.Tensor, torch.Tensor, torch.Tensor, torch.Tensor]:
        """Splits packed tensors [s, h, d] into the prefixes of all three, [b, sp, h, d], followed by their suffixes, [n, ss, h, d]."""
        for name, x in (("q", q), ("k", k), ("v", v)):
            self._require_grouped(x, name)
        prefix, suffix = self._prefix, self._suffix
        return prefix(q), prefix(k), prefix(v), suffix(q), suffix(k), suffix(v)

    def prepare_packed_qkv(
        self, q: torch.Tensor, k: torch.Tensor, v: torch.Tensor
    ) -> tuple[torch.Tensor, torch.Tensor, torch.Tensor]:
        """Returns the rows of ``q`` at packed_q_indices, and those of ``k`` and ``v`` at packed_kv_indices."""
        for name, x in (("q", q), ("k", k), ("v", v)):
            self._require_grouped(x, name)
        queries, keys = (index[:, 0].to(q.device) for index in (self.packed_q_indices, self.packed_kv_indices))
        return q.index_select(0, queries), k.index_select(0, keys), v.index_select(0, keys)

    @property
    def packed_q_indices(self) -> torch.Tensor:
        """The position of each token: [tokens, 1] int64."""
        return self._tokens[:, None]

    @property
    def packed_kv_indices(self) -> torch.Tensor:
        """Positions of each prefix's tokens, and for each suffix, of its prefix's tokens and its own: [any, 1] int64."""
        bounds, first = [], 0
        for info in self.group_info:
            prefix = (first, first + info.prefix_len)
            bounds.append(prefix)
            first = prefix[1]
            for length in info.suffix_lens:
                bounds += [prefix, (first, first + length)]
                first += length
        return self._tokens[_shared.ranges(bounds).to(self._tokens.device)][:, None]

    @property
    def cu_seq_lens_q(self) -> torch.Tensor:
        """The offsets of the query sequences: [prefixes + suffixes + 1] int64."""
        return self._counts([0, *(length for info in self.group_info for length in info)]).cumsum(0)

    @property
    def cu_seq_lens_kv(self) -> torch.Tensor:
        """The offsets of the key and value sequences."""
        return self._counts([0, *(length for info in self.group_info for length in (
            info.prefix_len, *(info.prefix_len + suffix for suffix in info.suffix_lens)))]).cumsum(0)

    def position_ids(self, padding: int = 0) -> torch.Tensor:
        """Returns position ids [s] int64, as in PrefixGrouper."""
        padded = super().position_ids(padding)
        packed = padded.new_full(self._shape, padding)
        packed[self._tokens] = padded[self._padded_mask]
        return packed

    def _move(self, places: Any) -> _Move:
        move = _Move(places, self._packed.device)
        move.take_from(self._packed)
        return move

    def _require_heads(self, x: torch.Tensor, name: str) -> None:
        if x.dim() != 3:
            _shared.refuse(name, f"has the shape {tuple(x.shape)}; it must be [tokens, heads, elements]")
        self._require_grouped(x, name)


class _Move:
    """Moves tokens from their positions in a padded or packed tensor to those in another of shape [batch, width, ...]."""

    def __init__(self, places: tuple[Any, Any], device: Any = None) -> None:
        self.source, self.target = (torch.from_numpy(each.indices()).to(device or "cpu") for each in places)
        self.shape = places[1].shape
        self.size = self.shape[0] * self.shape[1]
        self.batched = True

    def take_from(self, packed: torch.Tensor) -> None:
        """Makes it read from a packed tensor, in which each token is at packed[its position in the padded one]."""
        self.source, self.batched = packed[self.source], False

    def __call__(self, x: torch.Tensor) -> torch.Tensor:
        rows = x.flatten(0, 1) if self.batched else x
        return _shared.move_rows(rows, self.source, self.target, self.size).reshape(*self.shape, *rows.shape[1:])

    def with_heads(self, x: torch.Tensor) -> torch.Tensor:
        """Like calling it, for [batch, heads, width, elements] or [tokens, heads, elements], to [batch, heads, width, elements]."""
        return self(x.transpose(1, 2) if self.batched else x).transpose(1, 2)


def _side_of(padding_mode: str) -> str:
    if padding_mode not in ("left", "right"):
        _shared.refuse("padding_mode", f"is {padding_mode!r}; it must be left, right or a mask")
    return padding_mode


def _layout_of(group_info: Sequence[Sequence[int]], padding_mode: str | torch.Tensor) -> Any:
    groups = [list(group) for group in group_info]
    if isinstance(padding_mode, str):
        return _native.prefix_layout(groups, _side_of(padding_mode), None)
    _require_mask(padding_mode, "padding_mode")
    return _native.prefix_layout(groups, "right", padding_mode.detach().cpu() != 0)


def _mask_of(places: Any, device: Any) -> torch.Tensor:
    return torch.from_numpy(places.mask()).to(device)


def _require_mask(mask: Any, name: str) -> None:
    if not isinstance(mask, torch.Tensor) or mask.dim() != 2:
        what = f"has the shape {tuple(mask.shape)}" if isinstance(mask, torch.Tensor) else f"has the type {type(mask).__name__}"
        _shared.refuse(name, f"{what}; it must be a tensor of two dimensions")
    _shared.require_flags(mask, name)


def _lengths_of(mask: torch.Tensor) -> torch.Tensor:
    return (mask != 0).sum(1)


def _flat(mask: torch.Tensor) -> torch.Tensor:
    """Returns the positions of tokens in a tensor whose first two dimensions are flattened."""
    return (mask != 0).flatten().nonzero()[:, 0]
