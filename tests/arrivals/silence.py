#!/usr/bin/env python3
"""silence.py PROGRAM: jobs whose producers send nothing for three times watchdog.seconds continue when samples arrive;
stream.patience ends a job with one message and status 1. Jobs with and without prefetched steps run at the same time."""
import argparse
import concurrent.futures
import json
import pathlib
import shlex
import subprocess
import sys
import tempfile
import time
import urllib.error

from servers import NoAnswer, call, free_ports

WATCHDOG = 2  # seconds
MESHES = [(1, 0), (2, 0), (2, 1), (3, 2)]  # number of ranks, number of prefetched steps


def post(job, url, body):
    """Sends a request again until it is answered, also if the job begins meanwhile (status 503). If the job ends before that, its
    output matters instead."""
    until = time.monotonic() + 60
    while job.poll() is None:
        try:
            return call(url, body.encode())
        except (NoAnswer, urllib.error.HTTPError) as error:
            if time.monotonic() > until or getattr(error, 'code', 503) != 503:
                raise
            time.sleep(0.1)


def run(arguments, mesh, patience, port, scratch):
    ranks, prefetch = mesh
    config = pathlib.Path(tempfile.mkdtemp(dir=scratch)) / 'job.yaml'
    stream = {'listen': f'127.0.0.1:{port}', 'store': 'memory', 'capacity': 16 << 20}
    if patience:
        stream['patience'] = patience
    config.write_text(json.dumps({
        'source': {'kind': 'stream'}, 'stream': stream, 'batch': {'global_batch': 4},
        'exchange': {'prefetch': prefetch}, 'watchdog': {'seconds': WATCHDOG}}), encoding='utf-8')
    command = [*arguments.launcher, '-n', str(ranks), arguments.program, 'run', str(config), '--set',
               f'watchdog.seconds={WATCHDOG}', '--progress', 'off']
    with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, stdin=subprocess.DEVNULL) as job:
        try:
            url = f'http://127.0.0.1:{port}/v1/'
            sample = {'index': 0, 'version': 0, 'prompt_ids': [1], 'response_ids': [2, 3]}
            post(job, url + 'samples', json.dumps({'uid': 'first', **sample}))
            if not patience:
                time.sleep(3 * WATCHDOG)
                post(job, url + 'samples', ''.join(json.dumps({'uid': f'q{i}', **sample}) + '\n' for i in range(7)))
                time.sleep(3 * WATCHDOG)  # The pause is between steps.
                post(job, url + 'end', '')
            output, _ = job.communicate(timeout=60)
        finally:
            job.kill()
    errors = [line for line in output.splitlines() if line.startswith('evenkeel: error: ')]
    if patience and job.returncode == 1 and len(errors) == 1 and 'stream.patience' in errors[0]:
        return None
    if not patience and job.returncode == 0 and '8 in 2 steps' in output and not errors:
        return None
    return f'{mesh}, patience {patience}: status {job.returncode}\n{output}'


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument('program')
    parser.add_argument('--launcher', type=shlex.split, default='mpirun --oversubscribe', help='starts a program on ranks')
    arguments = parser.parse_args()
    cases = [(mesh, patience) for mesh in MESHES for patience in (None, 1)]
    with tempfile.TemporaryDirectory() as scratch, concurrent.futures.ThreadPoolExecutor(len(cases)) as pool:
        jobs = pool.map(lambda case, port: run(arguments, *case, port, scratch), cases, free_ports(len(cases)))
        wrong = [found for found in jobs if found]
    if wrong:
        sys.exit('\n'.join(wrong))
    print(f'{len(cases)} jobs')


if __name__ == '__main__':
    main()
