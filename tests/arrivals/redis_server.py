"""Runs a separate Redis server, which keeps everything that it has acknowledged."""
import socket
import time

LIMIT = 30  # seconds in which it must answer


class RedisServer:
    """A Redis server on a socket in `folder`, which also has its files. `start(name, command)` starts a process."""

    def __init__(self, folder, start):
        self._folder, self._start, self._process = folder, start, None
        self._socket = folder / 'redis.sock'
        self.url = f'redis+unix://{self._socket}'
        self.start()

    def start(self):
        self._process = self._start('redis', [
            'redis-server', '--port', '0', '--unixsocket', self._socket, '--dir', self._folder, '--save', '',
            '--appendonly', 'yes', '--appendfsync', 'always'])
        begun = time.monotonic()
        while not self._answers():
            if time.monotonic() - begun > LIMIT or self._process.poll() is not None:
                raise RuntimeError('redis-server does not answer')
            time.sleep(0.02)

    def kill(self):
        """kill -9"""
        self._process.kill()
        self._process.wait()

    def _answers(self):
        with socket.socket(socket.AF_UNIX) as connection:
            try:
                connection.settimeout(5)
                connection.connect(str(self._socket))
                connection.sendall(b'PING\r\n')
                return connection.recv(64).startswith(b'+PONG')
            except OSError:
                return False
