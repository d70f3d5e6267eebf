"""Minimal versions of the objects that users of other projects pass, with the attributes that the drop-in functions use."""

import dataclasses
import types

import numpy as np
import torch


class TensorDict:
    """A batch indexed by column name or by row; the two must not be confused."""

    def __init__(self, source, batch_size):
        self.columns = dict(source)
        self.batch_size = torch.Size(batch_size)

    def __getitem__(self, index):
        if isinstance(index, str):
            return self.columns[index]
        assert isinstance(index, torch.Tensor) and index.dtype == torch.long
        return TensorDict({key: values[index] for key, values in self.columns.items()}, [len(index)])

    def __setitem__(self, key, values):
        self.columns[key] = values

    def __contains__(self, key):
        raise TypeError("ask keys()")

    def keys(self):
        return self.columns.keys()

    def items(self):
        return self.columns.items()


@dataclasses.dataclass
class DataProto:
    batch: object
    non_tensor_batch: dict = dataclasses.field(default_factory=dict)
    meta_info: dict = dataclasses.field(default_factory=dict)

    def __len__(self):
        return self.batch["attention_mask"].shape[0]


class OrderedDataProto(DataProto):
    """A DataProto that reorders itself."""

    def reorder(self, indices):
        assert isinstance(indices, torch.Tensor) and indices.dtype == torch.long
        self.batch = {key: values[indices] for key, values in self.batch.items()}
        self.reordered = True


def mask_of(lengths, width=None, left=False):
    """Returns [n, width] int64, 1 at tokens."""
    width = max(lengths, default=0) if width is None else width
    mask = (torch.arange(width) < torch.tensor(lengths, dtype=torch.long).reshape(-1, 1)).long()
    return mask.flip(1) if left else mask


def columns_of(lengths, width=None):
    """Returns a batch in which every sample can be identified."""
    mask = mask_of(lengths, width)
    sample = torch.arange(len(lengths))
    return {"input_ids": mask * (sample[:, None] + 1), "attention_mask": mask, "sample": sample}


def data_proto(lengths, width=None, kind=DataProto):
    names = np.array([f"sample {i}" for i in range(len(lengths))], dtype=object)
    return kind(columns_of(lengths, width), {"name": names}, {"seed": [1]})


def config(**settings):
    return types.SimpleNamespace(**settings)
