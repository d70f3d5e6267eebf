"""Ports for doors of tests."""
import contextlib
import pathlib
import random
import socket

RANGE = pathlib.Path('/proc/sys/net/ipv4/ip_local_port_range')


def free_ports(count):
    """Ports that nobody has, no two the same, and below those that connections get: ranks make many while a door starts."""
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
