"""Common code of the drop-in modules: rows of batches of any kind, counts that ranks agree on, and moving tokens."""

from __future__ import annotations

import copy
import sys
from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING, Any

from evenkeel import _c
from evenkeel.drop_in import _native

if TYPE_CHECKING:
    import torch

FAILED = 2**62  # above every count; sent by a rank that cannot plan
refuse = _c.refuse


# Batches

def tensors_of(data: Any) -> Any:
    """Returns the object that holds the tensors by name: a DataProto's batch, or the batch itself."""
    return data.batch if hasattr(data, "batch") and hasattr(data, "meta_info") else data


def lengths_of(mask: Any) -> list[int]:
    """Returns the number of tokens of each sample in an attention mask [n, ...]; a mask [n] contains the lengths themselves.
    """
    import torch

    if mask.dim() > 1:
        require_flags(mask)
    if mask.is_floating_point():
        mask = mask != 0
    dtype = torch.long if mask.dtype == torch.long else torch.int32  # a type that torch sums quickly
    return (mask.flatten(1).sum(-1, dtype=dtype) if mask.dim() > 1 else mask).tolist()


def require_flags(mask: torch.Tensor, name: str = "attention_mask") -> None:
    """Raises InputError for a mask with values other than 0 and 1, such as numbers of packed sequences, or an additive mask."""
    import torch

    if mask.dtype == torch.bool:
        return
    wrong = (mask != 0) & (mask != 1)
    if wrong.any():
        refuse(name, f"holds {mask[wrong][0].item()}; a mask can have only 0 and 1",
               "Write 1 at each token and 0 at padding, and give each sequence its own row")


def size_of(batch: Any) -> int:
    """Returns the number of samples."""
    return int(tensors_of(batch)["attention_mask"].shape[0])


def rows_of(values: Any, indices: Sequence[int] | torch.Tensor) -> Any:
    """Returns the samples with these indices from one column, or from a batch that supports ``batch[indices]``."""
    import torch

    if isinstance(values, torch.Tensor):
        if getattr(values, "is_nested", False):
            rows = values.unbind()
            layout = {"layout": values.layout} if values.layout != torch.strided else {}
            return torch.nested.as_nested_tensor([rows[i] for i in indices], **layout)
        if values.dim() == 0:
            return values
        return values.index_select(0, torch.as_tensor(indices, dtype=torch.long, device=values.device))
    if isinstance(values, (list, tuple)):
        return type(values)(values[i] for i in indices)
    if isinstance(values, (str, bytes)) or not hasattr(values, "__getitem__") or getattr(values, "shape", None) == ():
        return values  # one value for the whole batch
    wanted = torch.as_tensor(indices, dtype=torch.long)
    return values[wanted.numpy() if type(values).__module__ == "numpy" else wanted]


def select(data: Any, indices: Sequence[int]) -> Any:
    """Returns the samples with these indices from a mapping of columns, a batch that supports ``batch[indices]``, or an
    object with ``.batch`` and ``.meta_info``, whose meta_info is copied."""
    if tensors_of(data) is not data:
        chosen = copy.copy(data)
        _set_rows(chosen, indices)
        chosen.meta_info = copy.deepcopy(data.meta_info)
        return chosen
    if _is_mapping(data):
        return {key: rows_of(values, indices) for key, values in data.items()}
    nested = [key for key in _keys_of(data) if getattr(data[key], "is_nested", False)]
    if nested:  # a TensorDict's own indexing does not support nested tensors
        return type(data)({key: rows_of(data[key], indices) for key in data.keys()}, batch_size=[len(indices)])
    return rows_of(data, indices)


def split(data: Any, partitions: Sequence[Sequence[int]]) -> list[Any]:
    """Returns select() for each partition. One call copies a tensor of a mapping to all partitions."""
    tensors = tensors_of(data)
    if not _is_mapping(tensors):
        return [select(data, partition) for partition in partitions]
    columns = {key: _split_column(str(key), values, partitions) for key, values in tensors.items()}
    batches = [{key: parts[i] for key, parts in columns.items()} for i in range(len(partitions))]
    if tensors is data:
        return batches
    rest = copy.copy(data)
    rest.batch = None
    chosen = [select(rest, partition) for partition in partitions]
    for each, batch in zip(chosen, batches):
        each.batch = batch
    return chosen


def _split_column(name: str, values: Any, partitions: Sequence[Sequence[int]]) -> list[Any]:
    import torch

    if not (isinstance(values, torch.Tensor) and _is_plain_memory(values)):
        return [rows_of(values, partition) for partition in partitions]
    storage = values.untyped_storage() if hasattr(values, "untyped_storage") else values.storage()
    if (values.storage_offset() + values.numel()) * values.element_size() > storage.nbytes():
        refuse(name, "has lost its memory: its storage was resized", "Pass a tensor that has its memory")
    parts = [values.new_empty((len(partition), *values.shape[1:])) for partition in partitions]
    row_bytes = values.element_size() * values[0].numel() if len(values) else 0
    targets = [part.data_ptr() for part in parts]
    _native.take_rows(values.data_ptr(), len(values), row_bytes, partitions, targets, torch.get_num_threads())
    return parts


def _is_plain_memory(tensor: torch.Tensor) -> bool:
    """Returns whether this process can copy the tensor's rows as bytes without losing anything."""
    import torch

    return (type(tensor) is torch.Tensor and tensor.device.type == "cpu" and tensor.layout is torch.strided
            and not getattr(tensor, "is_nested", False) and tensor.dim() > 0 and tensor.is_contiguous()
            and not tensor.requires_grad and not tensor.is_quantized and not tensor.is_conj() and not tensor.is_neg())


def _is_mapping(tensors: Any) -> bool:
    """Returns whether this maps names to columns and has no notion of rows. A TensorDict is a mapping with rows."""
    return isinstance(tensors, Mapping) and not hasattr(tensors, "batch_size")


def reorder(data: Any, indices: Sequence[int]) -> None:
    """Reorders a DataProto's samples in place."""
    if hasattr(data, "reorder"):
        import torch

        data.reorder(torch.tensor(indices, dtype=torch.long))
    else:
        _set_rows(data, indices)


def _set_rows(data: Any, indices: Sequence[int]) -> None:
    others = getattr(data, "non_tensor_batch", None)
    if data.batch is not None:
        data.batch = select(data.batch, indices)
    if others:
        data.non_tensor_batch = {key: rows_of(values, indices) for key, values in others.items()}


def _keys_of(data: Any) -> list[Any]:
    return list(data.keys()) if hasattr(data, "keys") else []


# Counts that ranks agree on

def is_distributed() -> bool:
    """Returns whether torch.distributed has been initialized. Does not import torch."""
    distributed = sys.modules.get("torch.distributed")
    return distributed is not None and distributed.is_available() and distributed.is_initialized()


def plan_together(make: Callable[[], Any], group: Any, *, together: bool, strict: bool) -> list[list[int]]:
    """Returns this rank's micro-batches; all ranks of the group have the same number. ``make`` creates a planner of this rank's
    samples (count, agreed_count, count_under_cap and of; see _native.MicroBatches). If it raises on one rank, all ranks raise.
    ``strict``: use the maximum of the ranks' counts; otherwise, the smallest count from that maximum on with which every rank keeps
    its cap."""
    planners: list[Any] = []

    def first_count() -> int:
        planners.append(make())
        return int(planners[0].count() if strict else planners[0].count_under_cap(planners[0].count()))

    largest = _compute_largest if together else _compute_alone
    count: int = largest(first_count, group)
    (planner,) = planners
    count = planner.agreed_count(count)
    while not strict:
        needed = largest(lambda: int(planner.count_under_cap(count)), group)  # noqa: B023, called at once
        if needed == count:
            break
        count = needed
    partitions: list[list[int]] = planner.of(count)
    return partitions


def _compute_alone(compute: Callable[[], int], group: Any) -> int:
    return compute()


def _compute_largest(compute: Callable[[], int], group: Any) -> int:
    """Returns the maximum over the ranks of the group. If ``compute`` raises on one rank, all ranks raise."""
    failure = None
    try:
        mine = compute()
    except Exception as error:  # the other ranks wait in the all-reduce
        mine, failure = FAILED, error
    largest = _all_reduce_max(mine, group)
    if failure is not None:
        raise failure
    if largest == FAILED:
        refuse("dp_group", "another rank could not plan its samples", "See the error of that rank")
    return largest


def _all_reduce_max(value: int, group: Any) -> int:
    import torch
    import torch.distributed as distributed

    backend = str(distributed.get_backend(group))
    device = "cuda" if "nccl" in backend else "npu" if "hccl" in backend else "cpu"
    tensor = torch.tensor([value], dtype=torch.long, device=device)
    distributed.all_reduce(tensor, op=distributed.ReduceOp.MAX, group=group)
    return int(tensor.item())


# Tokens

def move_rows(rows: Any, source: Any, target: Any, size: int, pad: float = 0) -> Any:
    """Returns a tensor of `size` rows in which row target[i] is rows[source[i]], and other rows are `pad`. Gradients flow."""
    import torch

    device = rows.device
    source, target = (torch.as_tensor(index, dtype=torch.long).to(device) for index in (source, target))
    empty = rows.new_full((size, *rows.shape[1:]), pad)
    return empty.index_copy(0, target, rows.index_select(0, source))


def ranges(bounds: Sequence[tuple[int, int]]) -> Any:
    """Concatenates the numbers in all ranges [begin, end) to an int64 tensor."""
    import torch

    begins, ends = torch.tensor(bounds, dtype=torch.long).reshape(-1, 2).unbind(1)
    sizes = ends - begins
    before = sizes.cumsum(0) - sizes
    return torch.arange(int(sizes.sum())) + (begins - before).repeat_interleave(sizes)


def whole_counts(metrics: dict[str, float], *fractions: str) -> dict[str, Any]:
    """Converts counts of tokens to ints; metrics with the names in ``fractions`` remain floats."""
    return {name: value if name.rsplit("/", 1)[-1] in fractions else int(value) for name, value in metrics.items()}
