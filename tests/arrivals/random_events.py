#!/usr/bin/env python3
"""random_events.py PROGRAM [--seeds 1-10] [--at-once 4]: applies random events to a real buffer and its job.

Producers take tickets and die, lose answers and ask again, repeat samples, send samples that no job can train, and use unusual
uids; a second job begins; the buffer is killed, or restarts with other rules; the job is killed and resumed. After each event
the sums of the buffer must be right. At the end every accepted sample must be in exactly one step, or be dropped for a reason
that the buffer reports, and the job must end with status 0."""
import argparse
import concurrent.futures
import gzip
import json
import os
import pathlib
import random
import shlex
import shutil
import signal
import socket
import subprocess
import sys
import tempfile
import time
import traceback
import urllib.error
import urllib.parse

from accounts import Accountant, Rules, Run
from drawn_events import MOST_TOKENS, Draws
from servers import NoAnswer, call, free_ports

sys.path.insert(0, str(pathlib.Path(__file__).parents[1] / 'faults'))
from jobs import TAG, Processes, send  # noqa: E402

LIMIT = 60  # seconds after which a process counts as hanging


class Wrong(Exception):
    """Raised if a check of a seed fails."""


def require(is_right, *what):
    if not is_right:
        raise Wrong(' '.join(map(str, what)))


def becomes_true(is_done):
    until = time.monotonic() + LIMIT
    while not is_done():
        if time.monotonic() > until:
            return False
        time.sleep(0.05)
    return True


class Play:
    """Applies the events of one seed: has a folder, a buffer, a job, and what producers know about their samples."""

    def __init__(self, arguments, seed, folder, shared_memory):
        self._arguments, self._folder = arguments, folder
        port, = free_ports(1)
        self._address, self._url = f'127.0.0.1:{port}', f'http://127.0.0.1:{port}/v1/'
        self._environment = dict(os.environ, TMPDIR=str(folder / 't'), OMPI_MCA_btl_vader_backing_directory=str(shared_memory),
                                 **{TAG: f'events-{os.getpid()}-{seed}'})
        self._processes = Processes(self._environment[TAG])
        self._draws = Draws(seed)
        self._settings = self._draws.settings
        self._buffer = self._job = self._second = None
        self._jobs, self._runs, self._version = 0, [], 0
        self._lines = {}  # acknowledged samples by key
        self._aborted, self._closed = set(), set()  # groups that were aborted or closed, at least in part
        self._set_aside = 0  # number of samples in groups that were not drawn, all of which are aborted
        self._longest_deadline = self._settings.ticket_deadline
        self.played = []

    # Processes.

    def _start(self, name, command):
        with (self._folder / f'{name}.log').open('ab') as log:
            return subprocess.Popen(command, stdin=subprocess.DEVNULL, stdout=log, stderr=log, env=self._environment,
                                    start_new_session=True)

    def _log(self, name):
        path = self._folder / f'{name}.log'
        return path.read_text(encoding='utf-8', errors='replace')[-3000:] if path.exists() else ''

    def _rules(self):
        settings = self._settings
        rules = {'group_size': settings.group_size, 'min_group': settings.min_group, 'on_stale': settings.on_stale,
                 'ticket_deadline': settings.ticket_deadline}
        optional = {'max_staleness': settings.max_staleness, 'deadline': settings.deadline}
        return {**rules, **{name: value for name, value in optional.items() if value is not None}}

    def _start_buffer(self, **changed):
        options = ['--store', 'memory'] if self._settings.store == 'memory' else ['--dir', str(self._folder / 'kept')]
        for name, value in {**self._rules(), **changed}.items():
            options += ['--' + name.replace('_', '-'), str(value)]
        self._buffer = self._start('buffer', [self._arguments.program, 'buffer', '--listen', self._address, '--capacity', '64MiB',
                                              *options])
        require(becomes_true(lambda: self._buffer.poll() is not None or self._reaches()), 'the buffer does not listen')
        require(self._buffer.poll() is None, 'the buffer ends at once:', self._log('buffer'))

    def _reaches(self):
        try:
            return bool(call(self._url + 'status'))
        except NoAnswer:
            return False

    def _end_buffer(self, number=signal.SIGKILL):
        self._buffer.send_signal(number)
        require(self._buffer.wait(timeout=LIMIT) in (0, -number), 'the buffer ends with', self._buffer.returncode)

    def _command(self, ranks, config, *more):
        return [*self._arguments.launcher, '-n', str(ranks), self._arguments.program, 'run', config, '--progress', 'off', *more]

    def _config(self):
        config = self._folder / 'job.yaml'
        config.write_text(json.dumps({
            'source': {'kind': 'stream', 'path': f'http://{self._address}'}, 'micro_batch': {'max_tokens': MOST_TOKENS},
            'batch': {'global_batch': self._settings.group_size * self._settings.groups}, 'watchdog': {'seconds': 30},
            'stream': {'patience': LIMIT, 'look_ahead': self._settings.look_ahead}}), encoding='utf-8')
        return config

    def _begin_job(self, ranks):
        """Starts the program. The job has begun once the buffer counts it."""
        run = Run((ranks, 1), self._folder / f'dump{len(self._runs)}')
        self._runs.append(run)
        (self._folder / 'job.log').unlink(missing_ok=True)
        self._job = self._start('job', self._command(
            ranks, self._config(), '--resume', '--state', self._folder / 'state', '--state-every', str(self._settings.state_every),
            '--dump', run.dump))

    def start_job(self, ranks):
        self._begin_job(ranks)
        self._jobs += 1
        require(becomes_true(lambda: self._job.poll() is not None or self._has_begun()), 'the job does not begin:', self._log('job'))

    def _has_begun(self):
        """Returns whether the job has begun and published its first version: it then waits for samples or has formed a step."""
        status = self._status()
        has_published = 'formed_step' in status and status['formed_step'] is not None or status['waited_seconds'] > 0
        return status['job']['number'] == self._jobs and has_published

    def _require_end(self, status, *words):
        """Requires that the job ends by itself with this status and one error."""
        require(becomes_true(lambda: self._job.poll() is not None), 'the job hangs', self._log('job'), self._processes.stacks())
        output = self._log('job')
        errors = [line for line in output.splitlines() if line.startswith('evenkeel: error: ')]
        right = self._job.returncode == status and len(errors) == bool(words) and all(word in errors[0] for word in words)
        require(right, 'the job should end with', status, words, 'and ends with', self._job.returncode, output)
        self._runs[-1].was_killed = bool(words)

    # Requests.

    def _post(self, path, content, headers=None, timeout=LIMIT):
        """Returns the status and the answer."""
        body = content if isinstance(content, bytes) else json.dumps(content).encode()
        try:
            return 200, json.loads(call(self._url + path, body, timeout, headers))
        except urllib.error.HTTPError as error:
            return error.code, json.loads(error.read())

    def _status(self):
        return json.loads(call(self._url + 'status'))

    def _require_sums(self):
        samples = self._status()['samples']
        sums = sum(samples[word] for word in ('trained', 'formed', 'waiting')) + sum(samples['dropped'].values())
        acknowledged = len(self._lines) + self._set_aside
        require(samples['received'] == sums == acknowledged, acknowledged, 'samples were acknowledged, and', samples)

    # Events of producers.

    def send(self, keys, behind, holder, repeats, packing):
        for key, versions in zip(keys, behind):
            version = max(0, self._version - versions)
            self._lines.setdefault(key, json.dumps({**self._draws.samples[key], 'version': version}) + '\n')
        body = ''.join(self._lines[key] for key in keys).encode()
        headers = {'Evenkeel-Holder': holder, 'Content-Encoding': packing or 'identity'}
        for again in range(1 + repeats):
            code, answer = self._post('samples', gzip.compress(body) if packing else body, headers)
            require(code == 200, 'samples are refused:', answer)
            fresh = sum(answer.get(word, 0) for word in ('accepted', 'stale', 'dropped'))
            expected = (0, len(keys)) if again else (len(keys), 0)
            require((fresh, answer['duplicates']) == expected, answer, 'of', len(keys), 'samples')
            self._version = answer['version']

    def send_again(self, share, seed, changes):
        """Sends samples again. A different version alone does not make a sample different; different tokens do."""
        draw = random.Random(seed)
        keys = draw.sample(sorted(self._lines), max(1, int(share * len(self._lines))))
        samples = [json.loads(self._lines[key]) for key in keys]
        for sample in samples if changes == 'version' else ():
            sample['version'] = 0
        if changes == 'tokens':
            samples[-1]['response_ids'][-1] += 1
        code, answer = self._post('samples', ''.join(json.dumps(sample) + '\n' for sample in samples).encode())
        require(code == (409 if changes == 'tokens' else 200), code, answer, 'of samples that come again with other', changes)
        require(changes == 'tokens' or answer['duplicates'] == len(keys), answer, 'of', len(keys), 'samples that come again')

    def _require_refused(self, lines, codes, what):
        code, answer = self._post('samples', ''.join(lines).encode('utf-8', 'surrogatepass'))
        require(code in codes and answer.get('error'), what, 'is answered with', code, answer)
        self._require_sums()  # No part of the request was accepted.

    def refuse(self, key, fault, is_first):
        """Sends a sample that no job can train together with one that could be trained."""
        good = {**self._draws.samples[key], 'version': self._version}
        bad = {name: value for name, value in {**good, 'uid': 'bad', **fault}.items() if value is not None}
        lines = [json.dumps(sample) + '\n' for sample in ((bad, good) if is_first else (good, bad))]
        # If only one of the lines has a field, the request may be refused for that reason instead.
        self._require_refused(lines, (422, 409), fault)
        if len(bad) <= len(good):
            self._require_refused([json.dumps(bad) + '\n'], (422,), fault)

    def refuse_line(self, key, line):
        good = json.dumps({**self._draws.samples[key], 'version': self._version})
        self._require_refused([good + '\n', line + '\n'], (422,), line)

    def _tickets(self, groups, holder, key):
        headers = {'Evenkeel-Holder': holder, 'Idempotency-Key': key}
        code, answer = self._post('tickets', {'groups': groups}, headers)
        require(code == 200, answer)
        self._version = max(self._version, answer['version'])
        return answer['granted']

    def lose_tickets(self, groups, holder, key):
        """Requests tickets and ignores the answer. The same request then gets the same tickets, unless these have expired."""
        body = json.dumps({'groups': groups}).encode()
        head = (f'POST /v1/tickets HTTP/1.1\r\nHost: buffer\r\nEvenkeel-Holder: {holder}\r\nIdempotency-Key: {key}\r\n'
                f'Content-Length: {len(body)}\r\n\r\n')
        with socket.create_connection(self._address.split(':')) as lost:
            lost.sendall(head.encode() + body)
        before = self._status()
        granted = [self._tickets(groups, holder, key) for _ in range(3)]
        after = self._status()
        if not self._settings.limits_tickets():
            require(granted == 3 * [groups] and after['tickets'] == 0, granted, 'of', groups)
        elif before['tickets_expired'] == after['tickets_expired'] and before['version'] == after['version'] and granted[0]:
            require(granted == 3 * [granted[0]], 'a request that is sent again gets', granted, 'tickets')
        most = ((self._settings.max_staleness or 0) + 1) * self._settings.groups
        require(after['tickets'] <= most, after['tickets'], 'tickets are open, and', most, 'groups can be trained in time')

    def die_with_tickets(self, holder):
        """Lets a holder take all tickets and die. Others get no tickets until these expire."""
        if not self._settings.limits_tickets():
            return
        taken = self._tickets(100, holder, '')
        version = self._version  # A new version comes with new tickets.
        are_none_left = self._tickets(100, 'other', '') == 0
        require(are_none_left or self._version > version or self._status()['tickets_expired'], 'more tickets than there are')
        if self._longest_deadline < 2:
            time.sleep(self._longest_deadline + 0.2)
            later = self._tickets(100, 'other', '')
            require(later >= taken, taken, 'tickets have expired, and', later, 'are granted')
            time.sleep(self._longest_deadline + 0.2)
            require(self._status()['tickets'] == 0, 'tickets are open after their deadline:', self._status())

    def _keys_of(self, group):
        size = self._settings.group_size
        return range(group * size, (group + 1) * size)

    def _of_group(self, group, call_name, in_url, content):
        """Posts a request about a group. The uid is in the URL only if it identifies the group there."""
        uid = self._draws.uids[group]
        if in_url and isinstance(uid, str) and not uid.lstrip('-').isdigit() and '\x00' not in uid:
            return self._post(f'groups/{urllib.parse.quote(uid, safe="")}/{call_name}', content)
        return self._post(f'groups/{call_name}', {**content, 'uid': uid})

    def close(self, group, in_url):
        code, answer = self._of_group(group, 'close', in_url, {})
        is_known = any(key in self._lines for key in self._keys_of(group)) or group in self._aborted
        require(code == (200 if is_known else 404), code, answer, 'of a group that is', 'known' if is_known else 'not known')
        if is_known:
            self._closed.add(group)

    def abort(self, group, index, in_url):
        content = {'reason': 'it failed'} if index is None else {'reason': 'it failed', 'index': index}
        code, answer = self._of_group(group, 'abort', in_url, content)
        require(code == 200, code, answer)
        if 'in_step' not in answer:
            self._aborted.add(group)

    def abort_in_step(self, group):
        code, answer = self._of_group(group, 'abort', False, {'in_step': True})
        require(code == 423 and 'may still be running' in answer['error'], code, answer, 'while a job may have the step')

    # Events of the job and of the buffer.

    def begin_with_sample_that_is_too_long(self):
        """Starts a job after a sample arrived that is too long for it. The job ends with an error that names the sample; after
        the sample is aborted, the job continues."""
        uid = 'too long'
        size = self._settings.group_size
        lines = [json.dumps({'uid': uid, 'index': index, 'key': -1, 'version': 0, 'prompt_ids': [1],
                             'response_ids': [2] * (100 if index == size - 1 else 1)}) + '\n' for index in range(size)]
        others = [json.dumps({'uid': f'beside {group}', 'index': index, 'key': -1, 'version': 0, 'prompt_ids': [1],
                              'response_ids': [2]}) + '\n' for group in range(self._settings.groups - 1) for index in range(size)]
        code, answer = self._post('samples', ''.join(lines + others).encode())
        require(code == 200, answer)
        self._set_aside = len(lines + others)
        self.start_job(1)
        self._require_end(1, "'too long'", f'sample {size - 1} of group', str(MOST_TOKENS), 'Abort')
        for group in (uid, *(f'beside {group}' for group in range(self._settings.groups - 1))):
            code, answer = self._post('groups/abort', {'uid': group})
            require(code == 200 and 'in_step' not in answer, code, answer)
        require(self._status()['samples']['waiting'] == 0, self._status())
        self._job = None

    def kill_job(self, victim, ranks, pause):
        time.sleep(pause)
        found = sorted((rank, pid) for pid, rank in self._processes.all().items() if rank >= 0)
        victims = {'launcher': self._job.pid, 'first rank': found[0][1], 'last rank': found[-1][1]}
        send(victims[victim], signal.SIGKILL)
        self._await_end_of_killed_job()
        self.start_job(ranks)

    def _await_end_of_killed_job(self):
        """Waits for the end of the job. Open MPI's launcher may not end although its ranks have."""
        self._runs[-1].was_killed = True
        def is_gone():
            return all(rank < 0 for rank in self._processes.all().values())
        require(becomes_true(is_gone), 'ranks outlive the job', self._processes.stacks())
        try:
            self._job.wait(timeout=5)
        except subprocess.TimeoutExpired:
            self._job.kill()
            self._job.wait()

    def fence(self, ranks):
        """Lets another job take over. The first job is fenced off when it continues."""
        samples = self._settings.group_size * self._settings.groups
        code, answer = self._post('job/begin', {'samples_per_step': samples, 'take_over': True})
        require(code == 200, answer)
        zombie = urllib.parse.quote(answer['job'])
        self._jobs += 1
        self._require_end(1, f'job {self._jobs - 1}: is fenced: job {self._jobs} now trains')
        self.start_job(ranks)
        step = {'step': 0, 'version': 0, 'groups': [], 'masked': [], 'passed': []}
        posts = {'alive': {}, 'leave': {}, 'steps': step, 'abandon': {'step': 0}, 'filtered': {'arrivals': [1]},
                 'samples': {'arrivals': []}, 'version': {'version': 1 << 20}, 'trained': {'step': 1 << 20}}
        for name, content in posts.items():
            code, answer = self._post(f'job/{name}?job={zombie}', content)
            require(code == 410, name, 'of a fenced job is answered with', code, answer)
        for query in ('waiting?groups=1&', 'step?step=0&', 'steps?from=0&', 'fields?'):
            try:
                call(f'{self._url}job/{query}job={zombie}')
                raise Wrong(f'{query} of a fenced job is answered')
            except urllib.error.HTTPError as error:
                require(error.code == 410, query, error.code, error.read())

    def restart_buffer(self, is_killed, pause, ticket_deadline):
        self._end_buffer(signal.SIGKILL if is_killed else signal.SIGTERM)
        time.sleep(pause)
        self._longest_deadline = max(self._longest_deadline, ticket_deadline or 0)
        self._start_buffer(**({} if ticket_deadline is None else {'ticket_deadline': ticket_deadline}))
        self._require_sums()

    def change_rules(self, rule, ranks):
        self._end_buffer()
        staleness = 1000 + (self._settings.max_staleness or 0)
        self._start_buffer(**{rule: {'deadline': 900, 'max_staleness': staleness}[rule]})
        self._require_end(2, 'has different rules than when the job began', f'{rule} was')
        self._end_buffer()
        self._start_buffer()
        self.start_job(ranks)

    def refuse_second_job(self, is_program):
        """Starts a second job. It waits 10 seconds for the first one to end, which does not notice."""
        samples = self._settings.group_size * self._settings.groups
        if is_program:
            environment = dict(self._environment, TMPDIR=str(self._folder / 't2'))
            done = subprocess.run(self._command(1, self._config()), env=environment, stdin=subprocess.DEVNULL,
                                  capture_output=True, text=True, timeout=LIMIT, check=False)
            right = done.returncode == 1 and f'job {self._jobs}: already trains from the buffer' in done.stderr
            require(right, 'a second job ends with', done.returncode, done.stderr)
        else:
            code, answer = self._post('job/begin', {'samples_per_step': samples})
            require(code == 423 and f'job {self._jobs}' in answer['error'], code, answer)

    # The whole test.

    def run(self):
        for name in ('t', 't2'):
            (self._folder / name).mkdir()
        try:
            self._start_buffer()
            for event in self._draws.events():
                self.played.append(event)
                getattr(self, event.what)(**event.given)
                self._require_sound()
            self._finish()
        finally:
            for process in (self._buffer, self._job):
                if process:
                    process.kill()
                    process.wait()
            self._processes.end()

    def _require_sound(self):
        require(self._buffer.poll() is None, 'the buffer has ended:', self._log('buffer'))
        require(not self._job or self._job.poll() is None, 'the job has ended:', self._log('job'))
        self._require_sums()

    def _finish(self):
        code, answer = self._post('end', {})
        require(code == 200, answer)
        self._require_end(0)
        body = ''.join(self._lines[key] for key in sorted(self._lines)).encode()
        code, answer = self._post('samples', body)
        require(code == 200 and answer['duplicates'] == len(self._lines), 'after the end:', code, answer)
        self._require_sums()
        self._require_accounts(self._status()['samples'])

    def _require_accounts(self, samples):
        settings = self._settings
        masks_stale = settings.on_stale == 'mask'
        rules = Rules(settings.group_size, settings.min_group, settings.groups, settings.max_staleness, masks_stale)
        account = Accountant(self._draws.samples, rules).account(self._runs)
        require(not account.errors, *account.errors[:5])
        require((samples['trained'], samples['formed'], samples['waiting']) == (account.trained, 0, 0), account.trained,
                'samples are in steps, and the buffer says', samples)
        dropped = samples['dropped']
        require(dropped['filtered'] == 0 and (settings.max_staleness is not None or dropped['stale'] == 0), samples)
        if settings.deadline or (settings.max_staleness is not None and settings.on_stale != 'mask'):
            return  # Groups may have been closed or dropped at any time.
        trained = {key for run in self._runs for key in account.keys}
        for group in range(len(self._draws.samples) // settings.group_size):
            keys = set(self._keys_of(group))
            is_whole = keys <= self._lines.keys() and group not in self._aborted | self._closed
            require(not is_whole or keys <= trained, 'group', group, 'is whole, and was not trained')


def play(arguments, seed):
    """Returns an error message, or None."""
    folder = pathlib.Path(tempfile.mkdtemp(prefix=f'events-{seed}-', dir=arguments.keep))
    shared_memory = tempfile.mkdtemp(prefix='events-', dir='/dev/shm')
    begun = time.monotonic()
    this = Play(arguments, seed, folder, shared_memory)
    try:
        this.run()
    except Exception as error:  # Any other exception is a bug in this program.
        what = str(error) if isinstance(error, Wrong) else traceback.format_exc()
        events = '\n'.join(f'  {event}' for event in this.played)
        return f'seed {seed} is wrong, kept in {folder}\n{this._settings}\n{events}\n{what}'
    finally:
        shutil.rmtree(shared_memory, ignore_errors=True)
    if not arguments.keep:
        shutil.rmtree(folder)
    print(f'seed {seed}: {len(this.played)} events, {time.monotonic() - begun:.1f} s', flush=True)
    return None


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument('program')
    parser.add_argument('--seeds', default='1-10', help='first and last, as 1-10')
    parser.add_argument('--at-once', type=int, default=4)
    parser.add_argument('--keep', help='a folder in which what seeds leave is kept')
    parser.add_argument('--launcher', type=shlex.split, default='mpirun --oversubscribe')
    arguments = parser.parse_args()
    first, last = map(int, arguments.seeds.split('-'))
    with concurrent.futures.ThreadPoolExecutor(arguments.at_once) as pool:
        wrong = [found for found in pool.map(lambda seed: play(arguments, seed), range(first, last + 1)) if found]
    if wrong:
        sys.exit('\n\n'.join(wrong))


if __name__ == '__main__':
    main()
