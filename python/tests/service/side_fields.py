"""Supplies, delivers and collects fields with any number of rows per sample, for each given configuration. One job tests all
configurations, because starting a job takes longer."""

import sys

import numpy as np

import evenkeel
from jobs import group, report_result


# Samples i and i + 8 have equal patches.
def patches_of(i):
    return (np.arange(3 * (i % 4)).reshape(-1, 3) + 100 * (i % 8)).astype(np.float16)


def value_of(i):
    return f"source {i % 8} \u00e4" if i % 8 % 3 else ""


def samples_of(service):
    ids = np.arange(service.rank, 23, service.size)
    lengths = ids % 7 + 1
    return evenkeel.Samples(
        ids=ids, prompt_lengths=lengths, response_lengths=lengths, groups=ids // 4,
        token={"input_ids": [np.arange(2 * n) for n in lengths]},
        rows={"patches": [patches_of(i) for i in ids]},
        text={"source": [value_of(i) for i in ids]},
        bytes={"raw": [bytes(range(i)) for i in ids]},
    )


def parts_of(field):
    """Returns one array or tensor per sample, and whether the field has offsets or (for equal values stored once) ranges."""
    rows, places = field
    ranges = np.asarray(places)
    in_common = ranges.ndim == 2
    if not in_common:
        ranges = np.stack([ranges[:-1], ranges[1:]], 1)
    return [rows[begin:end] for begin, end in ranges.tolist()], in_common


def expect(step):
    """Returns whether all samples have their values, the number of samples, and whether equal values are stored once."""
    good, seen, in_common = True, 0, None
    for micro_batch in step.micro_batches:
        if "patches" not in micro_batch.tensors:
            continue
        parts, in_common = parts_of(micro_batch["patches"])
        for at, i in enumerate(micro_batch.samples.tolist()):
            part = np.asarray(parts[at])
            if i < 0:
                good = good and not len(part) and not micro_batch["source"][at] and not micro_batch["raw"][at]
                continue
            seen += 1
            good = good and np.array_equal(part, patches_of(i))
            good = good and micro_batch["source"][at] == value_of(i) and micro_batch["raw"][at] == bytes(range(i))
    return good, seen, in_common


def read_back(samples):
    ids, (rows, offsets) = samples.ids, samples["patches"]
    again = evenkeel.Samples(ids=ids, prompt_lengths=samples.prompt_lengths, response_lengths=samples.response_lengths,
                             rows={"patches": (rows, offsets)})
    return {
        "two ways": np.array_equal(again["patches"][0], rows) and np.array_equal(again["patches"][1], offsets),
        "sample by sample": all(np.array_equal(p, patches_of(i)) for p, i in zip(samples.rows_of("patches"), ids)),
        "read": samples["source"] == [value_of(i) for i in ids] and samples.rows_of("raw") == [bytes(range(i)) for i in ids],
    }


def exchange_and_collect(service, samples):
    results = {}
    step = service.step(samples, "log_prob")
    results["delivered"], results["samples"], results["in common"] = expect(step)
    for micro_batch in step.micro_batches:
        if "patches" not in micro_batch.tensors:
            continue
        field = micro_batch["patches"]
        micro_batch.put("patches back", parts_of(field)[0] if results["in common"] else field, kind="rows")
        micro_batch.put("words", [text[::-1] for text in micro_batch["source"]], kind="text")
    collected, (rows, offsets) = service.collect(step), samples["patches"]
    results["collected"] = np.array_equal(collected["patches back"][0], rows) and np.array_equal(collected["patches back"][1], offsets)
    results["collected"] = results["collected"] and collected["words"] == [text[::-1] for text in samples["source"]]
    later = service.step_again(step, "update", collected)
    results["later"], *_ = expect(later)
    results["added"] = all(
        micro_batch["words"][at] == (value_of(i)[::-1] if i >= 0 else "")
        for micro_batch in later.micro_batches if "words" in micro_batch.tensors
        for at, i in enumerate(micro_batch.samples.tolist())
    )
    return results


def refusal_of(**fields):
    try:
        len(evenkeel.Samples(ids=[0, 1], prompt_lengths=[1, 1], response_lengths=[1, 1], **fields))
    except evenkeel.InputError as error:
        return str(error)
    return "taken"


REFUSED = [
    refusal_of(text={"source": ["a"]}),
    refusal_of(text={"source": ["a", b"b"]}),
    refusal_of(bytes={"raw": ["a", "b"]}),
    refusal_of(rows={"patches": (np.zeros(3), np.array([0, 2, 1]))}),
    refusal_of(rows={"patches": (np.zeros((3, 3)), np.array([[0, 1], [0, 1]]))}),
    refusal_of(rows={"patches": np.zeros((2, 3))}),
]
tensors, *configs = sys.argv[1:]
over, results = group(), []
for config in configs:
    service = evenkeel.DataService(over, evenkeel.Config.parse(config), tensors=tensors)
    samples = samples_of(service)
    found = {**read_back(samples), **exchange_and_collect(service, samples)}
    results.append({name: value if isinstance(value, int) else bool(value) for name, value in found.items()})
report_result(service.rank, results=results, refused=REFUSED)
