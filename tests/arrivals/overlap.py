#!/usr/bin/env python3
"""overlap.py PROGRAM: runs two jobs on one buffer. The second job is refused while the first is alive; with stream.take_over it
trains, and the first job ends with an error on every rank. A buffer that restarts with other rules ends the job with an error
that names the difference."""
import argparse
import json
import pathlib
import shlex
import subprocess
import sys
import tempfile
import time

from servers import NoAnswer, call, free_ports

RANKS = 2


class Scene:
    """A buffer in a folder, and jobs that use it."""

    def __init__(self, arguments, scratch):
        self._program, self._launcher, self._folder = arguments.program, arguments.launcher, pathlib.Path(scratch)
        port, = free_ports(1)
        self.url = f'http://127.0.0.1:{port}'
        self._listen = f'127.0.0.1:{port}'
        self.processes = []
        config = {'source': {'kind': 'stream', 'path': self.url}, 'batch': {'global_batch': 4}}
        (self._folder / 'job.yaml').write_text(json.dumps(config), encoding='utf-8')

    def _start(self, command):
        process = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, stdin=subprocess.DEVNULL)
        self.processes.append(process)
        return process

    def start_buffer(self, group_size):
        buffer = self._start([self._program, 'buffer', '--listen', self._listen, '--dir', str(self._folder / 'kept'),
                              '--capacity', '64MiB', '--group-size', str(group_size)])
        self.wait_for(lambda: call(self.url + '/v1/status'))
        return buffer

    def start_job(self, *more):
        return self._start([*self._launcher, '-n', str(RANKS), self._program, 'run', str(self._folder / 'job.yaml'), '--progress',
                            'off', *more])

    def wait_for(self, is_done):
        until = time.monotonic() + 60
        while time.monotonic() < until:
            try:
                if is_done():
                    return
            except NoAnswer:
                pass
            time.sleep(0.05)
        sys.exit('nothing has come of it for a minute')

    def wait_for_job(self, number):
        self.wait_for(lambda: json.loads(call(self.url + '/v1/status'))['job'] == {'number': number, 'alive': True})

    def send(self, groups):
        lines = [json.dumps({'uid': group, 'index': index, 'version': 0, 'prompt_ids': [1], 'response_ids': [2, 3]}) + '\n'
                 for group in groups for index in range(2)]
        call(self.url + '/v1/samples', ''.join(lines).encode())


def require_error(job, words, status=1):
    output, _ = job.communicate(timeout=60)
    errors = [line for line in output.splitlines() if line.startswith('evenkeel: error: ')]
    if job.returncode != status or len(errors) != 1 or not all(word in errors[0] for word in words):
        sys.exit(f'{words} are expected in one error; status {job.returncode}\n{output}')


def play(scene):
    buffer = scene.start_buffer(2)
    first = scene.start_job()
    scene.wait_for_job(1)
    require_error(scene.start_job(), ['job 1: already trains from the buffer', 'stream.take_over'])
    second = scene.start_job('--set', 'stream.take_over=true')
    scene.wait_for_job(2)
    scene.send(['a', 'b'])
    call(scene.url + '/v1/end', b'')
    require_error(first, ['job 1: is fenced: job 2'])
    output, _ = second.communicate(timeout=60)
    if second.returncode != 0 or '4 in 1 step' not in output:
        sys.exit(f'the second job has status {second.returncode}\n{output}')
    samples = json.loads(call(scene.url + '/v1/status'))['samples']
    if samples['trained'] != 4:
        sys.exit(f'the buffer says {samples}')
    buffer.terminate()
    buffer.wait(timeout=60)


def play_with_other_rules(scene):
    buffer = scene.start_buffer(2)
    job = scene.start_job()
    scene.wait_for_job(1)
    buffer.kill()
    buffer.wait(timeout=60)
    scene.start_buffer(4)
    require_error(job, ['has different rules than when the job began', 'group_size was 2 and is 4'], status=2)


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument('program')
    parser.add_argument('--launcher', type=shlex.split, default='mpirun --oversubscribe', help='starts a program on ranks')
    arguments = parser.parse_args()
    for act in (play, play_with_other_rules):
        with tempfile.TemporaryDirectory() as scratch:
            scene = Scene(arguments, scratch)
            try:
                act(scene)
            finally:
                for process in scene.processes:
                    process.kill()
                    process.communicate()


if __name__ == '__main__':
    main()
