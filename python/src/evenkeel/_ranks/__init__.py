"""Ranks of a job, whatever connects them, as the C++ side asks for them: communicators of mpi4py, and process groups of
torch.distributed. Imports neither: who hands one in has imported it."""

from __future__ import annotations

import collections
import contextlib
import importlib
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


# Why there is no MPI, in a package that has the service without it, too: a wheel.
_no_mpi = ""


def _load() -> Any:
    """The extension module; of a wheel's two the one with MPI, unless MPI's library is not there."""
    global _no_mpi
    try:
        return importlib.import_module("evenkeel._service")
    except ImportError as error:
        reason = error
    try:
        alone = importlib.import_module("evenkeel._without_mpi._service")
    except ImportError:
        return _Missing(reason)
    _no_mpi = str(reason)
    return alone


if TYPE_CHECKING:
    from evenkeel import _service as extension
else:
    extension = _load()


def ranks_of(group: Any) -> extension.Ranks:
    """The ranks of a communicator or a process group. Raises InputError for anything else."""
    mpi = sys.modules.get("mpi4py.MPI")
    if mpi is not None and isinstance(group, mpi.Comm):
        if _no_mpi:
            _core.raise_error(
                "mesh",
                "group",
                f"is a communicator of mpi4py, and evenkeel found no MPI when it was imported ({_no_mpi})",
                "Import mpi4py before evenkeel. This wheel is for Open MPI; for another MPI, build the package from its sources",
            )
        return extension.ranks_of_mpi(mpi._addressof(group), mpi.Get_library_version().rstrip("\0\n"))
    distributed = sys.modules.get("torch.distributed")
    if distributed is not None and distributed.is_available():
        if isinstance(group, distributed.ProcessGroup):
            return extension.ranks_of_python(TorchRanks.of(group))
        if group is distributed.GroupMember.NON_GROUP_MEMBER:
            _core.raise_error("input", "group", "is one that this process is no member of",
                              "Make the service in the processes of the group alone")
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
        """Collective over the group, which may be a part of the job: other processes have no part in it. One that moves no
        bytes of the CPU, such as NCCL's, gets a companion that does."""
        import torch.distributed as distributed

        members: list[Any] = [None] * distributed.get_world_size(group)
        distributed.all_gather_object(members, distributed.get_rank(), group=group)
        if "gloo" in distributed.get_backend(group):
            return cls(_Group(group), members)
        return cls(_new_group(members, asked_by=members), members)

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
        return TorchRanks(_new_group(self._members, asked_by=self._members), self._members)

    def split(self, color: int, key: int) -> TorchRanks | None:
        places: list[Any] = [None] * self.size
        self._dist.all_gather_object(places, (color, key), group=self._group.now())
        mine = None
        for each in sorted({place[0] for place in places if place[0] >= 0}):
            if each != color and not _is_whole_job(self._members):
                continue
            chosen = sorted((place[1], rank) for rank, place in enumerate(places) if place[0] == each)
            members = [self._members[rank] for _, rank in chosen]
            # The same ranks, which make all their calls in one order: no other group is needed to keep calls apart.
            group = self._group if members == self._members else _new_group(members, asked_by=self._members)
            if each == color:
                mine = TorchRanks(group, members)
        return mine

    def split_by_node(self) -> TorchRanks:
        nodes: list[Any] = [None] * self.size
        self._dist.all_gather_object(nodes, _node(), group=self._group.now())
        mine = self.split(nodes.index(nodes[self.rank]), self.rank)
        assert mine is not None
        return mine


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


def _new_group(members: list[int], *, asked_by: list[int]) -> _Group:
    """A group of its own for these members, in this order. Where all processes of the job ask for it, they make it together,
    as torch wants it; where a part of the job does, the members make it alone, since no other process comes."""
    import torch.distributed as distributed

    if _is_whole_job(asked_by):
        return _Group(distributed.new_group(members, backend="gloo"), is_own=True)
    if distributed.get_backend() == "mpi":
        _core.raise_error("input", "group", "is a part of a job whose processes torch connects by MPI, which makes no such groups",
                          "Pass a communicator of mpi4py")
    return _Group(_made_by_members(members), is_own=True)


_made: collections.Counter[tuple[int, ...]] = collections.Counter()


def _made_by_members(members: list[int]) -> Any:
    """What new_group() does, without waiting for all processes of the job at its end. Members find each other by a name that
    says how many groups they have made before. (With ``use_local_synchronization``, which PyTorch has since 2.1, it takes a
    name again once this process has ended the group that had it, and other members may not have.)"""
    import torch.distributed as distributed
    from torch.distributed import distributed_c10d

    name = f"evenkeel {members} {_made[tuple(members)]}"
    _made[tuple(members)] += 1
    made = distributed_c10d._new_process_group_helper(
        len(members), members.index(distributed.get_rank()), members, distributed_c10d.Backend.GLOO,
        distributed_c10d._get_default_store(), group_name=name, timeout=distributed_c10d.default_pg_timeout)
    group = made[0] if isinstance(made, tuple) else made  # with its store, since 2.1
    world = getattr(distributed_c10d, "_world", None)
    ranks_of_groups = distributed_c10d._pg_group_ranks if world is None else world.pg_group_ranks
    ranks_of_groups[group] = {member: place for place, member in enumerate(members)}
    return group


def _is_whole_job(members: list[int]) -> bool:
    import torch.distributed as distributed

    return len(members) == int(distributed.get_world_size())


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
