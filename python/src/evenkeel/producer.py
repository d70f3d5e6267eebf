"""Sends finished samples to a buffer (`evenkeel buffer`, or the buffer of a job) from any process and any machine.

    producer = evenkeel.Producer("http://127.0.0.1:8710")
    if producer.tickets(1):
        ...  # generate the group's responses with the policy of producer.version
        producer.put({"uid": "q1", "index": 0, "version": producer.version, "prompt_ids": [5, 6], "response_ids": [7]})

Needs only the standard library, neither the C library nor NumPy."""

from __future__ import annotations

import dataclasses
import json
import os
import re
import socket
import uuid
from collections.abc import Iterable, Iterator, Mapping
from typing import Any

from evenkeel._http import Server
from evenkeel.errors import InputError, LimitError

_BYTES_OF_REQUEST = 4 << 20


@dataclasses.dataclass(frozen=True)
class Receipt:
    """The buffer's response to samples. If they were sent again after a lost connection, samples received the first
    time count as duplicates."""

    accepted: int = 0
    duplicates: int = 0
    stale: int = 0
    version: int = 0


@dataclasses.dataclass(frozen=True)
class FieldsReceipt:
    """The buffer's response to fields, in numbers of samples: those that got fields, those that had the same values, and
    those that were trained or dropped, so that their fields are not needed."""

    added: int = 0
    duplicates: int = 0
    gone: int = 0
    version: int = 0


class Producer:
    """Sends samples to a buffer, each exactly once: samples that may not have arrived are sent again with the same key
    (``uid``, ``index``), and the buffer accepts a key once. Raises InputError for a key that was accepted with different
    content.

    ``url``       where the buffer listens, such as "http://127.0.0.1:8710"
    ``token``     content of the buffer's token file
    ``holder``    the owner of tickets granted here, which are used for new groups sent here; None: this process, by host
                  and process id
    ``ca``        a PEM file of certificates to trust for https instead of the system's
    ``timeout``   seconds to wait for one answer
    ``patience``  seconds to keep trying while the buffer is full or unreachable; None means forever

    Calls may come from several threads. Every call raises IoError when the patience has run out, ConfigError for a wrong
    token, and InputError or LimitError with the buffer's text if it rejects what was sent.
    """

    def __init__(self, url: str, *, token: str | None = None, holder: str | None = None, ca: str | None = None,
                 timeout: float = 60.0, patience: float | None = 600.0) -> None:
        self._server = Server(url, token=token, ca=ca, timeout=timeout, patience=patience, headers={
            "Evenkeel-Holder": f"{socket.gethostname()}:{os.getpid()}" if holder is None else holder})
        self._version = 0

    @property
    def version(self) -> int:
        """The policy's version, as last reported by the buffer."""
        return self._version

    def put(self, samples: Mapping[str, Any] | Iterable[Mapping[str, Any]]) -> Receipt:
        """Sends one or more samples, and returns when the buffer has stored them. A sample has ``uid``, ``index``,
        ``version`` (or ``versions``: [version, count] runs over its tokens), ``prompt_ids``, ``response_ids`` and any
        further fields: numbers, lists, or objects with ``tolist()``. Raises ValueError for NaN and infinity."""
        total = Receipt()
        for answer in self._post_samples("/v1/samples", samples):
            total = Receipt(total.accepted + int(answer["accepted"]), total.duplicates + int(answer["duplicates"]),
                            total.stale + int(answer["stale"]), int(answer["version"]))
        return dataclasses.replace(total, version=self._version)

    def add_fields(self, samples: Mapping[str, Any] | Iterable[Mapping[str, Any]]) -> FieldsReceipt:
        """Adds fields to one or more stored samples, and returns when the buffer has stored them. Each element has the
        ``uid`` and ``index`` of a sample that was put by any producer, and values of the buffer's late fields
        (``--late-fields``, or ``stream.late_fields`` of a job). Sending the same value again changes nothing; raises
        InputError for another value, an unknown sample or field, and a value that does not fit the sample, and ValueError
        for NaN and infinity."""
        total = FieldsReceipt()
        for answer in self._post_samples("/v1/fields", samples):
            total = FieldsReceipt(total.added + int(answer["added"]), total.duplicates + int(answer["duplicates"]),
                                  total.gone + int(answer["gone"]))
        return dataclasses.replace(total, version=self._version)

    def tickets(self, groups: int) -> int:
        """Returns how many new groups, at most ``groups``, may be started now without becoming too old. A ticket
        expires if no group is started with it before the buffer's ticket deadline; abort a group that will not be
        started."""
        request = {"Idempotency-Key": uuid.uuid4().hex}
        return int(self._post_json("/v1/tickets", {"groups": groups}, request)["granted"])

    def close(self, uid: str | int) -> None:
        """Declares that no more samples of this group will be sent: it is trained as it is, if it has enough samples.
        Raises InputError if the group has no samples; abort it then."""
        self._post_json("/v1/groups/close", {"uid": uid})

    def abort(self, uid: str | int, index: int | None = None, reason: str = "") -> None:
        """Drops the group or, with an index, only that sample of it, even before it arrives. The reason has at most
        1024 bytes."""
        content: dict[str, Any] = {"uid": uid, "reason": reason}
        if index is not None:
            content["index"] = index
        self._post_json("/v1/groups/abort", content)

    def end(self) -> None:
        """Declares that no producer will send more samples: the last steps are made, and then the job ends."""
        self._post_json("/v1/end", {})

    def _post_samples(self, path: str, samples: Mapping[str, Any] | Iterable[Mapping[str, Any]]) -> Iterator[dict[str, Any]]:
        """Sends the samples in as many requests as necessary, and yields the answers. Errors name samples by their position
        in ``samples`` instead of their line in the body of a request."""
        first = 0
        for body in _bodies([samples] if isinstance(samples, Mapping) else samples):
            try:
                answer = self._post(path, body, "application/x-ndjson")
            except (InputError, LimitError) as error:
                raise type(error)(_name_samples(str(error), first)) from None
            first += body.count(b"\n")
            yield answer

    def _post_json(self, path: str, content: Mapping[str, Any], headers: Mapping[str, str] | None = None) -> dict[str, Any]:
        return self._post(path, json.dumps(content, default=_plain).encode(), "application/json", headers)

    def _post(self, path: str, body: bytes, kind: str, headers: Mapping[str, str] | None = None) -> dict[str, Any]:
        answer: dict[str, Any] = self._server.request("POST", path, body, headers={"Content-Type": kind, **(headers or {})})
        self._version = max(self._version, int(answer.get("version", 0)))
        return answer


def _bodies(samples: Iterable[Mapping[str, Any]]) -> Iterator[bytes]:
    """Yields lines of JSON, as many per body as fit into a request."""
    lines: list[bytes] = []
    size = 0
    for sample in samples:
        line = json.dumps(dict(sample), allow_nan=False, default=_plain).encode() + b"\n"
        if lines and size + len(line) > _BYTES_OF_REQUEST:
            yield b"".join(lines)
            lines, size = [], 0
        lines.append(line)
        size += len(line)
    if lines:
        yield b"".join(lines)


def _name_samples(text: str, first: int) -> str:
    """Replaces "body:N" at the beginning and "line N of body" by "samples[i]"; line 1 is the sample with the index ``first``."""

    def name(match: re.Match[str]) -> str:
        return f"samples[{first + int(match[1] or match[2]) - 1}]"

    return re.sub(r"^body:(\d+)(?=: )|\bline (\d+) of body\b", name, text)


def _plain(value: Any) -> Any:
    if not hasattr(value, "tolist"):
        raise TypeError(f"a value of the type {type(value).__name__} cannot be sent: only numbers, text, lists and objects with tolist() can")
    return value.tolist()
