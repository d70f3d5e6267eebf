"""Sends requests to buffer servers, which may be killed at any moment."""
import contextlib
import http.client
import pathlib
import random
import socket
import urllib.error
import urllib.request

RANGE = pathlib.Path('/proc/sys/net/ipv4/ip_local_port_range')


class NoAnswer(Exception):
    """Raised if the server is not there, or its answer broke off."""


def call(url, content=None, timeout=10, headers=None):
    """Returns the body of the answer. Raises urllib.error.HTTPError if the server refuses the request."""
    try:
        with urllib.request.urlopen(urllib.request.Request(url, content, headers or {}), timeout=timeout) as answer:
            return answer.read()
    except urllib.error.HTTPError:
        raise
    except (OSError, http.client.HTTPException) as error:
        raise NoAnswer(f'{url}: {error!r}') from error


def free_ports(count):
    """Returns different unused ports below the ephemeral ports: ranks open many connections while a server starts."""
    ends = int(RANGE.read_text(encoding='ascii').split()[0]) if RANGE.is_file() else 32768
    ports = []
    with contextlib.ExitStack() as held:
        while len(ports) < count:
            probe = held.enter_context(socket.socket())
            port = random.SystemRandom().randrange(ends // 2, ends)
            with contextlib.suppress(OSError):
                probe.bind(('127.0.0.1', port))
                ports.append(port)
    return ports
