"""The data loader for torchtitan's Trainer makes the same rows as torchtitan's own data set, but of whole samples, for every rank and position.
"""

import numpy as np
import pytest
import torch
from torchtitan.components.loss import IGNORE_INDEX

import evenkeel
import train
from evenkeel.torchtitan import BalancedDataLoader, plan_rows


def loader(texts=None, *, ranks=1, rank=0, batch=1, seq_len=train.SEQ_LEN, samples=None, **settings):
    if samples is None:
        samples = train.samples_of(None) if texts is None else [{"input_ids": [*p, *r, train.EOS]} for p, r in texts]
    config = BalancedDataLoader.Config(samples=lambda tokenizer: samples, **{"shuffle": False, "infinite": False, **settings})
    return config.build(
        dp_world_size=ranks, dp_rank=rank, tokenizer=train.Tokenizer(None), seq_len=seq_len, local_batch_size=batch, snapshot_every_n_steps=1
    )


def pieces(batches):
    """Cuts the rows of a loader where positions begin at 0. Yields tokens, labels and positions of each document, and of padding."""
    for batch, labels in batches:
        for row in zip(batch["input"], labels, batch["positions"]):
            starts = [*(row[2] == 0).nonzero().flatten().tolist(), len(row[2])]
            yield from (tuple(tuple(part[first:last].tolist()) for part in row) for first, last in zip(starts, starts[1:]))


def documents(batches):
    return [tokens for tokens, labels, _ in pieces(batches) if set(labels) != {IGNORE_INDEX}]


def all_documents():
    return [(*prompt, *response) for prompt, response in train.make_texts()]


def test_a_row_is_that_of_torchtitans_own_data_set():
    texts = [text for text in train.make_texts() if len(text[0]) + len(text[1]) <= 20][:3]
    samples = [
        {"input_ids": [*prompt, *response, train.EOS], "labels": [IGNORE_INDEX] * len(prompt) + [*response, train.EOS]}
        for prompt, response in texts
    ]
    (expected, targets), = train.rows_of_torchtitan(texts)  # the data set shuffles samples
    whole = {name: row[None] for name, row in expected.items()}, targets[None]
    assert sorted(pieces(loader(samples=samples))) == sorted(pieces([whole]))


def test_without_labels_every_token_but_the_first_carries_loss():
    (batch, labels), = loader([([5, 6], [7])], seq_len=4)
    assert batch["input"].tolist() == [[5, 6, 7, train.EOS]]
    assert labels.tolist() == [[6, 7, train.EOS, IGNORE_INDEX]]
    assert batch["positions"].tolist() == [[0, 1, 2, 0]]


@pytest.mark.parametrize("batch", [1, 2])
@pytest.mark.parametrize("ranks", [1, 2])
def test_an_epoch_has_each_sample_once(ranks, batch):
    of_ranks = [list(loader(ranks=ranks, rank=rank, batch=batch, global_batch_size=4)) for rank in range(ranks)]
    assert len({len(batches) for batches in of_ranks}) == 1
    assert all(row["input"].shape == (batch, train.SEQ_LEN) for batches in of_ranks for row, _ in batches)
    assert sorted(documents(sum(of_ranks, []))) == sorted(all_documents())


def test_rows_of_whole_steps_have_less_padding_than_those_of_torchtitans_own_data_set():
    ours = list(loader(global_batch_size=8))[:16]
    own = [({name: row[None] for name, row in batch.items()}, labels[None]) for batch, labels in train.rows_of_torchtitan(train.make_texts())]
    tokens_of = [sum(map(len, documents(rows[:16]))) for rows in (ours, own)]
    assert 0.97 * 16 * train.SEQ_LEN < tokens_of[0] > tokens_of[1]


def test_epochs_have_different_orders_on_request():
    shuffled = iter(loader(shuffle=True, infinite=True))
    epoch = len(list(loader()))
    first, second = ([next(shuffled) for _ in range(epoch // 2)] for _ in range(2))
    assert documents(first) != documents(second) and documents(first) != all_documents()[: len(documents(first))]


@pytest.mark.parametrize("taken", [1, 2, 3, 4, 7])
def test_a_loader_continues_after_the_last_batch_it_gave(taken):
    whole = [tuple(labels.flatten().tolist()) for _, labels in loader(global_batch_size=2, shuffle=True)]
    before = loader(global_batch_size=2, shuffle=True)
    batches = iter(before)
    for _ in range(taken):
        next(batches)
    after = loader(global_batch_size=2, shuffle=True)
    after.load_state_dict(before.state_dict())
    assert [tuple(labels.flatten().tolist()) for _, labels in after] == whole[taken:]


def test_another_number_of_ranks_continues_after_a_step():
    before = loader(global_batch_size=2)
    batches = iter(before)
    seen = documents([next(batches), next(batches)])
    after = [loader(ranks=2, rank=rank) for rank in range(2)]
    for one in after:
        one.load_state_dict(before.state_dict())
    assert sorted(seen + documents(sum((list(one) for one in after), []))) == sorted(all_documents())


def test_another_number_of_ranks_cannot_continue_inside_a_step():
    before = loader(global_batch_size=2)
    next(iter(before))
    with pytest.raises(evenkeel.InputError, match=r"state_dict\['ranks'\]: is 1, but this loader has 2. Load"):
        loader(ranks=2).load_state_dict(before.state_dict())


def test_a_state_of_other_samples_is_refused():
    with pytest.raises(evenkeel.InputError, match=r"state_dict\['samples'\]: is 60, but this loader has 1"):
        loader([([1], [2])]).load_state_dict(loader().state_dict())


def test_a_refused_state_does_not_move_the_loader():
    before = loader()
    next(iter(before))
    other = loader([([1], [2])])
    unmoved = other.state_dict()
    with pytest.raises(evenkeel.InputError):
        other.load_state_dict(before.state_dict())
    assert other.state_dict() == unmoved


@pytest.mark.parametrize(
    "tokens, error, text",
    [
        ([1] * 70, evenkeel.LimitError, r"samples\[1\]: has 70 tokens; a row takes at most 65, .* Raise training.seq_len to at least 69"),
        ([1], evenkeel.InputError, r"samples\[1\]: has 1 token, but at least 2 are required to predict one"),
    ],
)
def test_samples_that_fit_no_row_are_refused(tokens, error, text):
    with pytest.raises(error, match=text):
        loader(samples=[{"input_ids": [1, 2]}, {"input_ids": tokens}])


def test_steps_of_parts_of_batches_are_refused():
    with pytest.raises(evenkeel.InputError, match="global_batch_size: is 6, which is not a multiple of 4 .2 ranks with batches of 2 rows"):
        loader(ranks=2, batch=2, global_batch_size=6)


@pytest.mark.parametrize("seq_len", [8, 2], ids=["in one row", "in several rows"])
def test_labels_of_some_samples_only_are_refused(seq_len):
    samples = [{"input_ids": np.array([1, 2, 3]), "labels": [-100, -100, -100]}, {"input_ids": torch.tensor([4, 5, 6])}]
    with pytest.raises(evenkeel.InputError, match=r"samples\[1\]: has no labels, unlike samples\[0\]"):
        list(loader(samples=samples, seq_len=seq_len))


def test_a_state_of_something_else_is_refused():
    with pytest.raises(evenkeel.InputError, match="state_dict: has no 'epoch'. Load a state that this loader's state_dict"):
        loader().load_state_dict({"step": 3})


def test_settings_that_torchtitan_decides_are_refused():
    with pytest.raises(evenkeel.InputError, match=r"settings\['micro_batch'\]: is decided by torchtitan's own configuration"):
        plan_rows([5, 3], 1, 8, {"micro_batch": {"max_samples": 1}})
