#!/usr/bin/env python3
"""Checks that every later version can use the files that a release wrote.

    artifacts.py make ARCHIVE BUILD --launcher MPIRUN...
    artifacts.py check ARCHIVE BUILD --launcher MPIRUN...
    artifacts.py both ARCHIVE BUILD --launcher MPIRUN...

BUILD is a folder such as build/release. `make` runs with the build of a release. It writes sample files, a dump, a state, a
buffer, a store of values and a file that it saved, requests to both, a configuration, a C program and the symbols of the C
libraries to ARCHIVE (.tar.xz), each with its expected results. `check` reads or runs each kind with a later build; the
functions are called check_KIND.
"""
import argparse
import contextlib
import json
import os
import pathlib
import shutil
import signal
import struct
import subprocess
import sys
import tarfile
import tempfile
import time

sys.path.insert(0, str(pathlib.Path(__file__).parents[1] / "arrivals"))
from servers import NoAnswer, call, free_ports  # noqa: E402

RANKS = 2
JOB = {"source": {"kind": "jsonl", "path": "samples.jsonl"}, "batch": {"global_batch": 4}, "micro_batch": {"max_tokens": 64}}
LENGTHS = ("--from", "lengths", "--drop", "input_ids")
DIFFERENT_EACH_TIME = {"bytes", "identity", "seconds_since_last_sample"}
REQUESTS = [
    ("/v1/samples", '{"uid": "a", "index": 0, "prompt_ids": [1, 2], "response_ids": [3], "version": 0, "reward": 1.0}\n'),
    ("/v1/samples", '{"uid": "a", "index": 0, "prompt_ids": [1, 2], "response_ids": [3], "version": 0, "reward": 1.0}\n'),
    ("/v1/tickets", '{"groups": 1}'),
    ("/v1/fields", '{"uid": "a", "index": 0, "value": 0.5}\n'),
    ("/v1/groups/close", '{"uid": "a"}'),
    ("/v1/status", None),
    ("/v1/end", ""),
]
FIELDS = {"ids": {"dtype": "I16", "shapes": [[2], [1]]}, "reward": {"dtype": "F32", "shape": []}, "turns": {"dtype": "U8", "shape": []}}
HEAD = json.dumps({"indexes": [7, 9], "fields": FIELDS}).encode()
FRAME = struct.pack("<Q", len(HEAD)) + HEAD + struct.pack("<3h2f2B", 1, 2, 3, 0.5, 1.0, 4, 5)
QUERY = {"indexes": [9, 7], "fields": ["reward", "ids"], "slices": {"ids": {"axis": 0, "ranges": [[0, 1]]}}}
STREAM_JOB = {"source": {"kind": "stream"}, "batch": {"global_batch": 4}, "micro_batch": {"max_tokens": 64}}


class Build:
    """A build of Evenkeel, whose program runs in `folder`."""

    def __init__(self, arguments: argparse.Namespace, folder: pathlib.Path):
        self._launcher, self.folder = arguments.launcher, folder
        self.path = arguments.build.resolve()
        self._program = str(self.path / "bin/evenkeel")

    def run(self, *words: str) -> str:
        return run([self._program, *words], self.folder)

    def symbols(self) -> str:
        """Returns the symbols of both C libraries with their versions, one per line."""
        libraries = [self.path / f"src/c/lib{name}.so" for name in ("evenkeel", "evenkeel_mpi")]
        return run(["nm", "--dynamic", "--defined-only", "--format=just-symbols", *libraries], self.folder)

    def job(self, config: str, *words: str) -> str:
        return run([*self._launcher, "-n", str(RANKS), self._program, "run", config, "--progress", "off", *words], self.folder)

    def convert(self, of: str, to: str, *words: str) -> None:
        self.run("convert", of, to, "--progress", "off", *words)

    def run_c_planner(self) -> str:
        return run(["./c_planner"], self.folder, env=os.environ | {"LD_LIBRARY_PATH": str(self.path / "src/c")})

    def saved(self) -> bytes:
        """Returns a request to save values to a file, or to load them from it."""
        return json.dumps({"path": str(self.folder / "saved/all")}).encode()

    def values(self, url: str) -> bytes:
        """Returns what the store answers to the query."""
        return call(url + "/v1/values/get", self.text("query.json").encode())

    def write(self, name: str, config: dict) -> None:
        (self.folder / name).write_text(json.dumps(config) + "\n", encoding="utf-8")

    def text(self, name: str) -> str:
        return (self.folder / name).read_text(encoding="utf-8")

    def converted(self, of: str, to: str, *words: str) -> str:
        self.convert(of, to, *words)
        return self.text(to)

    def buffer(self, *words: str):
        """Returns a context with the URL of a buffer that uses the folder `buffer`."""
        return self._server("buffer", "--dir", "buffer", *words)

    def store(self):
        """Returns a context with the URL of a store of values that uses the folders `values` and `saved`."""
        return self._server("store", "--dir", "values", "--checkpoints", "saved")

    @contextlib.contextmanager
    def _server(self, *words: str):
        """Yields the URL of a server that ends with the context."""
        (port,) = free_ports(1)
        url = f"http://127.0.0.1:{port}"
        server = subprocess.Popen([self._program, *words, "--listen", f"127.0.0.1:{port}", "--capacity", "16MiB"], cwd=self.folder,
                                  stdout=subprocess.DEVNULL)
        try:
            for _ in range(600):
                with contextlib.suppress(NoAnswer):
                    call(url + "/v1/status")
                    break
                time.sleep(0.05)
            yield url
        finally:
            server.send_signal(signal.SIGTERM)
            if server.wait(60) != 0:
                sys.exit(f"evenkeel {words[0]} ended with status {server.returncode}")


def run(command: list, folder: pathlib.Path, **more) -> str:
    ended = subprocess.run(command, cwd=folder, capture_output=True, text=True, stdin=subprocess.DEVNULL, check=False, **more)
    if ended.returncode != 0:
        sys.exit(f"{' '.join(map(str, command))}: status {ended.returncode}\n{ended.stdout}{ended.stderr}")
    return ended.stdout + ended.stderr


def sequences(lines: str) -> list[list[int]]:
    """Returns the tokens of the samples in JSON Lines, sorted."""
    return sorted(sample["prompt_ids"] + sample["response_ids"] for sample in map(json.loads, lines.splitlines()))


def without_owner(file: tarfile.TarInfo) -> tarfile.TarInfo:
    file.uid = file.gid = file.mtime = 0
    file.uname = file.gname = ""
    return file


def require_lines(what: str, found: str, kept: str) -> None:
    """Requires that all kept lines are among those found."""
    missing = sorted(set(kept.splitlines()) - set(found.splitlines()))
    if missing:
        sys.exit(f"{what}: missing or changed:\n" + "\n".join(missing))


def require_equal(what: str, found, expected) -> None:
    if found != expected:
        sys.exit(f"{what}: found\n{found}\nand not\n{expected}")


def answer_to(url: str, body: str | None) -> dict:
    answer = json.loads(call(url, None if body is None else body.encode()))
    return {key: value for key, value in answer.items() if key not in DIFFERENT_EACH_TIME}


def make_requests(build: Build) -> None:
    """Records the answers of an empty buffer to REQUESTS, the last of which ends the stream."""
    with build.buffer("--late-fields", "value") as url:
        kept = [{"path": path, "body": body, "answer": answer_to(url + path, body)} for path, body in REQUESTS]
    (build.folder / "requests.json").write_text(json.dumps(kept, indent=1) + "\n", encoding="utf-8")
    shutil.rmtree(build.folder / "buffer")


def make_values(build: Build) -> None:
    """Puts values into a store, and records its answer to a query. The file `saved/all` has a field more than the store."""
    (build.folder / "saved").mkdir()
    (build.folder / "put.frame").write_bytes(FRAME)
    build.write("query.json", QUERY)
    with build.store() as url:
        call(url + "/v1/values", FRAME)
        (build.folder / "answer.frame").write_bytes(build.values(url))
        call(url + "/v1/values/save", build.saved())
        call(url + "/v1/values/clear", b'{"indexes": [7, 9], "fields": ["turns"]}')


def make(build: Build) -> None:
    build.write("job.yaml", JOB)
    build.write("stream.yaml", STREAM_JOB)
    (build.folder / "shown.yaml").write_text(build.run("config", "show", "job.yaml"), encoding="utf-8")
    build.run("synth", "--samples", "12", "--prompt-median", "4", "--response-median", "6", "--out", "synth.jsonl")
    build.convert("synth.jsonl", "samples.jsonl")
    build.convert("samples.jsonl", "samples.safetensors")
    build.convert("samples.jsonl", "lengths.csv", "--drop", "all")
    build.convert("lengths.csv", "read-lengths.csv", *LENGTHS)
    build.convert("samples.jsonl", "tokens.idx", "--drop", "all")
    build.convert("tokens.idx", "tokens.jsonl")
    build.job("job.yaml", "--set", "mesh.cp=2", "--steps", "1", "--dump", "dump")
    build.convert("dump", "dump.jsonl")
    build.job("job.yaml", "--steps", "1", "--dump", "first-step", "--state", "state")
    build.convert("first-step", "first-step.jsonl")
    make_requests(build)
    make_values(build)
    with build.buffer() as url:
        build.run("feed", "samples.jsonl", "--to", url, "--end", "--progress", "off")
        build.job("stream.yaml", "--set", f"source.path={url}", "--steps", "1", "--dump", "first-streamed", "--state", "stream-state")
    build.convert("first-streamed", "first-streamed.jsonl")
    for name in ("first-step", "first-streamed"):
        shutil.rmtree(build.folder / name)
    (build.folder / "synth.jsonl").unlink()
    run(["strip", "-o", "c_planner", build.path / "bin/c_planner"], build.folder)
    (build.folder / "c_planner.out").write_text(build.run_c_planner(), encoding="utf-8")
    (build.folder / "symbols.txt").write_text(build.symbols(), encoding="utf-8")


def check_configuration(build: Build) -> None:
    require_lines("keys, their defaults and how they are written", build.run("config", "show", "job.yaml"), build.text("shown.yaml"))
    require_equal("all keys", build.run("config", "show", "shown.yaml"), build.run("config", "show", "job.yaml"))


def check_files(build: Build) -> None:
    require_equal("JSON Lines", build.converted("samples.jsonl", "a.jsonl"), build.text("samples.jsonl"))
    require_equal("safetensors", build.converted("samples.safetensors", "b.jsonl"), build.text("samples.jsonl"))
    require_equal("lengths", build.converted("lengths.csv", "c.csv", *LENGTHS), build.text("read-lengths.csv"))
    require_equal("indexed dataset", build.converted("tokens.idx", "d.jsonl"), build.text("tokens.jsonl"))


def check_dump(build: Build) -> None:
    require_equal("dump", build.converted("dump", "e.jsonl"), build.text("dump.jsonl"))


def require_rest(build: Build, first: str, rest: str) -> None:
    """Requires that the dump `rest` contains exactly the samples that the first step did not."""
    both = sequences(build.text(first)) + sequences(build.converted(rest, rest + ".jsonl"))
    require_equal("samples of both runs", sorted(both), sequences(build.text("samples.jsonl")))


def check_state(build: Build) -> None:
    output = build.job("job.yaml", "--state", "state", "--resume", "--dump", "rest")
    if "resumes with step 1" not in output:
        sys.exit(f"the job begins again:\n{output}")
    require_rest(build, "first-step.jsonl", "rest")


def check_buffer(build: Build) -> None:
    with build.buffer() as url:
        build.job("stream.yaml", "--set", f"source.path={url}", "--state", "stream-state", "--resume", "--dump", "streamed-rest")
    require_rest(build, "first-streamed.jsonl", "streamed-rest")


def check_requests(build: Build) -> None:
    """Requires that requests of a producer get the same answers, which may have more keys."""
    shutil.rmtree(build.folder / "buffer")
    with build.buffer("--late-fields", "value") as url:
        for kept in json.loads(build.text("requests.json")):
            answer = answer_to(url + kept["path"], kept["body"])
            require_equal(kept["path"], {key: answer.get(key) for key in kept["answer"]}, kept["answer"])


def check_values(build: Build) -> None:
    """Requires the kept values from the store's folder, from the file that it saved, and from a client's request."""
    def count(url: str) -> int:
        return json.loads(call(url + "/v1/status"))["values"]

    expected = (build.folder / "answer.frame").read_bytes()
    with build.store() as url:
        require_equal("values of the folder", (count(url), build.values(url)), (4, expected))
        call(url + "/v1/values/load", build.saved())
        require_equal("values of the file", (count(url), build.values(url)), (6, expected))
        call(url + "/v1/values/clear", b'{"all": true}')
        call(url + "/v1/values", (build.folder / "put.frame").read_bytes())
        require_equal("values of the request", (count(url), build.values(url)), (6, expected))


def check_c_program(build: Build) -> None:
    require_lines("symbols of the C libraries", build.symbols(), build.text("symbols.txt"))
    require_equal("C program", build.run_c_planner(), build.text("c_planner.out"))


def make_archive(build: Build, path: pathlib.Path) -> None:
    make(build)
    with tarfile.open(path, "w:xz") as archive:
        archive.add(build.folder, ".", filter=without_owner)


def check_archive(build: Build, path: pathlib.Path) -> None:
    run(["tar", "--extract", "--file", path.resolve()], build.folder)
    for check in CHECKS:
        print(check.__name__.removeprefix("check_"), flush=True)
        check(build)


CHECKS = (check_configuration, check_files, check_dump, check_state, check_buffer, check_requests, check_values, check_c_program)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("task", choices=["make", "check", "both"])
    parser.add_argument("archive", type=pathlib.Path)
    parser.add_argument("build", type=pathlib.Path)
    parser.add_argument("--launcher", nargs=argparse.REMAINDER, required=True)
    arguments = parser.parse_args()
    for task in ["make", "check"] if arguments.task == "both" else [arguments.task]:
        with tempfile.TemporaryDirectory() as scratch:
            build = Build(arguments, pathlib.Path(scratch))
            make_archive(build, arguments.archive) if task == "make" else check_archive(build, arguments.archive)


if __name__ == "__main__":
    main()
