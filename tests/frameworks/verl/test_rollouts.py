"""The output of verl's agent loops becomes a sample for a buffer, with the names and row conventions of the installed version."""

import json

from verl.experimental.agent_loop.agent_loop import AgentLoopMetrics, AgentLoopOutput

from evenkeel import rollouts


def output(**changed):
    return AgentLoopOutput(
        **{
            "prompt_ids": [1, 2], "response_ids": [10, 11, 12], "response_mask": [1, 0, 1], "response_logprobs": [-0.5, 0.0, -0.25],
            "reward_score": 1.0, "num_turns": 4, "metrics": AgentLoopMetrics(),
            "extra_fields": {"min_global_steps": 7, "max_global_steps": 8, "turn_scores": [], "tool_rewards": []}, **changed,
        }
    )


def test_a_sample_has_the_values_that_verl_trains():
    sample = rollouts.from_verl(output().model_dump(), uid="q", index=1)
    verls = output().as_dict()  # the form that verl's trainer gets
    assert sample["prompt_ids"] == verls["prompts"].tolist() and sample["response_ids"] == verls["responses"].tolist()
    assert sample["loss_mask"] == verls["response_mask"].tolist()
    assert sample["rollout_log_probs"] == verls["rollout_log_probs"].tolist()
    assert sample["reward"] == float(verls["rm_scores"].sum())
    assert (sample["uid"], sample["index"], sample["version"]) == ("q", 1, 7)


def test_every_field_is_a_value_of_json():
    assert json.loads(json.dumps(rollouts.from_verl(output().model_dump(), uid="q", index=0)))["num_turns"] == 4
