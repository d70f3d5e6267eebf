#!/usr/bin/env python3
"""value_kill_rounds.py PROGRAM [--rounds 20] [--store lmdb|redis]: kills evenkeel store (kill -9) repeatedly while clients put,
replace and clear values, and restarts it; with redis as in kill_rounds.py. Each client has its own samples, and each request
writes a version number into both fields of all of them. So the client knows what the store must have: the values acknowledged
last, or those of the request that was not answered, and never a part of a request."""
import argparse
import json
import pathlib
import random
import re
import shutil
import struct
import subprocess
import sys
import tempfile
import threading
import time
import urllib.error

import kill_rounds

sys.path.insert(0, str(pathlib.Path(__file__).parents[1] / 'arrivals'))
from servers import NoAnswer, call  # noqa: E402

CLIENTS, SAMPLES = 4, 6


def bytes_of(version, index, field):
    """Returns the value that a request with this version puts. Its size varies."""
    size = random.Random(f'{version} {index} {field}').choice((0, 10, 3000, 50_000))
    return (struct.pack('<q', version) + field.encode()) * (size // 9 + 1)


def frame(indexes, values):
    fields = {field: {'dtype': 'BYTES', 'shapes': [[len(value)] for value in values[field]]} for field in values}
    head = json.dumps({'indexes': indexes, 'fields': fields}).encode()
    return struct.pack('<Q', len(head)) + head + b''.join(value for field in values for value in values[field])


def values_in(answer):
    size = struct.unpack('<Q', answer[:8])[0]
    head, at, values = json.loads(answer[8:8 + size]), 8 + size, {}
    for field, forms in head['fields'].items():
        for i, index in enumerate(head['indexes']):
            end = at + (forms['shapes'][i] if 'shapes' in forms else forms['shape'])[0]
            values[field, index] = answer[at:end]
            at = end
    return values


class Server:
    def __init__(self, program, *store):
        self.process = subprocess.Popen([program, 'store', '--listen', '127.0.0.1:0', *store, '--capacity', '256MiB'],
                                        stdout=subprocess.PIPE, text=True)
        output = ''
        while not (found := re.search(r'Listening on (\S+)', output)):
            line = self.process.stdout.readline()
            if not line:
                sys.exit(f'the store has ended with status {self.process.wait()}: {output}')
            output += line
        self.url = found[1]

    def kill(self):
        self.process.kill()
        self.process.wait()
        self.process.stdout.close()


class OneStore(kill_rounds.OneBuffer):
    def start(self):
        return Server(self.program, '--dir', self.folder)


class SeveralStores(kill_rounds.SeveralServers):
    def start_server(self):
        return Server(self.program, '--store', f"redis+unix://{self.folder / 'redis.sock'}")


class Client(threading.Thread):
    """Puts, replaces and clears the values of its samples until the store is gone or `ending` is set. `may_be` lists the
    versions that the store may have: one if the last request was answered, otherwise several. None means that there are no
    values."""

    def __init__(self, url, number, may_be, version, ending):
        super().__init__()
        self.url, self.may_be, self.version, self.ending, self.error = url, may_be, version, ending, None
        self.indexes = list(range(number * SAMPLES, (number + 1) * SAMPLES))

    def run(self):
        while not self.ending.is_set():
            self.version += 1
            is_clear = random.random() < 0.2
            after = None if is_clear else self.version
            self.may_be = [*self.may_be, after]
            try:
                if is_clear:
                    call(self.url + '/v1/values/clear', json.dumps({'indexes': self.indexes}).encode())
                else:
                    values = {field: [bytes_of(self.version, index, field) for index in self.indexes] for field in 'ab'}
                    call(self.url + '/v1/values', frame(self.indexes, values))
            except urllib.error.HTTPError as error:
                if error.code != 503:
                    self.error = f'{error.code} {error.read()!r}'
                    return
                time.sleep(0.02)
                continue
            except NoAnswer:
                return
            self.may_be = [after]

    def check(self, url):
        """Returns the version that the store has, or exits."""
        query = json.dumps({'indexes': self.indexes, 'fields': ['a', 'b']}).encode()
        kill_rounds.patient_call(url + '/v1/values/get', b'{"indexes": [], "fields": []}')  # Waits until the store answers.
        try:
            answer = call(url + '/v1/values/get', query)
        except urllib.error.HTTPError as error:
            text = error.read()
            if error.code != 404:
                sys.exit(f'{error.code} {text!r}')
            if None not in self.may_be or json.loads(text)['missing'] != 2 * SAMPLES:
                sys.exit(f'{text!r}; may be {self.may_be}')
            return None
        values = values_in(answer)
        version = struct.unpack('<q', values['a', self.indexes[0]][:8])[0]
        if version not in self.may_be:
            sys.exit(f'version {version} is there; may be {self.may_be}')
        if any(values[field, index] != bytes_of(version, index, field) for field in 'ab' for index in self.indexes):
            sys.exit(f'values of version {version} are torn')
        return version


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument('program')
    parser.add_argument('--rounds', type=int, default=20)
    parser.add_argument('--store', choices=('lmdb', 'redis'), default='lmdb')
    arguments = parser.parse_args()
    if arguments.store == 'redis' and not shutil.which('redis-server'):
        print('skipped: redis-server is not installed (launch/install-packages.sh --tests)')
        sys.exit(77)
    may_be, version, unsure = [[None] for _ in range(CLIENTS)], 0, 0
    with tempfile.TemporaryDirectory() as scratch:
        kind = SeveralStores if arguments.store == 'redis' else OneStore
        there = kind(arguments.program, pathlib.Path(scratch), ())
        try:
            for round_number in range(arguments.rounds):
                ending, urls = threading.Event(), there.urls()
                clients = [Client(urls[number % len(urls)], number, may_be[number], version, ending) for number in range(CLIENTS)]
                for client in clients:
                    client.start()
                time.sleep(random.uniform(0.05, 0.4))
                killed = there.kill_one(round_number)
                there.repair()
                ending.set()
                for number, client in enumerate(clients):
                    client.join()
                    if client.error:
                        sys.exit(f'round {round_number}, {killed} killed: {client.error}')
                    unsure += len(client.may_be) > 1
                    may_be[number] = [client.check(random.choice(there.urls()))]
                version = max(client.version for client in clients)
        finally:
            there.end()
        print(f'{arguments.rounds} rounds, about {version} requests per client, {unsure} of them not answered, all as acknowledged')
        if version < arguments.rounds:
            sys.exit('nothing was acknowledged: the test proves nothing')


if __name__ == '__main__':
    main()
