"""Steps as a dataset of torch, for loops and libraries that want one. Import it where torch is."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from torch.utils.data import IterableDataset, get_worker_info

from evenkeel import _core
from evenkeel.service import DataService
from evenkeel.steps import Step

__all__ = ["StepDataset"]


class StepDataset(IterableDataset):  # type: ignore[misc]
    """The steps of a DataService's configured sources. A step is what all ranks make together, so that a loader has no
    workers and makes no batches: ``DataLoader(StepDataset(service), batch_size=None, num_workers=0)``; steps are read and
    made ahead by the service itself (``exchange.prefetch``). Has state_dict and load_state_dict, which torchdata's
    StatefulDataLoader keeps."""

    def __init__(self, service: DataService) -> None:
        super().__init__()
        self.service = service

    def __iter__(self) -> Iterator[Step]:
        if get_worker_info() is not None:
            _core.raise_error("input", "DataLoader", "has workers, which are no ranks of the job", "Set num_workers=0")
        return iter(self.service)

    def __len__(self) -> int:
        return len(self.service)

    def state_dict(self) -> dict[str, Any]:
        return self.service.state_dict()

    def load_state_dict(self, state: Mapping[str, Any]) -> None:
        self.service.load_state_dict(state)
