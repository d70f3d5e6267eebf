"""Converts samples of other frameworks to the form that evenkeel.Producer sends. Standard library only.

    producer.put(evenkeel.rollouts.from_slime(sample.to_dict(), group_size=8))

Each function takes the dictionary that the framework produces and returns a new one. It changes only the names and
forms that its documentation lists, and keeps all other keys. A buffer treats these keys like any others
(docs/rollouts.md): numbers, and lists as long as the tokens or the response, become fields; text, None and nested
dictionaries are left out.

Each function applies the row convention of its framework (docs/micro-batches.md#row-conventions), and puts masks,
log-probabilities and all other values of tokens at the same rows. ``at`` names keys with another convention, such as
``{"loss_mask": "token"}``.
"""

from __future__ import annotations

import operator
from collections.abc import Iterable, Mapping
from typing import Any

from evenkeel._conventions import LOSS_MASK, cut_to_response, require_conventions
from evenkeel._text import counted, describe_count
from evenkeel.errors import InputError

__all__ = ["from_prime_rl", "from_slime", "from_verl"]


def from_verl(output: Mapping[str, Any], *, uid: str | int, index: int, version: int | None = None,
              at: Mapping[str, str] | None = None) -> dict[str, Any]:
    """Converts ``AgentLoopOutput.model_dump()`` of verl's agent loops (verl.experimental.agent_loop).

    uid      the group of the sample, which verl stores outside the dictionary
    index    the number of the response among the ``rollout.n`` responses of the group, also stored outside the
             dictionary
    version  the version of the policy; None: ``extra_fields["min_global_steps"]``, the oldest version that generated a
             part of the response
    at       the row conventions of keys that do not follow that of the framework

    ``response_mask`` becomes ``loss_mask``, so tokens of tools carry no loss. ``reward_score`` becomes ``reward``.
    ``response_logprobs`` becomes ``rollout_log_probs``. The mask and the log-probabilities have one value per response
    token. The keys of ``extra_fields`` move to the top level.
    """
    sample = dict(output)
    extra = dict(sample.pop("extra_fields", None) or {})
    if version is None:
        version = _whole("extra_fields.min_global_steps", extra.get("min_global_steps"), "Pass version=...")
    renamed = {"loss_mask": "response_mask", "reward": "reward_score", "rollout_log_probs": "response_logprobs"}
    named = {name: sample.pop(key) for name, key in renamed.items() if key in sample}
    for key in ("multi_modal_data", "mm_processor_kwargs", "mm_processor_output"):
        _require_none(sample, key)
    _require_no_other("extra_fields", extra, {*sample, *named})
    made = {"uid": uid, "index": index, "version": version, **sample, **extra, **named}
    return _to_response_values(made, {LOSS_MASK: "response", "rollout_log_probs": "response"}, at)


def from_slime(sample: Mapping[str, Any], *, group_size: int, version: int | None = None,
               reward_key: str | None = None, at: Mapping[str, str] | None = None) -> dict[str, Any]:
    """Converts ``Sample.to_dict()`` of slime (slime.utils.types).

    group_size  slime's --n-samples-per-prompt. slime's ``index`` counts all samples, and those of a group are
                consecutive
    version     the version of the policy; None: the oldest of ``weight_versions``
    reward_key  slime's --reward-key, if ``reward`` is a dictionary
    at          the row conventions of keys that do not follow that of the framework

    ``group_index`` becomes ``uid``. ``response_length`` divides ``tokens`` into prompt and response. As in slime, a
    sample without ``loss_mask`` gets a mask of ones, and a sample with ``remove_sample`` a mask of zeros. Masks and
    log-probabilities have one value per response token. For a mask as long as the tokens, as slime's SFT generates it,
    pass ``at={"loss_mask": "token"}``. Send completed and truncated samples only: slime generates aborted samples
    again.
    """
    given = dict(sample)
    tokens, response = list(given.pop("tokens")), int(given.pop("response_length"))
    if not 0 <= response <= len(tokens):
        raise _input_error("response_length", f"is {response}; it must be from 0 to the number of tokens, {len(tokens)}")
    others = require_conventions(at)
    mask_at = others.pop(LOSS_MASK, "response")
    is_removed, mask = given.pop("remove_sample", False), given.pop(LOSS_MASK, None)
    if is_removed or mask is None:
        mask = [0 if is_removed else 1] * response
    else:
        mask = cut_to_response(LOSS_MASK, mask, mask_at, len(tokens) - response, response)
    reward = given.pop("reward", None)
    if isinstance(reward, Mapping):
        if reward_key not in reward:
            keys = ", ".join(map(str, reward)) or "none"
            without = "" if reward_key is None else f" without the key {reward_key!r}"
            raise _input_error("reward", f"is a dictionary{without}; its keys are: {keys}",
                           "Pass reward_key, the key of the reward to train with")
        reward = reward[reward_key]
    if version is None:
        version = _oldest("weight_versions", given.get("weight_versions") or ())
    for key in ("multimodal_inputs", "multimodal_train_inputs"):
        _require_none(given, key)
    uid = _whole("group_index", given.pop("group_index", None), "Let slime's data source number its groups")
    index = _whole("index", given.pop("index", None), "Let slime's data source number its samples") % group_size
    made = {"uid": uid, "index": index, "version": version, "prompt_ids": tokens[: len(tokens) - response],
            "response_ids": tokens[len(tokens) - response :], LOSS_MASK: mask, "reward": reward, **given}
    return _to_response_values(made, {"rollout_log_probs": "response"}, others)


def from_prime_rl(sample: Mapping[str, Any], *, uid: str | int, index: int, version: int,
                  at: Mapping[str, str] | None = None) -> dict[str, Any]:
    """Converts a ``TrainingSample`` of prime-rl as a dictionary (``msgspec.structs.asdict``): with ``prompt_ids`` and
    ``completion_ids``, or in its newer form with ``token_ids`` and a ``mask`` over all of them.

    uid      the group of the sample, which prime-rl stores outside the structure
    index    the number of the rollout in its group, also stored outside the structure
    version  the version of the policy, prime-rl's ``ckpt_step``
    at       the row conventions of keys that do not follow that of the framework

    In the form with ``completion_ids``, these become ``response_ids``, and ``completion_mask`` becomes ``loss_mask``.
    Lists have one value per token of the completion. A ``prompt_mask`` must not select any token, since prompts are not
    trained.

    In the newer form every list has one value per token (``at: token``). The response begins with the first token that
    the policy sampled, but at least one token belongs to the prompt. ``loss_mask``, ``logprobs``, ``advantages`` and
    all other lists of numbers are cut to the response.
    """
    given = dict(sample)
    if "token_ids" in given:
        tokens, mask = list(given.pop("token_ids")), [bool(is_sampled) for is_sampled in given.pop("mask")]
        if len(mask) != len(tokens):
            raise _input_error("mask", f"has {counted(len(mask), 'entry', 'entries')}, but {describe_count(len(tokens), 'token')}")
        begin = max(mask.index(True), 1) if True in mask else len(tokens)  # nothing predicts the first token
        parts = {"prompt_ids": tokens[:begin], "response_ids": tokens[begin:], LOSS_MASK: mask}
        usual = {name: "token" for name, values in given.items() if _are_numbers(values)} | {LOSS_MASK: "token"}
    else:
        if any(given.pop("prompt_mask", None) or ()):
            raise _input_error("prompt_mask", "marks prompt tokens, which are not trained",
                           "Move the first of them and all tokens after it to completion_ids")
        parts = {"prompt_ids": given.pop("prompt_ids"), "response_ids": given.pop("completion_ids"),
                 LOSS_MASK: [bool(is_sampled) for is_sampled in given.pop("completion_mask")]}
        usual = {name: "response" for name in given if name.startswith("completion_") and _are_numbers(given[name])}
        usual[LOSS_MASK] = "response"
    for key in ("mm_kwargs", "mm_token_type_ids", "routed_experts", "pixel_values"):
        _require_none(given, key)
    return _to_response_values({"uid": uid, "index": index, "version": version, **parts, **given}, usual, at)


def _to_response_values(sample: dict[str, Any], usual: Mapping[str, str], at: Mapping[str, str] | None) -> dict[str, Any]:
    """Replaces lists of token values by the values of the response tokens. ``usual`` has the conventions of the
    framework, ``at`` those of the caller."""
    prompt, response = len(sample["prompt_ids"]), len(sample["response_ids"])
    conventions = require_conventions(at)
    for name in conventions:
        if name not in sample:
            raise _input_error(f"at[{name!r}]", "names a key that does not exist", f"The keys are {', '.join(sample)}")
    for name, convention in {**usual, **conventions}.items():
        if sample.get(name) is not None:
            sample[name] = cut_to_response(name, sample[name], convention, prompt, response)
    return sample


def _are_numbers(values: Any) -> bool:
    """Returns whether the value is a list that contains numbers, or an array."""
    return hasattr(values, "tolist") or isinstance(values, (list, tuple)) and any(isinstance(v, (int, float)) for v in values)


def _whole(where: str, value: Any, hint: str) -> int:
    if value is None:
        raise _input_error(where, "is missing", hint)
    if (integer := _integer(value)) is None:
        raise _input_error(where, f"is {value!r}; it must be an integer", hint)
    return integer


def _oldest(where: str, versions: Iterable[Any]) -> int:
    given = list(versions)
    integers = [integer for version in given if (integer := _integer(version)) is not None]
    if not given or len(integers) < len(given):
        raise _input_error(where, f"is {given}; it must be a non-empty list of integers", "Pass version=...")
    return min(integers)


def _integer(value: Any) -> int | None:
    """Converts an integer of any type, or a text that contains one. Returns None for other values: real numbers and
    booleans are not rounded to versions."""
    try:
        return int(value) if isinstance(value, str) else None if isinstance(value, bool) else operator.index(value)
    except (TypeError, ValueError):
        return None


def _require_none(sample: dict[str, Any], key: str) -> None:
    """Rejects a key whose value has to become side fields first, unless the value is empty."""
    if sample.pop(key, None):
        raise _input_error(key, "cannot be sent in this form",
                       "Make fields of it (docs/side-fields.md), and leave it out")


def _require_no_other(where: str, extra: Mapping[str, Any], others: set[str]) -> None:
    if twice := sorted(others & set(extra)):
        raise _input_error(f"{where}.{twice[0]}", "is also a key of the sample", "Rename it")


def _input_error(where: str, message: str, hint: str = "") -> InputError:
    return InputError(f"{where}: {message}" + (f". {hint}" if hint else ""), where, message, hint)
