"""Converts datasets to JSON lines of rollouts, which jobs and ``evenkeel convert`` read (docs/formats.md): Parquet and
Arrow files, tables of pyarrow, datasets of Hugging Face, and any other rows with named columns.

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
    column that JSON lines cannot represent is rejected by name.

    ``source``     rows: mappings by column, such as a Dataset of Hugging Face; or columns: a table of pyarrow, a mapping of
                   lists; or the names of Parquet and Arrow files (pyarrow reads them), patterns too
    ``mask``       the column, as long as ``input_ids``, that is not 0 where a token carries loss; "all": every token does; None:
                   assistant_masks, completion_mask, loss_mask or the like, or ``labels`` other than -100, whichever is there
    ``uid``        the column that says which rows have one prompt; rows without are groups of their own
    ``messages``   the column with chats, which ``tokenizer`` turns into tokens by its template, where there is no ``input_ids``
    ``as_is``      columns of lists of any length, for a job whose ``fields`` say what they are
    ``at``         by column, the row convention of its lists: token, next or response (docs/micro-batches.md#row-conventions)

    A row has ``prompt_ids`` and ``response_ids``; or ``input_ids``, of which those up to the first with loss are the prompt, one at
    least, and ``attention_mask`` where they are padded; or a chat. The response's part of the mask becomes ``loss_mask``, so that
    what users say between answers carries no loss. Lists have a value a token or a response token, numbers and texts are one a
    sample. A mask says at each token whether that token carries loss, so lists as long as ``input_ids``, such as log-probabilities
    and advantages, follow the same convention and are cut to the response like it; position_ids, segment_ids, token_type_ids,
    mm_token_type_ids and routed_experts belong to the inputs and stay as long.
    """
    target = pathlib.Path(path)
    if target.exists() and not overwrite:
        _c.raise_error("io", str(target), "exists", "Choose another name, or pass overwrite")
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
    return made.told
