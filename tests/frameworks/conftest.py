"""Lets tests start jobs of several processes as those of the service do: python/tests/service/jobs.py."""

import pathlib
import sys

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[2] / "python/tests/service"))
