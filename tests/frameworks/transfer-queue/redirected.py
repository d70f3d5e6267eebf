"""A plugin of pytest that keeps all values in the store at EVENKEEL_STORE, whatever backend a test of TransferQueue configures."""

import os

import transfer_queue
from omegaconf import OmegaConf

import evenkeel.transfer_queue  # noqa: F401

_init = transfer_queue.init
_STORE = {"backend": {"storage_backend": "Evenkeel", "Evenkeel": {"url": os.environ["EVENKEEL_STORE"], "existing": "clear"}}}


def init(conf=None):
    """Calls transfer_queue.init with the store's settings. Processes that join get them from the controller."""
    return _init(OmegaConf.merge(OmegaConf.create(conf or {}), _STORE)) if conf else _init()


transfer_queue.init = transfer_queue.interface.init = init
