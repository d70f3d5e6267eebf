"""Samples that share prefixes: layouts that hold every shared token once.

PrefixGroups and PrefixLayout are one prompt with many responses in padded tensors, after PrefixGrouper. PrefixTree and
PackedTreeLayout are any prefixes that samples have in common, in packed tensors. The functions here move rows between such
tensors; tensors are as in evenkeel.packing. They know no gradients: for those, gather by ``TokenPlaces.indices()``.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import numpy.typing as npt

from evenkeel import _arrays, _core
from evenkeel._core import PackedTreeLayout, Predictions, PrefixGroups, PrefixLayout, PrefixTree, TokenPlaces
from evenkeel.padding import mask_bytes

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

Places = tuple[TokenPlaces, TokenPlaces]


def groups_from_masks(prefix_mask: Any, suffix_mask: Any, group_sizes: Any) -> PrefixGroups:
    """The groups of padded prefixes [b, any] and padded suffixes [n, any], whose masks tell the lengths. ``group_sizes`` is
    how many suffixes each group has, or one number for all of them."""
    prefixes, suffixes = mask_bytes(prefix_mask), mask_bytes(suffix_mask)
    if isinstance(group_sizes, int):
        group_sizes = [group_sizes] * prefixes.shape[0]
    return PrefixGroups.from_masks(prefixes, suffixes, group_sizes)


def places_of_mask(mask: Any) -> TokenPlaces:
    """Where a mask [batch, width] is 1, row after row."""
    return TokenPlaces.of_mask(mask_bytes(mask))


def concat_input(
    layout: PrefixLayout, prefix: Any, prefix_mask: Any, suffix: Any, suffix_mask: Any, *, pad: Any = 0
) -> Any:
    """Puts padded prefixes [b, any, ...] and padded suffixes [n, any, ...] together as the grouped tensor [b, s, ...];
    ``pad`` where no token stands. Raises InputError where a mask has another number of ones than its prefix or suffix has
    tokens."""
    prefixes, suffixes = _pair(prefix, suffix, leading=2)
    target = prefixes.empty(*layout.grouped.shape, *prefixes.trailing[1:])
    pad_row = _pad_row(prefixes, 2, pad)
    _core.concat_input(layout, prefixes.array, mask_bytes(prefix_mask), suffixes.array, mask_bytes(suffix_mask), pad_row,
                       target.array)
    return target.value


def group(layout: PrefixLayout, prefix: Any, suffix: Any, *, pad: Any = 0, heads_first: bool = False) -> Any:
    """Prefixes [b, sp, ...] and suffixes [n, ss, ...] as the layout has them -> the grouped tensor [b, s, ...]. With
    ``heads_first`` tensors are [batch, heads, width, ...]."""
    leading = 3 if heads_first else 2
    prefixes, suffixes = _pair(prefix, suffix, leading)
    _require_width(prefixes, layout.prefix[1], heads_first, "prefix")
    _require_width(suffixes, layout.suffix[1], heads_first, "suffix")
    target = _empty_at(prefixes, layout.grouped, heads_first)
    _core.group(layout, prefixes.array, suffixes.array, _pad_row(prefixes, leading, pad), target.array, heads_first)
    return target.value


def ungroup(layout: PrefixLayout, grouped: Any, *, pad: Any = 0, heads_first: bool = False) -> tuple[Any, Any]:
    """The inverse of group: (prefixes, left-padded, suffixes, right-padded)."""
    prefix, suffix = (_moved(places, grouped, pad, heads_first) for places in (layout.prefix, layout.suffix))
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
    """What a model gave for the grouped tensor, as (prefixes, their bool mask, suffixes, their bool mask).

    With ``include_prefix_last=1`` row i of the suffixes holds what predicts each token of suffix i, then what follows it.
    ``short_prefix`` says what becomes of a prefix with fewer tokens: "error" or "pad". Masks are of the kind of ``output``.
    """
    prefix, suffix = layout.split(include_prefix_last, short_prefix=short_prefix)
    return (
        _moved(prefix, output, pad, heads_first),
        _arrays.handed_out(prefix[1].mask(), output),
        _moved(suffix, output, pad, heads_first),
        _arrays.handed_out(suffix[1].mask(), output),
    )


def convert_padding(
    source: TokenPlaces, target: TokenPlaces, values: Any, *, pad: Any = 0, heads_first: bool = False
) -> Any:
    """Moves the tokens of a padded tensor to other places of their rows, ``pad`` elsewhere: from one side's padding to the
    other's, or to a mask. Raises InputError where a row has another number of tokens on the two sides."""
    return _moved((source, target), values, pad, heads_first, same_rows=True)


def tree_rows(tree: PrefixTree, samples: Sequence[Any]) -> Any:
    """The rows of a tree, [num_rows, ...], out of each sample's rows [length, ...]: what PackedTreeLayout.segments packs.
    A shared row is taken from the first sample that has it."""
    if len(samples) != tree.num_samples:
        _core.raise_error("input", "samples", f"there are {len(samples)}; the tree has {tree.num_samples}")
    for i, sample in enumerate(samples):
        if sample.shape[0] != tree.sample_length(i):
            _core.raise_error("input", f"samples[{i}]", f"has {sample.shape[0]} rows; the tree has {tree.sample_length(i)}")
    if len(tree) == 0:
        return samples[0][:0] if samples else np.empty(0, np.int64)
    places = zip(tree.first_samples.tolist(), tree.depths.tolist(), tree.lengths.tolist())
    parts = [samples[first][depth : depth + length] for first, depth, length in places]
    if _arrays.is_tensor(parts[0]):
        import torch

        return torch.cat(parts)
    return np.concatenate(parts)


def _pair(prefix: Any, suffix: Any, leading: int) -> tuple[_arrays.Rows, _arrays.Rows]:
    """Two tensors whose rows go into one."""
    rows = _arrays.Rows(prefix, "prefix"), _arrays.Rows(suffix, "suffix")
    for part, name in zip(rows, ("prefix", "suffix")):
        if part.array.ndim < leading:
            _core.raise_error("input", name, f"has {part.array.ndim} dimensions; at least {leading} are needed")
    if rows[0].dtype != rows[1].dtype:
        _core.raise_error("input", "suffix", f"has the dtype {rows[1].dtype}; the prefix has {rows[0].dtype}")
    if rows[0].array.shape[leading:] != rows[1].array.shape[leading:]:
        _core.raise_error("input", "suffix", f"has rows of {rows[1].array.shape[leading:]}; the prefix has rows of "
                          f"{rows[0].array.shape[leading:]}")
    if leading == 3 and rows[0].array.shape[1] != rows[1].array.shape[1]:
        _core.raise_error("input", "suffix", f"has {rows[1].array.shape[1]} heads; the prefix has "
                          f"{rows[0].array.shape[1]}")
    return rows


def _require_width(rows: _arrays.Rows, places: TokenPlaces, heads_first: bool, name: str) -> None:
    shape = (rows.array.shape[0], rows.array.shape[2 if heads_first else 1])
    if shape != places.shape:
        _core.raise_error("input", name, f"is {list(shape)}; the layout has {list(places.shape)}")


def _empty_at(like: _arrays.Rows, places: TokenPlaces, heads_first: bool) -> _arrays.Rows:
    """Memory for these places and rows like those: [batch, width, ...] or [batch, heads, width, ...]."""
    batch, width = places.shape
    shape = like.array.shape
    return like.empty(batch, shape[1], width, *shape[3:]) if heads_first else like.empty(batch, width, *shape[2:])


def _pad_row(rows: _arrays.Rows, leading: int, pad: Any) -> npt.NDArray[Any]:
    return rows.row_of(pad, "pad", leading)


def _moved(places: Places, values: Any, pad: Any, heads_first: bool, same_rows: bool = False) -> Any:
    rows = _arrays.Rows(values, "values")
    leading = 3 if heads_first else 2
    if rows.array.ndim < leading:
        _core.raise_error("input", "values", f"have {rows.array.ndim} dimensions; at least {leading} are needed")
    _require_width(rows, places[0], heads_first, "values")
    target = _empty_at(rows, places[1], heads_first)
    _core.move_places(*places, rows.array, _pad_row(rows, leading, pad), target.array, heads_first, same_rows)
    return target.value
