"""Sends HTTP requests to Evenkeel's servers and retries them until they are answered. Needs only the standard library."""

from __future__ import annotations

import http.client
import json
import logging
import os
import random
import socket
import ssl
import time
import urllib.parse
from collections.abc import Callable, Mapping, Sequence
from typing import Any

from evenkeel.errors import ConfigError, Error, InputError, IoError, LimitError

_FIRST_PAUSE = 0.05
_LONGEST_PAUSE = 2.0
_FULL = 429
_TRY_AGAIN = (_FULL, 502, 503, 504)
_log = logging.getLogger("evenkeel")

Body = bytes | Sequence[memoryview]
Headers = Mapping[str, str]
Reader = Callable[[http.client.HTTPResponse], Any]


def json_of(response: http.client.HTTPResponse) -> Any:
    """Reads the whole response as JSON."""
    return json.loads(response.read())


class _SocketConnection(http.client.HTTPConnection):
    """A connection to a Unix socket."""

    def __init__(self, path: str, host: str, timeout: float) -> None:
        super().__init__(host, timeout=timeout)
        self._path = path

    def connect(self) -> None:
        self.sock = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
        self.sock.settimeout(self.timeout)
        self.sock.connect(self._path)


class Server:
    """Sends requests to one server over persistent connections. Threads may share it: each request in flight has its own
    connection.

    ``url``       where the server listens, such as "http://127.0.0.1:8710", or "unix:PATH" for a socket on this machine
    ``token``     content of the server's token file
    ``ca``        a PEM file of certificates to trust for https instead of the system's
    ``timeout``   seconds to wait for one answer
    ``patience``  seconds to keep trying while the server is full or unreachable; None means forever
    ``headers``   sent with every request
    """

    def __init__(self, url: str, *, token: str | None = None, ca: str | None = None, timeout: float = 60.0,
                 patience: float | None = 600.0, headers: Headers | None = None) -> None:
        try:
            parts = urllib.parse.urlsplit(url)
            port = parts.port
        except ValueError as error:
            raise ConfigError(f"url: is {url!r}; it must be an address such as http://127.0.0.1:8710: {error}") from error
        is_socket = parts.scheme == "unix" and parts.path
        if not is_socket and (parts.scheme not in ("http", "https") or not parts.hostname):
            raise ConfigError(f"url: is {url!r}; it must be an address such as http://127.0.0.1:8710")
        self._url = url.rstrip("/")
        self._socket = parts.path if is_socket else None
        self._host = parts.hostname or "localhost"
        self._port = port or (443 if parts.scheme == "https" else 80)
        self._path = "" if is_socket else parts.path.rstrip("/")
        self._tls = ssl.create_default_context(cafile=ca) if parts.scheme == "https" else None
        self._headers = dict(headers or {})
        if token:
            self._headers["Authorization"] = f"Bearer {token}"
        self._timeout = timeout
        self._patience = patience
        self._idle: list[http.client.HTTPConnection] = []
        self._process = os.getpid()
        self._is_away = False  # the server did not answer the last request

    @property
    def is_local(self) -> bool:
        """Whether the server is reached at a socket in the file system."""
        return self._socket is not None

    @property
    def url(self) -> str:
        return self._url

    def request(self, method: str, path: str, body: Body = b"", *, headers: Headers | Callable[[], Headers] | None = None,
                read: Reader = json_of, refusals: Mapping[int, type[Error]] | None = None) -> Any:
        """Sends a request and returns the result of ``read`` for a response with status 200.

        Retries after a lost connection, after ``read`` raised OSError, HTTPException or JSONDecodeError, and while the
        server is full or cannot answer, so sending a request twice must have the same effect as once. Raises IoError when
        the patience has run out. Other statuses raise the class in ``refusals``, by default ConfigError for 401,
        LimitError for 413 and otherwise InputError, with the server's text.

        ``headers`` may be a function that returns those of each attempt."""
        begun = time.monotonic()
        pause = _FIRST_PAUSE
        while True:
            sent = headers() if callable(headers) else headers or {}
            connection, reused = self._connection()
            try:
                status, answer, wait = self._exchange(connection, method, path, body, sent, read)
                if status == 200:
                    self._report_answer(begun)
                    return answer
                if status not in _TRY_AGAIN:
                    raise _refusal(status, answer, refusals or {})
                why, is_full = _error_of(answer) or f"status {status}", status == _FULL
            except ssl.SSLCertVerificationError as error:
                raise ConfigError(f"{self._url}: has a certificate that cannot be verified: {error.verify_message}. If its issuer is "
                                  "unknown, pass ca, a file of the certificates to trust") from error
            except (OSError, http.client.HTTPException, json.JSONDecodeError) as error:
                if reused:  # the server closes idle connections
                    continue
                why, is_full, wait = str(error) or type(error).__name__, False, None
            if self._patience is not None and time.monotonic() - begun + pause > self._patience:
                advice = "" if is_full else ". Start the server again, or raise patience"  # a full server says what to do
                raise IoError(f"{self._url}: gave up after {self._patience:g} second{'' if self._patience == 1 else 's'}: {why}{advice}")
            if not is_full:
                self._report_silence(why)
            time.sleep(wait if wait is not None else pause * random.uniform(0.5, 1.0))
            pause = min(2 * pause, _LONGEST_PAUSE)

    def _report_silence(self, why: str) -> None:
        """Logs the first unanswered request of an outage."""
        if not self._is_away:
            self._is_away = True
            plural = "" if self._patience == 1 else "s"
            limit = "until it answers" if self._patience is None else f"for up to {self._patience:g} second{plural}"
            _log.warning("%s: does not answer: %s. Trying again %s", self._url, why, limit)

    def _report_answer(self, begun: float) -> None:
        if self._is_away:
            self._is_away = False
            _log.warning("%s: answers again, after %.1f seconds", self._url, time.monotonic() - begun)

    def close(self) -> None:
        """Closes connections that are not in use."""
        while self._idle:
            self._idle.pop().close()

    def _connection(self) -> tuple[http.client.HTTPConnection, bool]:
        """Returns an idle connection or a new one, and whether it has been used before."""
        if self._process != os.getpid():  # a forked child must not share the parent's connections
            self._idle, self._process = [], os.getpid()
        try:
            return self._idle.pop(), True
        except IndexError:
            pass
        if self._socket is not None:
            return _SocketConnection(self._socket, self._host, timeout=self._timeout), False
        if self._tls is not None:
            return http.client.HTTPSConnection(self._host, self._port, timeout=self._timeout, context=self._tls), False
        return http.client.HTTPConnection(self._host, self._port, timeout=self._timeout), False

    def _exchange(self, connection: http.client.HTTPConnection, method: str, path: str, body: Body, headers: Headers,
                  read: Reader) -> tuple[int, Any, float | None]:
        """Sends the request once. Returns the status; the result of ``read``, or the response's text if the status is not
        200; and how many seconds the server asks the client to wait."""
        size = len(body) if isinstance(body, bytes) else sum(part.nbytes for part in body)
        sent = False
        try:
            try:
                connection.request(method, self._path + path, body, {"Content-Length": str(size), **self._headers, **headers})
                sent = True
            except (BrokenPipeError, ConnectionResetError):
                if connection.sock is None:
                    raise
                # A server may reject a request before it has read the body; its response says why.
            with connection.getresponse() as response:
                answer = read(response) if response.status == 200 else response.read()
                wait = _seconds(response.headers.get("Retry-After"))
        except BaseException:
            sent = False
            raise
        finally:
            if sent:
                self._idle.append(connection)
            else:
                connection.close()  # unread data must not reach the next request
        return response.status, answer, wait


def _seconds(text: str | None) -> float | None:
    try:
        return max(0.0, float(text)) if text else None
    except ValueError:  # a date, which a proxy may send
        return None


def _error_of(text: bytes) -> str:
    try:
        return str(json.loads(text)["error"])
    except (ValueError, KeyError, TypeError):
        return text.decode(errors="replace").strip()


def _refusal(status: int, text: bytes, classes: Mapping[int, type[Error]]) -> Error:
    kinds: dict[int, type[Error]] = {401: ConfigError, 413: LimitError, **classes}
    return kinds.get(status, InputError)(_error_of(text) or f"the server refused the request with status {status}")
