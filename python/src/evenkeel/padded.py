"""Padded batches, as verl's and ROLL's DataProto and a TensorDict hold them, to Samples and back."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np
import numpy.typing as npt

from evenkeel import _arrays, _core
from evenkeel.samples import Samples

__all__ = ["results_like", "samples_of"]

MASK, RESPONSE_MASK = "attention_mask", "response_mask"


def samples_of(
    batch: Any, *, first_id: int, response_mask: str = RESPONSE_MASK, uid: str = "uid", loss_mask: bool = True
) -> Samples:
    """The samples of a padded batch: the tokens that ``attention_mask`` [n, width] names, of which those in the last columns,
    as many as ``batch[response_mask]`` [n, r] has, are the response.

    ``batch`` is a DataProto, a TensorDict, or a mapping of tensors or arrays. Columns [n, width, ...] become token fields,
    [n, r, ...] response-token fields, other tensors of n rows sample fields; of a DataProto's ``non_tensor_batch``, columns of
    numbers become sample fields and columns of str text. ``uid`` names the prompt's groups, where it is there. With
    ``loss_mask`` the response mask says which tokens carry loss, as it does in these systems (several turns). Samples are
    numbered from ``first_id``: numbers of different ranks must differ.

    Raises InputError for columns that do not fit, and for a column that two of these rules fit (width = r).
    """
    tensors, others = _columns_of(batch)
    for name in (MASK, response_mask):
        if name not in tensors:
            _core.raise_error("input", "batch", f"has no {name}; there are {', '.join(tensors) or 'none'}")
    mask = _array(tensors[MASK], MASK) != 0
    responses = _array(tensors[response_mask], response_mask)
    n, width, r = mask.shape[0], mask.shape[1], responses.shape[1]
    if r >= width or responses.shape[0] != n:
        _core.raise_error("input", response_mask, f"has the shape {list(responses.shape)}, and {MASK} {list(mask.shape)}",
                          "It has a column for each token of the response, which are the last columns")
    of_response = mask[:, width - r :]
    if (responses[~of_response] != 0).any():
        _core.raise_error("input", response_mask, f"names tokens that {MASK} does not", "Are both of the same batch?")
    fields = {"token": {}, "response_token": {}, "sample": {}, "text": {}}  # type: dict[str, dict[str, Any]]
    for name, column in tensors.items():
        if name in (MASK, response_mask):
            continue
        shape = tuple(column.shape)
        if shape[:2] == (n, width):
            fields["token"][name] = _picked(column, mask)
        elif shape[:2] == (n, r):
            fields["response_token"][name] = _picked(column, of_response)
        elif shape[:1] == (n,):
            fields["sample"][name] = column
        else:
            _core.raise_error("input", f"column {name!r}", f"has the shape {list(shape)}; the batch has {n} samples")
    if loss_mask:
        # One a response token: one a token would say of each token whether the next one carries loss.
        fields["response_token"]["loss_mask"] = responses[of_response].astype(np.float32)
    for name, column in others.items():
        values = np.asarray(column)
        if name == uid:
            continue
        if values.dtype.kind in "biuf":
            fields["sample"][name] = values
        elif all(isinstance(value, str) for value in values.tolist()):
            fields["text"][name] = values.tolist()
        else:
            _core.raise_error("input", f"column {name!r}", "has values that are no numbers and no text", "Leave it out")
    groups = others.get(uid, tensors.get(uid))
    return Samples(
        ids=np.arange(first_id, first_id + n),
        prompt_lengths=mask[:, : width - r].sum(1),
        response_lengths=of_response.sum(1),
        groups=groups.tolist() if hasattr(groups, "tolist") else groups,
        **fields,
    )


def results_like(samples: Samples, name: str, batch: Any, *, response_mask: str = RESPONSE_MASK, pad: float = 0) -> Any:
    """A result that came home (``service.collect(step)``) as the padded batch has its columns: a token field [n, width, ...], a
    response-token field [n, r, ...], ``pad`` where no token stands; a sample field as it is. ``samples`` are in the order of
    ``batch``, as collect() returns them."""
    tensors, _ = _columns_of(batch)
    mask = _array(tensors[MASK], MASK) != 0
    rows = samples[name]
    kind = samples.kinds()[name]
    if kind == "sample":
        return rows
    if kind == "response_token":
        mask = mask[:, mask.shape[1] - tensors[response_mask].shape[1] :]
    elif kind != "token":
        _core.raise_error("input", f"field {name!r}", f"is of {kind}, which has no padded form")
    if len(rows) != mask.sum():
        _core.raise_error("input", f"field {name!r}", f"has {len(rows)} rows; the batch has {int(mask.sum())} such tokens",
                          "Pass the batch that the samples were made of")
    if _arrays.is_tensor(rows):
        import torch

        padded = rows.new_full((*mask.shape, *rows.shape[1:]), pad)
        padded[torch.from_numpy(mask)] = rows
        return padded
    padded = np.full((*mask.shape, *rows.shape[1:]), pad, rows.dtype)
    padded[mask] = rows
    return padded


def _columns_of(batch: Any) -> tuple[dict[str, Any], dict[str, Any]]:
    """Tensors by name, and what else a DataProto has."""
    tensors = batch.batch if hasattr(batch, "batch") and hasattr(batch, "meta_info") else batch
    others = getattr(batch, "non_tensor_batch", None) if tensors is not batch else None
    names: Any = tensors.keys() if hasattr(tensors, "keys") else ()
    if not isinstance(tensors, Mapping) and not hasattr(tensors, "keys"):
        raise TypeError(f"a padded batch is a DataProto, a TensorDict or a mapping, not a {type(batch).__name__}")
    return {str(name): tensors[name] for name in names}, dict(others or {})


def _array(column: Any, name: str) -> npt.NDArray[Any]:
    return _arrays.as_numpy(column, name)


def _picked(column: Any, mask: npt.NDArray[np.bool_]) -> Any:
    """The rows of real tokens, back to back, of the kind that the column is."""
    if _arrays.is_tensor(column):
        import torch

        return column[torch.from_numpy(mask).to(column.device)].cpu()
    return np.asarray(column)[mask]
