#!/usr/bin/env python3
"""client_kill_rounds.py PROGRAM buffer|store [--rounds 25] [--store lmdb|redis] [--keep FOLDER]: in every round a producer, a
reader and the server are killed (kill -9) in random order. Producers also add late fields: for a buffer after each sample was
acknowledged, for a store in a separate request after the other fields. Every client is a process that writes a journal, from
which the parent reads what was acknowledged. Readers parse the server's answers themselves, and check that every value is
complete and that all fields of a sample belong together. With --keep, rollouts.jsonl and acknowledged.txt of a buffer are
written to FOLDER, and the buffer's URL is printed, so a job can train the samples; the buffer runs until standard input ends.
"""
import argparse
import json
import multiprocessing
import os
import pathlib
import random
import shutil
import struct
import sys
import tempfile
import time
import urllib.error

import kill_rounds
import value_kill_rounds
from kill_rounds import GROUP_SIZE, LATE_FIELDS, NoAnswer, call, patient_call
from value_kill_rounds import SAMPLES, bytes_of, frame, values_in

PRODUCERS, READERS = 4, 2


class Client(multiprocessing.get_context('fork').Process):
    """A client that works until it is killed, the server is gone, or `ending` is set. Its journal remains."""

    def __init__(self, url, journal, ending):
        super().__init__(daemon=True)
        self.url, self.journal, self.ending = url, journal, ending

    def write(self, word, content=None):
        descriptor = os.open(self.journal, os.O_WRONLY | os.O_APPEND | os.O_CREAT)
        os.write(descriptor, json.dumps([word, content]).encode() + b'\n')
        os.close(descriptor)

    def entries(self):
        return entries_of(self.journal)

    def run(self):
        while not self.ending.is_set():
            try:
                self.work()
            except urllib.error.HTTPError as error:
                text = error.read()
                if error.code != 503:
                    self.write('wrong', f'{error.code} {text!r}')
                    return
                time.sleep(0.02)
            except NoAnswer:
                return


def entries_of(journal):
    if not journal.is_file():
        return []
    return [json.loads(line) for line in journal.read_text().splitlines()]


class BufferProducer(Client):
    """Sends the keys number, number + PRODUCERS, ... so every group has samples of all producers."""

    def __init__(self, url, journal, ending, number):
        super().__init__(url, journal, ending)
        sent = [content for word, content in self.entries() if word == 'sent']
        acknowledged = [content for word, content in self.entries() if word == 'acknowledged']
        self.unsure = sent[-1] if sent and sent[-1] not in acknowledged[-1:] else None
        self.next = (max(sent[-1]) + PRODUCERS) if sent else number

    def work(self):
        batch = self.unsure
        if batch is None:
            batch = [self.next + i * PRODUCERS for i in range(random.randrange(1, 4))]
            self.next, self.unsure = batch[-1] + PRODUCERS, batch
        requests = [('/v1/samples', ('accepted', 'duplicates'), lambda key: kill_rounds.line_of(key, 0))]
        requests += [('/v1/fields', ('added', 'duplicates'), lambda key, field=field: kill_rounds.fields_line(key, field))
                     for field in LATE_FIELDS]
        for path, counts, line in requests:
            self.write('sent', batch)
            answer = json.loads(call(self.url + path, '\n'.join(map(line, batch)).encode()))
            self.write('answered')
            if sum(answer[count] for count in counts) != len(batch):
                self.write('wrong', f'{path}: {answer} of {len(batch)}')
        self.write('acknowledged', batch)
        self.unsure = None


class BufferReader(Client):
    """Fetches the samples that wait. All of them must belong to complete groups and have all late fields."""

    def work(self):
        waiting = json.loads(call(self.url + '/v1/job/waiting?groups=0&limit=1000000'))
        arrivals = [sample[0] for group in waiting['groups'] for sample in group['samples']]
        chosen = random.sample(arrivals, min(64, len(arrivals)))
        lines = call(self.url + '/v1/job/samples', json.dumps({'arrivals': chosen}).encode()).decode().splitlines()
        keys = [json.loads(line)['key'] for line in lines]
        torn = sum(line != kill_rounds.delivered_line(key, LATE_FIELDS) for key, line in zip(keys, lines))
        self.write('read', [len(lines), torn + abs(len(lines) - len(chosen)), len(keys) - len(set(keys))])


class StoreProducer(Client):
    """Clears the values of its samples, puts fields a and b of the next version, and later field c."""

    def __init__(self, url, journal, ending, number):
        super().__init__(url, journal, ending)
        self.indexes = list(range(number * SAMPLES, (number + 1) * SAMPLES))
        self.version = max((content[0] or 0 for word, content in self.entries() if word == 'sent'), default=0)

    def request(self, state, path, content):
        self.write('sent', state)
        call(self.url + path, content)
        self.write('acknowledged', state)

    def work(self):
        self.version += 1
        self.request([None, None], '/v1/values/clear', json.dumps({'indexes': self.indexes}).encode())
        for state, fields in (([self.version, None], 'ab'), ([self.version, self.version], 'c')):
            values = {field: [bytes_of(self.version, index, field) for index in self.indexes] for field in fields}
            self.request(state, '/v1/values', frame(self.indexes, values))


def fetched_version(url, indexes, fields):
    """Returns the version of these values, None if all are missing, or 'torn' if values are incomplete or of several versions.
    """
    query = json.dumps({'indexes': indexes, 'fields': list(fields)}).encode()
    try:
        values = values_in(call(url + '/v1/values/get', query))
    except urllib.error.HTTPError as error:
        if error.code != 404:
            raise
        return None if json.loads(error.read())['missing'] == len(fields) * len(indexes) else 'partial'
    version = struct.unpack('<q', values[fields[0], indexes[0]][:8])[0]
    whole = all(values[field, index] == bytes_of(version, index, field) for field in fields for index in indexes)
    return version if whole else 'torn'


class StoreReader(Client):
    def work(self):
        number = random.randrange(PRODUCERS)
        indexes = list(range(number * SAMPLES, (number + 1) * SAMPLES))
        together, first, late = (fetched_version(self.url, indexes, fields) for fields in ('abc', 'ab', 'c'))
        # One request stores a and b, and another one stores c, so a query for all three may find that only c is missing.
        self.write('read', [3, sum(found in wrong for found, wrong in ((together, ('torn',)), (first, ('torn', 'partial')),
                                                                       (late, ('torn', 'partial')))), 0])


def check_store(url, journals):
    """Compares the store with the journals: it must have the last acknowledged state, or one that was sent later. Returns the
    number of differences."""
    lost = 0
    for number, journal in enumerate(journals):
        may_be = [[None, None]]
        for word, content in entries_of(journal):
            if word == 'sent':
                may_be.append(content)
            elif word == 'acknowledged':
                may_be = [content]
        indexes = list(range(number * SAMPLES, (number + 1) * SAMPLES))
        patient_call(url + '/v1/values/get', b'{"indexes": [], "fields": []}')
        if [fetched_version(url, indexes, 'ab'), fetched_version(url, indexes, 'c')] not in may_be:
            lost += 1
    return lost


def acknowledged_keys(journals):
    return {key for journal in journals for word, content in entries_of(journal) if word == 'acknowledged' for key in content}


def check_buffer(url, journals):
    sent = {key for journal in journals for word, content in entries_of(journal) if word == 'sent' for key in content}
    error = kill_rounds.check(url, acknowledged_keys(journals), sent, LATE_FIELDS)
    if error:
        print(error)
    return bool(error)


def play_round(there, number, kinds, folder):
    """Starts the clients, kills one client of each kind and a server, and repairs the server."""
    ending, urls = multiprocessing.get_context('fork').Event(), there.urls()
    producers = [kinds[0](random.choice(urls), folder / f'producer{i}', ending, i) for i in range(PRODUCERS)]
    readers = [kinds[1](random.choice(urls), folder / f'reader{i}', ending) for i in range(READERS)]
    for client in producers + readers:
        client.start()
    victims = [random.choice(producers).kill, random.choice(readers).kill, lambda: there.kill_one(number)]
    random.shuffle(victims)
    for kill in victims:
        time.sleep(random.uniform(0.02, 0.25))
        kill()
    there.repair()
    ending.set()
    for client in producers + readers:
        client.join(30)
        if client.is_alive():
            sys.exit(f'round {number}: {client.journal.name} does not end')


def resend(url, acknowledged):
    """Sends every acknowledged sample and field again, and requires that the buffer already has all of them."""
    requests = [('/v1/samples', 'duplicates', lambda key: kill_rounds.line_of(key, 0))]
    requests += [('/v1/fields', 'duplicates', lambda key, field=field: kill_rounds.fields_line(key, field)) for field in LATE_FIELDS]
    keys = sorted(acknowledged)
    for begin in range(0, len(keys), 64):
        batch = keys[begin:begin + 64]
        for path, count, line in requests:
            answer = json.loads(patient_call(url + path, '\n'.join(map(line, batch)).encode()))
            if answer[count] != len(batch):
                sys.exit(f'{path}: {answer} of {len(batch)} acknowledged samples: some were lost')


def complete(there, journals):
    """Sends the missing samples of all groups that were begun, so that they can be trained. Returns the number of samples."""
    keys = {key for journal in journals for word, content in entries_of(journal) if word == 'sent' for key in content}
    count = (max(keys) // GROUP_SIZE + 1) * GROUP_SIZE
    url = there.urls()[0]
    for begin in range(0, count, 64):
        batch = range(begin, min(begin + 64, count))
        patient_call(url + '/v1/samples', '\n'.join(kill_rounds.line_of(key, 0) for key in batch).encode())
        for field in LATE_FIELDS:
            patient_call(url + '/v1/fields', '\n'.join(kill_rounds.fields_line(key, field) for key in batch).encode())
    patient_call(url + '/v1/end', b'')
    return count


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument('program')
    parser.add_argument('server', choices=('buffer', 'store'))
    parser.add_argument('--rounds', type=int, default=25)
    parser.add_argument('--store', choices=('lmdb', 'redis'), default='lmdb')
    parser.add_argument('--keep', type=pathlib.Path)
    arguments = parser.parse_args()
    if arguments.store == 'redis' and not shutil.which('redis-server'):
        print('skipped: redis-server is not installed (launch/install-packages.sh --tests)')
        sys.exit(77)
    is_buffer = arguments.server == 'buffer'
    modules = kill_rounds if is_buffer else value_kill_rounds
    one, several = ('OneBuffer', 'SeveralServers') if is_buffer else ('OneStore', 'SeveralStores')
    kinds = (BufferProducer, BufferReader) if is_buffer else (StoreProducer, StoreReader)
    with tempfile.TemporaryDirectory() as scratch:
        folder = pathlib.Path(scratch)
        kind = getattr(modules, several if arguments.store == 'redis' else one)
        there = kind(arguments.program, folder, LATE_FIELDS if is_buffer else ())
        journals, lost = [folder / f'producer{i}' for i in range(PRODUCERS)], 0
        try:
            for number in range(arguments.rounds):
                play_round(there, number, kinds, folder)
                lost += (check_buffer if is_buffer else check_store)(random.choice(there.urls()), journals)
            entries = [entry for file in folder.glob('[pr]*er?') for entry in entries_of(file)]
            words = [word for word, _ in entries]
            answers = words.count('answered' if is_buffer else 'acknowledged')
            reads = [content for word, content in entries if word == 'read']
            torn, twice = sum(read[1] for read in reads), sum(read[2] for read in reads)
            wrong = [content for word, content in entries if word == 'wrong']
            print(f"{arguments.server}, {arguments.store}: {arguments.rounds} rounds, each with three victims, "
                  f"{words.count('sent')} requests of producers, {words.count('sent') - answers} of them unanswered or refused with 503, "
                  f"{len(reads)} reads of {sum(read[0] for read in reads)} samples or versions; "
                  f"{lost} checks with losses, {twice} twice, {torn} torn", flush=True)
            if arguments.keep and is_buffer:
                acknowledged = acknowledged_keys(journals)
                resend(there.urls()[0], acknowledged)
                count = complete(there, journals)
                (arguments.keep / 'rollouts.jsonl').write_text(''.join(kill_rounds.line_of(key, 0) + '\n' for key in range(count)))
                (arguments.keep / 'acknowledged.txt').write_text(''.join(f'{key}\n' for key in range(count)))
                print(f'{len(acknowledged)} samples acknowledged by journals, {count} in all, at {there.urls()[0]}', flush=True)
                sys.stdin.read()
        finally:
            there.end()
        if wrong or lost or torn or twice or not reads or not answers:
            sys.exit(f'wrong: {wrong[:3]}, or nothing was acknowledged or read')


if __name__ == '__main__':
    main()
