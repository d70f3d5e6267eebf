"""What other frameworks call a sample, as what evenkeel.Producer sends. Every function takes one dictionary, as the framework
made it, and changes nothing but the names and the forms that are said below; all further keys go along. Standard library only.

    producer.put(evenkeel.rollouts.from_slime(sample.to_dict(), group_size=8))

What a buffer makes of the keys that go along is what it makes of all (docs/rollouts.md): numbers and lists as long as the tokens
or the response become fields; text, None and nested dictionaries are left out.

Each function knows the row convention of its framework (docs/adapters.md#row-conventions), and puts masks, log-probabilities and
all other values of tokens at the same rows. ``at`` names keys that follow another one, such as ``{"loss_mask": "token"}``.
"""

from __future__ import annotations

import operator
from collections.abc import Iterable, Mapping
from typing import Any

from evenkeel._conventions import LOSS_MASK, of_response, require_conventions
from evenkeel.errors import InputError

__all__ = ["from_prime_rl", "from_slime", "from_verl"]


def from_verl(output: Mapping[str, Any], *, uid: str | int, index: int, version: int | None = None,
              at: Mapping[str, str] | None = None) -> dict[str, Any]:
    """``AgentLoopOutput.model_dump()`` of verl's agent loops (verl.experimental.agent_loop).

    uid, index   the group, and which of its ``rollout.n`` responses this is: verl has both outside of the dictionary
    version      of the policy; None: ``extra_fields["param_version_start"]``, which asynchronous agent loops write

    ``response_mask`` becomes ``loss_mask``, since tokens of tools carry no loss; ``reward_score`` becomes ``reward``, and
    ``response_logprobs`` become ``rollout_log_probs``: both have one value for each response token. ``extra_fields`` are lifted
    beside the others.
    """
    sample = dict(output)
    extra = dict(sample.pop("extra_fields", None) or {})
    if version is None:
        version = _whole("extra_fields.param_version_start", extra.get("param_version_start"), "Pass version=...")
    renamed = {"loss_mask": "response_mask", "reward": "reward_score", "rollout_log_probs": "response_logprobs"}
    named = {name: sample.pop(key) for name, key in renamed.items() if key in sample}
    for key in ("multi_modal_data", "mm_processor_kwargs"):
        _require_none(sample, key)
    _require_no_other("extra_fields", extra, {*sample, *named})
    made = {"uid": uid, "index": index, "version": version, **sample, **extra, **named}
    return _placed(made, {LOSS_MASK: "response", "rollout_log_probs": "response"}, at)


def from_slime(sample: Mapping[str, Any], *, group_size: int, version: int | None = None,
               reward_key: str | None = None, at: Mapping[str, str] | None = None) -> dict[str, Any]:
    """``Sample.to_dict()`` of slime (slime.utils.types).

    group_size   slime's --n-samples-per-prompt: its ``index`` counts all samples, and a group's are consecutive
    version      of the policy; None: the oldest of ``weight_versions``
    reward_key   slime's --reward-key, where ``reward`` is a dictionary

    ``group_index`` becomes ``uid``; ``tokens`` are divided into prompt and response by ``response_length``. As in slime, a
    sample without ``loss_mask`` has one of ones, and one with ``remove_sample`` one of zeros. Masks and log-probabilities have one
    value for each response token; for a mask as long as the tokens, as slime's SFT generates it, pass
    ``at={"loss_mask": "token"}``. Forward samples that are completed or truncated: those that are aborted slime generates again.
    """
    given = dict(sample)
    tokens, response = list(given.pop("tokens")), int(given.pop("response_length"))
    if not 0 <= response <= len(tokens):
        raise _refused("response_length", f"is {response}, and there are {len(tokens)} tokens")
    others = require_conventions(at)
    mask_at = others.pop(LOSS_MASK, "response")
    is_removed, mask = given.pop("remove_sample", False), given.pop(LOSS_MASK, None)
    if is_removed or mask is None:
        mask = [0 if is_removed else 1] * response
    else:
        mask = of_response(LOSS_MASK, mask, mask_at, len(tokens) - response, response)
    reward = given.pop("reward", None)
    if isinstance(reward, Mapping):
        if reward_key is None:
            raise _refused("reward", f"is a dictionary of {', '.join(map(str, reward))}", "Pass reward_key=...")
        reward = reward[reward_key]
    if version is None:
        version = _oldest("weight_versions", given.get("weight_versions") or ())
    for key in ("multimodal_inputs", "multimodal_train_inputs"):
        _require_none(given, key)
    uid = _whole("group_index", given.pop("group_index", None), "Let slime's data source number its groups")
    index = _whole("index", given.pop("index", None), "Let slime's data source number its samples") % group_size
    made = {"uid": uid, "index": index, "version": version, "prompt_ids": tokens[: len(tokens) - response],
            "response_ids": tokens[len(tokens) - response :], LOSS_MASK: mask, "reward": reward, **given}
    return _placed(made, {"rollout_log_probs": "response"}, others)


def from_prime_rl(sample: Mapping[str, Any], *, uid: str | int, index: int, version: int,
                  at: Mapping[str, str] | None = None) -> dict[str, Any]:
    """A ``TrainingSample`` of prime-rl as a dictionary (``msgspec.structs.asdict``): with ``prompt_ids`` and
    ``completion_ids``, or in its newer form with ``token_ids`` and ``mask`` over all of them.

    uid, index   the group, and which of its rollouts this is: prime-rl has both outside of the structure
    version      of the policy: what prime-rl calls ``ckpt_step``

    ``completion_ids`` become ``response_ids``, and ``completion_mask`` becomes ``loss_mask``; lists have one value for each token
    of the completion. In the newer form every list has one value for each token (``at: token``): the response begins with the
    first token that the policy sampled, after one token at least, and ``loss_mask``, ``logprobs``, ``advantages`` and all other
    lists of numbers are cut to the response. A ``prompt_mask`` may name no token: nothing trains a prompt here.
    """
    given = dict(sample)
    if "token_ids" in given:
        tokens, mask = list(given.pop("token_ids")), [bool(is_sampled) for is_sampled in given.pop("mask")]
        if len(mask) != len(tokens):
            raise _refused("mask", f"has {len(mask)} entries, and there are {len(tokens)} tokens")
        begin = max(mask.index(True), 1) if True in mask else len(tokens)  # nothing predicts the first token
        parts = {"prompt_ids": tokens[:begin], "response_ids": tokens[begin:], LOSS_MASK: mask}
        usual = {name: "token" for name, values in given.items() if _are_numbers(values)} | {LOSS_MASK: "token"}
    else:
        if any(given.pop("prompt_mask", None) or ()):
            raise _refused("prompt_mask", "names tokens of the prompt, which are not trained",
                           "Move what comes after the first of them into completion_ids")
        parts = {"prompt_ids": given.pop("prompt_ids"), "response_ids": given.pop("completion_ids"),
                 LOSS_MASK: [bool(is_sampled) for is_sampled in given.pop("completion_mask")]}
        usual = {name: "response" for name in given if name.startswith("completion_") and _are_numbers(given[name])}
        usual[LOSS_MASK] = "response"
    for key in ("mm_kwargs", "mm_token_type_ids", "routed_experts", "pixel_values"):
        _require_none(given, key)
    return _placed({"uid": uid, "index": index, "version": version, **parts, **given}, usual, at)


def _placed(sample: dict[str, Any], usual: Mapping[str, str], at: Mapping[str, str] | None) -> dict[str, Any]:
    """Replaces lists by their values of the response tokens. ``usual`` is the convention of the framework, ``at`` that of the
    caller."""
    prompt, response = len(sample["prompt_ids"]), len(sample["response_ids"])
    told = require_conventions(at)
    for name in told:
        if name not in sample:
            raise _refused(f"at[{name!r}]", "names a key that is not there", f"There are {', '.join(sample)}")
    for name, convention in {**usual, **told}.items():
        if sample.get(name) is not None:
            sample[name] = of_response(name, sample[name], convention, prompt, response)
    return sample


def _are_numbers(values: Any) -> bool:
    """Whether it is a list with numbers, or an array."""
    return hasattr(values, "tolist") or isinstance(values, (list, tuple)) and any(isinstance(v, (int, float)) for v in values)


def _whole(where: str, value: Any, hint: str) -> int:
    if value is None:
        raise _refused(where, "is missing", hint)
    if (integer := _integer(value)) is None:
        raise _refused(where, f"is {value!r}; an integer is needed", hint)
    return integer


def _oldest(where: str, versions: Iterable[Any]) -> int:
    given = list(versions)
    integers = [integer for version in given if (integer := _integer(version)) is not None]
    if not given or len(integers) < len(given):
        raise _refused(where, f"has no version that is a number: {given}", "Pass version=...")
    return min(integers)


def _integer(value: Any) -> int | None:
    """Of an integer of any type, or a text of one. Real numbers and truth values are not rounded to versions."""
    try:
        return int(value) if isinstance(value, str) else None if isinstance(value, bool) else operator.index(value)
    except (TypeError, ValueError):
        return None


def _require_none(sample: dict[str, Any], key: str) -> None:
    """These are bytes and arrays of shapes of their own, which lines of JSON do not have."""
    if sample.pop(key, None):
        raise _refused(key, "cannot be forwarded as it is: it has no row for each token",
                       "Make fields of it (docs/side-fields.md), and leave it out")


def _require_no_other(where: str, extra: Mapping[str, Any], others: set[str]) -> None:
    if twice := sorted(others & set(extra)):
        raise _refused(f"{where}.{twice[0]}", "is a key of the sample, too", "Rename it")


def _refused(where: str, message: str, hint: str = "") -> InputError:
    return InputError(f"{where}: {message}" + (f". {hint}" if hint else ""), where, message, hint)
