"""Runs the store of this build's program in a separate process, for tests."""

import os
import pathlib
import sys

import evenkeel

BUILD = pathlib.Path(evenkeel.__file__).parents[2]
os.environ.setdefault("EVENKEEL_PROGRAM", str(BUILD / "bin/evenkeel"))
sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[3] / "python/tests"))

from buffers import Store  # noqa: E402

__all__ = ["Store"]
