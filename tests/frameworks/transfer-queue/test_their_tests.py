"""Runs TransferQueue's own tests of storage, unmodified, with their values in Evenkeel's store."""

import os
import pathlib
import re
import subprocess
import sys

import pytest
import transfer_queue

from stores import Store

TESTS = pathlib.Path(transfer_queue.__file__).parents[1] / "tests"

# Tests of SimpleStorage itself, with the reason why they cannot pass with another backend.
NOT_FOR_OTHER_BACKENDS = {
    "e2e/test_checkpoint_e2e.py::TestCheckpointRoundtrip::test_tensor_fields":
        "looks for the files of SimpleStorage's units in the checkpoint",
    "e2e/test_checkpoint_e2e.py::TestIncludeStorageFalse::test_storage_saved_is_true":
        "include_storage=False is overridden for SimpleStorage, which would lose its values; the store keeps them",
    "e2e/test_checkpoint_e2e.py::TestCheckpointErrors::test_load_raises_on_storage_unit_count_mismatch":
        "edits the list of SimpleStorage's units in the checkpoint",
}


@pytest.mark.parametrize("file, passed", [
    ("e2e/test_kv_interface_e2e.py", 56),
    ("e2e/test_e2e_lifecycle_consistency.py", 8),  # two more tests need GPUs
    ("e2e/test_checkpoint_e2e.py", 11),
], ids=lambda value: pathlib.Path(str(value)).stem)
def test_it_holds_with_values_in_the_store(file, passed, tmp_path):
    deselected = [f"--deselect={name}" for name in NOT_FOR_OTHER_BACKENDS if name.startswith(file)]
    with Store("--dir", str(tmp_path / "values"), "--checkpoints", str(tmp_path)) as store:
        run = subprocess.run(
            [sys.executable, "-m", "pytest", "-q", "--tb=short", "-p", "no:cacheprovider", "-p", "redirected", f"--rootdir={TESTS}", *deselected,
             f"--basetemp={tmp_path / 'pytest'}", TESTS / file],
            stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, check=False, timeout=600, cwd=tmp_path,
            env={**os.environ, "EVENKEEL_STORE": store.url, "TQ_LOGGING_LEVEL": "ERROR",
                 "PYTHONPATH": os.pathsep.join([str(pathlib.Path(__file__).parent), os.environ["PYTHONPATH"]])})
    found = re.search(r"(\d+) passed", run.stdout)
    assert run.returncode == 0 and found and int(found[1]) == passed, run.stdout
