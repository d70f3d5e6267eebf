"""A buffer accepts samples in the forms of other frameworks. Their keys are those of the agent loops of verl 0.9.1, slime
0d234f3 and prime-rl 02f03ab, and of prime-rl's later form without a separate prompt."""

import pytest

import evenkeel
from buffers import Buffer
from evenkeel import rollouts


def verl_output(**changed):
    return {
        "prompt_ids": [1, 2, 3], "response_ids": [4, 5, 6, 7], "response_mask": [1, 1, 0, 1],
        "response_logprobs": [-0.1, -0.2, 0.0, -0.3], "routed_experts": None, "multi_modal_data": None, "reward_score": 1.0,
        "num_turns": 4, "metrics": {"generate_sequences": 0.5, "tool_calls": 0.1, "num_preempted": -1},
        "extra_fields": {"min_global_steps": 7, "max_global_steps": 8, "turn_scores": [], "raw_prompt": "What is 2 + 3?"},
        "mm_processor_kwargs": None, "mm_processor_output": None, **changed,
    }


def slime_sample(**changed):
    return {
        "group_index": 5, "index": 11, "prompt": [{"role": "user", "content": "What is 2 + 3?"}], "tokens": [1, 2, 3, 4, 5],
        "multimodal_inputs": None, "multimodal_train_inputs": None, "response": "five", "response_length": 2, "label": "5",
        "reward": 0.5, "loss_mask": None, "weight_versions": ["9", "8"], "rollout_log_probs": [-0.5, -0.25],
        "rollout_routed_experts": None, "remove_sample": False, "teacher_log_probs": None, "mopd_teacher_log_probs": None,
        "status": "completed", "metadata": {"task": "sums"}, "generate_function_path": None, "train_metadata": None,
        "session_id": None, "non_generation_time": 0.0, "spec_info": {"spec_accept_token_num": 0},
        "prefix_cache_info": {"cached_tokens": 0, "total_prompt_tokens": 0}, **changed,
    }


def prime_rl_sample(**changed):
    return {"prompt_ids": [1, 2], "prompt_mask": [0, 0], "completion_ids": [3, 4, 5], "completion_mask": [1, 1, 0],
            "completion_logprobs": [-1.0, -0.5, 0.0], "advantage": 0.25, **changed}


def later_prime_rl_sample(**changed):
    return {"token_ids": [1, 2, 3, 4, 5], "mask": [False, False, True, False, True], "logprobs": [0.0, 0.0, -1.0, 0.0, -0.5],
            "temperatures": [1.0] * 5, "env_name": "sums", "reward": 1.0, "mm_kwargs": None, "routed_experts": None, **changed}


FORWARDED = {
    "verl": [rollouts.from_verl(verl_output(), uid="q", index=index) for index in range(2)],
    "slime": [rollouts.from_slime(slime_sample(index=10 + index), group_size=2) for index in range(2)],
    "prime-rl": [rollouts.from_prime_rl(prime_rl_sample(), uid="q", index=index, version=3) for index in range(2)],
    "later prime-rl": [rollouts.from_prime_rl(later_prime_rl_sample(), uid="q", index=index, version=3) for index in range(2)],
}


@pytest.mark.parametrize("framework", FORWARDED)
def test_samples_of_other_frameworks_are_taken(framework):
    with Buffer("--store", "memory", "--group-size", "2") as buffer:
        assert evenkeel.Producer(buffer.url).put(FORWARDED[framework]).accepted == 2
        assert buffer.status()["groups"]["ready"] == 1


def test_their_keys_keep_their_meaning():
    verl, slime, prime_rl, later = (samples[1] for samples in FORWARDED.values())
    assert (verl["uid"], verl["index"], verl["version"], verl["loss_mask"]) == ("q", 1, 7, [1, 1, 0, 1])
    assert (verl["reward"], verl["rollout_log_probs"][0], verl["num_turns"]) == (1.0, -0.1, 4)
    assert (slime["uid"], slime["index"], slime["version"], slime["loss_mask"]) == (5, 1, 8, [1, 1])
    assert (slime["prompt_ids"], slime["response_ids"]) == ([1, 2, 3], [4, 5])
    assert (prime_rl["response_ids"], prime_rl["loss_mask"]) == ([3, 4, 5], [True, True, False])
    assert prime_rl["completion_logprobs"] == [-1.0, -0.5, 0.0] and prime_rl["advantage"] == 0.25
    assert (later["prompt_ids"], later["response_ids"], later["loss_mask"]) == ([1, 2], [3, 4, 5], [True, False, True])
    assert rollouts.from_slime(slime_sample(remove_sample=True), group_size=2)["loss_mask"] == [0, 0]
    assert rollouts.from_slime(slime_sample(reward={"math": 1.0}), group_size=2, reward_key="math")["reward"] == 1.0


def test_values_of_prime_rl_move_with_its_mask():
    sample = later_prime_rl_sample(token_ids=[1, 2, 10, 11, 5, 12], mask=[0, 0, 1, 1, 0, 1], logprobs=[0, 0, -.1, -.11, 0, -.12],
                                   advantages=[0, 0, .5, .5, 0, .5], temperatures=[1.0] * 6)
    made = rollouts.from_prime_rl(sample, uid="q", index=0, version=1)
    assert (made["prompt_ids"], made["response_ids"], made["loss_mask"]) == ([1, 2], [10, 11, 5, 12], [True, True, False, True])
    assert (made["logprobs"], made["advantages"], made["temperatures"]) == ([-.1, -.11, 0, -.12], [.5, .5, 0, .5], [1.0] * 4)


def test_the_first_token_belongs_to_the_prompt_since_nothing_predicts_it():
    made = rollouts.from_prime_rl(later_prime_rl_sample(mask=[True] * 5), uid="q", index=0, version=1)
    assert (made["prompt_ids"], made["loss_mask"], made["logprobs"]) == ([1], [True] * 4, [0.0, -1.0, 0.0, -0.5])


@pytest.mark.parametrize("at, mask", [("token", [0, 0, 1, 0, 1]), ("next", [0, 1, 0, 1, 0]), ("next", [0, 1, 0, 1]), ("response", [1, 0, 1])])
def test_a_mask_may_follow_every_convention(at, mask):
    made = rollouts.from_slime(slime_sample(response_length=3, rollout_log_probs=[-1, -2, -3], loss_mask=mask), group_size=2,
                               at={"loss_mask": at})
    assert (made["loss_mask"], made["rollout_log_probs"]) == ([1, 0, 1], [-1, -2, -3])


@pytest.mark.parametrize(
    "forward, why",
    [
        (lambda: rollouts.from_verl(verl_output(extra_fields={}), uid="q", index=0), "min_global_steps: is missing"),
        (lambda: rollouts.from_verl(verl_output(multi_modal_data={"image": [1]}), uid="q", index=0), "multi_modal_data: "),
        (lambda: rollouts.from_verl(verl_output(extra_fields={"num_turns": 1}), uid="q", index=0, version=1), "num_turns: is a"),
        (lambda: rollouts.from_slime(slime_sample(weight_versions=["default"]), group_size=2), "weight_versions: is"),
        (lambda: rollouts.from_slime(slime_sample(weight_versions=[]), group_size=2), "weight_versions: is"),
        (lambda: rollouts.from_slime(slime_sample(weight_versions=["8", 7.5]), group_size=2), "weight_versions: is"),
        (lambda: rollouts.from_slime(slime_sample(index="first"), group_size=2), "index: is 'first'; it must be an integer"),
        (lambda: rollouts.from_slime(slime_sample(reward={"math": 1.0}), group_size=2),
         "reward: is a dictionary; its keys are: math"),
        (lambda: rollouts.from_slime(slime_sample(reward={"math": 1.0}), group_size=2, reward_key="code"),
         "reward: is a dictionary without the key 'code'; its keys are: math"),
        (lambda: rollouts.from_slime(slime_sample(response_length=9), group_size=2), "response_length: is 9"),
        (lambda: rollouts.from_prime_rl(prime_rl_sample(prompt_mask=[0, 1]), uid="q", index=0, version=0), "prompt_mask: marks"),
        (lambda: rollouts.from_prime_rl(later_prime_rl_sample(mask=[True]), uid="q", index=0, version=0), "mask: has 1 entry"),
        (lambda: rollouts.from_prime_rl(later_prime_rl_sample(logprobs=[0.5]), uid="q", index=0, version=0), "logprobs: has 1 val"),
        (lambda: rollouts.from_prime_rl(prime_rl_sample(completion_logprobs=[-1.0] * 5), uid="q", index=0, version=0), "has 5 values"),
        (lambda: rollouts.from_verl(verl_output(response_mask=[0, 0, 0, 1, 1, 0, 1]), uid="q", index=0), "loss_mask: has 7 values"),
        (lambda: rollouts.from_slime(slime_sample(loss_mask=[0, 0, 0, 1, 1]), group_size=2), "loss_mask: has 5 values.*set at if"),
        (lambda: rollouts.from_slime(slime_sample(loss_mask=[0, 0, 0, 1, 1]), group_size=2, at={"loss_mask": "next"}),
         "loss_mask: is set at the last row, 4"),
        (lambda: rollouts.from_slime(slime_sample(loss_mask=[0, 1, 0, 1, 1]), group_size=2, at={"loss_mask": "token"}),
         "loss_mask: is set at token 1, which belongs to the prompt"),
        (lambda: rollouts.from_slime(slime_sample(), group_size=2, at={"log_probs": "token"}), "'log_probs'.*does not exist"),
    ],
)
def test_values_that_would_lose_their_meaning_are_refused(forward, why):
    with pytest.raises(evenkeel.InputError, match=why):
        forward()
