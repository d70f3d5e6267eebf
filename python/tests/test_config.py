"""A configuration can be a file, a text, a mapping or keywords."""

import pickle

import numpy as np
import pytest

import evenkeel
from evenkeel import Config


@pytest.fixture
def job(tmp_path):
    path = tmp_path / "job.yaml"
    path.write_text("mesh: {dp: 4}\nmicro_batch:\n  max_tokens: 512\n", encoding="utf-8")
    return path


def test_files_texts_mappings_and_keywords_are_equivalent(job):
    expected = Config(mesh={"dp": 4}, micro_batch={"max_tokens": 512})
    assert Config(job) == Config(str(job)) == Config.load(job) == expected
    assert Config.parse(job.read_text(encoding="utf-8")) == expected
    assert Config({"mesh": {"dp": 4}, "micro_batch": {"max_tokens": 512}}) == expected
    assert Config({"mesh.dp": 4, "micro_batch.max_tokens": np.int32(512)}) == expected


def test_numbers_of_tokens_may_have_a_unit():
    assert Config(micro_batch={"max_tokens": "32k"}) == Config(micro_batch={"max_tokens": 32768})
    with pytest.raises(evenkeel.ConfigError, match="expected a number of tokens"):
        Config(micro_batch={"max_tokens": "32768"})


def test_keywords_override_the_base(job):
    changed = Config(job, micro_batch={"max_tokens": 1024})
    assert changed == Config(mesh={"dp": 4}, micro_batch={"max_tokens": 1024})
    assert Config(changed, mesh={"dp": 2}).settings()["mesh.dp"] == 2
    assert Config.load(job, ["mesh.dp=8"]).settings()["mesh.dp"] == 8


def test_profiles_start_from_the_final_settings():
    config = Config({"profiles": {"log_prob": {"micro_batch": {"max_tokens": 99}}}}, balance={"refine": False})
    assert config.profiles == ["log_prob"]
    assert config.settings()["profiles.log_prob.balance.refine"] is False


def test_a_configuration_is_a_value(job):
    config = Config(job, balance={"cost": "flops-7b", "speeds": (1, 1, 0.5, 1)})
    assert pickle.loads(pickle.dumps(config)) == config
    assert Config.parse(config.to_yaml()) == config
    assert Config.of(config) is config
    assert repr(Config(mesh={"dp": 3})) == "Config(mesh.dp=3)"
    assert config != job


@pytest.mark.parametrize(
    "make, text",
    [
        (lambda: Config(micro_batch={"max_token": 8}),
         "micro_batch.max_token: unknown key. Valid keys: micro_batch.mode, micro_batch.max_tokens, "),
        (lambda: Config({"mesh": {"dp": 0}}), "mesh.dp: 0 is out of range; allowed: 1 to 1048576, or auto"),
        (lambda: Config.parse("mesh:\n  dp: 0\n", "job.yaml"), "job.yaml:2: mesh.dp: 0 is out of range"),
        (lambda: Config.parse("", "job.yaml", ["mesh.dp=0"]), "--set mesh.dp=0: 0 is out of range"),
        (lambda: Config(mesh={"cp": 4}, pack={"align": 3}), "pack.align: "),
        (lambda: Config(mesh=3), "mesh: "),
    ],
)
def test_errors_name_their_place(make, text):
    with pytest.raises(evenkeel.ConfigError) as caught:
        make()
    assert str(caught.value).startswith(text)


def test_a_file_that_is_not_there_is_an_io_error(tmp_path):
    with pytest.raises(evenkeel.IoError) as caught:
        Config(tmp_path / "none.yaml")
    assert isinstance(caught.value, OSError) and "none.yaml" in str(caught.value)


def test_a_configuration_must_have_a_supported_type():
    with pytest.raises(TypeError, match="path of a file, not int"):
        Config(3)
    with pytest.raises(TypeError, match="cannot be the value of a configuration key"):
        Config(mesh={"dp": object()})
