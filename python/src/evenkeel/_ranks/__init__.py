"""Ranks of a job in the form that the library needs, created from communicators of mpi4py or process groups of
torch.distributed. Imports neither package: a caller who passes one of these objects has already imported it."""

from __future__ import annotations

import collections
import contextlib
import ctypes
import itertools
import os
import socket
import sys
import weakref
from collections.abc import Callable
from typing import Any

from evenkeel import _arrays, _c
from evenkeel import _prototypes as c
from evenkeel._c import service as lib


class Ranks(_arrays.Handle):
    """Ranks in the library, with the rank of this process and the number of ranks."""

    __slots__ = ("rank", "size", "_of")

    def __init__(self, pointer: Any, of: Any, rank: int, size: int) -> None:
        super().__init__(pointer, lib.evenkeel_ranks_destroy)
        self._of = of  # keeps the communicator alive
        self.rank, self.size = rank, size


def ranks_of(group: Any) -> Ranks:
    """Returns the ranks of a communicator or a process group. Raises InputError for any other object."""
    mpi = sys.modules.get("mpi4py.MPI")
    if mpi is not None and isinstance(group, mpi.Comm):
        return _ranks_of_mpi(mpi, group)
    distributed = sys.modules.get("torch.distributed")
    if distributed is not None and distributed.is_available():
        if isinstance(group, distributed.ProcessGroup):
            return _ranks_of_torch(TorchRanks.of(group))
        if group is distributed.GroupMember.NON_GROUP_MEMBER:
            _c.raise_error("input", "group", "does not include this process",
                              "Create services and watchdogs only in processes of the group")
    _c.raise_error(
        "input",
        "group",
        f"has the type {type(group).__name__}; it must be an mpi4py communicator or a torch.distributed process group",
        "Pass MPI.COMM_WORLD, or torch.distributed.group.WORLD once it is initialized",
    )


def _ranks_of_mpi(mpi: Any, group: Any) -> Ranks:
    load = lib.load()
    if lib.missing:
        _c.raise_error(
            "mesh",
            "group",
            f"is an mpi4py communicator, but evenkeel found no MPI when it loaded its library ({lib.missing})",
            "This wheel needs Open MPI where the dynamic loader finds it; for another MPI, build the package from its sources",
        )
    text, length = ctypes.create_string_buffer(8192), ctypes.c_int()
    load.MPI_Get_library_version(text, ctypes.byref(length))
    mine, theirs = _c.text(text.value).rstrip("\n"), mpi.Get_library_version().rstrip("\0\n")
    if mine.split(",")[0] != theirs.split(",")[0]:
        _c.refuse("group", f"is a communicator of {theirs.splitlines()[0]}, but this package uses {mine.splitlines()[0]}",
                  "Build mpi4py and evenkeel with the same MPI")
    handle = int.from_bytes(ctypes.string_at(mpi._addressof(group), mpi._sizeof(group)), sys.byteorder)
    return Ranks(_arrays.create(lib.evenkeel_ranks_of_mpi, handle), group, group.Get_rank(), group.Get_size())


def _ranks_of_torch(ranks: TorchRanks) -> Ranks:
    number = _add(ranks)
    try:
        pointer = _arrays.create(lib.evenkeel_ranks_create, ctypes.byref(_CALLS), number, ranks.rank, ranks.size, ranks.allows_threads)
    except BaseException:
        del _groups[number]
        raise
    return Ranks(pointer, None, ranks.rank, ranks.size)


# Groups that the library uses, by the number that it passes to the callbacks.
_groups: dict[int, TorchRanks] = {}
_numbers = itertools.count(1)


def _add(ranks: TorchRanks) -> int:
    number = next(_numbers)
    _groups[number] = ranks
    return number


def _view(address: int | None, nbytes: int) -> memoryview:
    """Returns memory of the library as a memoryview. It is always writable, since torch rejects read-only memory."""
    view: memoryview = _memory_view(address, nbytes, 0x200) if nbytes else memoryview(b"")  # PyBUF_WRITE
    return view


_memory_view: Any = ctypes.pythonapi.PyMemoryView_FromMemory
_memory_view.restype, _memory_view.argtypes = ctypes.py_object, [ctypes.c_void_p, ctypes.c_ssize_t, ctypes.c_int]


def _sizes(address: int, ranks: TorchRanks) -> list[int]:
    return _arrays.copy_of(address, ranks.size, "<i8").tolist()


def _broadcast(ranks: TorchRanks, data: int, nbytes: int, root: int) -> None:
    ranks.broadcast(_view(data, nbytes), root)


def _all_gather(ranks: TorchRanks, mine: int, nbytes: int, everything: int) -> None:
    ranks.all_gather(_view(mine, nbytes), _view(everything, nbytes * ranks.size))


def _all_gather_lists(ranks: TorchRanks, mine: int, nbytes: int, everything: int) -> None:
    sizes = _sizes(nbytes, ranks)
    ranks.all_gather_lists(_view(mine, sizes[ranks.rank]), sizes, _view(everything, sum(sizes)))


def _all_reduce(ranks: TorchRanks, values: int, count: int, largest: int) -> None:
    ranks.all_reduce(_view(values, 8 * count), bool(largest))


def _all_to_all(ranks: TorchRanks, out: int, out_bytes: int, into: int, in_bytes: int) -> None:
    sent, received = _sizes(out_bytes, ranks), _sizes(in_bytes, ranks)
    ranks.all_to_all(_view(out, sum(sent)), sent, _view(into, sum(received)), received)


def _split(ranks: TorchRanks, how: int, color: int, key: int, made: int, rank: int, size: int) -> None:
    if how == c.EVENKEEL_SPLIT_BY_COLOR:
        found = ranks.split(color, key)
    else:
        found = ranks.split_by_node() if how == c.EVENKEEL_SPLIT_BY_NODE else ranks.duplicate()
    if found is not None:
        ctypes.c_void_p.from_address(made).value = _add(found)
        ctypes.c_int32.from_address(rank).value, ctypes.c_int32.from_address(size).value = found.rank, found.size


def _release(number: int) -> None:
    _groups.pop(number, None)


def _as_callback(call: Callable[..., None]) -> Callable[..., int]:
    """Wraps an operation on a group as a callback that returns a status instead of raising."""

    def guarded(number: int, *arguments: Any) -> int:
        try:
            call(_groups[number], *arguments)
        except BaseException as error:
            return _c.note(error, "process group")
        return int(c.EVENKEEL_OK)

    return guarded


_FUNCTIONS: tuple[Callable[..., None], ...] = (_broadcast, _all_gather, _all_gather_lists, _all_reduce, _all_to_all, _split)
_CALLS = c.evenkeel_group_calls(*(kind(call) for (_, kind), call in zip(c.evenkeel_group_calls._fields_, (
    *map(_as_callback, _FUNCTIONS), _release))))


class TorchRanks:
    """A process group whose backend can transfer CPU memory. The library calls its methods, which read or fill
    memoryviews and return when the operation is complete."""

    allows_threads = True

    def __init__(self, group: _Group, members: list[int]) -> None:
        import torch.distributed as distributed

        if members != sorted(members):
            _c.raise_error("input", "group", f"has its ranks in the order {members}, but new groups have them in ascending order",
                           "Create it with its ranks in ascending order")
        self._dist = distributed
        self._group = group
        self._members = members  # ranks of the members in the default group, for broadcast()
        self.rank = members.index(distributed.get_rank())
        self.size = len(members)

    @classmethod
    def of(cls, group: Any) -> TorchRanks:
        """Returns the ranks of a process group. Collective over the group, which may be a part of the job: other
        processes do not participate. If the group cannot transfer CPU memory, as with NCCL, a second group that can is
        created."""
        import torch.distributed as distributed

        members: list[Any] = [None] * distributed.get_world_size(group)
        distributed.all_gather_object(members, distributed.get_rank(), group=group)
        if "gloo" in distributed.get_backend(group):
            return cls(_Group(group), members)
        return cls(_new_group(members, asked_by=members), members)

    def broadcast(self, data: memoryview, root: int) -> None:
        if len(data):
            self._dist.broadcast(_tensor(data), self._members[root], group=self._group.current())

    def all_gather(self, mine: memoryview, everything: memoryview) -> None:
        if len(mine) == 0:
            return
        rows = _tensor(everything).view(self.size, len(mine))
        self._dist.all_gather(list(rows.unbind()), _tensor(mine), group=self._group.current())

    def all_gather_lists(self, mine: memoryview, sizes: list[int], everything: memoryview) -> None:
        import torch

        longest = max(sizes)
        if longest == 0:
            return
        # Process groups can only gather tensors of equal size.
        own = torch.empty(longest, dtype=torch.uint8)
        if len(mine):
            own[: len(mine)] = _tensor(mine)
        rows = torch.empty(self.size, longest, dtype=torch.uint8)
        self._dist.all_gather(list(rows.unbind()), own, group=self._group.current())
        torch.cat([row[:size] for row, size in zip(rows, sizes)], out=_tensor(everything))

    def all_reduce(self, values: memoryview, largest: bool) -> None:
        import torch

        reduction = self._dist.ReduceOp.MAX if largest else self._dist.ReduceOp.MIN
        self._dist.all_reduce(torch.frombuffer(values, dtype=torch.int64), reduction, group=self._group.current())

    def all_to_all(self, out: memoryview, out_sizes: list[int], into: memoryview, in_sizes: list[int]) -> None:
        self._dist.all_to_all_single(_tensor(into), _tensor(out), in_sizes, out_sizes, group=self._group.current())

    def duplicate(self) -> TorchRanks:
        return TorchRanks(_new_group(self._members, asked_by=self._members), self._members)

    def split(self, color: int, key: int) -> TorchRanks | None:
        places: list[Any] = [None] * self.size
        self._dist.all_gather_object(places, (color, key), group=self._group.current())
        mine = None
        for each in sorted({place[0] for place in places if place[0] >= 0}):
            if each != color and not _is_whole_job(self._members):
                continue
            chosen = sorted((place[1], rank) for rank, place in enumerate(places) if place[0] == each)
            members = [self._members[rank] for _, rank in chosen]
            # The same ranks make all their calls in the same order, so a second group is not needed to separate calls.
            group = self._group if members == self._members else _new_group(members, asked_by=self._members)
            if each == color:
                mine = TorchRanks(group, members)
        return mine

    def split_by_node(self) -> TorchRanks:
        nodes: list[Any] = [None] * self.size
        self._dist.all_gather_object(nodes, _node(), group=self._group.current())
        mine = self.split(nodes.index(nodes[self.rank]), self.rank)
        assert mine is not None
        return mine


class _Group:
    """A process group that the caller supplied or that was created here. A group created here is destroyed with its
    last user, and before Python exits, because torch's threads must not release tensors after that."""

    def __init__(self, group: Any, *, is_own: bool = False) -> None:
        self._place = [group]
        if is_own:
            weakref.finalize(self, _end_group, self._place)

    def current(self) -> Any:
        if not self._place:
            raise RuntimeError("the process is ending")
        return self._place[0]


def _end_group(place: list[Any]) -> None:
    import torch.distributed as distributed

    with contextlib.suppress(RuntimeError, ValueError, AssertionError):  # all groups of the job have already been destroyed
        distributed.destroy_process_group(place.pop())


def _new_group(members: list[int], *, asked_by: list[int]) -> _Group:
    """Creates a separate group of these members, in this order.

    If all processes of the job call this function, they create the group together, as torch requires. If only a part of
    the job calls it, the members create the group alone, because the other processes do not participate."""
    import torch.distributed as distributed

    if _is_whole_job(asked_by):
        return _Group(distributed.new_group(members, backend="gloo"), is_own=True)
    if distributed.get_backend() == "mpi":
        _c.raise_error("input", "group", "belongs to a job that uses torch's MPI backend, which cannot create the groups that evenkeel needs",
                          "Pass an mpi4py communicator")
    return _Group(_create_by_members(members), is_own=True)


_groups_created: collections.Counter[tuple[int, ...]] = collections.Counter()


def _create_by_members(members: list[int]) -> Any:
    """Creates a group like new_group(), but does not wait for all processes of the job at the end.

    Members find each other by a name that contains the number of groups they have created before. PyTorch has had
    ``use_local_synchronization`` since 2.1, but it reuses a name once this process has destroyed its group, which other
    members may not have done yet.
    """
    import torch.distributed as distributed
    from torch.distributed import distributed_c10d

    name = f"evenkeel {members} {_groups_created[tuple(members)]}"
    _groups_created[tuple(members)] += 1
    made = distributed_c10d._new_process_group_helper(
        len(members), members.index(distributed.get_rank()), members, distributed_c10d.Backend.GLOO,
        distributed_c10d._get_default_store(), group_name=name, timeout=distributed_c10d.default_pg_timeout)
    group = made[0] if isinstance(made, tuple) else made  # a tuple of the group and its store since 2.1
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
    """Returns a name that only the processes of this machine share. A separate test determines whether they can share
    memory."""
    try:
        with open("/proc/sys/kernel/random/boot_id", encoding="ascii") as boot:
            machine = boot.read().strip()
    except OSError:
        machine = ""
    try:
        network = os.readlink("/proc/self/ns/net")  # distinguishes simulated nodes, as their host names do with MPI
    except OSError:
        network = ""
    return f"{socket.gethostname()} {machine} {network}"
