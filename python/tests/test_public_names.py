"""Everything that users see is typed and documented."""

import inspect

import evenkeel

MODULES = (evenkeel.balance, evenkeel.memory, evenkeel.packing, evenkeel.padding, evenkeel.planning, evenkeel.prefix, evenkeel.samples,
           evenkeel.service, evenkeel.steps, evenkeel.tensors, evenkeel.watchdog)


def public():
    return {f"{module.__name__}.{name}": getattr(module, name) for module in MODULES for name in module.__all__}


def test_every_public_name_is_documented_and_every_function_is_typed():
    for name, thing in public().items():
        assert thing.__doc__, name
        if inspect.isfunction(thing):
            untyped = [p.name for p in inspect.signature(thing).parameters.values() if p.annotation is p.empty]
            assert untyped == [], name


def test_every_property_of_a_class_that_users_see_is_explained_or_plain():
    plain = {"size", "layout", "cp", "linear", "quadratic", "tokens", "cost", "dp_rank", "empty", "aligned_tokens", "step", "rank", "config",
             "index", "profile", "num_samples", "num_tokens", "groups", "tree", "segments", "num_suffixes", "prompt_lengths",
             "response_lengths", "ids", "max_seqlen"}
    for name, thing in public().items():
        for member, value in vars(thing).items() if inspect.isclass(thing) else ():
            if isinstance(value, property) and member not in plain and not member.startswith("_"):
                assert value.__doc__, f"{name}.{member}"
