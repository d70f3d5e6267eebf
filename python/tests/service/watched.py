"""Makes one rank keep the others waiting: FAULT is its behavior, SECONDS the time limit of the watchdog.

    sleep    it sleeps in its own code until its watchdog ends the job
    slow     it computes for longer than the time limit, then continues
"""

import sys
import threading
import time

import evenkeel
from jobs import group, report_result

fault, seconds = sys.argv[1], float(sys.argv[2])
over = group()
service = evenkeel.DataService(over, {})
results, ended = [], []
is_over = threading.Event()


def ends(message):
    ended.append(message)
    is_over.set()


def compute_for(duration):
    end = time.monotonic() + duration
    while time.monotonic() < end:
        pass


def no_samples():
    return evenkeel.Samples(ids=[], prompt_lengths=[], response_lengths=[])


with evenkeel.Watchdog(over, seconds, report=results.append, terminate=ends):
    service.step(no_samples())
    if service.rank == 1:
        is_over.wait(600) if fault == "sleep" else compute_for(1.5 * seconds)
    service.step(no_samples())
    if fault == "sleep":
        is_over.wait(600)
report_result(service.rank, results=results, ended=ended)
