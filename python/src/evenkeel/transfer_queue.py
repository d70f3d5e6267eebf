"""Keeps TransferQueue's values in Evenkeel's store: a storage manager named Evenkeel, a rank's share of values, and a sampler.

    import evenkeel.transfer_queue  # in the process that initializes TransferQueue
    transfer_queue.init(OmegaConf.create({"backend": {"storage_backend": "Evenkeel",
                                                      "Evenkeel": {"url": "http://127.0.0.1:8711"}}}))

Processes that join with ``transfer_queue.init()`` import this module when they receive the configuration. Needs torch and
TransferQueue 0.1.11 (the PyPI package transferqueue)."""

from __future__ import annotations

import asyncio
import concurrent.futures
import dataclasses
import itertools
import math
import operator
import os
import pathlib
import time
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np
import torch
from omegaconf import open_dict
from tensordict import NonTensorStack, TensorDict, TensorDictBase
from transfer_queue.metadata import BatchMeta, extract_field_schema
from transfer_queue.sampler import BaseSampler
from transfer_queue.storage import StorageKeyNotFoundError, StorageManagerFactory
from transfer_queue.storage.bootstrap import StorageBootstrapProvider
from transfer_queue.storage.managers.base import StorageManager
from transfer_queue.utils import serial_utils

from evenkeel import packing, values
from evenkeel._text import counted
from evenkeel.balance import CostModel, karmarkar_karp
from evenkeel.errors import ConfigError, InputError, LimitError, MissingFieldError
from evenkeel.values import ValueClient, Values

__all__ = ["BalancedSampler", "EvenkeelStorageManager", "Share", "get_share"]

_NAME = "Evenkeel"
_CHECKPOINT = "evenkeel.values"
_AXES = 8  # maximum number of axes of a value in the store
_THREADS = 8  # maximum number of requests of one process in flight
_TAG_SECONDS = 60.0  # time within which a sample's tags must follow its values


class _Registration:
    """An entry of the configuration. A process that receives it imports this module, which registers the manager."""

    def __repr__(self) -> str:
        return __name__


@dataclasses.dataclass(frozen=True)
class _Settings:
    """The section backend.Evenkeel.

    ``url``         where the store listens
    ``token_file``  a file with the store's token, which every process can read
    ``ca``          a PEM file of certificates to trust for https instead of the system's
    ``existing``    what to do with values in the store when TransferQueue is initialized: refuse, clear or keep
    ``patience``    seconds to repeat a request while the store is full or unreachable
    """

    url: str
    token_file: str | None = None
    ca: str | None = None
    existing: str = "refuse"
    patience: float = 600.0

    @classmethod
    def of(cls, section: Mapping[str, Any]) -> _Settings:
        given = {str(key): value for key, value in section.items() if key != "registration"}
        known = [field.name for field in dataclasses.fields(cls)]
        for key in given:
            if key not in known:
                raise ConfigError(f"backend.{_NAME}.{key}: is not a known key; the keys are: {', '.join(known)}")
        if not given.get("url"):
            raise ConfigError(f"backend.{_NAME}.url: is missing. Set the address at which `evenkeel store` listens")
        settings = cls(**given)
        if settings.existing not in ("refuse", "clear", "keep"):
            raise ConfigError(f"backend.{_NAME}.existing: is {settings.existing!r}; it must be refuse, clear or keep")
        if not isinstance(settings.patience, (int, float)) or isinstance(settings.patience, bool) or not settings.patience >= 0:
            raise ConfigError(f"backend.{_NAME}.patience: is {settings.patience!r}; it must be a number of seconds of at least 0")
        return settings

    def client(self) -> ValueClient:
        return ValueClient(self.url, token=self._token(), ca=self.ca, patience=self.patience)

    def _token(self) -> str | None:
        if self.token_file is None:
            return None
        try:
            return pathlib.Path(self.token_file).read_text(encoding="utf-8").strip()
        except (OSError, UnicodeDecodeError) as error:
            raise ConfigError(f"backend.{_NAME}.token_file: cannot be read: {error}") from error


@StorageBootstrapProvider.register_provider(_NAME)
def _prepare(conf: Any) -> dict[str, Any]:
    """Called once, by the process that initializes TransferQueue. The store itself is started by the user."""
    section = conf.backend.get(_NAME)
    settings = _Settings.of(section or {})
    client = settings.client()
    stored = client.status()["values"]
    if stored and settings.existing == "refuse":
        raise ConfigError(f"backend.{_NAME}.url: the store at {settings.url} has {counted(stored, 'value')} of another job or an "
                          f"earlier run. Set backend.{_NAME}.existing to clear, which removes all values, or to keep, if you "
                          "load the controller's checkpoint of that run; if another job still uses the store, set "
                          f"backend.{_NAME}.url to another store")
    if settings.existing == "clear":
        client.clear()
    client.close()
    with open_dict(section):
        section.registration = _Registration()
    return {}


@StorageManagerFactory.register(_NAME)
class EvenkeelStorageManager(StorageManager):
    """Stores TransferQueue's values, and returns them with the types and layouts of its own SimpleStorage."""

    def __init__(self, controller_info: Any, config: Mapping[str, Any], zmq_context: Any = None) -> None:
        self.client = _Settings.of(config).client()
        self._threads = concurrent.futures.ThreadPoolExecutor(_THREADS, thread_name_prefix="evenkeel")
        super().__init__(controller_info, config, zmq_context=zmq_context)

    async def put_data(self, data: TensorDict, metadata: BatchMeta, data_parser: Callable[[Any], Any] | None = None) -> None:
        """Stores the values, and notifies the controller when they are durable."""
        if data_parser is not None:
            raise NotImplementedError(
                "data_parser: is not supported, because Evenkeel's store cannot run Python code. Parse the data before calling put"
            )
        if metadata.size == 0:
            return
        schema = extract_field_schema(data)
        await self._in_thread(self._put, metadata.global_indexes, data)
        await self.notify_data_update(metadata.partition_ids[0], metadata.global_indexes, schema)

    async def get_data(self, metadata: BatchMeta) -> TensorDict:
        """Returns the fields of the samples in ``metadata``. Raises StorageKeyNotFoundError if a value has been cleared."""
        if metadata.size == 0:
            return TensorDict({}, batch_size=0)
        return await self._in_thread(self.get_data_sync, metadata)

    def get_data_sync(self, metadata: BatchMeta, slices: values.Slices | None = None) -> TensorDict:
        """Like ``get_data``, but blocks; with slices of fields as in ``ValueClient.get``."""
        try:
            found = self.client.get(metadata.global_indexes, metadata.field_names, slices=slices)
        except MissingFieldError as error:
            raise StorageKeyNotFoundError(str(error)) from error
        layouts: dict[tuple[int, ...], torch.Tensor] = {}
        return TensorDict({name: _batch(column, layouts) for name, column in found.items()}, batch_size=len(metadata))

    async def clear_data(self, metadata: BatchMeta) -> None:
        """Removes all fields of the samples in ``metadata``."""
        if metadata.size:
            await self._in_thread(self.client.clear, metadata.global_indexes)

    async def save_checkpoint(self, checkpoint_dir: str) -> None:
        """Makes the store write all of its values to a file in this folder."""
        await self._in_thread(self.client.save, _file_in(checkpoint_dir))

    async def load_checkpoint(self, checkpoint_dir: str) -> None:
        """Replaces the store's values by those of the file in this folder."""
        await self._in_thread(self.client.load, _file_in(checkpoint_dir))

    def close(self) -> None:
        """Closes connections to the controller and the store."""
        super().close()
        if hasattr(self, "_threads"):  # otherwise, the constructor has raised
            self._threads.shutdown(wait=False)
            self.client.close()

    async def _in_thread(self, call: Callable[..., Any], *arguments: Any) -> Any:
        return await asyncio.get_running_loop().run_in_executor(self._threads, call, *arguments)

    def _put(self, indexes: Sequence[int], data: TensorDict) -> None:
        self.client.put(indexes, {name: _storable(name, data[name]) for name in data.keys()})


def _file_in(checkpoint_dir: str) -> str:
    return os.path.join(os.path.abspath(checkpoint_dir), _CHECKPOINT)


def _storable(name: str, column: Any) -> Any:
    """Converts a field of a TensorDict to a form that the store accepts. Dtypes that the store lacks, and tensors with too many
    axes, become bytes by TransferQueue's own serializer, which marks what it pickles."""
    if isinstance(column, torch.Tensor):
        fits = column.layout in (torch.strided, torch.jagged) and column.dim() <= 1 + _AXES and values.dtype_of(column)
        return column if fits else [_serialize(row) for row in column.unbind()]
    if isinstance(column, (NonTensorStack, list)):
        return [_serialize(row) for row in (column if isinstance(column, list) else column.tolist())]
    if isinstance(column, (np.ndarray, TensorDictBase)):
        return [_serialize(column[i]) for i in range(len(column))]
    raise InputError(f"field {name!r}: is one {type(column).__name__} for all samples. Pass NonTensorStack(*values), with a value per sample")


def _serialize(value: Any) -> memoryview:
    pieces = serial_utils.encode(value)
    buffer = bytearray(serial_utils.calc_packed_size(pieces))
    serial_utils.pack_into(buffer, pieces)
    return memoryview(buffer)


def _batch(column: Values, layouts: dict[tuple[int, ...], torch.Tensor]) -> Any:
    """Converts a field for a TensorDict: numbers to a dense tensor, other tensors of one dtype to a jagged one if their
    shapes permit that, otherwise to a strided one, and everything else to a NonTensorStack. ``layouts`` has the offsets of
    jagged tensors by their lengths, which fields of one batch share."""
    if column.dtype and column.dtype != values.BYTES:
        if not any(column.shapes):
            return column.flat_tensor()
        if len({shape[1:] for shape in column.shapes}) == 1 and all(column.shapes):
            return _jagged(column, layouts)
    rows = [_deserialize(column, i) if dtype == values.BYTES else column.tensor(i) for i, dtype in enumerate(column.dtypes)]
    return _nested(rows) if all(isinstance(row, torch.Tensor) for row in rows) else NonTensorStack(*rows)


def _deserialize(column: Values, at: int) -> Any:
    return serial_utils.decode(serial_utils.unpack_from(column.raw(at).data))


def _jagged(column: Values, layouts: dict[tuple[int, ...], torch.Tensor]) -> torch.Tensor:
    """Returns values that differ only in their first axes as a jagged tensor, over the same memory."""
    lengths = tuple(shape[0] for shape in column.shapes)
    if lengths not in layouts:
        layouts[lengths] = torch.tensor([0, *itertools.accumulate(lengths)])
    rows = column.flat_tensor().reshape(int(layouts[lengths][-1]), *column.shapes[0][1:])
    return torch.nested.nested_tensor_from_jagged(rows, layouts[lengths], min_seqlen=min(lengths), max_seqlen=max(lengths))


def _nested(rows: list[torch.Tensor]) -> Any:
    if not any(row.dim() for row in rows) and len({row.dtype for row in rows}) == 1:
        return torch.stack(rows)
    for layout in (torch.jagged, torch.strided):
        try:
            return torch.nested.as_nested_tensor(rows, layout=layout)
        except (RuntimeError, TypeError):
            pass
    return NonTensorStack(*rows)


@dataclasses.dataclass(frozen=True)
class Share:
    """The part of each sample that one rank needs.

    ``token_fields``  fields with one row per token, of which a context-parallel rank needs its zigzag chunks
    ``layer_fields``  fields with an axis of layers, and the number of that axis
    ``cp``            the rank among the context-parallel ranks, and the number of these
    ``layers``        the layers of the pipeline stage, as (begin, end); needed with layer_fields
    ``tp``            number of tensor-parallel ranks, which also determines the alignment of sequences
    """

    token_fields: Sequence[str] = ()
    layer_fields: Mapping[str, int] = dataclasses.field(default_factory=dict)
    cp: tuple[int, int] = (0, 1)
    layers: tuple[int, int] | None = None
    tp: int = 1

    def slices(self, metadata: BatchMeta) -> dict[str, list[dict[str, Any]]]:
        """Returns slices for ``ValueClient.get``."""
        if self.layer_fields and self.layers is None:
            raise InputError("layers: is missing. Pass the layers of the pipeline stage, as (begin, end)")
        slices: dict[str, list[dict[str, Any]]] = {}
        for name in metadata.field_names:
            of_field = []
            if name in self.token_fields:
                of_field.append({"axis": 0, "ranges_per_index": [self.rows(int(shape[0])) for shape in metadata.get_shapes(name)]})
            if name in self.layer_fields:
                of_field.append({"axis": self.layer_fields[name], "ranges": [list(self.layers or ())]})
            if of_field:
                slices[name] = of_field
        return slices

    def rows(self, length: int) -> list[list[int]]:
        """Returns the ranges of tokens that the rank holds, without alignment."""
        rank, size = self.cp
        alignment = packing.sequence_alignment(self.tp, size)
        runs = packing.cp_runs(-(-length // alignment) * alignment, size, rank)
        return [[begin, min(end, length)] for begin, end in runs if begin < length]


def get_share(metadata: BatchMeta, share: Share) -> TensorDict:
    """Returns a rank's share of the values; no other bytes are sent. ``metadata`` is that of TransferQueue's get_meta or
    kv_retrieve_meta. Raises InputError if TransferQueue has a different backend."""
    import transfer_queue

    manager = transfer_queue.get_client().storage_manager
    if not isinstance(manager, EvenkeelStorageManager):
        raise InputError(f"TransferQueue's storage manager is {type(manager).__name__}. Set backend.storage_backend to {_NAME}")
    return manager.get_data_sync(metadata, share.slices(metadata))


def _integer_of(value: Any) -> int | None:
    """Returns the integer, or None if the value is not one. Integers of NumPy and PyTorch are integers."""
    try:
        return None if isinstance(value, bool) else operator.index(value)
    except TypeError:
        return None


class BalancedSampler(BaseSampler):
    """Distributes whole groups to data-parallel ranks with equal work, and each sample once per task.

    ``dp_size``     number of data-parallel ranks; ``batch_size`` of a request is that of one rank
    ``group_size``  number of samples in a group; a group is ready when all of them are
    ``group_tag``   the tag of a sample that names its group; needed if groups have more than one sample
    ``length_tag``  the tag with a sample's number of tokens
    ``max_tokens``  the cap of the trainer's micro-batches: raises LimitError for a longer sample; None: no limit
    ``cost``        the work of a sample, by default that of its tokens

    All ranks get the same number of groups. TransferQueue calls tags custom_meta. The sampling_config of a request needs
    task_name, dp_rank and batch_index, as StreamingDataset sends them.

    TransferQueue's controller receives a sample's values before its tags, so a sample without tags is not ready. It is an error
    if it still has none after 60 seconds."""

    def __init__(self, dp_size: int, *, group_size: int = 1, group_tag: str | None = None, length_tag: str = "total_lengths",
                 max_tokens: int | None = None, cost: CostModel | None = None) -> None:
        super().__init__()
        if dp_size < 1 or group_size < 1:
            raise ConfigError(f"dp_size: is {dp_size} and group_size {group_size}; both must be at least 1")
        if group_size > 1 and group_tag is None:
            raise ConfigError(f"group_tag: is missing, but groups have {counted(group_size, 'sample')}. Name the tag that samples of a "
                              "group share")
        self._dp_size, self._group_size, self._group_tag = dp_size, group_size, group_tag
        self._length_tag, self._max_tokens, self._cost = length_tag, max_tokens, cost or CostModel.tokens()
        self._untagged_since: dict[tuple[str, str], dict[int, float]] = {}  # by partition and task

    def sample(self, ready_indexes: list[int], batch_size: int, *arguments: Any, partition: Any = None,
               **config: Any) -> tuple[list[int], list[int]]:
        """Returns the samples of one rank, twice: those to be trained, and those to be marked as consumed. Both are empty
        until enough groups are ready for all ranks."""
        for name in ("task_name", "dp_rank", "batch_index"):
            if config.get(name) is None:
                raise ConfigError(f"sampling_config.{name}: is missing. Set it")
        rank, batch = _integer_of(config["dp_rank"]), config["batch_index"]
        if rank is None or not 0 <= rank < self._dp_size:
            raise ConfigError(f"sampling_config.dp_rank: is {config['dp_rank']!r}; it must be an integer from 0 to "
                              f"{self._dp_size - 1}, since the sampler was created with dp_size={self._dp_size}")
        if batch_size % self._group_size:
            raise ConfigError(f"batch_size: is {batch_size}, which is not a multiple of the {counted(self._group_size, 'sample')} of a group")
        states = self._states.setdefault(partition.partition_id, {}).setdefault(config["task_name"], {})
        if batch not in states.get(rank, {}):
            # The controller knows which samples were fetched, and reuses their indexes once they are cleared.
            reserved = {index for batches in states.values() for samples, fetched in batches.values() if not fetched for index in samples}
            tagged = self._remove_untagged([index for index in ready_indexes if index not in reserved], config["task_name"], partition)
            groups = self._ready_groups(tagged, partition)
            needed = batch_size // self._group_size * self._dp_size
            if len(groups) < needed:
                return [], []
            for of_rank, samples in enumerate(self._distribute(groups[:needed], partition)):
                states.setdefault(of_rank, {})[batch] = (samples, False)
        samples, _ = states[rank][batch]
        states[rank][batch] = (samples, True)
        return list(samples), list(samples)

    def _remove_untagged(self, ready: list[int], task: str, partition: Any) -> list[int]:
        """Removes samples whose tags have not arrived. After _TAG_SECONDS they are kept, and rejected when a tag is needed."""
        tags, now = partition.get_custom_meta(ready), time.monotonic()
        before = self._untagged_since.get((partition.partition_id, task), {})
        untagged = {index: before.get(index, now) for index in ready if not tags.get(index)}
        self._untagged_since[partition.partition_id, task] = untagged
        return [index for index in ready if now - untagged.get(index, -math.inf) >= _TAG_SECONDS]

    def _ready_groups(self, ready: list[int], partition: Any) -> list[list[int]]:
        """Returns complete groups, in the order of their first samples."""
        if self._group_size == 1:
            return [[index] for index in sorted(ready)]
        groups: dict[Any, list[int]] = {}
        for index in sorted(ready):
            groups.setdefault(self._tag(index, self._group_tag or "", partition), []).append(index)
        for name, group in groups.items():
            if len(group) > self._group_size:
                raise InputError(f"group {name!r}: has {counted(len(group), 'sample')}, but group_size is {self._group_size}. "
                                 f"Raise group_size, or give each group its own value of the tag {self._group_tag!r}")
        return [group for group in groups.values() if len(group) == self._group_size]

    def _distribute(self, groups: list[list[int]], partition: Any) -> list[list[int]]:
        work = [sum(self._cost(self._length(index, partition)) for index in group) for group in groups]
        parts = karmarkar_karp(work, self._dp_size, equal_count=True).to_lists()
        return [[index for group in sorted(part) for index in groups[group]] for part in parts]

    def _length(self, index: int, partition: Any) -> int:
        tag = self._tag(index, self._length_tag, partition)
        length = _integer_of(tag)
        if length is None or length < 0:
            raise InputError(f"sample {index}: has the tag {self._length_tag!r} with the value {tag!r}; it must be the number of the sample's "
                             "tokens, an integer of at least 0. Correct the tag")
        if self._max_tokens is not None and length > self._max_tokens:
            raise LimitError(f"sample {index}: has {counted(length, 'token')}, but max_tokens is {self._max_tokens}. Raise max_tokens "
                             "and the trainer's cap, or cut the sample")
        return length

    def _tag(self, index: int, name: str, partition: Any) -> Any:
        tags = partition.get_custom_meta([index]).get(index, {})
        if name not in tags:
            raise InputError(f"sample {index}: has no tag {name!r}; its tags are: {', '.join(map(str, tags)) or 'none'}. "
                             "Put this tag with the sample, or set BalancedSampler's length_tag or group_tag to one that it has")
        return tags[name]
