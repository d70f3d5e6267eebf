"""Defaults lists and overrides work as in Hydra."""

import pytest

from evenkeel import ConfigError
from evenkeel.config_import.importer import Document

SMALL = {"conf/db/small.yaml": "size: 3"}


def document(text, files=None, overrides=()):
    return Document(text, "conf/job.yaml", overrides, read_file=(files or {}).get)


def keys_of(text, files=None, overrides=()):
    """Returns all keys as "path=value", in order."""
    return [f"{key.path}={key.text}" for key in document(text, files, overrides).keys]


def error_of(text, files=None, overrides=()):
    with pytest.raises(ConfigError) as raised:
        document(text, files, overrides)
    return str(raised.value)


def test_a_group_option_is_a_file_in_the_folder_of_that_name():
    assert keys_of("defaults: [{db: small}]\nx: 1", SMALL) == ["db.size=3", "x=1"]


def test_a_package_determines_the_section_of_the_keys():
    assert keys_of("defaults: [{db@a.b: small}]", SMALL) == ["a.b.size=3"]
    assert keys_of("defaults: [{db@_global_: small}]", SMALL) == ["size=3"]
    assert keys_of("defaults: [db/small@_here_]", SMALL) == ["size=3"]
    assert keys_of("defaults: [db/small]", SMALL) == ["db.size=3"]


def test_a_file_may_name_its_package_at_its_top():
    files = {"conf/engine/dp.yaml": "# made by hand\n# @package _global_\nengine: dp"}
    assert keys_of("defaults: [{engine: dp}]", files) == ["engine=dp"]
    files = {"conf/db/small.yaml": "# @package _group_\nsize: 3"}
    assert keys_of("defaults: [{db: small}]", files) == ["db.size=3"]


def test_groups_are_relative_to_the_file_that_names_them():
    files = {
        "conf/actor/dp.yaml": "defaults: [../engine@engine: fsdp, actor, _self_]\nstrategy: dp",
        "conf/actor/actor.yaml": "strategy: ???\nbatch: 8",
        "conf/engine/fsdp.yaml": "size: 2",
    }
    assert keys_of("defaults: [{actor@model.actor: dp}]", files) == [
        "model.actor.engine.size=2",
        "model.actor.strategy=dp",
        "model.actor.batch=8",
    ]


def test_a_group_may_be_named_from_the_root():
    files = {"conf/actor/dp.yaml": "defaults: [{/optim@optim: sgd}]", "conf/optim/sgd.yaml": "lr: 1"}
    assert keys_of("defaults: [{actor: dp}]", files) == ["actor.optim.lr=1"]


def test_a_file_overrides_its_defaults_unless_self_precedes_them():
    assert keys_of("defaults: [{db: small}]\ndb: {size: 5}", SMALL) == ["db.size=5"]
    assert keys_of("defaults: [{db: small}, _self_]\ndb: {size: 5}", SMALL) == ["db.size=5"]
    assert keys_of("defaults: [_self_, {db: small}]\ndb: {size: 5}", SMALL) == ["db.size=3"]


def test_an_option_may_be_a_list_null_or_another_group():
    files = {"conf/db/a.yaml": "a: 1", "conf/db/b.yaml": "b: 2", "conf/actor/dp_actor.yaml": "x: 3"}
    assert keys_of("defaults: [{db: [a, b]}]", files) == ["db.a=1", "db.b=2"]
    assert keys_of("defaults: [{db: null}]\nx: 1", files) == ["x=1"]
    text = 'defaults: [{engine: null}, {optional engine: dp}, {actor@m: "${engine}_actor"}]'
    assert keys_of(text, files) == ["m.x=3"]


def test_override_changes_an_option_that_another_file_chose():
    files = {
        "conf/base.yaml": "defaults: [{db: small}]",
        "conf/db/small.yaml": "size: 3",
        "conf/db/large.yaml": "size: 9",
    }
    assert keys_of("defaults: [base, {override db: large}]", files) == ["db.size=9"]


def test_override_leaves_files_alone_that_a_file_of_its_group_names():
    files = {
        "conf/actor/a.yaml": "defaults: [base]\nx: 1",
        "conf/actor/b.yaml": "x: 2",
        "conf/actor/base.yaml": "y: 3",
    }
    assert keys_of("defaults: [{actor@q: b}, {override actor@q: a}]", files) == ["q.y=3", "q.x=1"]


def test_files_are_looked_for_in_the_search_path_too():
    text = 'hydra: {searchpath: ["file://lib/conf"]}\ndefaults: [base]'
    assert keys_of(text, {"lib/conf/base.yaml": "x: 1"}) == ["x=1", "hydra.searchpath=[file://lib/conf]"]


def test_a_missing_file_is_reported_with_the_section_that_it_would_fill():
    lost = document("defaults: [{actor@m.actor: dp}, {optional db: none}]\nx: 1").lost
    assert len(lost) == 1, "an optional one may be absent"
    assert lost[0].package == ("m", "actor")
    assert lost[0].file == "actor/dp.yaml"
    assert lost[0].entry == "actor@m.actor: dp"


def test_keys_that_a_missing_file_may_have_get_no_default():
    references = 'x: "${oc.select:m.actor.cap,16384}"\ny: "${oc.select:m.other,1}"'
    x, y = document(f"defaults: [{{actor@m.actor: dp}}]\n{references}").keys
    assert "which actor/dp.yaml may set, but that file was not found" in x.value.missing
    assert y.text == "1"


def test_circular_and_unreadable_defaults_lists_are_refused():
    assert "form a cycle" in error_of("defaults: [a]", {"conf/a.yaml": "defaults: [a]"})
    assert 'job.yaml:1: expected a file or one "group: option" in defaults, found [a]' in error_of("defaults: [[a]]")
    assert "no defaults list has a group engine" in error_of('defaults: [{actor: "${engine}_actor"}]')
    assert "conf/a.yaml" in error_of("defaults: [a]", {"conf/a.yaml": "x: [1"})
    assert "expected a map" in error_of("defaults: [a]", {"conf/a.yaml": "- 1"})


def test_a_defaults_key_without_a_list_is_an_ordinary_key():
    assert keys_of("defaults: {x: 1}") == ["defaults.x=1"]


def test_overrides_change_add_force_and_remove():
    overrides = ["a.b=7", "+a.d=3", "++a.e=4", "++a.b=8", "~a.c"]
    assert keys_of("a: {b: 1, c: 2}", overrides=overrides) == ["a.b=8", "a.d=3", "a.e=4"]


@pytest.mark.parametrize(
    "text, key",
    [
        ("'a,b'", "x=a,b"),
        ("[1,2]", "x=[1, 2]"),
        ("[${y},7]", "x=[5, 7]"),
        ("{a:1}", "x.a=1"),
        ("null", "x=null"),
        ("", "x="),
        ("~/data/a=b.parquet", "x=~/data/a=b.parquet"),
        ("${y}", "x=5"),
    ],
)
def test_overrides_are_read_as_hydra_reads_them(text, key):
    assert keys_of("x: 0\ny: 5", overrides=["x=" + text])[0] == key


def test_overrides_are_laid_on_before_references_are_followed():
    assert keys_of("a: 1\nb: ${a}", overrides=["a=2"]) == ["a=2", "b=2"]


def test_overrides_choose_the_files_of_a_group():
    files = {**SMALL, "conf/db/large.yaml": "size: 9", "conf/log/on.yaml": "x: 1"}
    assert keys_of("defaults: [{db: small}]", files, ["db=large"]) == ["db.size=9"]
    assert keys_of("defaults: [{db@a.b: small}]", files, ["db@a.b=large"]) == ["a.b.size=9"]
    assert keys_of("defaults: [{db: small}]\ny: 1", files, ["~db"]) == ["y=1"]
    assert keys_of("defaults: [{db: small}]", files, ["+log=on"]) == ["db.size=3", "log.x=1"]


@pytest.mark.parametrize("text, override, keys", [
    ("a: {b: null}", "+a.b=8192", ["a.b=8192"]),
    ("a: {b: '???'}", "+a.b=8192", ["a.b=8192"]),
    ("a: null", "+a.b=8192", ["a.b=8192"]),
    ("a: {b: [1]}", "+a.b=[2,3]", ["a.b=[2, 3]"]),
    ("a: {b: 1}", "+a={c: 2}", ["a.b=1", "a.c=2"]),
])
def test_additions_that_hydra_permits_are_permitted(text, override, keys):
    assert keys_of(text, overrides=[override]) == keys


@pytest.mark.parametrize(
    "override, why",
    [
        ("a.c=1", "--override a.c=1: the configuration has no key a.c. To add it, write +a.c="),
        ("+a.b=1", "has a.b already"),
        ("~a.c", "the key a.c cannot be removed"),
        ("db@x=small", "no defaults list has the group db@x"),
        ("a.b=1,2", "gives several values"),
        ("a.b='x", "the value begins with ' but does not end with it"),
        ("a.b=[1", "--override a.b=[1"),
        ("++a.b.c=1", "cannot set a.b.c, because a.b is not a section"),
        *((text, "KEY=VALUE") for text in ("", "a.b", "=1", "+", "a..b=1", "~")),
    ],
)
def test_overrides_that_hydra_refuses_are_refused_here(override, why):
    assert why in error_of("a: {b: 1}", overrides=[override])


def test_overrides_may_set_keys_of_a_missing_file():
    keys = keys_of("defaults: [{actor@m.actor: dp}]\nx: 1", overrides=["m.actor.cap=4096"])
    assert keys == ["x=1", "m.actor.cap=4096"]
