"""A process that has the samples itself gets the same tensors of a planned micro-batch as in a job."""

import numpy as np
import pytest

import evenkeel
from conftest import rows_of_rank
from evenkeel import micro_batch_tensors, plan


def made_up_step(kind, seed=0, samples=20, **settings):
    random = np.random.default_rng(seed)
    prompts, responses = random.integers(0, 9, size=samples), random.integers(0, 20, size=samples)
    lengths = (prompts + responses).tolist()
    fields = {
        "input_ids": [kind.make((n,), "int64", i) for i, n in enumerate(lengths)],
        "log_probs": [kind.make((n, 2), "float32", 100 + i) for i, n in enumerate(lengths)],
    }
    step = plan(prompts=prompts, responses=responses, micro_batch={"max_tokens": 64}, **settings)
    return step, fields, prompts


@pytest.mark.parametrize("mode", ["packed", "padded", "fixed"])
@pytest.mark.parametrize("cp", [1, 2])
def test_every_row_has_the_value_of_its_place(kind, mode, cp):
    step, fields, prompts = made_up_step(kind, mesh={"dp": 2, "cp": cp})
    step = plan(prompts=prompts, responses=[len(t) - p for t, p in zip(fields["input_ids"], prompts)],
                mesh={"dp": 2, "cp": cp}, micro_batch={"max_tokens": 64, "mode": mode})
    seen = 0
    for m in (m for rank in step for m in rank.micro_batches):
        layout, samples = m.layout(), m.samples.tolist()
        for r in range(cp):
            tensors = micro_batch_tensors(m, fields, cp_rank=r, pad_token=-7, label_pad=-1)
            assert all(type(t) is type(tensors["input_ids"]) for n, t in tensors.items() if n != "max_seqlen")
            for row, (sequence, t) in enumerate(rows_of_rank(layout, r)):
                tokens = np.asarray(fields["input_ids"][samples[sequence]]) if sequence < len(samples) else np.empty(0)
                true, follows = t < len(tokens), t + 1 < len(tokens)
                counts = follows and prompts[samples[sequence]] <= t + 1
                assert tensors["input_ids"][row] == (tokens[t] if true else -7)
                assert tensors["labels"][row] == (tokens[t + 1] if follows else -1)
                assert tensors["position_ids"][row] == t
                assert tensors["loss_mask"][row] == (1 if counts else 0)
                assert tensors["loss_weights"][row] == (np.float32(m.token_weights[sequence]) if counts else 0)
                expected = np.asarray(fields["log_probs"][samples[sequence]])[t] if true else [0, 0]
                assert np.asarray(tensors["log_probs"][row]).tolist() == list(expected)
                seen += true
        assert tensors["cu_seqlens_padded"].tolist() == layout.cu_seqlens_padded.tolist()
        assert tensors["max_seqlen"] == layout.max_seqlen
    assert seen == step.num_tokens


def test_weighed_losses_add_up_to_the_mean_over_response_tokens(kind):
    step, fields, prompts = made_up_step(kind, mesh={"dp": 3, "cp": 2})
    total = 0.0
    for m in (m for rank in step for m in rank.micro_batches):
        for r in range(2):
            tensors = micro_batch_tensors(m, fields, cp_rank=r)
            losses = np.sin(np.asarray(tensors["labels"], dtype=np.float64))
            total += float((np.asarray(tensors["loss_weights"]) * losses).sum())
    labels = [np.asarray(t)[max(p, 1):] for t, p in zip(fields["input_ids"], prompts)]
    assert total == pytest.approx(np.sin(np.concatenate(labels).astype(float)).mean(), rel=1e-6)


def test_an_empty_micro_batch_is_filler(kind):
    fields = {"input_ids": [kind.make((3,), "int64")]}
    step = plan([3], mesh={"dp": 2}, micro_batch={"max_tokens": 8}, pack={"align": 4})
    empty = next(m for rank in step for m in rank.micro_batches if m.empty)
    tensors = micro_batch_tensors(empty, fields, pad_token=9)
    assert np.asarray(tensors["input_ids"]).tolist() == [9] * 4
    assert np.asarray(tensors["labels"]).tolist() == [-100] * 4
    assert np.asarray(tensors["loss_weights"]).tolist() == [0] * 4
    assert np.asarray(tensors["cu_seqlens"]).tolist() == [0, 4]
    assert type(tensors["labels"]) is type(fields["input_ids"][0])


def test_supplied_fields_are_not_derived(kind):
    fields = {"input_ids": [kind.make((3,), "int64")], "loss_mask": [kind.make((3,), "float32")]}
    fields["loss_mask"][0][:] = 0
    fields["loss_mask"][0][1] = 1
    m = plan([3], loss_tokens=[1], mesh={"dp": 1}, micro_batch={"max_tokens": 8})[0][0]
    tensors = micro_batch_tensors(m, fields)
    assert np.asarray(tensors["loss_mask"]).tolist() == np.asarray(tensors["loss_weights"]).tolist() == [0, 1, 0]


def test_samples_that_share_prefixes_are_packed_by_their_tree(kind):
    tokens = [[1, 2, 3, 4], [1, 2, 3, 5, 6], [1, 2, 7]]
    m = plan([4, 5, 3], tokens=tokens, groups=[0] * 3, prefix={"share": "tree"}, mesh={"dp": 1, "cp": 2},
             micro_batch={"max_tokens": 64})[0][0]
    tree = m.tree()
    assert tree.segments == m.layout()
    rows = evenkeel.prefix.tree_rows(tree.tree, [np.array(tokens[i]) for i in m.samples])
    parts = evenkeel.pack_all(tree.segments, rows)
    assert evenkeel.merge(tree.segments, parts).tolist() == [1, 2, 3, 4, 5, 6, 7]
    with pytest.raises(evenkeel.InputError, match="share prefixes, which micro_batch_tensors does not support. Use"):
        micro_batch_tensors(m, {"input_ids": [np.array(t) for t in tokens]})


@pytest.mark.parametrize(
    "fields, what",
    [
        ({}, "have no input_ids; they are: none"),
        ({"tokens": []}, "they are: tokens"),
        ({"input_ids": [np.arange(3)]}, "has 1 sample, but the micro-batch contains sample 1"),
        ({"input_ids": [np.arange(3), np.arange(2)]}, r"fields\['input_ids'\]\[1\]: has 2 rows, but sample 1 has 4 tokens"),
        ({"input_ids": [np.arange(3), np.arange(4.0)]}, "float64"),
        ({"input_ids": [np.arange(3.0), np.arange(4.0)]}, "tokens"),
    ],
)
def test_fields_that_do_not_fit_are_errors(fields, what):
    m = plan([3, 4], mesh={"dp": 1}, micro_batch={"max_tokens": 8})[0][0]
    with pytest.raises(evenkeel.InputError, match=what):
        micro_batch_tensors(m, fields)
