"""Named fields, as C++ hands them over and as users see them."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy.typing as npt

from evenkeel import _core


def field_of(fields: Mapping[str, Any], name: str) -> Any:
    if name not in fields:
        _core.raise_error("input", f"field {name!r}", f"is not there; there are {', '.join(fields) or 'none'}")
    return fields[name]


def dtype_word(rows: Any) -> str:
    """What C++ calls the dtype of an array or tensor."""
    return str(rows.dtype).removeprefix("torch.")


def handed_out(rows: npt.NDArray[Any], dtype: str, tensors: bool) -> Any:
    if not tensors:
        return rows
    import torch

    if not rows.flags.writeable:
        # torch has no read-only tensors: the memory is what ranks of a node share, and writing it ends the process.
        rows = rows.copy()
    tensor = torch.from_numpy(rows)
    return tensor.view(torch.bfloat16) if dtype == "bfloat16" else tensor
