#!/usr/bin/env python3
"""producer.py URL SAMPLES ACKNOWLEDGED --seed N [--versions K]: sends the lines of SAMPLES to a buffer's server, one to three
per request, and some requests twice. A request that is not answered is sent again. The file ACKNOWLEDGED lists the numbers of
acknowledged lines, so a producer that is killed and restarted continues after them. Versions of samples are up to K behind the
last version that the server reported. A line's version is written to ACKNOWLEDGED.versions before the line is sent, since a
sample that is sent again must be the same."""
import argparse
import json
import os
import pathlib
import random
import sys
import time
import urllib.error

from servers import NoAnswer, call

PATIENCE = 120  # seconds for which a request is retried
PAUSE = 0.6  # longest pause between two requests, in seconds


def lines_in(path):
    """Returns the numbers in complete lines: the last line may be torn."""
    return [int(line) for line in path.read_text(encoding='utf-8').split('\n')[:-1]] if path.exists() else []


def note(file, text):
    file.write(text)
    file.flush()
    os.fsync(file.fileno())


def post(url, body):
    begun = time.monotonic()
    while True:
        try:
            return json.loads(call(url, body.encode(), timeout=20))
        except urllib.error.HTTPError as error:
            if error.code not in (429, 503) or time.monotonic() - begun > PATIENCE:
                sys.exit(f'{error.code} {error.read()!r}')
        except NoAnswer as error:
            if time.monotonic() - begun > PATIENCE:
                sys.exit(f'the buffer is gone: {error}')
        time.sleep(0.05)


def send(url, lines, twice):
    """Returns the version reported by the buffer."""
    answer = post(url + '/v1/samples', ''.join(lines))
    if sum(answer.get(word, 0) for word in ('accepted', 'duplicates', 'stale', 'dropped')) < len(lines):
        sys.exit(f'the buffer says {answer} of {len(lines)} samples')
    if twice and (again := post(url + '/v1/samples', ''.join(lines)))['duplicates'] != len(lines):
        sys.exit(f'the buffer says {again} of {len(lines)} samples that it had')
    return answer['version']


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument('url')
    parser.add_argument('samples', type=pathlib.Path)
    parser.add_argument('acknowledged', type=pathlib.Path)
    parser.add_argument('--seed', type=int, required=True)
    parser.add_argument('--versions', type=int, default=0)
    arguments = parser.parse_args()
    draw = random.Random(f'{arguments.seed} {os.getpid()}')
    samples = [json.loads(line) for line in arguments.samples.read_text(encoding='utf-8').splitlines()]
    done = set(lines_in(arguments.acknowledged))
    to_send = [number for number in range(len(samples)) if number not in done]
    version = 0
    chosen = arguments.acknowledged.with_name(arguments.acknowledged.name + '.versions')
    for line in chosen.read_text(encoding='utf-8').split('\n')[:-1] if chosen.exists() else []:
        number, of_sample = line.split()
        samples[int(number)]['version'] = int(of_sample)
    with arguments.acknowledged.open('a', encoding='utf-8') as acknowledged, chosen.open('a', encoding='utf-8') as versions:
        while to_send:
            batch, to_send = to_send[:(taken := draw.randint(1, 3))], to_send[taken:]
            for number in batch:
                samples[number].setdefault('version', max(0, version - draw.randint(0, arguments.versions)))
            note(versions, ''.join(f'{number} {samples[number]["version"]}\n' for number in batch))
            twice = draw.random() < 0.15
            lines = [json.dumps(samples[number]) + '\n' for number in batch]
            version = max(version, send(arguments.url, lines, twice))
            note(acknowledged, ''.join(f'{number}\n' for number in batch))
            time.sleep(draw.random() * PAUSE)


if __name__ == '__main__':
    main()
