"""The folder corpus has configurations like those of the three systems, and expected has their results: Evenkeel's
configuration, an empty line, and the table. Run this file to rewrite the results, then check the difference."""

import os
import pathlib
import re
import subprocess

import pytest

from evenkeel import Config
from evenkeel.config_import.importer import import_config
from evenkeel.config_import.text import import_table

HERE = pathlib.Path(__file__).resolve().parent
DOCS = HERE.parents[2] / "docs"

JOBS = {
    "verl_a_recipe_that_stands_on_another_folder": "verl-recipe/recipe.yaml",
    "verl_on_fsdp_put_together_from_parts": "verl/ppo.yaml actor_rollout_ref.actor.use_dynamic_bsz=True "
    "actor_rollout_ref.rollout.n=8 algorithm.adv_estimator=grpo "
    "actor_rollout_ref.actor.ulysses_sequence_parallel_size=2 "
    "actor_rollout_ref.actor.ppo_max_token_len_per_gpu=24576",
    "verl_on_megatron_put_together_from_parts": "verl/ppo.yaml model_engine=megatron "
    "actor_rollout_ref.actor.use_dynamic_bsz=True actor_rollout_ref.actor.megatron.tensor_model_parallel_size=4 "
    "actor_rollout_ref.actor.megatron.context_parallel_size=2 actor_rollout_ref.actor.use_kl_loss=True "
    "critic.megatron.tensor_model_parallel_size=4 critic.megatron.context_parallel_size=2",
    "verl_grpo_on_fsdp": "verl-grpo-fsdp.yaml",
    "verl_ppo_with_a_critic_on_megatron": "verl-ppo-megatron.yaml",
    "verl_sft_on_fsdp": "verl-sft-fsdp.yaml",
    "verl_sft_on_megatron": "verl-sft-megatron.yaml",
    "verl_sft_of_the_older_trainer": "verl-sft-older.yaml",
    "verl_dpo": "verl-dpo.yaml",
    "roll_rlvr_on_megatron": "roll/rlvr/megatron.yaml",
    "roll_ppo_with_a_critic_on_deepspeed": "roll/rlvr/deepspeed.yaml",
    "roll_agentic": "roll-agentic.yaml",
    "roll_sft": "roll-sft.yaml",
    "roll_dpo": "roll-dpo.yaml",
    "mindspeed_rl_grpo_with_a_model_file": "mindspeed-rl/grpo.yaml",
    "mindspeed_rl_dapo": "mindspeed-rl-dapo.yaml",
    "mindspeed_rl_ppo_with_a_critic": "mindspeed-rl-ppo.yaml",
    "mindspeed_rl_sft": "mindspeed-rl-sft.yaml",
    "mindspeed_rl_dpo": "mindspeed-rl-dpo.yaml",
}


def read_file(name):
    path = HERE / "corpus" / name
    return path.read_text(encoding="utf-8") if path.is_file() else None


def imported(job):
    file, *overrides = JOBS[job].split()
    return import_config(read_file(file), file, overrides=overrides, read_file=read_file)


def expected_file(job):
    return HERE / "expected" / f"{job}.txt"


@pytest.mark.parametrize("job", JOBS)
def test_import_results_match_the_recorded_ones(job):
    config = imported(job)
    assert f"{config.yaml}\n{import_table(config)}" == expected_file(job).read_text(encoding="utf-8")


@pytest.mark.parametrize("job", JOBS)
def test_imported_configurations_are_complete_and_valid(job):
    config = imported(job)
    assert config.missing == []
    assert Config.parse(config.yaml, "imported").profiles


@pytest.mark.parametrize("job", ["verl_grpo_on_fsdp", "roll_rlvr_on_megatron", "mindspeed_rl_grpo_with_a_model_file"])
def test_the_program_accepts_the_imported_configuration(job, tmp_path):
    program = os.environ.get("EVENKEEL_PROGRAM")
    if not program:
        pytest.skip("EVENKEEL_PROGRAM names no program")
    file = tmp_path / "job.yaml"
    file.write_text(imported(job).yaml, encoding="utf-8")
    run = subprocess.run([program, "config", "show", file], capture_output=True, text=True, check=False)
    assert run.returncode == 0, run.stderr
    assert Config.parse(run.stdout) == Config.load(file)


@pytest.mark.parametrize("system", ["mindspeed-rl", "roll", "verl"])
def test_pages_show_the_actual_result_of_the_import(system):
    page = (DOCS / f"{system}.md").read_text(encoding="utf-8")
    section = page[page.index("## Import a configuration") :]
    theirs, ours, table = re.findall(r"^```.*?\n(.*?)^```", section, re.MULTILINE | re.DOTALL)[:3]
    config = import_config(theirs, "job.yaml")
    assert config.system == system
    assert config.yaml == ours
    assert import_table(config) == table


if __name__ == "__main__":
    for name in JOBS:
        made = imported(name)
        expected_file(name).write_text(f"{made.yaml}\n{import_table(made)}", encoding="utf-8")
