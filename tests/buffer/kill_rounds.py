#!/usr/bin/env python3
"""kill_rounds.py PROGRAM [--rounds 20]: evenkeel buffer is killed (kill -9) while producers send to it, and started again on
the same folder, over and over. What it had acknowledged must be there each time, once, as it was sent, and its sums must be
right. Speaks to the door with the standard library alone."""
import argparse
import json
import pathlib
import random
import re
import subprocess
import sys
import tempfile
import threading
import time
import urllib.error
import urllib.request

GROUP_SIZE = 4
PRODUCERS = 4


def call(url, content=None, timeout=10):
    data = None if content is None else content if isinstance(content, bytes) else json.dumps(content).encode()
    with urllib.request.urlopen(urllib.request.Request(url, data), timeout=timeout) as answer:
        return answer.read()


class Buffer:
    def __init__(self, program, folder):
        self.process = subprocess.Popen(
            [program, 'buffer', '--listen', '127.0.0.1:0', '--dir', folder, '--capacity', '256MiB', '--group-size', str(GROUP_SIZE)],
            stdout=subprocess.PIPE, text=True)
        said = ''
        while not (found := re.search(r'Listening on (\S+)', said)):
            line = self.process.stdout.readline()
            if not line:
                sys.exit(f'the buffer has ended with status {self.process.wait()}: {said}')
            said += line
        self.url = found[1]

    def kill(self):
        self.process.kill()
        self.process.wait()
        self.process.stdout.close()


def line_of(key, seed):
    draw = random.Random(key * 1000 + seed)
    tokens = [draw.randrange(1000) for _ in range(draw.randrange(1, 3000))]
    return json.dumps({'uid': f'g{key // GROUP_SIZE}', 'index': key % GROUP_SIZE, 'version': 0, 'key': key, 'prompt_ids': [key],
                       'response_ids': tokens})


class Producer(threading.Thread):
    """Sends keys of its own, until the buffer is gone. Those of a request that was not answered come again next time."""

    def __init__(self, url, keys, acknowledged, unsure):
        super().__init__()
        self.url, self.keys, self.acknowledged, self.unsure, self.error = url, keys, acknowledged, unsure, None

    def run(self):
        while True:
            batch = self.unsure or [next(self.keys) for _ in range(random.randrange(1, 4))]
            self.unsure = batch
            try:
                answer = json.loads(call(self.url + '/v1/samples', '\n'.join(line_of(key, 0) for key in batch).encode()))
            except urllib.error.HTTPError as error:
                self.error = f'{error.code} {error.read()!r}'
                return
            except OSError:
                return
            if answer['accepted'] + answer['duplicates'] != len(batch):
                self.error = f'{answer} of {len(batch)}'
                return
            self.acknowledged.update(batch)
            self.unsure = []


def check(url, acknowledged, sent):
    """Everything acknowledged is there once, as it was sent; nothing is there that was never sent."""
    status = json.loads(call(url + '/v1/status'))
    samples = status['samples']
    if samples['received'] != samples['trained'] + samples['formed'] + samples['waiting'] + sum(samples['dropped'].values()):
        return f'the sums are wrong: {samples}'
    waiting = json.loads(call(url + '/v1/job/waiting?groups=0&most=1000000'))
    arrivals = [sample[0] for group in waiting['groups'] for sample in group['samples']]
    lines = call(url + '/v1/job/samples', {'arrivals': arrivals}).decode().splitlines()
    keys = [json.loads(line)['key'] for line in lines]
    if len(keys) != len(set(keys)):
        return 'a sample is there twice'
    if wrong := [key for key, line in zip(keys, lines) if line != line_of(key, 0)]:
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
    arguments = parser.parse_args()
    with tempfile.TemporaryDirectory() as scratch:
        folder = str(pathlib.Path(scratch) / 'buffer')
        lock, counter, acknowledged, unsure = threading.Lock(), iter(range(10**9)), set(), [[] for _ in range(PRODUCERS)]
        last = [-1]

        def keys():
            while True:
                with lock:
                    key = last[0] = next(counter)
                yield key

        for round_number in range(arguments.rounds):
            buffer = Buffer(arguments.program, folder)
            producers = [Producer(buffer.url, keys(), acknowledged, unsure[i]) for i in range(PRODUCERS)]
            for producer in producers:
                producer.start()
            time.sleep(random.uniform(0.05, 0.4))
            buffer.kill()
            for i, producer in enumerate(producers):
                producer.join()
                unsure[i] = producer.unsure
                if producer.error:
                    sys.exit(f'round {round_number}: {producer.error}')
            buffer = Buffer(arguments.program, folder)
            error = check(buffer.url, acknowledged, set(range(last[0] + 1)))
            buffer.kill()
            if error:
                sys.exit(f'round {round_number}: {error}')
        print(f'{arguments.rounds} rounds, {len(acknowledged)} samples acknowledged, all there')
        if not acknowledged:
            sys.exit('nothing was acknowledged: the test proves nothing')


if __name__ == '__main__':
    main()
