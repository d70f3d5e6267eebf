"""Row conventions: the row at which a framework puts a token's value (docs/micro-batches.md). Standard library only.

    token      the value of token t is at row t; one value per token
    next       the value of token t is at row t - 1, which predicts it; one value per token, although the last row predicts
               nothing, or one fewer
    response   the value of response token j is at row j; one value per response token
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from evenkeel._text import counted
from evenkeel.errors import ConfigError, InputError

CONVENTIONS = ("token", "next", "response")
IGNORED = -100
LABELS, LOSS_MASK = "labels", "loss_mask"
# Fields that describe tokens as inputs and stay at their rows; all other fields belong to the prediction of their token.
OF_INPUTS = ("position_ids", "segment_ids", "token_type_ids", "mm_token_type_ids", "routed_experts")
WITHOUT_LOSS = {LABELS: IGNORED, LOSS_MASK: 0, "response_mask": 0}  # the value of a token without loss


def require_conventions(at: Mapping[str, str] | None, words: Sequence[str] = CONVENTIONS) -> dict[str, str]:
    """Returns ``at`` as a dictionary. Raises ConfigError for a word that does not name a convention."""
    for name, word in (at or {}).items():
        if word not in words:
            message = f"is {word!r}"
            raise ConfigError(f"at[{name!r}]: {message}. Use one of {', '.join(words)}", f"at[{name!r}]", message,
                              f"Use one of {', '.join(words)}")
    return dict(at or {})


def cut_to_response(name: str, values: Sequence[Any], at: str, prompt: int, response: int, where: str = "") -> list[Any]:
    """Returns the values of the response tokens of a sample with ``prompt`` and ``response`` tokens. Values of prompt
    tokens are dropped because prompts are not trained. Raises InputError, at ``where`` or the name, for a list whose length
    does not fit the convention, for a loss mask or labels that train a prompt token, and for a loss mask or labels set at
    the last row of ``next``, which predicts nothing."""
    values, tokens, where = list(values), prompt + response, where or name
    lengths = {"token": (tokens,), "next": (tokens, tokens - 1), "response": (response,)}[at]
    if len(values) not in lengths:
        raise _input_error(where, f"has {counted(len(values), 'value')} for {counted(tokens, 'token')}, {response} of them in the response",
                       f"With at: {at}, it must have {' or '.join(map(str, lengths))} value{'' if lengths == (1,) else 's'}; "
                       "set at if it uses another convention")
    if at == "response":
        return values
    no_loss = WITHOUT_LOSS.get(name)
    if at == "next":
        if name in WITHOUT_LOSS and len(values) == tokens > 0 and values[-1] != no_loss:
            raise _input_error(where, f"is set at the last row, {tokens - 1}, which does not predict a token",
                           "If the value of each token is at the token itself, use at: token")
        values = [no_loss or 0, *values][:tokens]  # nothing predicts the first token
    trained = [t for t in range(1, prompt) if values[t] != no_loss] if name in WITHOUT_LOSS else []
    if trained:
        of_prompt, clear = f"the prompt of {counted(prompt, 'token')}", f"set it to {no_loss} at prompt tokens, or let the prompt end earlier"
        if at == "next":
            raise _input_error(where, f"is set at row {trained[0] - 1}, which predicts token {trained[0]} of {of_prompt}",
                               f"If each value is at the token itself, use at: token; otherwise, {clear}")
        raise _input_error(where, f"is set at token {trained[0]}, which belongs to {of_prompt}",
                           f"If each value is at the row that predicts its token, use at: next; otherwise, {clear}")
    return values[prompt:]


def _input_error(where: str, message: str, hint: str) -> InputError:
    return InputError(f"{where}: {message}. {hint}", where, message, hint)
