"""Evenkeel balances, packs and context-parallel-cuts samples of very different lengths for LLM training.

Errors are Error and its subclasses (see evenkeel.errors).
"""

from evenkeel.errors import ConfigError, Error, InputError, IoError, LimitError, MeshError, MpiError
from evenkeel import _core

__version__ = _core.__version__

__all__ = [
    "ConfigError",
    "Error",
    "InputError",
    "IoError",
    "LimitError",
    "MeshError",
    "MpiError",
]
