"""Steps as a torch dataset, for loops and libraries that need one. Importing this module requires torch."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from torch.utils.data import IterableDataset, get_worker_info

from evenkeel import _c
from evenkeel.service import DataService
from evenkeel.steps import Step

__all__ = ["StepDataset"]


class StepDataset(IterableDataset):  # type: ignore[misc]
    """The steps of a DataService's configured sources, as a torch IterableDataset.

    All ranks make a step together, so the loader must not use workers or form batches:
    ``DataLoader(StepDataset(service), batch_size=None, num_workers=0)``. The service itself reads and makes steps ahead
    (``exchange.prefetch``). The methods state_dict and load_state_dict are the ones that torchdata's StatefulDataLoader
    calls. Raises InputError if it is iterated in a worker."""

    def __init__(self, service: DataService) -> None:
        super().__init__()
        self.service = service

    def __iter__(self) -> Iterator[Step]:
        if get_worker_info() is not None:
            _c.raise_error("input", "StepDataset", "is iterated in a DataLoader worker, which is not a rank of the job", "Set num_workers=0")
        return iter(self.service)

    def __len__(self) -> int:
        return len(self.service)

    def state_dict(self) -> dict[str, Any]:
        return self.service.state_dict()

    def load_state_dict(self, state: Mapping[str, Any]) -> None:
        self.service.load_state_dict(state)
