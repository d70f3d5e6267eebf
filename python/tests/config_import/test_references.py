"""Tests of references and scalars."""

import random

import pytest
from omegaconf import OmegaConf

from evenkeel import ConfigError
from evenkeel.config_import.importer import Document
from evenkeel.config_import.values import Value, as_flag, as_integer

SECTIONS = """
a: 8192
nested: {x: 3, same: "${.x}", up: "${..a}", deep: {z: "${...a}", n: null, m: "???"}}
list: [10, 20, 30]
letter: x
which: a
"""


def key_of(text, key="b", environment=None):
    return next(it for it in Document(text, "job.yaml", environment=environment).keys if it.path == key)


def value_of(text, key="b", environment=None):
    """Returns the value of a key, or "! why" if it cannot be determined."""
    found = key_of(text, key, environment)
    return f"! {found.value.missing}" if found.value.missing else found.text


def via_of(text, key="b", environment=None):
    return key_of(text, key, environment).value.via


@pytest.mark.parametrize(
    "reference",
    [
        "${a}",
        "${nested.deep.z}",
        "${nested.same}",
        "${list[1]}",
        "${list.2}",
        "${${which}}",
        "${nested.${letter}}",
        "${a} tokens, ${nested.x} of them",
        "${nested.x}${a}",
        "\\${a}",
        "\\\\${a}",
        "${nested.deep.n} is nothing",
        "${oc.select:a,1}",
        "${oc.select:nothing,16384}",
        "${oc.select:nothing,${a}}",
        "${oc.select:nothing,'a, b'}",
        '${oc.select:nothing,"it\'s ${a}"}',
        "${oc.select:nothing,[1, 2]}",
        "${oc.select: nested.deep.m , 7}",
        "${oc.select:nested.deep.m,7}",
        "${oc.decode:'[1, ${a}]'}",
        "${oc.decode:'8e3'}",
        "x${oc.decode:'4'}y",
    ],
)
def test_a_reference_has_the_value_that_omegaconf_resolves(reference):
    text = SECTIONS + "b: '" + reference.replace("'", "''") + "'"
    theirs = OmegaConf.create(text)["b"]
    ours = value_of(text)
    assert ours == str(theirs) or float(ours) == float(theirs)


def test_a_reference_lists_the_keys_that_it_follows():
    assert via_of(SECTIONS + "b: ${nested.x}") == "follows nested.x"
    assert via_of(SECTIONS + "b: ${nested.deep.z}") == "follows nested.deep.z, follows a"
    assert via_of(SECTIONS + "b: ${oc.select:nothing,16384}") == "nothing does not exist, so its default is used"
    assert via_of(SECTIONS + "b: ${mul:2,3}") == "computed by mul"


def test_leading_dots_refer_to_enclosing_sections():
    assert value_of(SECTIONS, "nested.same") == "3"
    assert value_of(SECTIONS, "nested.up") == "8192"
    assert value_of(SECTIONS, "nested.deep.z") == "8192"
    assert "! refers to ....b, which is outside the file" in value_of("a: ${....b}\nb: 1", "a")
    assert value_of(SECTIONS + "b: ${list[7]}") == "! refers to list.7, which this file does not have"


def test_a_section_cannot_be_part_of_a_text():
    assert "! has a section in the middle" in value_of(SECTIONS + 'b: "x${nested}"')


def test_a_section_may_be_taken_over_whole():
    text = SECTIONS + "b: ${nested}\nc: ${b.deep.z}"
    assert value_of(text, "b.x") == "3"
    assert value_of(text, "b.deep.z") == "8192"
    assert value_of(text, "c") == "8192"


def test_a_merge_key_adds_keys_that_the_map_lacks():
    text = "grid: &grid {tp: 4, cp: 2}\nactor: {<<: *grid, cp: 1}"
    assert value_of(text, "actor.tp") == "4"
    assert value_of(text, "actor.cp") == "1"


def test_oc_select_takes_a_null_as_it_is_and_a_value_still_to_be_given_as_absent():
    assert value_of(SECTIONS + "b: ${oc.select:nothing}") == "null"
    assert value_of(SECTIONS + "b: ${oc.select:nested.deep.n,7}") == "null"
    assert value_of(SECTIONS + "b: ${oc.select:nested.deep.m,7}") == "7"


def test_oc_select_may_look_around_itself():
    assert value_of('s: {other: 5, b: "${oc.select:.other,1}"}', "s.b") == "5"
    assert value_of('s: {b: "${oc.select:.other,1}"}', "s.b") == "1"
    assert value_of('a: 8\ns: {b: "${oc.select:..a,1}"}', "s.b") == "8"


def test_oc_env_reads_the_environment_that_the_caller_passes():
    environment = {"CAP": "2048"}
    assert value_of("b: ${oc.env:CAP}", "b", environment) == "2048"
    assert via_of("b: ${oc.env:CAP}", "b", environment) == "environment variable CAP"
    assert value_of("b: ${oc.env:CAP,4096}") == "4096"
    assert via_of("b: ${oc.env:CAP,4096}") == "CAP is not set in the environment, so its default is used"
    assert value_of("b: ${oc.env:CAP,null}") == "null"
    assert value_of("b: ${oc.env:CAP}") == "! needs CAP, which is not set in the environment"


def test_oc_decode_reads_a_text_as_a_value():
    environment = {"CAP": "2048", "SIZES": "[1, 2]", "DEVICES": "list(range(0,8))"}
    assert value_of("b: ${oc.decode:${oc.env:CAP}}", "b", environment) == "2048"
    assert value_of("b: ${oc.decode:${oc.env:SIZES}}", "b", environment) == "[1, 2]"
    assert value_of("b: ${oc.decode:${oc.env:DEVICES}}", "b", environment) == "list(range(0,8))"
    assert value_of("b: ${oc.decode:'null'}") == "null"
    assert value_of("b: ${oc.decode:${oc.env:X}}", "b", {"X": "}"}) == "}"


@pytest.mark.parametrize(
    "reference, value",
    [
        ("${mul:${a},2}", "16384"),
        ("${multiply:${a}, 3, 2}", "49152"),
        ("${div:${a},2}", "4096.0"),
        ("${int_div:${a},3}", "2730"),
        ("${add:${a},${nested.x}}", "8195"),
        ("${sub:${a},192}", "8000"),
        ("${max:1,${a},7}", "8192"),
        ("${min:${a},7}", "7"),
        ("${mod:${a},1000}", "192"),
        ("${eval:'${a} * 2 + 1'}", "16385"),
        ("${eval:'(${a} + 4) // 3'}", "2732"),
        ("${eval:'2 ** 14'}", "16384"),
        ("${eval:'-7 // 2'}", "-4"),
        ("${eval:'int(${a} * 1.5)'}", "12288"),
        ("${if:true,${a},1}", "8192"),
        ("${mul:2,${sum:${a},8}}", "16400"),
    ],
)
def test_arithmetic_resolvers_have_the_names_that_projects_use(reference, value):
    assert value_of(SECTIONS + "b: " + reference) == value


@pytest.mark.parametrize(
    "reference",
    "${div:1,0}|${int_div:1,0}|${mul:a,2}|${mul:9223372036854775807,2}|${eval:'import os'}|${eval:'(1'}|${eval:''}|"
    "${mul:3}|${if:maybe,1,2}|${eval:'2 ** 9999'}|${nobody:1,2}|${now:%Y}".split("|"),
)
def test_arithmetic_without_a_numeric_result_is_unresolved(reference):
    assert "! needs the resolver" in value_of(SECTIONS + "b: " + reference)


def test_unresolved_references_have_a_reason():
    assert value_of("b: ${my.cap}") == "! refers to my.cap, which this file does not have"
    assert value_of("b: ${a}\na: ${b}") == "! refers to itself through a"
    assert value_of("b: ???") == "! is ??? there: a value that must be set, for example on the command line"
    for broken in ("${a", "${", "${oc.select:a", "${oc.select:'a}"):
        assert "cannot be read" in value_of(f'a: 1\nb: "{broken}"'), broken


def test_references_that_decode_themselves_are_unresolved():
    environment = {"X": "${oc.decode:${oc.env:X}}"}
    assert "nested too deeply" in value_of("b: ${oc.decode:${oc.env:X}}", "b", environment)


def test_references_that_grow_without_bound_are_refused():
    bomb = ["a0: {x: 1, y: 1}"]
    bomb += [f'a{i}: {{x: "${{a{i - 1}}}", y: "${{a{i - 1}}}"}}' for i in range(1, 40)]
    with pytest.raises(ConfigError, match=r"job\.yaml"):
        Document("\n".join(bomb), "job.yaml")


def test_any_text_is_resolved_or_has_a_reason():
    parts = "${ } a . .. b : , ' \" [ ] { \\ 0 1e9 oc.select: oc.env: oc.decode: mul: eval: - ( ) *".split() + [" "]
    chance = random.Random(1)
    for _ in range(300):
        text = "".join(chance.choice(parts) for _ in range(chance.randrange(12))).replace("'", "''")
        document = Document(f"a: 8192\nb: '{text}'", "job.yaml", environment={"a": "${b}", "b": "3"})
        assert {key.path.split(".")[0] for key in document.keys} == {"a", "b"}


def test_integers_are_read_as_yaml_1_1_and_python_read_them():
    cases = {"8192": 8192, "1_024": 1024, "0x400": 1024, "8e3": 8000, "8.0e3": 8000, "+7": 7, "-7": -7, "010": 8}
    for text, number in cases.items():
        assert as_integer(Value(text)) == number, text
    assert as_integer(Value("8192", quoted=True)) == 8192, "a text that is a number"
    for text in ("", "8.5", "lots", "8k", "1e400", "nan", "-", "0x", "99999999999999999999", "1 2", "\u0668"):
        assert as_integer(Value(text)) is None, text


def test_flags_have_the_words_of_yaml_1_1():
    for word in ("true", "True", "TRUE", "yes", "On"):
        assert as_flag(Value(word)) is True, word
    for word in ("false", "No", "OFF"):
        assert as_flag(Value(word)) is False, word
    for word in ("maybe", "tRUE", "1", "y", ""):
        assert as_flag(Value(word)) is None, word
