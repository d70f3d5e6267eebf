"""The command evenkeel-import: its output, its exit status, and its errors."""

import os
import pathlib
import subprocess
import sys

import pytest

from evenkeel.config_import import main


@pytest.fixture
def command(tmp_path, monkeypatch, capfd):
    """Runs the command in a separate folder. Returns its status, standard output and standard error."""
    monkeypatch.chdir(tmp_path)

    def run(*arguments):
        capfd.readouterr()
        try:
            status = main(arguments)
        except SystemExit as end:
            status = end.code
        return status, *capfd.readouterr()

    return run


def write(name, text):
    path = pathlib.Path(name)
    path.parent.mkdir(exist_ok=True)
    path.write_text(text, encoding="utf-8")


def test_the_configuration_is_written_and_the_result_of_each_key_is_reported(command):
    write("grpo.yaml", "rl_config: {use_dp_batch_balance: true, gamma: 1.0}\n")
    status, printed, messages = command("grpo.yaml", "--allow-missing")
    assert status == 0
    assert "algorithm: auto" in printed
    assert "# rl_config.use_dp_batch_balance" in printed
    assert "balance.algorithm: auto" in messages
    assert "the RL algorithm" in messages
    status, out, err = command("grpo.yaml", "--allow-missing", "--preset", "--output", "evenkeel.yaml")
    assert (status, out, err) == (0, messages, "")
    assert "preset: mindspeed-rl" in pathlib.Path("evenkeel.yaml").read_text(encoding="utf-8")
    assert sorted(os.listdir()) == ["evenkeel.yaml", "grpo.yaml"]


def test_nothing_is_written_if_a_required_setting_is_missing(command):
    write("grpo.yaml", "rl_config: {use_dp_batch_balance: true, use_dynamic_bsz: true}\n")
    status, out, err = command("grpo.yaml", "--output", "evenkeel.yaml")
    assert (status, out) == (1, "")
    assert not pathlib.Path("evenkeel.yaml").exists()
    assert "not found" in err
    assert "micro_batch.max_tokens: 8192" in err
    assert "evenkeel-import: error: nothing is written: of the settings of memory" in err
    assert "--allow-missing" in err


def test_it_follows_defaults_lists_overrides_and_the_environment(command, monkeypatch):
    monkeypatch.setenv("CAP_OF_CRITICS", "4096")
    write(
        "actor/dp.yaml",
        "strategy: fsdp\nuse_dynamic_bsz: true\nppo_mini_batch_size: 8\n"
        "ppo_max_token_len_per_gpu: 1\nloss_agg_mode: token-mean\n",
    )
    write(
        "job.yaml",
        "defaults: [{actor@actor_rollout_ref.actor: dp}]\n"
        'data: {train_batch_size: "${oc.env:PATH_OF_NOBODY,16}"}\n'
        "actor_rollout_ref: {rollout: {n: 2, log_prob_micro_batch_size_per_gpu: 1}}\n"
        "critic: {use_dynamic_bsz: true, ppo_max_token_len_per_gpu: '${oc.env:CAP_OF_CRITICS}', "
        "forward_max_token_len_per_gpu: 2048}\n",
    )
    overrides = ["actor_rollout_ref.actor.ppo_max_token_len_per_gpu=24576", "+trainer.total_epochs=3"]
    status, out, err = command("job.yaml", "--override", *overrides)
    assert status == 0, err
    assert "max_tokens: 24576" in out
    assert "max_tokens: 4096" in out
    assert "global_batch: 32" in out
    assert "epochs: 3" in out
    assert "read actor/dp.yaml" in err
    assert "PATH_OF_NOBODY is not set in the environment" in " ".join(err.split())


@pytest.mark.parametrize(
    "arguments, status, error",
    [
        (
            "other.yaml",
            2,
            "other.yaml: is not recognized as a configuration of MindSpeed-RL, ROLL or verl. "
            "Specify its system (--from): mindspeed-rl, roll or verl",
        ),
        ("absent.yaml", 1, "absent.yaml: cannot open the configuration: No such file or directory"),
        (".", 1, ".: is a folder, not a file"),
        ("no-text.yaml", 2, "no-text.yaml:1:4: malformed YAML: the byte shown as \\xff is not text. Save the file"),
        ("other.yaml --from slime", 2, "argument --from: 'slime' is not one of mindspeed-rl, roll, verl"),
        ("other.yaml --output", 2, "argument --output: expected one argument. See: evenkeel-import --help"),
        ("other.yaml --override", 2, "argument --override: expected at least one argument"),
        ("other.yaml --preset --allow", 2, "unrecognized arguments: --allow. See: evenkeel-import --help"),
        ("", 2, "the following arguments are required: FILE"),
        ("good.yaml --allow-missing --output .", 1, ".: is a folder, not a file"),
        ("good.yaml --allow-missing --output /dev/null", 1, "/dev/null: exists and is not a regular file"),
        ("good.yaml --allow-missing --output absent/job.yaml", 1, "absent/job.yaml: cannot be created: No such file"),
    ],
)
def test_errors_are_reported_in_one_line(command, arguments, status, error):
    write("other.yaml", "services: {}\n")
    write("good.yaml", "rollout_batch_size: 8\n")
    pathlib.Path("no-text.yaml").write_bytes(b"a: \xff\n")
    found, out, err = command(*arguments.split())
    assert (found, out) == (status, "")
    assert err.startswith(f"evenkeel-import: error: {error}")
    assert err.count("\n") == 1


def test_an_option_without_a_value_is_refused(command):
    write("good.yaml", "rollout_batch_size: 8\n")
    for option in ("--from", "--output"):
        assert command("good.yaml", option, "")[0] == 2
    assert "needs a value, but the value is empty. Check that shell variables in it are set" in command("good.yaml", "--output", "")[2]


def test_help_has_all_options(command):
    status, out, _ = command("--help")
    assert status == 0
    for option in ("--from", "--output", "--preset", "--override", "--allow-missing"):
        assert option in out


def run_in_shell(line, folder):
    command = f"{sys.executable} -m evenkeel.config_import good.yaml --allow-missing"
    return subprocess.run(["bash", "-c", line.format(command)], cwd=folder, capture_output=True, text=True, check=False)


def test_output_that_cannot_be_written_is_an_error(tmp_path):
    (tmp_path / "good.yaml").write_text("rollout_batch_size: 8\n", encoding="utf-8")
    closed = run_in_shell("{} >&-", tmp_path)
    assert (closed.returncode, closed.stderr) == (
        1,
        "evenkeel-import: error: standard output: cannot be written: Bad file descriptor\n",
    )
    full = run_in_shell("{} >/dev/full", tmp_path)
    assert (full.returncode, full.stderr) == (
        1,
        "evenkeel-import: error: standard output: cannot be written: No space left on device\n",
    )


def test_it_ends_without_a_word_when_its_reader_has_left(tmp_path):
    (tmp_path / "good.yaml").write_text("rollout_batch_size: 8\n", encoding="utf-8")
    left = run_in_shell("{{ sleep 0.2; {} 2>messages; echo $? >status; }} | true; cat status messages", tmp_path)
    assert left.stdout == "141\n"


def test_the_package_needs_omegaconf_for_this_command_alone(tmp_path):
    (tmp_path / "omegaconf.py").write_text("raise ModuleNotFoundError('no', name='omegaconf')\n", encoding="utf-8")
    program = (
        f"import sys; sys.path.insert(0, {str(tmp_path)!r}); import evenkeel; from evenkeel.config_import import main; "
        "sys.exit(main(['job.yaml']))"
    )
    run = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=False)
    assert run.returncode == 1
    assert run.stderr.startswith("evenkeel-import: error: the Python package omegaconf is missing. Install ")
