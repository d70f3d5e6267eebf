#!/usr/bin/env python3
"""kill_rounds.py PROGRAM [--rounds 20] [--store lmdb|redis] [--late-fields]: kills evenkeel buffer (kill -9) repeatedly while
producers send to it, and restarts it on the same folder. With --late-fields, producers add two fields to each sample after it
was acknowledged, so the buffer is also killed between a sample, its fields and their delivery. With redis, two servers use one
Redis, which writes each commit to the disk before it answers. Redis, the active server or the standby server is killed, or the
active server is stopped for longer than its lease. Each time, every acknowledged sample must exist once, as it was sent, and
the sums must be right. Uses only the standard library to talk to servers."""
import argparse
import functools
import json
import pathlib
import random
import re
import shutil
import signal
import subprocess
import sys
import tempfile
import threading
import time
import urllib.error

sys.path.insert(0, str(pathlib.Path(__file__).parents[1] / 'arrivals'))
from servers import NoAnswer, call  # noqa: E402

GROUP_SIZE = 4
LATE_FIELDS = ('old_log_probs', 'values')
PRODUCERS = 4


class Buffer:
    def __init__(self, program, late_fields, *store):
        self.process = subprocess.Popen(
            [program, 'buffer', '--listen', '127.0.0.1:0', *store, '--capacity', '256MiB', '--group-size', str(GROUP_SIZE),
             *(('--late-fields', ','.join(late_fields)) if late_fields else ())],
            stdout=subprocess.PIPE, text=True)
        output = ''
        while not (found := re.search(r'Listening on (\S+)', output)):
            line = self.process.stdout.readline()
            if not line:
                sys.exit(f'the buffer has ended with status {self.process.wait()}: {output}')
            output += line
        self.url = found[1]

    def kill(self):
        self.process.kill()
        self.process.wait()
        self.process.stdout.close()


class OneBuffer:
    """A buffer in a folder. Each round kills it."""

    def __init__(self, program, scratch, late_fields):
        self.program, self.folder, self.late_fields = program, str(scratch / 'buffer'), late_fields
        self.buffer = self.start()

    def start(self):
        return Buffer(self.program, self.late_fields, '--dir', self.folder)

    def urls(self):
        return [self.buffer.url]

    def kill_one(self, round_number):
        self.buffer.kill()
        return 'the buffer'

    def repair(self):
        self.buffer = self.start()

    def end(self):
        self.buffer.kill()


class SeveralServers:
    """Two servers over one Redis. Rounds take turns in which process they kill, since a killed server costs the duration of its
    lease."""

    TURNS = ('Redis', 'the standby', 'Redis', 'the active server', 'Redis', 'the active server, for a while', 'both servers', 'Redis')

    def __init__(self, program, scratch, late_fields):
        self.program, self.folder, self.late_fields = program, scratch, late_fields
        self.start_redis()
        self.servers = [self.start_server(), self.start_server()]

    def start_redis(self):
        self.redis = subprocess.Popen(
            ['redis-server', '--port', '0', '--unixsocket', str(self.folder / 'redis.sock'), '--dir', str(self.folder), '--save', '',
             '--appendonly', 'yes', '--appendfsync', 'always'], stdout=subprocess.DEVNULL)
        while subprocess.run(['redis-cli', '-s', str(self.folder / 'redis.sock'), 'ping'], capture_output=True).stdout != b'PONG\n':
            time.sleep(0.02)

    def start_server(self):
        return Buffer(self.program, self.late_fields, '--store', f"redis+unix://{self.folder / 'redis.sock'}")

    def urls(self):
        return [server.url for server in self.servers]

    def kill_one(self, round_number):
        victim = self.TURNS[round_number % len(self.TURNS)]
        if victim == 'Redis':
            self.redis.kill()
            self.redis.wait()
            return victim
        active = json.loads(patient_call(self.servers[0].url + '/v1/status'))['active']
        self.stopped = None
        for server in self.servers:
            if victim == 'both servers' or (server.url == active) == victim.startswith('the active server'):
                if victim.endswith('for a while'):
                    server.process.send_signal(signal.SIGSTOP)
                    self.stopped = server
                else:
                    server.kill()
        return victim

    def repair(self):
        if self.redis.poll() is not None:
            self.start_redis()
        if stopped := getattr(self, 'stopped', None):
            others = [server for server in self.servers if server is not stopped]
            patient_call(others[0].url + '/v1/status')  # The other server has taken over.
            stopped.process.send_signal(signal.SIGCONT)
            self.stopped = None
        self.servers = [server if server.process.poll() is None else self.start_server() for server in self.servers]
        for url in self.urls():
            patient_call(url + '/v1/status')

    def end(self):
        for server in self.servers:
            server.kill()
        self.redis.kill()
        self.redis.wait()


def patient_call(url, content=None):
    """Repeats a request until a server is active and has read the store."""
    for _ in range(600):
        try:
            return call(url, content)
        except urllib.error.HTTPError as error:
            if error.code != 503:
                sys.exit(f'{url} is answered with {error.code} {error.read()!r}')
        except NoAnswer:
            pass
        time.sleep(0.05)
    sys.exit(f'{url} does not answer within 30 seconds')


def line_of(key, seed):
    draw = random.Random(key * 1000 + seed)
    tokens = [draw.randrange(1000) for _ in range(draw.randrange(1, 3000))]
    return json.dumps({'uid': f'g{key // GROUP_SIZE}', 'index': key % GROUP_SIZE, 'version': 0, 'key': key, 'prompt_ids': [key],
                       'response_ids': tokens})


def values_of(key):
    """Returns the late fields: one number per response token of the sample's group, and one for the sample."""
    tokens = json.loads(line_of(key, 0))['response_ids']
    return dict(zip(LATE_FIELDS, ([0.5 * token for token in tokens], key)))


def fields_line(key, field):
    return json.dumps({'uid': f'g{key // GROUP_SIZE}', 'index': key % GROUP_SIZE, field: values_of(key)[field]})


def delivered_line(key, late_fields):
    values = values_of(key)
    added = ''.join(f',"{field}":{json.dumps(values[field], separators=(",", ":"))}' for field in late_fields)
    return line_of(key, 0)[:-1] + added + '}'


class Producer(threading.Thread):
    """Sends its own keys until the buffer is gone or `ending` is set. Keys of a request that was not answered are sent again
    next time."""

    def __init__(self, url, keys, acknowledged, unsure, ending, late_fields):
        super().__init__()
        self.requests = [('/v1/samples', ('accepted', 'duplicates'), lambda key: line_of(key, 0))]
        self.requests += [('/v1/fields', ('added', 'duplicates'), functools.partial(fields_line, field=field)) for field in late_fields]
        self.url, self.keys, self.acknowledged, self.unsure, self.error = url, keys, acknowledged, unsure, None
        self.ending = ending

    def run(self):
        while not self.ending.is_set():
            batch = self.unsure or [next(self.keys) for _ in range(random.randrange(1, 4))]
            self.unsure = batch
            try:
                for path, counts, line in self.requests:
                    answer = json.loads(call(self.url + path, '\n'.join(line(key) for key in batch).encode()))
                    if sum(answer[count] for count in counts) != len(batch):
                        self.error = f'{answer} of {len(batch)}'
                        return
            except urllib.error.HTTPError as error:
                if error.code == 503:
                    time.sleep(0.02)
                    continue
                self.error = f'{error.code} {error.read()!r}'
                return
            except NoAnswer:
                return
            self.acknowledged.update(batch)
            self.unsure = []


def check(url, acknowledged, sent, late_fields):
    """Returns an error unless every acknowledged sample exists exactly once, as it was sent, and no other sample exists."""
    waiting = json.loads(patient_call(url + '/v1/job/waiting?groups=0&limit=1000000'))
    status = json.loads(patient_call(url + '/v1/status'))
    samples = status['samples']
    if samples['received'] != samples['trained'] + samples['formed'] + samples['waiting'] + sum(samples['dropped'].values()):
        return f'the sums are wrong: {samples}'
    arrivals = [sample[0] for group in waiting['groups'] for sample in group['samples']]
    lines = patient_call(url + '/v1/job/samples', json.dumps({'arrivals': arrivals}).encode()).decode().splitlines()
    keys = [json.loads(line)['key'] for line in lines]
    if len(keys) != len(set(keys)):
        return 'a sample is there twice'
    if wrong := [key for key, line in zip(keys, lines) if line != delivered_line(key, late_fields)]:
        return f'samples are not as they were sent: {wrong[:5]}'
    whole = {key for key in acknowledged if all(other in acknowledged for other in group_of(key))}
    if lost := whole - set(keys):
        return f'{len(lost)} acknowledged samples are lost: {sorted(lost)[:5]}'
    if foreign := set(keys) - sent:
        return f'samples that were never sent: {sorted(foreign)[:5]}'
    if samples['received'] < len(acknowledged):
        return f"{samples['received']} samples are there, and {len(acknowledged)} were acknowledged"
    return None


def group_of(key):
    return range(key // GROUP_SIZE * GROUP_SIZE, (key // GROUP_SIZE + 1) * GROUP_SIZE)


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument('program')
    parser.add_argument('--rounds', type=int, default=20)
    parser.add_argument('--late-fields', action='store_const', const=LATE_FIELDS, default=())
    parser.add_argument('--store', choices=('lmdb', 'redis'), default='lmdb')
    arguments = parser.parse_args()
    if arguments.store == 'redis' and not shutil.which('redis-server'):
        print('skipped: redis-server is not installed (launch/install-packages.sh --tests)')
        sys.exit(77)
    lock, counter, acknowledged, unsure = threading.Lock(), iter(range(10**9)), set(), [[] for _ in range(PRODUCERS)]
    last = [-1]

    def keys():
        while True:
            with lock:
                key = last[0] = next(counter)
            yield key

    with tempfile.TemporaryDirectory() as scratch:
        kind = SeveralServers if arguments.store == 'redis' else OneBuffer
        there = kind(arguments.program, pathlib.Path(scratch), arguments.late_fields)
        try:
            for round_number in range(arguments.rounds):
                ending = threading.Event()
                urls = there.urls()
                producers = [Producer(urls[i % len(urls)], keys(), acknowledged, unsure[i], ending, arguments.late_fields)
                             for i in range(PRODUCERS)]
                for producer in producers:
                    producer.start()
                time.sleep(random.uniform(0.05, 0.4))
                killed = there.kill_one(round_number)
                there.repair()
                ending.set()
                for i, producer in enumerate(producers):
                    producer.join()
                    unsure[i] = producer.unsure
                    if producer.error:
                        sys.exit(f'round {round_number}, {killed} killed: {producer.error}')
                if error := check(random.choice(there.urls()), acknowledged, set(range(last[0] + 1)), arguments.late_fields):
                    sys.exit(f'round {round_number}, {killed} killed: {error}')
        finally:
            there.end()
        print(f'{arguments.rounds} rounds, {len(acknowledged)} samples acknowledged, all there')
        if not acknowledged:
            sys.exit('nothing was acknowledged: the test proves nothing')


if __name__ == '__main__':
    main()
