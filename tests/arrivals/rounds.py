#!/usr/bin/env python3
"""rounds.py PROGRAM [--rounds 100] [--at-once 2]: a job makes steps of samples that four producers send, while kill -9 hits a
producer, the buffer, a rank or mpirun at random moments. Each killed process is restarted; the job resumes, usually on another
number of ranks. After all samples are acknowledged and the end is announced, the job must end by itself, and every sample must
be in exactly one step, or dropped for a reason that the buffer reports. Each round draws the mesh, prefetching, look-ahead, the
limit on staleness and the groups' deadline; in some rounds the job runs the buffer itself. With --store redis, two servers
share a Redis, which is also killed; with --store memory, the buffer is not killed, since it would lose its samples."""
import argparse
import collections
import concurrent.futures
import json
import os
import pathlib
import random
import shlex
import shutil
import signal
import subprocess
import sys
import tempfile
import threading
import time
import urllib.error

from accounts import Accountant, Rules, Run
from redis_server import RedisServer
from servers import NoAnswer, call, free_ports

sys.path.insert(0, str(pathlib.Path(__file__).parents[1] / 'faults'))
from jobs import TAG, Processes, send  # noqa: E402

PRODUCERS = 4
GROUP_SIZE = 4
SAMPLES = 192
GROUPS_OF_A_STEP = 4
LIMIT = 120  # seconds after which a process counts as hanging


class Wrong(Exception):
    """Raised if a check of a round fails."""


class Settings:
    """Settings that are drawn once per round and that its job cannot change."""

    def __init__(self, draw, store):
        self.store = store
        self.is_embedded = draw.random() < 0.25 and store != 'memory'
        self.max_staleness, self.on_stale = draw.choice([(None, 'wait'), (2, 'drop'), (2, 'mask')])
        self.deadline, self.min_group = draw.choice([(None, GROUP_SIZE), (None, GROUP_SIZE), (1, 2)])
        self.look_ahead = draw.choice([0, 2])

    def of_buffer(self):
        found = {'group_size': GROUP_SIZE, 'min_group': self.min_group, 'on_stale': self.on_stale, 'capacity': 64 << 20}
        if self.max_staleness is not None:
            found['max_staleness'] = self.max_staleness
        if self.deadline:
            found['deadline'] = self.deadline
        return found

    def rules(self):
        return Rules(GROUP_SIZE, self.min_group, GROUPS_OF_A_STEP, self.max_staleness, self.on_stale == 'mask')

    def __str__(self):
        words = ['buffer in the job' if self.is_embedded else 'buffer of its own', f'look_ahead {self.look_ahead}']
        words += [f'max_staleness {self.max_staleness} {self.on_stale}'] * (self.max_staleness is not None)
        words += [f'deadline {self.deadline}'] * (self.deadline is not None)
        return ', '.join(words)


def draw_mesh(draw):
    """Returns the number of ranks, cp and the number of prefetched steps."""
    ranks = draw.choice([1, 2, 2, 3, 4])
    cp = draw.choice([1, 1, 2]) if ranks % 2 == 0 else 1
    return ranks, cp, draw.randint(0, 2)


class Round:
    """One round: its folder, producers and job, and its buffer with one or two servers."""

    def __init__(self, arguments, seed, folder, shared_memory):
        self._draw = random.Random(seed)
        self._arguments, self._seed, self._folder = arguments, seed, folder
        self.settings = Settings(self._draw, arguments.store)
        servers = 2 if self.settings.store == 'redis' and not self.settings.is_embedded else 1
        self._urls = [f'http://127.0.0.1:{port}' for port in free_ports(servers)]
        self._environment = dict(os.environ, TMPDIR=str(folder / 't'),
                                 OMPI_MCA_btl_vader_backing_directory=str(shared_memory),
                                 **{TAG: f'rounds-{os.getpid()}-{seed}'})
        self._processes = Processes(self._environment[TAG])
        self._samples, self._producers, self._servers, self._job, self._mesh, self._redis = [], {}, {}, None, None, None
        self.runs, self.killed, self.polls, self.duplicates, self.dropped = [], collections.Counter(), 0, 0, 0
        self._is_over, self._failure = threading.Event(), None

    # Starting processes.

    def _start(self, name, command):
        with (self._folder / f'{name}.log').open('ab') as log:
            return subprocess.Popen(command, stdin=subprocess.DEVNULL, stdout=log, stderr=log, env=self._environment,
                                    start_new_session=True)

    def _log(self, name):
        return (self._folder / f'{name}.log').read_text(encoding='utf-8', errors='replace')[-3000:]

    def _write_samples(self):
        """Writes the samples. Each group has samples of several producers, so groups become complete during the whole round."""
        for key in range(SAMPLES):
            tokens = [self._draw.randrange(1000) for _ in range(self._draw.randint(1, 60))]
            self._samples.append({'uid': f'g{key // GROUP_SIZE}', 'index': key % GROUP_SIZE, 'key': key,
                                  'prompt_ids': [key], 'response_ids': tokens})
        order = sorted(self._samples, key=lambda sample: sample['key'] + self._draw.uniform(0, 3 * GROUP_SIZE))
        for number in range(PRODUCERS):
            lines = [json.dumps(sample) + '\n' for sample in order[number::PRODUCERS]]
            (self._folder / f'samples{number}.jsonl').write_text(''.join(lines), encoding='utf-8')

    def _start_producer(self, number):
        behind = 3 if self.settings.max_staleness is not None else 0
        url = self._urls[number % len(self._urls)]
        self._producers[number] = self._start(f'producer{number}', [
            sys.executable, pathlib.Path(__file__).with_name('producer.py'), url,
            self._folder / f'samples{number}.jsonl', self._folder / f'acknowledged{number}',
            '--seed', str(self._seed * PRODUCERS + number), '--versions', str(behind)])

    def _any_server(self):
        """Returns the number of a server. Draws only if there is a choice, so a round without Redis does not change."""
        return 0 if len(self._urls) == 1 else self._draw.randrange(len(self._urls))

    def _place(self, number):
        """Returns where the buffer of a server keeps its samples, as keys of a job and as options of a program."""
        if self._redis:
            return {'store': self._redis.url, 'name': 'rounds'}
        if self.settings.store == 'memory':
            return {'store': 'memory'}
        return {'store': self.settings.store, 'dir': str(self._folder / f'buffer{number}')}

    def _start_server(self, number):
        options = []
        for name, value in {**self.settings.of_buffer(), **self._place(number)}.items():
            options += ['--' + name.replace('_', '-'), str(value)]
        self._servers[number] = self._start(f'buffer{number}', [
            self._arguments.program, 'buffer', '--listen', self._urls[number].split('//')[1], *options])

    def _start_job(self):
        if self._mesh is None or self._draw.random() < 0.5:
            self._mesh = draw_mesh(self._draw)
        ranks, cp, prefetch = self._mesh
        stream = {'look_ahead': self.settings.look_ahead, 'patience': LIMIT}
        if self.settings.is_embedded:
            stream.update(self.settings.of_buffer(), listen=self._urls[0].split('//')[1], **self._place(0))
        source = {'kind': 'stream'}
        if not self.settings.is_embedded:
            source['path'] = self._urls[self._any_server()]
        config = self._folder / 'job.yaml'
        config.write_text(json.dumps({
            'source': source, 'stream': stream, 'batch': {'global_batch': GROUP_SIZE * GROUPS_OF_A_STEP},
            'micro_batch': {'max_tokens': 256}, 'mesh': {'cp': cp},
            'exchange': {'prefetch': prefetch}, 'watchdog': {'seconds': 30}}), encoding='utf-8')
        run = Run((ranks // cp, cp), self._folder / f'dump{len(self.runs)}')
        self.runs.append(run)
        self._job = self._start('job', [
            *self._arguments.launcher, '-n', str(ranks), self._arguments.program, 'run', config, '--state',
            self._folder / 'state', '--state-every', str(self._draw.randint(1, 6)), '--resume', '--dump', run.dump,
            '--progress', 'off'])

    # Killing processes.

    def _may_kill_buffer(self):
        return not self.settings.is_embedded and self.settings.store != 'memory'

    def _kill_one(self):
        who = self._draw.choice(['producer', 'rank', 'mpirun'] + ['buffer'] * self._may_kill_buffer() +
                                ['redis'] * bool(self._redis))
        if who == 'producer':
            number = self._draw.randrange(PRODUCERS)
            if self._producers[number].poll() is None:
                self._end(self._producers[number])
                self._start_producer(number)
                self.killed[who] += 1
        elif who == 'buffer':
            number = self._any_server()
            self._end(self._servers[number])
            time.sleep(self._draw.choice([0, 0.5]))
            self._start_server(number)
            self.killed[who] += 1
        elif who == 'redis':
            self._redis.kill()
            time.sleep(self._draw.choice([0, 0.5]))
            self._redis.start()
            self.killed[who] += 1
        else:
            self._kill_job(who)

    def _kill_job(self, who):
        ranks = {pid: rank for pid, rank in self._processes.all().items() if rank >= 0}
        chosen = self._job.pid if who == 'mpirun' else self._draw.choice(sorted(ranks)) if ranks else None
        if chosen is None or self._job.poll() is not None:
            return
        send(chosen, signal.SIGKILL)
        if self._status_of_job() == 0:
            return  # The job ended before it could be killed.
        self.runs[-1].was_killed = True
        self._await('ranks that outlive mpirun', lambda: all(rank < 0 for rank in self._processes.all().values()))
        self.killed[who] += 1
        self._start_job()

    def _status_of_job(self):
        """Returns the status of the job. If a rank is killed just before it meets Open MPI 4.1's launcher, the launcher
        sometimes waits although all ranks have ended."""
        with_ranks = begun = time.monotonic()
        while self._job.poll() is None:
            if any(rank >= 0 for rank in self._processes.all().values()):
                with_ranks = time.monotonic()
            if time.monotonic() - with_ranks > 10:
                self._end(self._job)
                self.killed['launcher that waited'] += 1
            self._require_no_hang('mpirun', begun)
            time.sleep(0.05)
        return self._job.returncode

    @staticmethod
    def _end(process):
        process.kill()
        process.wait()

    # Watching the round.

    def _require_sound(self):
        if self._failure:
            raise Wrong(self._failure)
        for number, producer in self._producers.items():
            if producer.poll():
                raise Wrong(f'producer {number} has ended with status {producer.poll()}: {self._log(f"producer{number}")}')
        for number, server in self._servers.items():
            if server.poll() is not None:
                raise Wrong(f'the buffer has ended with status {server.poll()}: {self._log(f"buffer{number}")}')
        if self._job.poll():
            raise Wrong(f'the job has ended with status {self._job.poll()}: {self._log("job")}')

    def _await(self, what, is_done):
        begun = time.monotonic()
        while not is_done():
            self._require_no_hang(what, begun)
            time.sleep(0.05)

    def _require_no_hang(self, what, begun):
        if time.monotonic() - begun > LIMIT:
            status = self._status()
            raise Wrong(f'waits {LIMIT} s for {what}: {status}\n{self._log("job")}\n{self._processes.stacks()}')

    def _await_soundly(self, what, is_done):
        def is_done_and_sound():
            self._require_sound()
            return is_done()
        self._await(what, is_done_and_sound)

    def _status(self):
        """Returns the status from the first server that answers, or None."""
        for url in self._urls:
            try:
                return json.loads(call(url + '/v1/status'))
            except (NoAnswer, urllib.error.HTTPError):
                pass
        return None

    def _poll(self):
        """Checks all the time that the sums are right, and that no received or trained sample is forgotten."""
        before = collections.Counter()
        while not self._is_over.wait(0.05):
            if (status := self._status()) is None:
                continue
            self.polls += 1
            samples = status['samples']
            if samples['received'] != sum(samples[word] for word in ('trained', 'formed', 'waiting')) + sum(
                    samples['dropped'].values()):
                self._failure = f'the sums are wrong: {samples}'
            for word in ('received', 'trained'):
                if samples[word] < before[word]:
                    self._failure = f'{before[word]} samples were {word}, and now {samples[word]} are'
                before[word] = samples[word]

    # The round itself.

    def run(self):
        (self._folder / 't').mkdir()
        self._write_samples()
        poller = threading.Thread(target=self._poll)
        try:
            if self.settings.store == 'redis':
                self._redis = RedisServer(self._folder, self._start)
            for number in range(0 if self.settings.is_embedded else len(self._urls)):
                self._start_server(number)
            for number in range(PRODUCERS):
                self._start_producer(number)
            self._start_job()
            poller.start()
            self._kill_and_finish()
            status = self._final_status()
        finally:
            self._is_over.set()
            if poller.ident:
                poller.join()
            if self._redis:
                self._redis.kill()  # Redis overwrites its environment, by which other processes are found.
            self._processes.end()
        return self._account(status)

    def _kill_and_finish(self):
        for _ in range(self._draw.randint(2, 5)):
            if self._draw.random() < 0.7:
                self._await_soundly('a step', self._has_made_a_step)
            time.sleep(self._draw.uniform(0.1, 1))
            self._require_sound()
            self._kill_one()
        self._await_soundly('producers', lambda: all(producer.poll() == 0 for producer in self._producers.values()))
        self._await_soundly('the end to be announced', self._announce_end)
        for _ in range(self._draw.randint(0, 2)):
            time.sleep(self._draw.uniform(0, 0.5))
            self._kill_one()
        self._await_soundly('the job to end', lambda: self._job.poll() is not None)

    def _has_made_a_step(self):
        """Returns whether the job has made a step, or never will since all samples were sent."""
        are_done = all(producer.poll() == 0 for producer in self._producers.values())
        return are_done or any(self.runs[-1].dump.glob('step-*'))

    def _announce_end(self):
        try:
            call(self._urls[self._any_server()] + '/v1/end', b'')
            return True
        except (NoAnswer, urllib.error.HTTPError):
            return self._job.poll() == 0

    def _final_status(self):
        if self.settings.is_embedded:
            self._start_server(0)
        self._await('the buffer', lambda: self._status() is not None)
        return self._status()

    def _account(self, status):
        account = Accountant(self._samples, self.settings.rules()).account(self.runs)
        samples = status['samples']
        (self._folder / 'status.json').write_text(json.dumps(status), encoding='utf-8')
        lines = ''.join(json.dumps(sample) + '\n' for sample in self._samples)
        (self._folder / 'samples.jsonl').write_text(lines, encoding='utf-8')
        self.duplicates, self.dropped = samples['duplicates'], sum(samples['dropped'].values())
        expected = {'received': SAMPLES, 'trained': account.trained, 'formed': 0, 'waiting': 0}
        if any(samples[word] != number for word, number in expected.items()) or account.trained + self.dropped != SAMPLES:
            account.errors.append(f'{account.trained} of {SAMPLES} samples are in steps, and the buffer says {samples}')
        return account


def run_round(arguments, seed):
    folder = pathlib.Path(tempfile.mkdtemp(prefix=f'round-{seed}-', dir=arguments.keep))
    shared_memory = tempfile.mkdtemp(prefix='rounds-', dir='/dev/shm')
    begun = time.monotonic()
    this = Round(arguments, seed, folder, shared_memory)
    try:
        account = this.run()
        errors = account.errors
    except Wrong as wrong:
        account, errors = None, [str(wrong)]
    finally:
        shutil.rmtree(shared_memory, ignore_errors=True)
    summary = f'round {seed}: {this.settings}; killed {dict(this.killed)}; {time.monotonic() - begun:.1f} s'
    if errors:
        print(summary, 'WRONG, kept in', folder, *errors[:10], sep='\n  ', flush=True)
    else:
        if not arguments.keep:
            shutil.rmtree(folder)
        print(f'{summary}; {account.steps} steps, {account.again} made again, {this.dropped} samples dropped', flush=True)
    return this, account, errors


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument('program')
    parser.add_argument('--rounds', type=int, default=100)
    parser.add_argument('--first', type=int, default=1, help='number of the first round, which is its seed')
    parser.add_argument('--at-once', type=int, default=2)
    parser.add_argument('--store', choices=['lmdb', 'redis', 'memory'], default='lmdb')
    parser.add_argument('--keep', help='a folder in which what rounds leave is kept')
    parser.add_argument('--launcher', type=shlex.split, default='mpirun --oversubscribe')
    arguments = parser.parse_args()
    with concurrent.futures.ThreadPoolExecutor(arguments.at_once) as pool:
        seeds = range(arguments.first, arguments.first + arguments.rounds)
        done = list(pool.map(lambda seed: run_round(arguments, seed), seeds))
    killed = sum((this.killed for this, _, _ in done), collections.Counter())
    accounts = [account for _, account, errors in done if account]
    wrong = sum(bool(errors) for _, _, errors in done)

    def total(name):
        return sum(getattr(account, name) for account in accounts)
    print(f'{len(done)} rounds, {wrong} wrong; killed: {dict(sorted(killed.items()))}; {total("steps")} steps of '
          f'{total("trained")} samples, {sum(this.dropped for this, _, _ in done)} samples dropped, {total("masked")} masked; '
          f'{total("again")} steps made again, {total("files_again")} of their files compared; {total("tokens")} tokens '
          f'compared; {sum(this.duplicates for this, _, _ in done)} duplicates; {sum(this.polls for this, _, _ in done)} looks at sums')
    if wrong or not killed['rank'] + killed['mpirun'] or not total('again') or not total('tokens'):
        sys.exit('rounds are wrong' if wrong else 'no job was killed between steps: the test proves nothing')


if __name__ == '__main__':
    main()
