"""Iterates over samples that arrive: arriving.py URL_OF_A_COMPLETE_STREAM URL_OF_AN_INTERRUPTED_STREAM."""

import json
import sys
import urllib.request
import warnings

import evenkeel
from jobs import group, report_result

over = group()


def config_of(url, **stream):
    return {"source": {"kind": "stream", "path": url}, "stream": {"patience": 60, **stream}, "batch": {"global_batch": 4},
            "exchange": {"prefetch": 2}}


def send(url, names):
    evenkeel.Producer(url).put(
        {"uid": name, "index": index, "version": 3, "prompt_ids": [1], "response_ids": [2] * (index + 1)}
        for name in names for index in range(2))


def samples_in(url):
    with urllib.request.urlopen(url + "/v1/status") as status:
        counts = json.load(status)["samples"]
    return [counts["formed"], counts["trained"]]


def result_of(call):
    try:
        return call()
    except evenkeel.Error as error:
        return [type(error).__name__, str(error)]


whole, left = sys.argv[1:]
service = evenkeel.DataService(over, config_of(whole))
results = {"length": result_of(lambda: len(service)), "publish": result_of(lambda: service.publish(1))}
results["steps"] = [step.index for step in list(service)]
results["again"] = result_of(lambda: list(service))

other = evenkeel.DataService(over, config_of(left, version="trainer"))
other.report_saved()  # before the first state, so only report_saved() frees samples
other.publish(3)
steps = iter(other)
results["left"] = [next(steps).index]
steps.close()  # while the thread waits for the samples of the next step
if other.rank == 0:
    send(left, ["c", "d"])
steps = iter(other)
results["left"].append(next(steps).index)
results["kept"] = samples_in(left)
first = other.state_dict()
with warnings.catch_warnings(record=True) as warned:
    warnings.simplefilter("always")
    state = other.state_dict()
results["warned"] = [str(warning.message) for warning in warned]
other.report_saved(state)
results["saved"] = samples_in(left)
resumed = evenkeel.DataService(over, config_of(left, version="trainer", take_over=True))
resumed.load_state_dict(state)


def end_samples():
    raise evenkeel.EndOfSamples("samples: have ended")


results["own"] = result_of(lambda: evenkeel.DataService(over, {}).step(end_samples))
report_result(service.rank, results=results)
# The iterator stays open, and its thread waits, when the program ends.
