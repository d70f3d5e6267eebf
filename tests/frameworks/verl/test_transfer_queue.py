"""An asynchronous loop of verl's classes over TransferQueue continues training while the store is killed, and loses nothing."""

import os
import pathlib
import sys
import time

import numpy as np
import pytest
import ray
import transfer_queue
from omegaconf import OmegaConf

HERE = pathlib.Path(__file__).resolve().parent
sys.path.insert(0, str(HERE.parent / "transfer-queue"))

from evenkeel.transfer_queue import BalancedSampler  # noqa: E402
from stores import Store  # noqa: E402

KILLS = 5


class KilledStore:
    """A store with a fixed folder and port, which can be restarted after it was killed."""

    def __init__(self, folder):
        self.folder = folder
        self.store = Store("--dir", str(folder))
        self.url = self.store.url

    def start(self):
        self.store = Store("--dir", str(self.folder), listen=self.url.removeprefix("http://"))

    def kill(self):
        self.store.process.kill()
        self.store.process.wait()
        self.store.process.stdout.close()


@pytest.fixture(scope="module")
def store(tmp_path_factory):
    store = KilledStore(tmp_path_factory.mktemp("store") / "values")
    yield store
    store.kill()


@pytest.fixture(scope="module")
def workers(store, tmp_path_factory):
    os.environ["PYTHONPATH"] = os.pathsep.join([str(HERE), os.environ["PYTHONPATH"]])
    sys.path.insert(0, str(HERE))
    import loop
    ray.init(num_cpus=2, include_dashboard=False)
    transfer_queue.init(OmegaConf.create({
        "controller": {"polling_mode": True, "sampler": BalancedSampler(loop.RANKS, group_size=loop.GROUP_SIZE, group_tag="uid")},
        "backend": {"storage_backend": "Evenkeel", "Evenkeel": {"url": store.url, "patience": 60}},
    }, flags={"allow_objects": True}))
    folder = str(tmp_path_factory.mktemp("rendezvous"))
    yield [loop.Rollouts.remote(folder), loop.LateFields.remote(folder),
           *(loop.Trainer.remote(folder, rank, loop.RANKS) for rank in range(loop.RANKS))]
    transfer_queue.close()
    ray.shutdown()


def run(workers, partition, store, kills):
    """Returns the results of each worker. Kills the store after equal parts of all values were put."""
    import loop
    ray.get([worker.__ray_ready__.remote() for worker in workers])
    before = store.store.status()["values"]
    values = loop.GROUPS * loop.GROUP_SIZE * len(loop.ROLLOUT_FIELDS + loop.LATE_FIELDS)
    results = [worker.run.remote(partition) for worker in workers]
    for kill in range(1, kills + 1):
        while store.store.status()["values"] - before < values * kill // (kills + 1):
            ended, going_on = ray.wait(results, num_returns=len(results), timeout=0.05)
            ray.get(ended)  # raises the error of a worker
            assert going_on, "the loop has ended before the last kill"
        store.kill()
        time.sleep(0.3)  # requests find no store
        store.start()
    return ray.get(results, timeout=90)


@pytest.fixture(scope="module")
def calm(workers, store):
    return run(workers, "calm", store, kills=0)


@pytest.fixture(scope="module")
def killed(workers, store, calm):
    return run(workers, "killed", store, KILLS)


def check(rollouts, late_fields, *trainers):
    trained = sum((trainer["trained"] for trainer in trainers), [])
    samples = sorted({sample for sample, _ in rollouts["put"]})
    assert sorted(trained) == samples, "a sample was not trained exactly once"
    got = {key: digest for trainer in trainers for key, digest in trainer["got"].items()}
    assert got == {**rollouts["put"], **late_fields["put"]}, "a value is not what was put"


def test_every_sample_is_trained_once_with_the_values_that_were_put(calm, killed):
    check(*calm)
    check(*killed)
    assert len(killed[0]["put"]) + len(killed[1]["put"]) == 32 * 4 * 10


def test_requests_waited_for_the_store(calm, killed):
    assert sum(worker["waits"] for worker in calm) == 0
    assert sum(worker["waits"] for worker in killed) >= KILLS


def test_the_weights_are_those_of_a_loop_without_kills(calm, killed):
    for before, after in zip(calm[2:], killed[2:]):
        assert before["trained"] == after["trained"] and np.array_equal(before["weights"], after["weights"])
    assert np.isfinite(calm[2]["weights"]).all() and len(set(calm[2]["trained"]) & set(calm[3]["trained"])) == 0


def test_the_check_notices_a_sample_that_is_lost_one_trained_twice_and_a_changed_value(killed):
    rollouts, late_fields, *trainers = killed
    first = trainers[0]
    for wrong in ({**first, "trained": first["trained"][1:]}, {**first, "trained": first["trained"] + first["trained"][:1]},
                  {**first, "got": {**first["got"], next(iter(first["got"])): "other"}}):
        with pytest.raises(AssertionError):
            check(rollouts, late_fields, wrong, *trainers[1:])
