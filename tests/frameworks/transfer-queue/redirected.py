"""A plugin of pytest: whatever backend a test of TransferQueue configures, its values are in the store at EVENKEEL_STORE."""

import os

import transfer_queue
from omegaconf import OmegaConf

import evenkeel.transfer_queue  # noqa: F401

_init = transfer_queue.init
_STORE = {"backend": {"storage_backend": "Evenkeel", "Evenkeel": {"url": os.environ["EVENKEEL_STORE"], "existing": "clear"}}}


def init(conf=None):
    """As transfer_queue.init; processes that join get the configuration from the controller."""
    return _init(OmegaConf.merge(OmegaConf.create(conf or {}), _STORE)) if conf else _init()


transfer_queue.init = transfer_queue.interface.init = init
