"""Converts rows of a dataset to JSON lines: prompt, response, uid, loss mask and fields. Raises InputError, with the
reason, if that is impossible."""

from __future__ import annotations

import base64
import dataclasses
import json
import math
from collections.abc import Mapping
from typing import Any, NoReturn, Optional

from evenkeel import _c
from evenkeel._conventions import IGNORED, OF_INPUTS, WITHOUT_LOSS, cut_to_response, require_conventions
from evenkeel._text import counted
from evenkeel.errors import InputError

MASKS = ("assistant_masks", "assistant_mask", "assistant_tokens_mask", "completion_mask", "loss_mask", "response_mask")
LOSS_FLAGS = ("weight", "loss", "loss_scale", "trainable", "train", "training")  # keys of a message that specify whether it carries loss
TEMPLATE_COLUMNS = ("tools", "documents")  # columns of a chat that its template also uses


@dataclasses.dataclass
class Converted:
    """The result of a conversion. ``mask`` is the column that specified which tokens carry loss and became
    ``loss_mask``; ``without_response`` is the number of samples without such tokens; ``read_as`` is the section
    ``fields`` that a job needs for columns of text and bytes, which it would otherwise report as ignored, and for lists
    whose row convention it cannot infer."""

    samples: int = 0
    tokens: int = 0
    mask: Optional[str] = None
    without_response: int = 0
    columns: list[str] = dataclasses.field(default_factory=list)
    read_as: dict[str, dict[str, str]] = dataclasses.field(default_factory=dict)


class Rows:
    """Converts one row after another to JSON objects."""

    def __init__(self, *, mask: str | None, uid: str, messages: str, tokenizer: Any, drop: set[str], as_is: set[str],
                 at: Mapping[str, str] | None = None) -> None:
        self._mask, self._uid, self._messages, self._tokenizer = mask, uid, messages, tokenizer
        self._at_of = require_conventions(at)
        self._drop, self._as_is = drop, as_is
        self._has_chats = False
        self._first: set[str] = set()
        self._names: set[str] = set()  # the columns of all rows, including dropped ones
        self.summary = Converted()

    def line(self, row: Any) -> dict[str, Any]:
        self._at = f"row {self.summary.samples}"
        if not isinstance(row, Mapping):
            self._refuse("", f"is a {type(row).__name__}; it must be a mapping of columns")
        columns = {str(name): value for name, value in row.items() if name not in self._drop}
        self._require_columns(set(columns))
        self._names.update(map(str, row))
        line: dict[str, Any] = {}
        if self._uid in columns:
            line["uid"] = self._uid_of(columns.pop(self._uid))
        if self._messages in columns and "input_ids" not in columns and "prompt_ids" not in columns:
            columns |= self._tokens_of_chat(columns.pop(self._messages), self._template_arguments(columns))
        moves = "input_ids" in columns
        kept = self._split(line, columns)
        tokens = len(line["prompt_ids"]) + len(line["response_ids"])
        for name, value in columns.items():
            line[name] = self._value(name, value, kept, moves, len(line["prompt_ids"]), len(line["response_ids"]))
        self.summary.samples, self.summary.tokens = self.summary.samples + 1, self.summary.tokens + tokens
        self.summary.without_response += not line["response_ids"]
        self.summary.columns = self.summary.columns or list(line)
        return line

    def require_whole(self) -> None:
        self._at = "dataset"
        if self.summary.samples == 0:
            self._refuse("", "has no rows", "Pass at least one row")
        for name in sorted((self._drop | self._as_is | set(self._at_of)) - self._names):
            self._refuse(name, f"does not exist; the columns are {', '.join(sorted(self._names))}")
        if self.summary.mask not in (None, "all") and self.summary.without_response == self.summary.samples:
            if self._has_chats:
                self._refuse(self._messages, "does not have a row with a token to train: the chat template does not mark tokens of the "
                             "assistant, or flags of the messages exclude them",
                             "Put {% generation %} around the assistant's messages in the chat template, or change the flags")
            self._refuse(str(self.summary.mask), "does not mark any token after the first one in any row, so there is nothing to train",
                         "Mark the tokens to train")

    def _require_columns(self, names: set[str]) -> None:
        if self.summary.samples == 0:
            self._first = names
        for name in sorted(names ^ self._first):
            self._refuse(name, "is missing, but row 0 has it" if name in self._first else "is not in row 0",
                         "Give every row the same columns, or drop this column")

    def _split(self, line: dict[str, Any], columns: dict[str, Any]) -> list[bool] | None:
        """Splits prompt and response. Returns which entries of padded columns are tokens, or None if nothing is padded.
        """
        if "prompt_ids" in columns or "response_ids" in columns:
            if self._mask is not None:
                self._refuse("prompt_ids", "already separates prompts from responses, so mask must not be passed",
                             "Leave mask out; a loss_mask is carried as it is")
            for name in ("prompt_ids", "response_ids"):
                if name not in columns:
                    self._refuse(name, "is missing", "Give rows prompt_ids and response_ids, or input_ids and a mask")
                line[name] = self._tokens(name, columns.pop(name))
            return None
        if "input_ids" not in columns:
            others = f"the columns are {', '.join(sorted(columns))}" if columns else "there are no other columns"
            self._refuse("input_ids", f"does not exist; {others}",
                         "Give rows prompt_ids and response_ids, input_ids, or a chat in the column that messages (--messages) names")
        tokens = self._tokens("input_ids", columns.pop("input_ids"))
        kept = None
        if "attention_mask" in columns:
            kept = self._attention(columns.pop("attention_mask"), len(tokens))
        carries = self._loss_of(columns, tokens)
        if kept is not None:
            tokens, carries = _select(tokens, kept), _select(carries, kept)
        if self.summary.mask == "all":
            line["prompt_ids"], line["response_ids"] = [], tokens
            return kept
        # The first token, which is not predicted, always belongs to the prompt. Thus the mask has one value per response
        # token; a mask as long as the tokens would be taken to specify whether the next token carries loss.
        first = max(carries.index(True), 1) if True in carries else len(tokens)
        line["prompt_ids"], line["response_ids"] = tokens[:first], tokens[first:]
        line["loss_mask"] = [int(flag) for flag in carries[first:]]
        return kept

    def _loss_of(self, columns: dict[str, Any], tokens: list[int]) -> list[bool]:
        """Returns which tokens carry loss, and removes the columns that specify it."""
        name = self._mask or self._only_mask(columns)
        if self.summary.mask not in (None, name):
            self._refuse(name, f"specifies which tokens carry loss, but {self.summary.mask} did so in earlier rows",
                         "Give all rows the same columns")
        self.summary.mask = name
        labels = self._integers("labels", columns.pop("labels"), len(tokens)) if "labels" in columns else None
        if name == "all":
            carries = [True] * len(tokens)
        elif name == "labels" and labels is not None:
            carries = [label != IGNORED for label in labels]
        elif name in columns:
            carries = self._flags(name, columns.pop(name), len(tokens))
        else:
            self._refuse(name, "is missing", "Pass mask: a column as long as input_ids, or all")
        if labels is not None and any(
            label not in (IGNORED, token) or (label == IGNORED) == flag and name != "all"
            for label, token, flag in zip(labels, tokens, carries)
        ):
            if name in ("labels", "all"):
                self._refuse("labels", f"do not match input_ids: a label is its token, or {IGNORED} if the token carries no loss",
                             "Put each label at its own token")
            self._refuse("labels", f"do not match input_ids and {name}: a label is its token where {name} is 1, and {IGNORED} elsewhere",
                         "Drop them: labels are derived from tokens")
        return carries

    def _only_mask(self, columns: dict[str, Any]) -> str:
        there = [name for name in MASKS if name in columns]
        if len(there) > 1:
            self._refuse("", f"has {' and '.join(there)}, which could each specify which tokens carry loss",
                         "Choose one with mask (--mask), and drop the others")
        if not there and "labels" not in columns:
            self._refuse("", "mask is not given, and no column specifies which tokens carry loss",
                         "Pass mask (--mask): a column as long as input_ids; or all, if every token carries loss, as in pretraining")
        return there[0] if there else "labels"

    def _template_arguments(self, columns: dict[str, Any]) -> dict[str, Any]:
        """Removes and returns the columns that the chat template gets in addition to the messages. Some datasets store
        them as JSON."""
        arguments = {}
        for name in TEMPLATE_COLUMNS:
            value = columns.pop(name, None)
            if isinstance(value, str):
                try:
                    value = json.loads(value)
                except ValueError:
                    self._refuse(name, "is a string that is not JSON", "Write a list, or drop it")
            if value is None:
                continue
            if not isinstance(value, (list, tuple)):
                self._refuse(name, f"is a {type(value).__name__}; it must be a list", "Write a list, or drop it")
            arguments[name] = list(value)
        return arguments

    def _tokens_of_chat(self, chat: Any, arguments: dict[str, Any]) -> dict[str, Any]:
        if self._tokenizer is None:
            self._refuse(self._messages, "is a chat, but no tokenizer was given to tokenize it",
                         "Pass a tokenizer (--tokenizer) whose chat template wraps assistant messages in {% generation %}")
        self._has_chats = True
        tokens, mask = self._apply_template(chat, arguments)
        for number, message in enumerate(chat):
            trained = self._loss_flag(message, number)
            if trained is None or (trained and message.get("role") == "assistant"):
                continue
            begin, end = self._tokens_of_message(chat, number, tokens, arguments)
            if trained and not any(mask[begin:end]):
                self._refuse(self._messages, f"says that message {number} ({message.get('role')}) carries loss, but the chat template "
                             "does not mark its tokens", "Remove the flag, or write input_ids and a mask instead")
            if not trained:
                mask[begin:end] = [0] * (end - begin)
        return {"input_ids": tokens, "assistant_masks": mask}

    def _apply_template(self, chat: Any, arguments: dict[str, Any]) -> tuple[list[int], list[int]]:
        try:
            made = self._tokenizer.apply_chat_template(
                chat, tokenize=True, return_dict=True, return_assistant_tokens_mask=True, **arguments)
            return list(made["input_ids"]), list(made["assistant_masks"])
        except Exception as error:  # anything that a template or its tokenizer may raise
            self._refuse(self._messages, f"cannot be rendered by the chat template: {type(error).__name__}: {error}")

    def _loss_flag(self, message: Any, number: int) -> bool | None:
        """Returns whether a message specifies that it carries loss, or None if it does not specify it."""
        flags = {}
        for name in LOSS_FLAGS if isinstance(message, Mapping) else ():
            value = message.get(name)
            if value is None:
                continue
            if not isinstance(value, (bool, int, float)) or value not in (0, 1):
                self._refuse(self._messages, f"has {name} {value!r} in message {number}; it must be 1 if the message carries loss, or 0 if not",
                             "Remove it, or write input_ids and a mask instead")
            flags[name] = bool(value)
        if len(set(flags.values())) > 1:
            self._refuse(self._messages, f"has {flags} in message {number}, which contradict each other", "Remove one of them")
        return next(iter(flags.values()), None)

    def _tokens_of_message(self, chat: Any, number: int, tokens: list[int], arguments: dict[str, Any]) -> tuple[int, int]:
        """Returns the range of one message's tokens, found by rendering the chat up to this message and up to the previous
        one."""
        ends = []
        for size in (number, number + 1):
            part = self._apply_template(chat[:size], arguments)[0] if size else []
            if part != tokens[: len(part)]:
                self._refuse(self._messages, f"specifies whether message {number} carries loss, but the chat template changes earlier "
                             "messages when later ones follow", "Write input_ids and a mask instead")
            ends.append(len(part))
        return ends[0], ends[1]

    def _value(self, name: str, value: Any, kept: list[bool] | None, moves: bool, prompt: int, responses: int) -> Any:
        tokens = prompt + responses
        if isinstance(value, bytes):
            self.summary.read_as[name] = {"read_as": "bytes"}
            return base64.b64encode(value).decode()
        plain = self._plain(name, value)
        if isinstance(plain, str):
            self.summary.read_as[name] = {"read_as": "text"}
        if not isinstance(plain, list) or name in self._as_is:
            return plain
        at = self._at_of.get(name)
        if kept is not None and len(plain) == len(kept):
            plain = _select(plain, kept)
        elif kept is not None and at == "next" and len(plain) == len(kept) - 1:
            plain = _select([None, *plain], kept)[1:]
        elif at is None and len(plain) not in (tokens, responses):
            self._refuse(name, f"has {counted(len(plain), 'value')}; the sample has {counted(tokens, 'token')}, {responses} of them in "
                         "the response",
                         "Drop it, or name it in as_is (--as-is), and declare in the job's fields how to read it")
        if any(isinstance(each, str) for each in plain):
            self._refuse(name, "is a list that contains strings; a column can have only one string per sample",
                         "Drop it, or name it in as_is (--as-is)")
        return self._response_values(name, plain, at, moves, prompt, responses)

    def _response_values(self, name: str, values: list[Any], at: str | None, moves: bool, prompt: int, responses: int) -> list[Any]:
        """Returns the values of the response tokens, unless their rows are unspecified or they describe inputs. If a mask
        specifies for each token whether it carries loss (``moves``), the other columns follow the same convention."""
        is_of_tokens = len(values) == prompt + responses and prompt > 0
        if at is None and is_of_tokens and name in WITHOUT_LOSS:
            self._refuse(name, "has a value for each token, but it is not specified whether a token's value is at the token or at the row "
                         "that predicts it",
                         f"Pass at={{'{name}': 'token'}} or --at {name}=token (Hugging Face), or next (shifted, as in Megatron-LM)")
        if at is None and moves and name not in OF_INPUTS and (is_of_tokens or self.summary.mask == "all"):
            at = "token"
        if at is None:
            return values
        if prompt == 0:  # lists of all conventions are equally long, so a job cannot infer it
            self.summary.read_as[name] = {"at": "response"}
        try:
            return cut_to_response(name, values, at, prompt, responses)
        except InputError as error:
            self._refuse(name, error.message, error.hint)

    def _plain(self, name: str, value: Any, verb: str = "is") -> Any:
        """Converts a value to JSON. ``verb`` is for errors: "is" a value, or its list "contains" it."""
        if hasattr(value, "tolist"):
            value = value.tolist()
        if isinstance(value, str) and not _is_utf8(value):
            self._refuse(name, "has half of a surrogate pair, which UTF-8 cannot encode", "Replace it, or drop the column")
        if isinstance(value, int) and not -(1 << 63) <= value < 1 << 64:
            self._refuse(name, f"holds {value}; a number must fit into 64 bits", "Write a string, or drop it")
        if isinstance(value, (bool, int, str)):
            return value
        if isinstance(value, float):
            if not math.isfinite(value):
                self._refuse(name, f"holds {value}, which JSON cannot represent", "Write a finite number, or drop it")
            return value
        if isinstance(value, (list, tuple)):
            return [self._plain(name, each, "contains") for each in value]
        what = "None" if value is None else f"a {type(value).__name__}, which is not a supported type of field"
        self._refuse(name, f"{verb} {what}", "Replace it, or drop the column")

    def _integers(self, name: str, value: Any, size: int | None = None) -> list[int]:
        plain = self._plain(name, value)
        if not isinstance(plain, list):
            self._refuse(name, f"has the type {type(plain).__name__}; it must be a list of integers")
        wrong = next((i for i, each in enumerate(plain) if not isinstance(each, int)), None)
        if wrong is not None:
            shown = "a list" if isinstance(plain[wrong], list) else repr(plain[wrong])
            self._refuse(name, f"has {shown} at position {wrong}; each entry must be an integer")
        if size is not None and len(plain) != size:
            self._refuse(name, f"has {counted(len(plain), 'value')} for {counted(size, 'token')}")
        return [int(each) for each in plain]

    def _tokens(self, name: str, value: Any) -> list[int]:
        tokens = self._integers(name, value)
        if any(token < 0 for token in tokens):
            self._refuse(name, f"holds {min(tokens)}; tokens must be at least 0")
        return tokens

    def _flags(self, name: str, value: Any, size: int) -> list[bool]:
        plain = self._plain(name, value)
        if isinstance(plain, list):  # masks often contain 0.0 and 1.0
            plain = [int(each) if isinstance(each, float) and each.is_integer() else each for each in plain]
        return [each != 0 for each in self._integers(name, plain, size)]

    def _attention(self, value: Any, size: int) -> list[bool]:
        plain = self._plain("attention_mask", value)
        if isinstance(plain, list) and (wrong := [each for each in plain if each not in (0, 1)]):
            self._refuse("attention_mask", f"holds {wrong[0]!r}; a mask can have only 0 and 1",
                         "Write 1 at each token and 0 at padding, and give each sequence its own row")
        return self._flags("attention_mask", plain, size)

    def _uid_of(self, value: Any) -> Any:
        plain = None if value is None else self._plain(self._uid, value)
        if isinstance(plain, bool) or not isinstance(plain, (int, str, type(None))):
            self._refuse(self._uid, f"is {value!r}; it must be a string or an integer")
        return plain

    def _refuse(self, name: str, message: str, hint: str = "") -> NoReturn:
        _c.raise_error("input", f"{self._at}, column {name!r}" if name else self._at, message, hint)


def _is_utf8(text: str) -> bool:
    try:
        text.encode()
    except UnicodeEncodeError:
        return False
    return True


def _select(values: list[Any], kept: list[bool]) -> list[Any]:
    return [value for value, keep in zip(values, kept) if keep]
