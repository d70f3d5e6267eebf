"""Properties of all imports: the system is detected, no key is dropped, and invalid files are refused."""

import random

import pytest
import yaml

from evenkeel import ConfigError
from evenkeel.config_import.importer import import_config
from evenkeel.config_import.text import import_table
from imports import imported, outcome, setting


def error_of(text):
    with pytest.raises(ConfigError) as raised:
        import_config(text, "job.yaml")
    return str(raised.value)


def test_the_system_is_detected_from_the_keys():
    assert imported("rl_config: {use_dynamic_bsz: true}").system == "mindspeed-rl"
    assert imported("reference: {use_dynamic_batching_in_infer: true}").system == "roll"
    assert imported("rollout_batch_size: 64").system == "roll"
    assert imported("actor_rollout_ref: {rollout: {n: 4}}\ntrainer: {balance_batch: true}").system == "verl"


def test_the_caller_may_name_the_system():
    config = imported("trainer: {total_epochs: 3}", "verl")
    assert config.system == "verl"
    assert setting(config, "batch.epochs") == "3"


def test_every_key_is_reported_once_in_the_order_of_the_file():
    config = imported("""
rl_config: {zeta: 1, use_dynamic_bsz: true, alpha: [1, 2], empty: {}, list: [{a: 1}, {b: 2}]}
megatron_training: {bf16: true}
""")
    assert [f"{key.foreign} = {key.value}" for key in config.unused] == [
        "rl_config.zeta = 1",
        "rl_config.alpha = [1, 2]",
        "rl_config.empty = {}",
        "rl_config.list[0].a = 1",
        "rl_config.list[1].b = 2",
        "megatron_training.bf16 = true",
    ]
    assert len(config.keys) == 1
    assert outcome(config, "rl_config.zeta") == "unused: unknown here"


def test_values_are_shown_as_the_file_writes_them():
    config = imported("rollout_batch_size: 1_024\nlr: 1.0e-6\nbf16: True\nlist: [True, 'a b', '', null, {x: 'a, b'}]")
    values = {key.foreign: key.value for key in config.keys + config.unused}
    assert values["rollout_batch_size"] == "1_024"
    assert values["lr"] == "1.0e-6"
    assert values["bf16"] == "True"
    assert values["list[1]"] == "a b"
    assert values["list[4].x"] == "a, b"


@pytest.mark.parametrize("slip", ["use_dynamic_bzs", "use_dynamic_bs", "use_dynamic_bszz", "use_dynamix_bsx"])
def test_a_slip_of_the_pen_is_recognised(slip):
    config = imported(f"rl_config: {{{slip}: true, use_dp_batch_balance: true}}")
    meant = "unused: unknown here; did you mean rl_config.use_dynamic_bsz?"
    assert outcome(config, f"rl_config.{slip}") == meant
    far = imported("rl_config: {use_dynamic_qqq: true, use_dp_batch_balance: true}")
    assert outcome(far, "rl_config.use_dynamic_qqq") == "unused: unknown here"


def test_a_file_of_an_unknown_system_is_refused():
    assert "is not recognized as a configuration of MindSpeed-RL, ROLL or verl" in error_of("services: {web: {image: nginx}}")
    assert "could be a configuration of mindspeed-rl or roll" in error_of("rl_config: {a: 1}\nactor_train: {b: 1}")
    with pytest.raises(ConfigError, match="has no key that says how verl makes batches"):
        import_config("{}", "job.yaml", "verl")
    with pytest.raises(ConfigError, match="system: is 'openrlhf'; it must be mindspeed-rl, roll, verl or None"):
        import_config("{}", "job.yaml", "openrlhf")
    assert "has no key that says" in error_of("actor_infer: {generating_args: {top_k: 1}}")


@pytest.mark.parametrize("text", ["", "just words", "- a\n- b", "# only a comment"])
def test_a_document_that_is_not_a_map_is_refused(text):
    assert "expected a map of sections" in error_of(text)


@pytest.mark.parametrize(
    "text, why",
    [
        ("rl_config:\n  use_dynamic_bsz: [true\n", "job.yaml:3:1: malformed YAML: "),
        ("rl_config: {a: 1}\n---\nrl_config: {a: 1}\n", "job.yaml:2:1: expected one YAML document, found a second one"),
        ("rl_config:\n  seed: 1\n  seed: 2\n", "job.yaml:3: rl_config.seed: the key is given twice"),
        ("rl_config:\n  [a, b]: 1\n", "job.yaml:2: rl_config: expected a word as the key, found a list"),
        ("rl_config:\n\tseed: 1\n", "Indent with spaces: a tab is in front of the first word of the line"),
        ("rl_config:\n  seed: \x1b[2J\n", "job.yaml:2:9: malformed YAML: the byte shown as \\x1b is not text. Save"),
        ("rl_config:\n  seed: \udcff\n", "job.yaml:2:9: malformed YAML: the byte shown as \\xff is not text. Save"),
        ("rl_config: {<<: 3}", "job.yaml:1: <<: only maps can be merged into a map"),
        ("a: &a [*a]", "aliases followed"),
        ("[" * 5000, "nested too deeply"),
        ("#" * (1 << 20) + "#", "is larger than 1048576 bytes, the limit for a configuration. Check that it is the right file"),
    ],
)
def test_malformed_yaml_is_refused_with_its_line(text, why):
    assert why in error_of(text)


@pytest.mark.parametrize(
    "text, why",
    [
        (
            "rl_config:\n  use_dynamic_bsz: maybe\n",
            "job.yaml:2: rl_config.use_dynamic_bsz: expected true or false, found maybe",
        ),
        ("rl_config: {use_dynamic_bsz: true, max_packing_token_size: lots}", "expected an integer, found lots"),
        ("rl_config: {use_dynamic_bsz: true, max_packing_token_size: 0}", "allowed: 1 to 2147483647, found 0"),
        ("rl_config: {use_dynamic_bsz: true, max_packing_token_size: 9999999999}", "out of range"),
        (
            "actor_train: {use_sequence_packing: true, sequence_packing_args: {algorithm: magic}}",
            "expected none or load_balance, found magic",
        ),
        ("rollout_batch_size: 2147483647\nnum_return_sequences_in_group: 2", "makes a step of more than 2147483647 samples"),
        ("actor_rollout_ref: {actor: {strategy: [fsdp]}}", "expected a word, found [fsdp]"),
    ],
)
def test_a_value_of_the_wrong_type_or_range_is_refused_with_its_line(text, why):
    assert why in error_of(text)


def test_circular_references_are_unresolved():
    config = imported("""
trainer: {balance_batch: true}
data: {train_batch_size: "${data.seed}", seed: "${data.train_batch_size}"}
""")
    assert "unused: refers to" in outcome(config, "data.seed")


def test_hostile_nesting_is_refused():
    bombs = ["a0: &a0 [{x: 1}, {x: 1}]"]
    bombs += [f"a{i}: &a{i} [{{x: *a{i - 1}}}, {{x: *a{i - 1}}}]" for i in range(1, 40)]
    assert "aliases followed" in error_of("\n".join(bombs))


def test_python_numbers_may_have_underscores():
    assert setting(imported("rollout_batch_size: 1_024"), "batch.global_batch") == "1024"


def test_any_file_is_imported_whole_or_refused():
    keys = (
        "megatron_training.global_batch_size rl_config.n_samples_per_prompt rl_config.mini_batch_size "
        "rl_config.use_dynamic_bsz rl_config.use_remove_padding rl_config.max_packing_token_size "
        "rl_config.ref_dynamic_max_batch_size rl_config.shuffle_mini_batch rl_config.gamma "
        "actor_config.micro_batch_size actor_config.context_parallel_size actor_config.context_parallel_algo"
    ).split()
    values = "true false null 0 1 2 64 8192 2147483647 -3 ulysses_cp_algo [1] {} '${rl_config.gamma}' ''".split()
    chance = random.Random(1)
    outcomes = set()
    for _ in range(300):
        file = {key: chance.choice(values) for key in chance.sample(keys, chance.randrange(6))}
        try:
            text = "{" + ", ".join(f"{key}: {value}" for key, value in file.items()) + "}"
            config = import_config(text, "job.yaml", "mindspeed-rl")
        except ConfigError as error:
            assert error.where
            outcomes.add("refused")
        else:
            assert sorted(key.foreign for key in config.keys + config.unused) == sorted(file)
            assert isinstance(yaml.safe_load(config.yaml), dict)
            outcomes.add("imported")
    assert outcomes == {"refused", "imported"}


def test_the_table_has_a_row_a_key_and_then_those_not_used():
    config = imported("rl_config: {use_dp_batch_balance: true, gamma: 1.0}")
    assert import_table(config).startswith("""\
mindspeed-rl                    value  became                   note
rl_config.use_dp_batch_balance  true   balance.algorithm: auto

not used         value  why
rl_config.gamma  1.0    the RL algorithm

to be set: source.kind""")


def test_the_table_is_as_wide_as_the_terminal():
    config = imported("rl_config: {use_dp_batch_balance: true, gamma: 1.0, epochs: 1}")
    assert import_table(config, 70).split("\n\n")[:2] == [
        """\
mindspeed-rl                    value  became                   note
rl_config.use_dp_batch_balance  true   balance.algorithm: auto""",
        """\
not used          value  why
rl_config.gamma   1.0    the RL algorithm
rl_config.epochs  1      the trainer repeats passes over a step:
                         iterate over its micro-batches again""",
    ]
    assert import_table(config, 40).split("\n\n")[0] == """\
mindspeed-rl
rl_config.use_dp_batch_balance
  value: true
  became: balance.algorithm: auto"""
