"""Times put and get of TransferQueue with its own SimpleStorage and with Evenkeel's store, over loopback TCP, over its UNIX socket
alone, and over that socket with shared memory, one after the other in each round.

    python3 python/benchmarks/transfer_queue_store.py build/release/bin/evenkeel --rounds 3

Prints a table of medians in milliseconds, and the speedup of the store over each connection. All times include the common part:
TransferQueue's client and its requests to the controller. The column "nothing" is this part alone: its storage manager passes
values on in this process. Needs torch and TransferQueue 0.1.11."""

import argparse
import os
import re
import statistics
import subprocess
import tempfile
import time

os.environ.setdefault("TQ_LOGGING_LEVEL", "ERROR")
os.environ.setdefault("RAY_worker_niceness", "0")  # otherwise SimpleStorage's processes have a lower priority than the store

import ray  # noqa: E402
import torch  # noqa: E402
import transfer_queue  # noqa: E402
from omegaconf import OmegaConf  # noqa: E402
from tensordict import TensorDict  # noqa: E402
from transfer_queue.metadata import extract_field_schema  # noqa: E402
from transfer_queue.storage import StorageManagerFactory  # noqa: E402
from transfer_queue.storage.bootstrap import StorageBootstrapProvider  # noqa: E402
from transfer_queue.storage.managers.base import StorageManager  # noqa: E402

import evenkeel.transfer_queue  # noqa: E402, F401
from evenkeel._answer_files import AnswerFiles  # noqa: E402

CASES = [(256, 64 << 10), (64, 1 << 20)]  # samples, bytes of a sample
FIELDS = [1, 32]


@StorageManagerFactory.register("nothing")
class NothingManager(StorageManager):
    """Notifies the controller as every manager must, but stores nothing."""

    async def put_data(self, data, metadata, data_parser=None):
        self.data = data
        await self.notify_data_update(metadata.partition_ids[0], metadata.global_indexes, extract_field_schema(data))

    async def get_data(self, metadata):
        return self.data

    async def clear_data(self, metadata):
        del self.data

    async def save_checkpoint(self, checkpoint_dir):
        raise NotImplementedError

    async def load_checkpoint(self, checkpoint_dir):
        raise NotImplementedError


@StorageBootstrapProvider.register_provider("nothing")
def start_nothing(conf):
    return {}


def flat(values):
    """Returns the elements of a field, which is jagged if it comes from a store."""
    return values.values() if values.is_nested else values.flatten()


def measure(section, repetitions):
    """Returns seconds of put and get by (bytes of a sample, fields)."""
    transfer_queue.init(OmegaConf.create({"controller": {"polling_mode": True}, "backend": section}))
    times = {}
    for samples, size in CASES:
        for fields in FIELDS:
            data = TensorDict({f"f{i}": torch.rand(samples, size // 4 // fields) for i in range(fields)}, batch_size=samples)
            keys = [f"k{i}" for i in range(samples)]
            for repetition in range(repetitions + 1):
                begin = time.perf_counter()
                transfer_queue.kv_batch_put(keys, "p", data)
                stored = time.perf_counter()
                found = transfer_queue.kv_batch_get(keys, "p")
                end = time.perf_counter()
                if repetition:  # the first one makes connections
                    times.setdefault((size, fields, "put"), []).append(stored - begin)
                    times.setdefault((size, fields, "get"), []).append(end - stored)
                assert torch.equal(flat(found["f0"]), data["f0"].flatten())
                transfer_queue.kv_clear(keys, "p")
    transfer_queue.close()
    return times


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("program", help="the program evenkeel")
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--repetitions", type=int, default=5)
    parser.add_argument("--store", default="lmdb", help="lmdb or memory")
    options = parser.parse_args()
    ray.init(num_cpus=4, log_to_driver=False, include_dashboard=False)
    with tempfile.TemporaryDirectory() as folder:
        store = subprocess.Popen([options.program, "store", "--listen", "127.0.0.1:0", "--store", options.store,
                                  "--socket", f"{folder}/socket",
                                  *(["--dir", f"{folder}/values"] if options.store == "lmdb" else [])], stdout=subprocess.PIPE, text=True)
        address = None
        while address is None:
            address = re.search(r"Listening on (http://\S+)", store.stdout.readline())
        sections = {"SimpleStorage": {"storage_backend": "SimpleStorage"}, "nothing": {"storage_backend": "nothing", "nothing": {}}}
        for name, url in (("TCP", address[1]), ("socket alone", f"unix:{folder}/socket"), ("answer files", f"unix:{folder}/socket")):
            sections[name] = {"storage_backend": "Evenkeel", "Evenkeel": {"url": url, "existing": "clear"}}
        times = {name: {} for name in sections}
        for _ in range(options.rounds):
            for name, section in sections.items():
                AnswerFiles.is_supported = staticmethod(lambda name=name: name == "answer files")
                for case, seconds in measure(section, options.repetitions).items():
                    times[name].setdefault(case, []).extend(seconds)
        store.terminate()
        store.wait()
    print("| bytes of a sample, fields, call | SimpleStorage |" + "".join(f" {name} | times as fast |" for name in list(times)[1:]))
    print("|---|---:|" + "---:|---:|" * (len(times) - 1))
    for case in times["TCP"]:
        theirs, *ours = (1000 * statistics.median(of_case[case]) for of_case in times.values())
        print(f"| {case[0]}, {case[1]}, {case[2]} | {theirs:.1f} |" + "".join(f" {mine:.1f} | {theirs / mine:.1f} |" for mine in ours))


if __name__ == "__main__":
    main()
