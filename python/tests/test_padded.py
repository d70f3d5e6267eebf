"""Padded batches of every row convention become samples whose values belong to the right tokens, and results return to the
batch."""

import numpy as np
import pytest

import evenkeel
from evenkeel import padded

# Two samples, prompts padded on the left to 3 columns and responses on the right to 4: tokens 1 2 | 3 4 5 and 6 | 7 8.
IDS = np.array([[0, 1, 2, 3, 4, 5, 0], [0, 0, 6, 7, 8, 0, 0]])
ATTENTION = (IDS > 0).astype(np.int64)
OF_RESPONSES = np.array([[1, 0, 1, 0], [1, 1, 0, 0]])  # token 4 comes from a tool
OF_TOKENS = np.concatenate([np.zeros((2, 3), int), OF_RESPONSES], 1)
VERL = {"input_ids": IDS, "attention_mask": ATTENTION, "response_mask": OF_RESPONSES}
ROLL = {"input_ids": IDS, "attention_mask": ATTENTION, "response_mask": OF_TOKENS}
# The value of each token is a tenth of the token. It is stored at the token, at the token before it, or among the responses.
OWN = IDS / 10
SHIFTED = OWN[:, 1:]


def samples_of(batch, **options):
    samples = padded.samples_of(batch, first_id=0, **options)
    len(samples)  # raises the errors that the samples have stored
    return samples


def samples_of_groups(groups):
    return evenkeel.Samples(ids=range(len(groups)), prompt_lengths=[0] * len(groups), response_lengths=[0] * len(groups), groups=groups,
                            token={"input_ids": []})


def rows(samples, name):
    return [np.round(own, 3).tolist() for own in samples.rows_of(name)]


def test_a_response_mask_of_the_responses_is_the_loss_mask():
    samples = samples_of(VERL)
    assert (samples.prompt_lengths.tolist(), samples.response_lengths.tolist()) == ([2, 1], [3, 2])
    assert rows(samples, "input_ids") == [[1, 2, 3, 4, 5], [6, 7, 8]] and rows(samples, "loss_mask") == [[1, 0, 1], [1, 1]]


@pytest.mark.parametrize("more", [{}, {"responses": IDS[:, 3:]}, {"prompts": IDS[:, :3]}])
def test_roll_has_a_mask_as_wide_as_the_tokens_and_values_one_column_narrower(more):
    samples = samples_of({**ROLL, **more, "old_log_probs": SHIFTED, "advantages": SHIFTED * 2, "token_level_rewards": OWN,
                          "position_ids": np.maximum(ATTENTION.cumsum(1) - 1, 0)})
    assert (samples.prompt_lengths.tolist(), samples.response_lengths.tolist()) == ([2, 1], [3, 2])
    assert rows(samples, "loss_mask") == [[1, 0, 1], [1, 1]] and samples.kinds()["position_ids"] == "token"
    assert rows(samples, "old_log_probs") == rows(samples, "token_level_rewards") == [[0.3, 0.4, 0.5], [0.7, 0.8]]
    assert rows(samples, "advantages") == [[0.6, 0.8, 1.0], [1.4, 1.6]]


@pytest.mark.parametrize("uids", [np.array(["q1", "q2"]), np.array(["q1", "q2"], dtype=object)])
def test_a_mapping_may_have_texts_as_a_data_proto_has_them(uids):
    samples = samples_of({**VERL, "uid": uids, "question": uids})
    assert samples.groups.tolist() == samples_of_groups(["q1", "q2"]).groups.tolist()
    assert samples.kinds()["question"] == "text" and "uid" not in samples.kinds()
    with pytest.raises(evenkeel.InputError, match="'extra': has the dtype object with a value of the type dict"):
        samples_of({**VERL, "extra": np.array([{}, None])})


def test_without_responses_one_begins_with_the_first_token_that_is_set():
    mask = OF_TOKENS.copy()
    mask[0, 3], mask[1] = 0, 0
    samples = samples_of({**ROLL, "response_mask": mask})
    assert (samples.prompt_lengths.tolist(), samples.response_lengths.tolist()) == ([4, 3], [1, 0])


@pytest.mark.parametrize("at, column", [("token", OWN), ("next", SHIFTED), ("next", np.pad(SHIFTED, ((0, 0), (0, 1)))),
                                        ("response", OWN[:, 3:])])
@pytest.mark.parametrize("batch", [VERL, {**ROLL, "responses": IDS[:, 3:]}])
def test_a_column_follows_the_specified_convention(batch, at, column):
    assert rows(samples_of({**batch, "values": column}, at={"values": at}), "values") == [[0.3, 0.4, 0.5], [0.7, 0.8]]


@pytest.mark.parametrize("axes", [3, 4])
@pytest.mark.parametrize("batch", [VERL, ROLL])
def test_positions_of_several_axes_belong_to_tokens(batch, axes):
    positions = np.stack([IDS + 100 * axis for axis in range(axes)], 1)
    samples = samples_of({**batch, "position_ids": positions})
    assert samples.kinds()["position_ids"] == "token"
    assert samples.rows_of("position_ids")[1].tolist() == [[token + 100 * axis for axis in range(axes)] for token in (6, 7, 8)]
    assert samples_of({**batch, "position_ids": np.swapaxes(positions, 1, 2)})["position_ids"].tolist() == samples["position_ids"].tolist()
    with pytest.raises(evenkeel.InputError, match="'position_ids': has the shape .2, 7, 7., but it is not known"):
        samples_of({**batch, "position_ids": np.zeros((2, 7, 7), int)})


def test_a_mask_may_be_declared_as_shifted():
    assert rows(samples_of({**ROLL, "response_mask": OF_TOKENS[:, 1:]}, at={"response_mask": "next"}), "loss_mask") == [[1, 0, 1], [1, 1]]


@pytest.mark.parametrize("at, labels", [("token", [[-100, -100, -100, 3, -100, 5, -100], [-100, -100, -100, 7, 8, -100, -100]]),
                                        ("next", [[-100, -100, 3, -100, 5, -100, -100], [-100, -100, 7, 8, -100, -100, -100]]),
                                        ("response", [[3, -100, 5, -100], [7, 8, -100, -100]])])
def test_labels_follow_it(at, labels):
    samples = samples_of({**VERL, "labels": np.array(labels)}, at={"labels": at})
    assert rows(samples, "labels") == [[3, -100, 5], [7, 8]] and samples.kinds()["labels"] == "response_token"


def test_other_columns_are_unchanged():
    samples = samples_of({**VERL, "values": OWN, "reward": np.array([1.0, 0.5]), "embedding": np.ones((2, 5))}, at={"embedding": "sample"})
    assert samples.kinds() == {"input_ids": "token", "values": "token", "reward": "sample", "embedding": "sample",
                               "loss_mask": "response_token"}


@pytest.mark.parametrize("changed, at, why", [
    ({"attention_mask": np.array([[1, 1, 1, 2, 2, 2, 0], [1, 1, 1, 1, 1, 1, 0]])}, {}, "'attention_mask': holds 2; .*only 0 and 1"),
    ({"attention_mask": np.where(IDS > 0, 0.0, -10000.0)}, {}, "'attention_mask': holds -10000.0"),
    ({"odd": np.ones((2, 5))}, {}, "'odd': .*5 columns fit neither the 7 of the tokens.*at={'odd': 'sample'}"),
    ({"odd": np.ones((3,))}, {}, "'odd': has the shape .3.; the batch has 2 samples"),
    ({"odd": OWN}, {"odd": "response"}, "'odd': .*with at: response, the second dimension must be 4"),
    ({"odd": OWN}, {"odd": "tokens"}, "Use one of token, next, response, sample"),
    ({"odd": OWN}, {"even": "token"}, "'even': is named in at, but is not a tensor of the batch"),
    ({"labels": np.where(OF_TOKENS > 0, IDS, -100)}, {}, "'labels': has 7 values per sample, but it is not specified.*at={'labels': 'token'}"),
    ({"labels": np.where(ATTENTION > 0, IDS, -100)}, {"labels": "token"}, "'labels': marks prompt tokens in row 0; prompts are not trained"),
    ({"labels": np.where(OF_TOKENS > 0, IDS, -100)}, {"labels": "next"}, "'labels': is set at the last token"),
    ({"loss_mask": OF_RESPONSES}, {}, "'loss_mask': is present as well as response_mask"),
    ({"response_mask": np.ones((2, 4))}, {}, "'response_mask': marks tokens in row 0 that attention_mask does not"),
    ({"response_mask": ATTENTION, "responses": IDS[:, 3:]}, {}, "'response_mask': marks prompt tokens"),
    ({"response_mask": np.ones((2, 8))}, {}, "'response_mask': has the shape"),
])
def test_columns_of_unknown_shape_are_refused_by_name(changed, at, why):
    with pytest.raises(evenkeel.Error, match=why):
        samples_of({**VERL, **changed}, at=at)


def test_a_mask_of_real_numbers_is_one():
    assert rows(samples_of({**VERL, "attention_mask": ATTENTION * 1.0}), "input_ids") == [[1, 2, 3, 4, 5], [6, 7, 8]]


@pytest.mark.parametrize("batch, at, columns", [
    (VERL, None, OWN[:, 3:]), (ROLL, None, SHIFTED), (ROLL, "token", OWN), (VERL, "next", SHIFTED)])
def test_results_are_returned_in_the_layout_of_the_batch(batch, at, columns):
    samples = samples_of({**batch, "values": SHIFTED}, at={"values": "next"})
    back = padded.results_like(samples, "values", batch, pad=-1, at=at)
    of_response = np.zeros(IDS.shape, bool)
    of_response[0, 3:6] = of_response[1, 3:5] = True
    assert np.array_equal(back, np.where(of_response[:, IDS.shape[1] - columns.shape[1]:] if columns is not SHIFTED else of_response[:, 1:],
                                         columns, -1))


def test_tensors_are_read_like_arrays():
    torch = pytest.importorskip("torch")
    batch = {name: torch.from_numpy(values) for name, values in {**ROLL, "old_log_probs": SHIFTED}.items()}
    assert rows(samples_of(batch), "old_log_probs") == [[0.3, 0.4, 0.5], [0.7, 0.8]]


def test_numbers_in_arrays_of_objects_become_sample_fields():
    samples = samples_of({**VERL, "index": np.array([7, np.int64(8)], dtype=object), "score": np.array([0.5, 1.0], dtype=object)})
    assert samples.kinds()["index"] == samples.kinds()["score"] == "sample"
    assert [np.ravel(samples.rows_of(name)).tolist() for name in ("index", "score")] == [[7, 8], [0.5, 1.0]]
    with pytest.raises(evenkeel.InputError, match="'mixed': has the dtype object with a value of the type int"):
        samples_of({**VERL, "mixed": np.array([1, 2.5], dtype=object)})


def test_a_mask_may_be_bfloat16():
    torch = pytest.importorskip("torch")
    masks = {name: torch.tensor(VERL[name]).bfloat16() for name in ("attention_mask", "response_mask")}
    assert rows(samples_of({"input_ids": torch.tensor(IDS), **masks}), "loss_mask") == [[1, 0, 1], [1, 1]]
