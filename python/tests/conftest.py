"""Shared by tests of rows: rows of every kind and dtype, and a plain reference implementation of packing."""

import numpy as np
import pytest

DTYPES = ["bool", "uint8", "int32", "int64", "float16", "float32", "float64", "complex64"]


class NumPyRows:
    """Makes NumPy rows."""

    @staticmethod
    def make(shape, dtype, seed=0):
        return (np.random.default_rng(seed).integers(1, 2 if dtype == "bool" else 100, size=shape)).astype(dtype)

    @staticmethod
    def equal(one, other):
        return isinstance(one, np.ndarray) and one.dtype == np.asarray(other).dtype and np.array_equal(one, other)


class TorchRows:
    """Makes torch rows."""

    @staticmethod
    def make(shape, dtype, seed=0):
        return pytest.importorskip("torch").from_numpy(NumPyRows.make(shape, dtype, seed))

    @staticmethod
    def equal(one, other):
        torch = pytest.importorskip("torch")
        return isinstance(one, torch.Tensor) and one.dtype == other.dtype and torch.equal(one, other)


@pytest.fixture(params=[NumPyRows, TorchRows], ids=["numpy", "torch"])
def kind(request):
    if request.param is TorchRows:
        pytest.importorskip("torch")
    return request.param


def rows_of_rank(layout, cp_rank):
    """Returns (sequence, position) of each local row of a CP rank, by the definition of the cut."""
    chunks = layout.cp.chunks
    places = []
    for sequence, aligned in enumerate(layout.aligned_lengths.tolist()):
        size = aligned // chunks
        mine = [cp_rank] if chunks == layout.cp.size else [cp_rank, chunks - 1 - cp_rank]
        for chunk in mine:
            places += [(sequence, t) for t in range(chunk * size, (chunk + 1) * size)]
    return places


def reference_pack(layout, values, cp_rank, pad):
    """Returns the expected result of pack, row by row."""
    rows = []
    for sequence, t in rows_of_rank(layout, cp_rank):
        first = int(layout.cu_seqlens[sequence])
        rows.append(values[first + t] if t < layout.lengths[sequence] else np.full(values.shape[1:], pad))
    return np.array(rows, dtype=values.dtype).reshape((len(rows), *values.shape[1:]))


def made_up_layout(seed, cp=None, **options):
    from evenkeel import CpGroup, PackedLayout

    random = np.random.default_rng(seed)
    lengths = random.integers(0, 30, size=random.integers(1, 9))
    if cp is None:
        cp = CpGroup(int(random.integers(1, 5)), ["zigzag", "contiguous"][seed % 2])
    return PackedLayout(lengths, cp=cp, tp=int(random.integers(1, 3)), **options)
