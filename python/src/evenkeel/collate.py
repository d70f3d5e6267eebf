"""Collators that convert the samples of a micro-batch to the tensors that Hugging Face models take.

A sample is a mapping with ``input_ids`` and, optionally, ``labels``, both one number per token. Labels follow Hugging Face's
convention (``at: token``): the label of token t is at row t, -100 carries no loss, and the model shifts them. Without
``labels`` every token is its own label. Nothing predicts token 0 of a sequence, so its label is -100; otherwise the last
token of the preceding sequence in a packed row would predict it.

A micro-batch without samples, which BalancedBatchSampler yields as an empty list, becomes one token without loss, so that all
ranks run the same number of forward and backward passes. torch is imported when tensors are made.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any

import numpy as np
import numpy.typing as npt

from evenkeel._c import refuse
from evenkeel._text import counted

__all__ = ["MicroBatches", "Padded", "PaddingFree", "Steps"]

Sample = Mapping[str, Any]
Rows = npt.NDArray[np.int64]
WITHOUT_LOSS = -100
# Columns related to loss, positions or sequences that the collators do not support.
NOT_FOLLOWED = {
    "assistant_masks": "Set labels to -100 where the mask is 0",
    "completion_mask": "Set labels to -100 where the mask is 0",
    "loss_mask": "Set labels to -100 where the mask is 0",
    "position_ids": "Leave the column out: positions count from 0 in each sample",
    "seq_lengths": "Pass samples that are not packed: set packing=False in TRL",
    "shift_labels": "Pass labels, each at its own token",
}


class PaddingFree:
    """Concatenates the sequences of a micro-batch to [1, tokens], without padding.

    Makes ``input_ids``, ``labels`` and ``position_ids``, which begin at 0 in each sequence. ``boundaries`` adds what
    variable-length kernels take: ``cu_seq_lens_q`` and ``cu_seq_lens_k`` [sequences + 1] int32, ``max_length_q`` and
    ``max_length_k``, and ``seq_idx`` [1, tokens] int32, the sequence of each token. There is no attention_mask: models
    recognize the sequences by their positions. They do so only without a KV cache, so ``use_cache`` is
    False.

    pad_token_id  the token of a micro-batch without samples; any token of the vocabulary
    """

    padded = False
    pad_to_multiple_of = 1

    def __init__(self, pad_token_id: int = 0, *, boundaries: bool = True) -> None:
        self.pad_token_id = pad_token_id
        self.boundaries = boundaries

    def __call__(self, samples: Sequence[Sample]) -> dict[str, Any]:
        import torch

        sequences = sequences_of(samples or [_without_loss(self.pad_token_id)])
        lengths = np.array([len(tokens) for tokens, _ in sequences])
        positions = np.concatenate([np.arange(length) for length in lengths])
        batch: dict[str, Any] = {
            "input_ids": torch.from_numpy(np.concatenate([tokens for tokens, _ in sequences]))[None],
            "labels": torch.from_numpy(np.concatenate([labels for _, labels in sequences]))[None],
            "position_ids": torch.from_numpy(positions)[None],
            "use_cache": False,
        }
        if self.boundaries:
            offsets = torch.from_numpy(np.concatenate([[0], np.cumsum(lengths)]).astype(np.int32))
            sequence_of_token = np.repeat(np.arange(len(lengths), dtype=np.int32), lengths)
            batch.update(
                cu_seq_lens_q=offsets,
                cu_seq_lens_k=offsets,
                max_length_q=int(lengths.max()),
                max_length_k=int(lengths.max()),
                seq_idx=torch.from_numpy(sequence_of_token)[None],
            )
        return batch


class Padded:
    """Pads the sequences of a micro-batch on the right to the length of the longest, [sequences, width].

    Makes ``input_ids``, ``labels`` (-100 in padding) and ``attention_mask``. The width is rounded up to
    ``pad_to_multiple_of``. Plan with ``padded=True`` and the same multiple, so that the cap counts padding.
    """

    padded = True

    def __init__(self, pad_token_id: int, *, pad_to_multiple_of: int = 1) -> None:
        self.pad_token_id = pad_token_id
        self.pad_to_multiple_of = pad_to_multiple_of

    def __call__(self, samples: Sequence[Sample]) -> dict[str, Any]:
        import torch

        sequences = sequences_of(samples or [_without_loss(self.pad_token_id)])
        longest = max(len(tokens) for tokens, _ in sequences)
        width = -(-longest // self.pad_to_multiple_of) * self.pad_to_multiple_of
        mask = [np.ones(len(tokens), dtype=np.int64) for tokens, _ in sequences]
        return {
            "input_ids": torch.from_numpy(_pad_right([tokens for tokens, _ in sequences], width, self.pad_token_id)),
            "labels": torch.from_numpy(_pad_right([labels for _, labels in sequences], width, WITHOUT_LOSS)),
            "attention_mask": torch.from_numpy(_pad_right(mask, width, 0)),
        }


class MicroBatches:
    """A dataset whose items are the samples of whole micro-batches: ``MicroBatches(data)[[3, 1]]`` is ``[data[3], data[1]]``.

    Lets a DataLoader fetch the micro-batches that StepSampler yields.
    """

    def __init__(self, data: Any) -> None:
        self.data = data

    def __len__(self) -> int:
        """Returns the number of samples in the dataset."""
        return len(self.data)

    def __getitem__(self, indices: Sequence[int]) -> list[Any]:
        if hasattr(self.data, "__getitems__"):
            return list(self.data.__getitems__(list(indices)))
        return [self.data[index] for index in indices]


class Steps:
    """Collates each micro-batch of a step separately, into a list of batches, for loaders whose items are whole steps."""

    def __init__(self, collator: Any) -> None:
        self.collator = collator

    def __call__(self, micro_batches: Iterable[Sequence[Sample]]) -> list[Any]:
        return [self.collator(samples) for samples in micro_batches]


def sequences_of(samples: Sequence[Sample]) -> list[tuple[Rows, Rows]]:
    """Returns the tokens and labels of each sample, one label per token. The first label of a sample is -100."""
    return [sequence_of(sample, f"samples[{index}]", "labels" in samples[0]) for index, sample in enumerate(samples)]


def _without_loss(token: int) -> Sample:
    """Returns the sample that stands in for a micro-batch without samples."""
    return {"input_ids": [token], "labels": [WITHOUT_LOSS]}


def sequence_of(sample: Sample, where: str, with_labels: bool) -> tuple[Rows, Rows]:
    """Returns the tokens and labels of a sample. ``with_labels`` says whether samples[0] has labels, since all samples or none
    must have them."""
    if ("labels" in sample) != with_labels:
        refuse(where, f"{'has no' if with_labels else 'has'} labels, unlike samples[0]", "Give labels to all samples or to none")
    for name, hint in NOT_FOLLOWED.items():
        if name in sample and not (with_labels and name in ("assistant_masks", "completion_mask")):
            refuse(f"{where}[{name!r}]", "would be ignored", hint)
    if "input_ids" not in sample:
        refuse(where, "has no input_ids", "Give each sample its tokens as input_ids")
    tokens = _rows(sample["input_ids"], f"{where}['input_ids']")
    if len(tokens) == 0:
        refuse(f"{where}['input_ids']", "is empty", "Leave empty samples out of the data set")
    labels = _rows(sample["labels"], f"{where}['labels']").copy() if with_labels else tokens.copy()
    if len(labels) != len(tokens):
        refuse(f"{where}['labels']", f"has {counted(len(labels), 'value')} for {counted(len(tokens), 'token')}",
               "Give each token a label, -100 for no loss")
    mask = sample.get("attention_mask")
    if mask is not None and len(mask) != len(tokens):
        refuse(f"{where}['attention_mask']", f"has {counted(len(mask), 'value')} for {counted(len(tokens), 'token')}",
               "Give each token the value 1, or leave the mask out")
    if mask is not None and not np.all(np.asarray(mask) == 1):
        refuse(f"{where}['attention_mask']", "is not 1 at every token", "Remove padding from the samples of the data set, and do not pack them")
    labels[0] = WITHOUT_LOSS
    return tokens, labels


def _rows(values: Any, where: str) -> Rows:
    array = np.asarray(values)
    if array.ndim != 1 or (array.size > 0 and array.dtype.kind not in "iu"):
        refuse(where, f"has the shape {list(array.shape)} and the dtype {array.dtype}", "Pass one whole number per token")
    return array.astype(np.int64)


def _pad_right(rows: Sequence[Rows], width: int, value: int) -> Rows:
    padded = np.full((len(rows), width), value, dtype=np.int64)
    for row, values in zip(padded, rows):
        row[: len(values)] = values
    return padded
