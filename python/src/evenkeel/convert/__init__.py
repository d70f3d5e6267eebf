"""Converts datasets to JSON lines of rollouts, which jobs and ``evenkeel convert`` read (docs/formats.md): Parquet and
Arrow files, pyarrow tables, Hugging Face datasets, and any other rows with named columns.

    evenkeel.convert.to_jsonl(datasets.load_dataset(...)["train"], "train.jsonl", tokenizer=tokenizer)
    python3 -m evenkeel.convert 'shards/*.parquet' train.jsonl

Also converts NumPy's files to safetensors and back, tensor by tensor:

    python3 -m evenkeel.convert batch.npz batch.safetensors
"""

from __future__ import annotations

import json
import os
import pathlib
from collections.abc import Mapping, Sequence
from typing import Any

from evenkeel import _c
from evenkeel.convert._rows import Converted, Rows
from evenkeel.convert._sources import rows_of
from evenkeel.convert._tensors import convert_tensors
from evenkeel.errors import Error

__all__ = ["Converted", "convert_tensors", "to_jsonl"]


def to_jsonl(
    source: Any,
    path: str | os.PathLike[str],
    *,
    mask: str | None = None,
    uid: str = "uid",
    messages: str = "messages",
    tokenizer: Any = None,
    drop: Sequence[str] = (),
    as_is: Sequence[str] = (),
    at: Mapping[str, str] | None = None,
    overwrite: bool = False,
) -> Converted:
    """Writes one line per row. The file appears complete or not at all. Only columns named in ``drop`` are omitted; a
    column that JSON lines cannot represent raises an InputError that names it.

    ``source``     rows: mappings by column, such as a Hugging Face Dataset; or columns: a pyarrow table or a mapping of lists;
                   or names or patterns of Parquet and Arrow files, which pyarrow reads, and of JSON lines
    ``mask``       a column as long as ``input_ids`` that is nonzero at tokens with loss; "all": every token has loss; None:
                   assistant_masks, completion_mask, loss_mask or similar, or ``labels`` other than -100, whichever exists
    ``uid``        the column with equal values for rows of one prompt; each row without a value is its own group
    ``messages``   the column with chats, which the template of ``tokenizer`` converts to tokens if there is no ``input_ids``
    ``as_is``      columns of lists of any length, for a job whose ``fields`` describe them
    ``at``         by column, the row convention of its lists: token, next or response (docs/micro-batches.md#row-conventions)

    A row has ``prompt_ids`` and ``response_ids``, or ``input_ids`` (with ``attention_mask`` if padded), or a chat. The prompt
    of ``input_ids`` is the tokens before the first one with loss, at least one; with "all" it is empty. The response's part of
    the mask becomes ``loss_mask``, so user messages between answers carry no loss. Lists have one value per token or response
    token; numbers and texts are one per sample. A mask is given at each token, so other lists as long as ``input_ids``, such as
    log-probabilities and advantages, are taken to follow that convention, and are cut to the response. position_ids,
    segment_ids, token_type_ids, mm_token_type_ids and routed_experts belong to the inputs and keep their length.
    """
    target = pathlib.Path(path)
    if target.exists() and not overwrite:
        _c.raise_error("io", str(target), "exists", "Choose another name, or pass overwrite (--overwrite)")
    made = Rows(mask=mask, uid=uid, messages=messages, tokenizer=tokenizer, drop=set(drop), as_is=set(as_is), at=at)
    part = target.with_name(f"{target.name}.{os.getpid()}.part")
    try:
        with open(part, "w", encoding="utf-8") as file:
            for row in rows_of(source):
                file.write(json.dumps(made.line(row), allow_nan=False) + "\n")
        made.require_whole()
        os.replace(part, target)
    except Error:
        raise
    except OSError as error:
        _c.raise_error("io", str(target), f"cannot be written: {error.strerror or error}")
    finally:
        part.unlink(missing_ok=True)
    return made.summary
