"""Ranks of a job, whatever connects them, as the C++ side asks for them: communicators of mpi4py, and process groups of
torch.distributed. Imports neither: who hands one in has imported it."""

from __future__ import annotations

import contextlib
import os
import socket
import sys
import weakref
from typing import TYPE_CHECKING, Any

from evenkeel import _core



class _Missing:
    """In place of the extension module in a package that was built without MPI."""

    def __init__(self, reason: ImportError) -> None:
        self._reason = reason

    def __getattr__(self, name: str) -> Any:
        raise ImportError(
            f"this build of evenkeel has no service ({self._reason}): build it where mpicxx is, on Debian with libopenmpi-dev"
        )


if TYPE_CHECKING:
    from evenkeel import _service as extension
else:
    try:
        from evenkeel import _service as extension
    except ImportError as error:
        extension = _Missing(error)


def ranks_of(group: Any) -> extension.Ranks:
    """The ranks of a communicator or a process group. Raises InputError for anything else."""
    mpi = sys.modules.get("mpi4py.MPI")
    if mpi is not None and isinstance(group, mpi.Comm):
        return extension.ranks_of_mpi(mpi._addressof(group), mpi.Get_library_version().rstrip("\0\n"))
    distributed = sys.modules.get("torch.distributed")
    if distributed is not None and distributed.is_available() and isinstance(group, distributed.ProcessGroup):
        return extension.ranks_of_python(TorchRanks.of(group))
    _core.raise_error(
        "input",
        "group",
        f"is a {type(group).__name__}; a communicator of mpi4py or a process group of torch.distributed is needed",
        "Pass MPI.COMM_WORLD, or torch.distributed.group.WORLD once it is initialized",
    )


class TorchRanks:
    """A process group whose backend moves bytes of the CPU. What C++ calls takes memoryviews, reads or fills them, and
    waits until that is done."""

    allows_threads = True

    def __init__(self, group: _Group, members: list[int]) -> None:
        import torch.distributed as distributed

        if members != sorted(members):
            _core.raise_error("input", "group", f"has its ranks in the order {members}; new groups have them in ascending order")
        self._dist = distributed
        self._group = group
        self._members = members  # their numbers in the default group, which broadcast() wants
        self.rank = members.index(distributed.get_rank())
        self.size = len(members)

    @classmethod
    def of(cls, group: Any) -> TorchRanks:
        """Collective over the group. One that moves no bytes of the CPU, such as NCCL's, gets a companion that does."""
        import torch.distributed as distributed

        size, job = distributed.get_world_size(group), distributed.get_world_size()
        if size != job:
            _core.raise_error(
                "input",
                "group",
                f"has {size} of the job's {job} processes, and new groups are made by all processes of the job together",
                "Pass torch.distributed.group.WORLD",
            )
        members: list[Any] = [None] * size
        distributed.all_gather_object(members, distributed.get_rank(), group=group)
        if "gloo" in distributed.get_backend(group):
            return cls(_Group(group), members)
        return cls(_new_group(members), members)

    def broadcast(self, data: memoryview, root: int) -> None:
        if len(data):
            self._dist.broadcast(_tensor(data), self._members[root], group=self._group.now())

    def all_gather(self, mine: memoryview, everything: memoryview) -> None:
        if len(mine) == 0:
            return
        rows = _tensor(everything).view(self.size, len(mine))
        self._dist.all_gather(list(rows.unbind()), _tensor(mine), group=self._group.now())

    def all_gather_lists(self, mine: memoryview, sizes: list[int], everything: memoryview) -> None:
        import torch

        longest = max(sizes)
        if longest == 0:
            return
        # Process groups gather lists of one size.
        own = torch.empty(longest, dtype=torch.uint8)
        if len(mine):
            own[: len(mine)] = _tensor(mine)
        rows = torch.empty(self.size, longest, dtype=torch.uint8)
        self._dist.all_gather(list(rows.unbind()), own, group=self._group.now())
        torch.cat([row[:size] for row, size in zip(rows, sizes)], out=_tensor(everything))

    def all_reduce(self, values: memoryview, largest: bool) -> None:
        import torch

        reduction = self._dist.ReduceOp.MAX if largest else self._dist.ReduceOp.MIN
        self._dist.all_reduce(torch.frombuffer(values, dtype=torch.int64), reduction, group=self._group.now())

    def all_to_all(self, out: memoryview, out_sizes: list[int], into: memoryview, in_sizes: list[int]) -> None:
        self._dist.all_to_all_single(_tensor(into), _tensor(out), in_sizes, out_sizes, group=self._group.now())

    def duplicate(self) -> TorchRanks:
        return TorchRanks(self._new_part(self._members), self._members)

    def split(self, color: int, key: int) -> TorchRanks | None:
        places: list[Any] = [None] * self.size
        self._dist.all_gather_object(places, (color, key), group=self._group.now())
        mine = None
        # All processes of the job make all groups, in one order, as torch wants it.
        for each in sorted({place[0] for place in places if place[0] >= 0}):
            chosen = sorted((place[1], rank) for rank, place in enumerate(places) if place[0] == each)
            members = [self._members[rank] for _, rank in chosen]
            # The same ranks, which make all their calls in one order: no other group is needed to keep calls apart.
            group = self._group if members == self._members else self._new_part(members)
            if each == color:
                mine = TorchRanks(group, members)
        return mine

    def split_by_node(self) -> TorchRanks:
        nodes: list[Any] = [None] * self.size
        self._dist.all_gather_object(nodes, _node(), group=self._group.now())
        mine = self.split(nodes.index(nodes[self.rank]), self.rank)
        assert mine is not None
        return mine

    def _new_part(self, members: list[int]) -> _Group:
        """A group of its own, which all processes of the job make together: none but a group of them all can ask for it."""
        if self.size < self._dist.get_world_size():
            raise RuntimeError(f"ranks {self._members} are a part of the job, which makes no groups of its own")
        return _new_group(members)


class _Group:
    """A process group, which the caller has or which was made here. What was made here ends with the last who uses it, and
    before Python does: torch's threads must not let go of tensors after that."""

    def __init__(self, group: Any, *, is_own: bool = False) -> None:
        self._place = [group]
        if is_own:
            weakref.finalize(self, _end_group, self._place)

    def now(self) -> Any:
        if not self._place:
            raise RuntimeError("the process is ending")
        return self._place[0]


def _end_group(place: list[Any]) -> None:
    import torch.distributed as distributed

    with contextlib.suppress(RuntimeError, ValueError, AssertionError):  # the whole job's groups have ended already
        distributed.destroy_process_group(place.pop())


def _new_group(members: list[int]) -> _Group:
    """A group of its own for these members, in this order."""
    import torch.distributed as distributed

    return _Group(distributed.new_group(members, backend="gloo"), is_own=True)


def _tensor(data: memoryview) -> Any:
    import torch

    return torch.frombuffer(data, dtype=torch.uint8) if len(data) else torch.empty(0, dtype=torch.uint8)


def _node() -> str:
    """What only the processes of this machine say. Whether they share memory they find out by trying."""
    try:
        with open("/proc/sys/kernel/random/boot_id", encoding="ascii") as boot:
            machine = boot.read().strip()
    except OSError:
        machine = ""
    try:
        network = os.readlink("/proc/self/ns/net")  # as MPI does, simulated nodes are told apart by their names
    except OSError:
        network = ""
    return f"{socket.gethostname()} {machine} {network}"
