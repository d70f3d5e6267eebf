"""Named fields, as C++ hands them over and as users see them."""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt

from evenkeel import _core

# What tensors of dtypes have that torch knows from 2.3 on only: the same numbers, copied.
WIDER = {"uint16": "int32", "uint32": "int64"}


class WithFields:
    """Samples with named fields, over memory that C++ owns."""

    __slots__ = ("_core", "_tensors", "_views")

    def __init__(self, core: Any, tensors: bool) -> None:
        self._core, self._tensors = core, tensors
        self._views: dict[str, Any] | None = None

    @property
    def prompt_lengths(self) -> npt.NDArray[np.int64]:
        return self._core.prompt_lengths  # type: ignore[no-any-return]

    @property
    def response_lengths(self) -> npt.NDArray[np.int64]:
        return self._core.response_lengths  # type: ignore[no-any-return]

    def __getitem__(self, name: str) -> Any:
        fields = self._by_name()
        if name not in fields:
            _core.raise_error("input", f"field {name!r}", f"is not there; there are {', '.join(fields) or 'none'}")
        return fields[name]

    def axes_first(self, name: str) -> Any:
        """A field of rows of several elements, [rows, axes], as [axes, rows]: what models take as positions of several axes
        (M-RoPE). A view."""
        rows = self[name]
        if rows.ndim != 2:
            _core.raise_error("input", f"field {name!r}", f"has the shape {list(rows.shape)}", "Take a field of rows of axes")
        return rows.T

    def _by_name(self) -> dict[str, Any]:
        """What is handed out, the same objects each time."""
        if self._views is None:
            self._views = self._made(self._tensors)
        return self._views

    def _made(self, tensors: bool) -> dict[str, Any]:
        return {name: handed_out(rows, dtype, tensors) for name, dtype, *_, rows in self._core.fields()}


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
    if not hasattr(torch, dtype):
        rows = rows.astype(WIDER[dtype])
    tensor = torch.from_numpy(rows)
    return tensor.view(torch.bfloat16) if dtype == "bfloat16" else tensor
