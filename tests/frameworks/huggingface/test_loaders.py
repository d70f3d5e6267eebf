"""Loaders of torch and torchdata that use BalancedBatchSampler: with workers, and resumed in the middle of an epoch."""

import pytest
from torch.utils.data import DataLoader
from torchdata.stateful_dataloader import StatefulDataLoader

from evenkeel.collate import MicroBatches, PaddingFree, Steps
from evenkeel.sampler import BalancedBatchSampler

LENGTHS = [3 + 7 * index % 11 for index in range(60)]
SAMPLES = [{"input_ids": [index + 1] * length} for index, length in enumerate(LENGTHS)]


def sampler():
    return BalancedBatchSampler(LENGTHS, 24, global_batch=10, ranks=2, rank=1)


def micro_batch_loader(workers):
    return StatefulDataLoader(SAMPLES, batch_sampler=sampler(), collate_fn=PaddingFree(), num_workers=workers)


def step_loader(workers):
    return StatefulDataLoader(
        MicroBatches(SAMPLES), batch_sampler=sampler().steps, collate_fn=Steps(PaddingFree()), num_workers=workers
    )


def tokens(batch):
    return [tokens(one) for one in batch] if isinstance(batch, list) else batch["input_ids"].tolist()


@pytest.mark.parametrize("workers", [0, 2])
@pytest.mark.parametrize("make", [micro_batch_loader, step_loader])
def test_a_stateful_loader_resumes_after_the_last_batch_that_the_trainer_took(make, workers):
    whole = [tokens(batch) for batch in make(workers)]
    before, after = make(workers), make(workers)
    batches = iter(before)
    head = [tokens(next(batches)) for _ in range(3)]
    after.load_state_dict(before.state_dict())
    assert head + [tokens(batch) for batch in after] == whole


def test_micro_batches_hold_the_cap_and_no_padding():
    for batch in DataLoader(SAMPLES, batch_sampler=sampler(), collate_fn=PaddingFree()):
        assert batch["input_ids"].shape[1] <= 24 and (batch["input_ids"] > 0).all()
