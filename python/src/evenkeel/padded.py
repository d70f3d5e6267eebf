"""Converts padded batches, as in the DataProto of verl and ROLL or in a TensorDict, to Samples and back."""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping
from typing import Any, NoReturn, Optional

import numpy as np
import numpy.typing as npt

from evenkeel import _arrays, _c
from evenkeel._conventions import CONVENTIONS, LOSS_MASK, OF_INPUTS, WITHOUT_LOSS, require_conventions
from evenkeel._fields import RULES
from evenkeel._text import counted
from evenkeel.samples import Samples, build_or_keep_error

__all__ = ["results_like", "samples_of"]

MASK, RESPONSE_MASK = "attention_mask", "response_mask"


def samples_of(
    batch: Any, *, first_id: int, response_mask: str = RESPONSE_MASK, uid: str = "uid", loss_mask: bool = True,
    at: Mapping[str, str] | None = None,
) -> Samples:
    """Converts a padded batch to samples with the tokens at which ``attention_mask`` [n, width] is 1.

    ``batch`` is a DataProto, a TensorDict, or a mapping of tensors or arrays. Its ``response_mask`` specifies which tokens are the
    response, and with ``loss_mask``, which of these carry loss (several turns):

    - [n, r], as in verl: the last r columns are the response.
    - [n, width], as in ROLL and NeMo-RL, each value at its own token: the response is in the columns of ``responses`` [n, r], or
      in those after ``prompts`` [n, width - r]. Without either, it begins with the first token that is set.

    ``at`` gives the row convention of columns by name (docs/micro-batches.md#row-conventions): ``token`` [n, width, ...], each value at
    its token; ``next`` [n, width, ...] or [n, width - 1, ...], each at the preceding token; ``response`` [n, r, ...]. These become
    response-token fields; ``sample`` is one vector per sample. By default, columns [n, r, ...] and [n, width - 1, ...] become
    response-token fields, except ``prompts``, which input_ids contain; columns [n] become sample fields; columns [n, width, ...] become
    token fields, but if the response mask is as wide, they follow it, except those of the inputs (position_ids, segment_ids,
    token_type_ids, mm_token_type_ids, routed_experts). In a DataProto's ``non_tensor_batch``, and in a mapping's arrays of objects and
    text, numbers become sample fields and str become text fields. ``uid``, integers or str, defines the prompts' groups, if it exists.
    ``position_ids`` of several axes, [n, axes, width] as in verl for images, become [tokens, axes]. Samples are numbered from
    ``first_id``; numbers of different ranks must differ.

    Columns that do not fit, a column that fits two of these rules (width = r), and masks and labels that train prompt tokens are
    InputErrors. Like evenkeel.Samples, the samples keep the error for the step instead of raising it here.
    """
    return build_or_keep_error(lambda: _samples_of(batch, first_id, response_mask, uid, loss_mask, at))


def _samples_of(
    batch: Any, first_id: int, response_mask: str, uid: str, loss_mask: bool, at: Mapping[str, str] | None
) -> Samples:
    tensors, others = _columns_of(batch)
    conventions = require_conventions(at, (*CONVENTIONS, "sample"))
    for name in conventions:
        if name not in tensors:
            _refuse(name, f"is named in at, but is not a tensor of the batch; its tensors are {', '.join(tensors) or 'none'}")
    places = _Places.of(tensors, response_mask, conventions.pop(response_mask, None))
    if loss_mask and LOSS_MASK in tensors and response_mask != LOSS_MASK:
        _refuse(LOSS_MASK, f"is present as well as {response_mask}, and both specify which tokens carry loss",
                f"Pass response_mask={LOSS_MASK!r} or loss_mask=False, or leave one of them out")
    fields = {"token": {}, "response_token": {}, "sample": {}, "text": {}}  # type: dict[str, dict[str, Any]]
    for name, column in tensors.items():
        if name in (MASK, response_mask) or name == "prompts" and places.repeats_prompts(column):
            continue
        column = _tokens_first(name, column, *places.tokens.shape)
        kind, offset = places.kind_of(name, column, conventions.get(name))
        if kind == "token":
            fields[kind][name] = _select_tokens(column, places.tokens)
        elif kind == "response_token":
            places.require_no_loss_of_prompts(name, column, offset)
            fields[kind][name] = _select_tokens(column, places.responses, offset)
        else:
            fields[kind][name] = column
    if loss_mask:
        fields["response_token"][LOSS_MASK] = _select_tokens(places.mask, places.responses, places.offset).astype(np.float32)
    for name, column in others.items():
        if name == uid:
            continue
        values = _as_numbers(np.asarray(column))
        if values.dtype.kind in "biuf":
            fields["sample"][name] = values
        elif all(isinstance(value, str) for value in values.tolist()):
            fields["text"][name] = values.tolist()
        else:
            other = next(type(value).__name__ for value in values.tolist() if not isinstance(value, str))
            _refuse(name, f"has the dtype {values.dtype} with a value of the type {other}, which cannot become a field",
                    "Convert it to an array of numbers or of str, or leave it out")
    groups = others.get(uid, tensors.get(uid))
    responses = places.responses.sum(1)
    return Samples(
        ids=np.arange(first_id, first_id + len(responses)),
        prompt_lengths=places.tokens.sum(1) - responses,
        response_lengths=responses,
        groups=groups.tolist() if hasattr(groups, "tolist") else groups,
        **fields,
    )


def results_like(
    samples: Samples, name: str, batch: Any, *, response_mask: str = RESPONSE_MASK, pad: float = 0, at: str | None = None
) -> Any:
    """Returns a result of ``service.collect(step)`` in the padded form of the batch's columns, with ``pad`` where it has no value:
    a token field as [n, width, ...]; a response-token field in the convention ``at``: token [n, width, ...], next [n, width - 1, ...]
    or response [n, r, ...], by default response if the response mask is [n, r], and next if it is as wide as the tokens (ROLL); a
    sample field unchanged. ``samples`` are in the order of ``batch``, as collect() returns them."""
    tensors, _ = _columns_of(batch)
    require_conventions({} if at is None else {name: at})
    rows = samples[name]
    kind = samples.kinds()[name]
    rows_per = RULES[kind].rows_per
    if rows_per == "sample":
        return rows
    if rows_per == "token":
        where = _token_positions(tensors)
    elif rows_per == "response_token":
        where = _Places.of(tensors, response_mask, None).columns(at)
    else:
        _c.raise_error("input", f"field {name!r}", f"is of the kind {kind}, which has no padded form")
    if len(rows) != where.sum():
        expected = counted(int(where.sum()), rows_per.replace("_", " "))
        _c.raise_error("input", f"field {name!r}", f"has {counted(len(rows), 'row')}; the batch has {expected}",
                          "Pass the batch from which the samples were made")
    if _arrays.is_tensor(rows):
        import torch

        padded = rows.new_full((*where.shape, *rows.shape[1:]), pad)
        padded[torch.from_numpy(where)] = rows
        return padded
    padded = np.full((*where.shape, *rows.shape[1:]), pad, rows.dtype)
    padded[where] = rows
    return padded


@dataclasses.dataclass
class _Places:
    """The positions of tokens and of responses in a padded batch."""

    tokens: npt.NDArray[np.bool_]  # [n, width]
    responses: npt.NDArray[np.bool_]  # [n, width]
    mask: npt.NDArray[Any]  # specifies which response tokens carry loss
    at: str  # the convention of the mask
    offset: int  # the column of a token minus that of its value in the mask
    r: Optional[int]  # number of response columns, at the end; None if it differs between samples

    @classmethod
    def of(cls, tensors: Mapping[str, Any], response_mask: str, at: str | None) -> _Places:
        tokens = _token_positions(tensors)
        if response_mask not in tensors:
            _c.raise_error("input", "batch", f"has no {response_mask}; the columns are {', '.join(tensors) or 'none'}")
        mask = _array(tensors[response_mask], response_mask)
        n, width = tokens.shape
        if at == "sample":
            _refuse(response_mask, "is a mask of tokens, which cannot have one value per sample", "Pass at with token, next or response")
        if mask.ndim != 2 or mask.shape[0] != n or not 0 < mask.shape[1] <= width:
            _refuse(response_mask, f"has the shape {list(mask.shape)}, but {MASK} has {list(tokens.shape)}",
                    "Give it one column for each token, or for each response token, which are the last columns")
        columns = mask.shape[1]
        at = at or ("token" if columns == width else "response")
        fitting = {"token": (width,), "next": (width, width - 1), "response": range(1, width)}[at]
        if columns not in fitting:
            needed = {"token": width, "next": f"{width - 1} or {width}", "response": f"from 1 to {width - 1}"}[at]
            _refuse(response_mask, f"has {counted(columns, 'column')}; with at: {at}, it must have {needed}")
        offset = {"token": 0, "next": 1, "response": width - columns}[at]
        carries = _by_token(mask, offset, width)
        outside = (carries & ~tokens).any(1)
        if at == "next" and columns == width:
            outside |= mask[:, -1] != 0
        if outside.any():
            _refuse(response_mask, f"marks tokens in row {outside.argmax()} that {MASK} does not mark",
                    f"Check that both are from the same batch, and that at gives the convention of {response_mask}")
        r = columns if at == "response" else _response_columns(tensors, n, width)
        first = np.full(n, width - r) if r is not None else _first_loss_columns(tokens, carries)
        responses = tokens & (np.arange(width) >= first[:, None])
        of_prompts = (carries & ~responses).any(1)
        if of_prompts.any():
            _refuse(response_mask, f"marks prompt tokens in row {of_prompts.argmax()}; prompts are not trained",
                    "Set it to 0 at prompt tokens, or let the prompts end before the first token that is set")
        return cls(tokens, responses, mask, at, offset, r)

    def repeats_prompts(self, column: Any) -> bool:
        """Returns whether a column has the shape of prompts, whose tokens are also in input_ids."""
        n, width = self.tokens.shape
        return self.r is not None and tuple(column.shape) == (n, width - self.r)

    def kind_of(self, name: str, column: Any, at: str | None) -> tuple[str, int]:
        """Returns the kind of field that a column becomes, and the column of a token minus that of its value."""
        shape, (n, width) = tuple(column.shape), self.tokens.shape
        if shape[:1] != (n,):
            _refuse(name, f"has the shape {list(shape)}; the batch has {counted(n, 'sample')}")
        if at == "sample" or len(shape) == 1 and at is None:
            return "sample", 0
        wide = shape[1] if len(shape) > 1 else None
        offsets = {"token": {width: 0}, "next": {width: 1, width - 1: 1},
                   "response": {} if self.r is None else {self.r: width - self.r}}
        if at is not None:
            if wide in offsets[at]:
                return "response_token", offsets[at][wide]
            if at == "response" and self.r is None:
                _refuse(name, "has at: response, but the batch does not say how many columns the responses have", "Use token or next")
            _refuse(name, f"has the shape {list(shape)}; with at: {at}, the second dimension must be "
                    f"{' or '.join(map(str, offsets[at]))}")
        if wide == width:
            if name in ("input_ids", *OF_INPUTS):
                return "token", 0
            if self.at != "response":
                return "response_token", self.offset
            if self.r == width or name in WITHOUT_LOSS:
                other = " If it is the value of a response token, pass 'response'" if self.r == width else ""
                _refuse(name, f"has {counted(width, 'value')} per sample, but it is not specified where the value of a token is",
                        f"If it is at the token itself, pass at={{{name!r}: 'token'}}. If it is at the token before, which predicts it, pass "
                        f"'next'.{other}")
            return "token", 0
        if wide == width - 1:
            return "response_token", 1
        if wide == self.r:
            return "response_token", width - wide
        _refuse(name, f"has the shape {list(shape)}, but {counted(wide, 'column')} {'fits' if wide == 1 else 'fit'} neither the {width} "
                f"of the tokens, nor {width - 1}, "
                f"nor {'those' if self.r is None else f'the {self.r}'} of the response",
                f"If it is a vector for each sample, pass at={{{name!r}: 'sample'}}")

    def require_no_loss_of_prompts(self, name: str, column: Any, offset: int) -> None:
        """Rejects loss on prompts, which are not trained, except at a sample's first token, which is never predicted."""
        if name not in WITHOUT_LOSS:
            return
        n, width = self.tokens.shape
        is_set = _array(column, name) != WITHOUT_LOSS[name]
        prompts = self.tokens & ~self.responses
        prompts[np.arange(n), self.tokens.argmax(1)] = False
        of_prompts = (_by_token(is_set, offset, width) & prompts).any(1)
        if of_prompts.any():
            _refuse(name, f"marks prompt tokens in row {of_prompts.argmax()}; prompts are not trained",
                    f"Set it to {WITHOUT_LOSS[name]} at prompt tokens, or let the prompts end before the first token with loss")
        last = width - 1 - self.tokens[:, ::-1].argmax(1)
        if offset == 1 and is_set.shape[1] == width and (at_last := is_set[np.arange(n), last]).any():
            _refuse(name, f"is set at the last token of row {at_last.argmax()}, which does not predict a token",
                    f"If the value of each token is at the token itself, pass at={{{name!r}: 'token'}}; otherwise, set it to "
                    f"{WITHOUT_LOSS[name]} there")

    def columns(self, at: str | None) -> npt.NDArray[np.bool_]:
        """Returns the positions at which a padded column has the values of the response tokens, as a mask."""
        at = at or ("response" if self.at == "response" else "next")
        if at == "response" and self.r is None:
            _c.raise_error("input", "at", "is response, but the batch does not say how many columns the responses have", "Use token or next")
        width = self.tokens.shape[1]
        return self.responses[:, {"token": 0, "next": 1, "response": width - (self.r or 0)}[at] :]


def _token_positions(tensors: Mapping[str, Any]) -> npt.NDArray[np.bool_]:
    """Returns which positions are tokens: [n, width]."""
    if MASK not in tensors:
        _c.raise_error("input", "batch", f"has no {MASK}; the columns are {', '.join(tensors) or 'none'}")
    mask = _array(tensors[MASK], MASK)
    if mask.ndim != 2:
        _refuse(MASK, f"has the shape {list(mask.shape)}; it must be [n, width]")
    wrong = (mask != 0) & (mask != 1)
    if wrong.any():
        _refuse(MASK, f"holds {mask[wrong][0]}; a mask can have only 0 and 1",
                "Write 1 at each token and 0 at padding, and give each sequence its own row")
    return np.asarray(mask != 0)


def _tokens_first(name: str, column: Any, n: int, width: int) -> Any:
    """Converts positions of several axes, [n, axes, width], to [n, width, axes]; returns any other column unchanged."""
    shape = tuple(column.shape)
    if name != "position_ids" or len(shape) != 3 or shape[0] != n or shape[2] != width:
        return column
    if shape[1] == width:
        _refuse(name, f"has the shape {list(shape)}, but it is not known which dimension holds the tokens",
                f"Pad the batch to a width other than {width}, or construct Samples with axes={{'position_ids': ...}}")
    return column.transpose(1, 2) if _arrays.is_tensor(column) else np.swapaxes(column, 1, 2)


def _by_token(column: npt.NDArray[Any], offset: int, width: int) -> npt.NDArray[np.bool_]:
    """Returns whether the value of each token is set: [n, width]."""
    wide = np.zeros((len(column), width), bool)
    values = column[:, : width - offset] != 0
    wide[:, offset : offset + values.shape[1]] = values
    return wide


def _response_columns(tensors: Mapping[str, Any], n: int, width: int) -> int | None:
    """Returns the number of response columns, if another column specifies it."""
    for name in ("responses", "prompts"):
        shape: tuple[int, ...] = tuple(tensors[name].shape) if name in tensors else ()
        if len(shape) == 2 and shape[0] == n and shape[1] <= width:
            return shape[1] if name == "responses" else width - shape[1]
    return None


def _first_loss_columns(tokens: npt.NDArray[np.bool_], carries: npt.NDArray[np.bool_]) -> npt.NDArray[Any]:
    """Returns the column of the first token that carries loss, apart from the sample's first token, which is not
    predicted."""
    width = tokens.shape[1]
    return np.where(carries.any(1), np.maximum(carries.argmax(1), tokens.argmax(1) + 1), width)


def _refuse(name: str, message: str, hint: str = "") -> NoReturn:
    _c.raise_error("input", f"column {name!r}", message, hint)


def _columns_of(batch: Any) -> tuple[dict[str, Any], dict[str, Any]]:
    """Returns the tensors by name, and the remaining columns: other parts of a DataProto, and a mapping's arrays of objects
    and text."""
    tensors = batch.batch if hasattr(batch, "batch") and hasattr(batch, "meta_info") else batch
    others = getattr(batch, "non_tensor_batch", None) if tensors is not batch else None
    names: Any = tensors.keys() if hasattr(tensors, "keys") else ()
    if not isinstance(tensors, Mapping) and not hasattr(tensors, "keys"):
        raise TypeError(f"a padded batch is a DataProto, a TensorDict or a mapping, not {type(batch).__name__}")
    columns = {str(name): tensors[name] for name in names}
    untyped = {name: column for name, column in columns.items() if isinstance(column, np.ndarray) and column.dtype.kind in "OU"}
    return {name: column for name, column in columns.items() if name not in untyped}, {**untyped, **(others or {})}


def _array(column: Any, name: str) -> npt.NDArray[Any]:
    if str(getattr(column, "dtype", "")) == "torch.bfloat16":  # NumPy does not have this dtype
        column = column.float()
    return _arrays.as_numpy(column, name)


def _as_numbers(values: npt.NDArray[Any]) -> npt.NDArray[Any]:
    """Converts an array of objects that are all numbers of one kind, as verl makes them. Returns other arrays unchanged."""
    if values.dtype != object:
        return values
    numbers = [np.asarray(value) for value in values.tolist()]
    kinds = {number.dtype.kind if number.ndim == 0 else "O" for number in numbers}
    return np.array(numbers) if kinds in ({"b"}, {"i"}, {"u"}, {"f"}) else values


def _select_tokens(column: Any, where: npt.NDArray[np.bool_], offset: int = 0) -> Any:
    """Concatenates the values of the tokens selected by ``where`` [n, width]. A token's value is ``offset`` columns before
    the token; values before the first column are 0, because their tokens are not predicted."""
    rows, columns = np.nonzero(where)
    columns = columns - offset
    is_before, columns = columns < 0, np.maximum(columns, 0)
    if _arrays.is_tensor(column):
        import torch

        values = column[torch.from_numpy(rows).to(column.device), torch.from_numpy(columns).to(column.device)].cpu()
        if is_before.any():
            values[torch.from_numpy(is_before)] = 0
        return values
    values = np.asarray(column)[rows, columns]
    if is_before.any():
        values[is_before] = 0
    return values
