#!/usr/bin/env python3
"""Runs jobs over a file that is larger than the memory that each rank may use.

    larger_than_memory.py PROGRAM jsonl|megatron|safetensors [--mpirun COMMAND]

The file has 384 MiB. `evenkeel run` reads all of it on two ranks, in order and shuffled, with RLIMIT_DATA of 160 MiB, which
limits heap, stacks and private mappings. The limit does not cover the shared memory in which ranks exchange, so this test also
requires that no process ever has more than 160 MiB resident, as the system reports at its end (ru_maxrss): heap, shared memory
and mapped files, but not the page cache. A job whose only step is the whole file proves that this figure works: it must be
larger than the file.

Exit status: 0 if all jobs behave as required, else 1.
"""

import argparse
import dataclasses
import json
import os
import pathlib
import shlex
import struct
import subprocess
import sys
import tempfile
import threading

MIB = 1 << 20
FILE_BYTES = 384 * MIB
LIMIT_BYTES = 160 * MIB
TOKENS = 32768  # number of tokens per sample
GLOBAL_BATCH = 8
DEADLINE = 100


def write_jsonl(folder: pathlib.Path) -> tuple[pathlib.Path, int]:
    """Writes lines of at least 192 KiB."""
    tail = b',"prompt_ids":[1],"response_ids":[' + b",".join([b"12345"] * (TOKENS - 1)) + b"]}\n"
    samples = FILE_BYTES // len(tail) + 1
    path = folder / "samples.jsonl"
    with path.open("wb") as file:
        for number in range(samples):
            file.write(b'{"uid":%d' % number + tail)
    return path, samples


def write_zeros(path: pathlib.Path, head: bytes, tail: bytes = b"") -> None:
    """Writes a file with a hole of FILE_BYTES between head and tail. The tokens in the hole are 0 and take no time to write.
    Like other files, they are read through the page cache."""
    with path.open("wb") as file:
        file.write(head)
        file.seek(FILE_BYTES, os.SEEK_CUR)
        file.write(tail)
        file.truncate(len(head) + FILE_BYTES + len(tail))


def write_megatron(folder: pathlib.Path) -> tuple[pathlib.Path, int]:
    samples = FILE_BYTES // (4 * TOKENS)
    write_zeros(folder / "samples.bin", b"")
    int32_code = 4
    (folder / "samples.idx").write_bytes(
        b"MMIDIDX\0\0" + struct.pack("<QBQQ", 1, int32_code, samples, samples + 1) +
        struct.pack(f"<{samples}i", *[TOKENS] * samples) +
        struct.pack(f"<{samples}q", *range(0, FILE_BYTES, 4 * TOKENS)) +
        struct.pack(f"<{samples + 1}q", *range(samples + 1)))
    return folder / "samples", samples


def write_safetensors(folder: pathlib.Path) -> tuple[pathlib.Path, int]:
    samples = FILE_BYTES // (4 * TOKENS)
    offsets = struct.pack(f"<{samples + 1}q", *range(0, samples * TOKENS + 1, TOKENS))
    end = len(offsets) + FILE_BYTES
    header = json.dumps({
        "offsets": {"dtype": "I64", "shape": [samples + 1], "data_offsets": [0, len(offsets)]},
        "input_ids": {"dtype": "I32", "shape": [samples * TOKENS], "data_offsets": [len(offsets), end]},
    }).encode()
    header += b" " * (-len(header) % 8)
    path = folder / "samples.safetensors"
    write_zeros(path, struct.pack("<Q", len(header)) + header + offsets)
    return path, samples


class Jobs:
    """Starts jobs that read the file in different ways."""

    def __init__(self, arguments: argparse.Namespace, path: pathlib.Path):
        self._program = arguments.program
        self._mpirun = shlex.split(arguments.mpirun)
        self._config = path.parent / "job.yaml"
        self._config.write_text(f"source: {{kind: {arguments.kind}, path: {path}}}\n"
                                f"micro_batch: {{max_tokens: {2 * TOKENS}}}\n")

    def run(self, *settings: str) -> "Done":
        limited = ["sh", "-c", f'ulimit -d {LIMIT_BYTES // 1024} && exec "$@"', "sh"]
        command = [*self._mpirun, "-n", "2", *limited, self._program, "run", str(self._config), "--progress", "off"]
        for setting in settings:
            command += ["--set", setting]
        with tempfile.TemporaryFile("w+") as output:
            job = subprocess.Popen(command, stdout=output, stderr=subprocess.STDOUT)
            timer = threading.Timer(DEADLINE, job.terminate)
            timer.start()
            _, status, usage = os.wait4(job.pid, 0)  # The usage includes that of the ranks, for which mpirun has waited.
            timer.cancel()
            job.returncode = os.waitstatus_to_exitcode(status)
            output.seek(0)
            return Done(job.returncode, output.read(), usage.ru_maxrss * 1024)


@dataclasses.dataclass(frozen=True)
class Done:
    """The result of a job."""

    status: int
    output: str
    most_resident: int  # maximum resident size of any process, in bytes


def main() -> int:
    parser = argparse.ArgumentParser()
    parser.add_argument("program")
    parser.add_argument("kind", choices=["jsonl", "megatron", "safetensors"])
    parser.add_argument("--mpirun", default="mpirun")
    arguments = parser.parse_args()
    write = {"jsonl": write_jsonl, "megatron": write_megatron, "safetensors": write_safetensors}[arguments.kind]
    failures = 0
    with tempfile.TemporaryDirectory(prefix="evenkeel-streaming-") as scratch:
        path, samples = write(pathlib.Path(scratch))
        jobs = Jobs(arguments, path)
        for shuffle in ("false", "true"):
            done = jobs.run(f"batch.global_batch={GLOBAL_BATCH}", f"batch.shuffle={shuffle}")
            print(f"shuffle {shuffle}: {done.most_resident // MIB} MiB")
            if done.status != 0 or f"{samples:,} in" not in done.output or done.most_resident > LIMIT_BYTES:
                print(f"status {done.status}, at most {LIMIT_BYTES // MIB} MiB allowed, {samples:,} samples to be "
                      f"read\n{done.output}")
                failures += 1
        whole = jobs.run(f"batch.global_batch={samples}")
        print(f"one step of the whole file: {whole.most_resident // MIB} MiB")
        if whole.status != 0 or whole.most_resident < FILE_BYTES:
            print(f"status {whole.status}, at least {FILE_BYTES // MIB} MiB expected\n{whole.output}")
            failures += 1
    return 1 if failures else 0


if __name__ == "__main__":
    sys.exit(main())
