"""Tensors are passed in and out without copies; a tensor for which that is impossible is refused with advice."""

import gc

import numpy as np
import pytest

import evenkeel
from evenkeel import PackedLayout, _arrays, merge, pack, packing, padding

torch = pytest.importorskip("torch")

LAYOUT = PackedLayout([2, 1], alignment=4, cp=2)
TORCH_DTYPES = [torch.bool, torch.uint8, torch.int8, torch.int16, torch.int32, torch.int64, torch.float16, torch.bfloat16,
                torch.float32, torch.float64, torch.complex64]


class ThroughDlpack:
    """An array of a library that only supports DLPack."""

    def __init__(self, tensor, device=None):
        self.tensor = tensor
        self.device = device

    def __dlpack__(self, stream=None):
        return self.tensor.__dlpack__()

    def __dlpack_device__(self):
        return self.device or self.tensor.__dlpack_device__()


@pytest.mark.parametrize("dtype", TORCH_DTYPES, ids=str)
def test_a_tensor_is_read_without_a_copy(dtype):
    tensor = torch.ones(5, dtype=dtype)
    array = _arrays.as_numpy(tensor, "x")
    assert array.__array_interface__["data"][0] == tensor.data_ptr()
    assert array.nbytes == tensor.numel() * tensor.element_size()


@pytest.mark.parametrize("dtype", TORCH_DTYPES, ids=str)
def test_results_are_tensors_of_the_same_dtype(dtype):
    values = (torch.arange(12).reshape(3, 4) % 2).to(dtype)
    parts = [pack(LAYOUT, values, cp_rank=r, pad=1) for r in range(2)]
    assert all(part.dtype == dtype and part.shape == (4, 4) for part in parts)
    assert torch.equal(merge(LAYOUT, parts), values)
    assert bool((parts[0][[1, 3]] == 1).all())  # padding


def test_a_result_is_written_into_the_callers_tensor():
    out = torch.empty(4, dtype=torch.int64)
    address = out.data_ptr()
    assert pack(LAYOUT, torch.tensor([1, 2, 3]), out=out).data_ptr() == address


def test_numpys_results_are_taken_by_torch_without_a_copy():
    positions = packing.position_ids(LAYOUT)
    tensor = torch.from_numpy(positions)
    assert tensor.data_ptr() == positions.__array_interface__["data"][0]
    tensor[0] = 77  # numpy's result is writable
    assert positions[0] == 77


@pytest.mark.parametrize(
    "call",
    [
        lambda x: packing.loss_mask(LAYOUT, x),
        lambda x: packing.partitioned_indices(torch.tensor([0, 4, 8]), 2, 0),
        lambda x: packing.cu_seqlens_on_cp_rank(torch.tensor([0, 4]), torch.tensor([0, 4]), 1, 0)[0],
        lambda x: padding.lengths_of_mask(torch.ones(2, 3, dtype=torch.int64)),
        lambda x: packing.loss_weights(LAYOUT, torch.tensor([0.5, 0.5]), torch.ones(4)),
        lambda x: packing.labels(LAYOUT, torch.tensor([1, 2, 3])),
    ],
)
def test_derived_lists_are_tensors_where_tensors_came_in(call):
    assert isinstance(call(torch.tensor([1, 1])), torch.Tensor)


def test_a_view_keeps_its_memory_alive():
    packed = pack(LAYOUT, torch.arange(3), pad=-1)
    view = packed[1:]
    expected = view.tolist()
    del packed
    gc.collect()
    torch.empty(4, dtype=torch.int64).fill_(9)
    assert view.tolist() == expected


@pytest.mark.parametrize("dtype", [torch.uint8, torch.int32, torch.int64])
def test_lengths_are_read_from_tensors(dtype):
    lengths = torch.tensor([5, 0, 3, 9, 2, 7], dtype=dtype)
    expected = evenkeel.plan(lengths.tolist(), mesh={"dp": 2})
    assert evenkeel.plan(lengths, mesh={"dp": 2}) == evenkeel.plan(lengths.clone().detach(), mesh={"dp": 2}) == expected
    assert PackedLayout(lengths[::2]).lengths.tolist() == [5, 3, 2]
    assert PackedLayout([n for n in lengths]).lengths.tolist() == lengths.tolist()


@pytest.mark.parametrize(
    "tensor, what",
    [
        (torch.ones(3, device="meta"), "is on the device meta.*x.cpu()"),
        (torch.ones(3).to_sparse(), "layout torch.sparse_coo.*to_dense"),
        (torch.ones(3, requires_grad=True), "requires a gradient.*detach"),
        (torch.ones(3, dtype=torch.complex64).conj(), "resolve_conj"),
        (torch.ones(6)[::2], "not contiguous.*contiguous()"),
        (torch.ones(2, 3).t(), "not contiguous"),
        (torch.ones(1).expand(3), "not contiguous"),
        (torch.tensor(3.0), "is a single number"),
        (torch.quantize_per_tensor(torch.ones(3), 1.0, 0, torch.qint8), "dtype torch.qint8"),
    ],
    ids=lambda x: x if isinstance(x, str) else "",
)
def test_a_tensor_without_plain_memory_is_refused_with_advice(tensor, what):
    with pytest.raises(evenkeel.InputError, match=what):
        pack(LAYOUT, tensor)


@pytest.mark.parametrize("tensor", [torch.tensor([1.0]), torch.tensor([True]), torch.tensor([1], device="meta")])
def test_lengths_in_a_tensor_that_holds_none_are_refused(tensor):
    with pytest.raises(evenkeel.InputError, match="lengths"):
        PackedLayout(tensor)


def test_a_tensor_whose_memory_was_freed_is_refused():
    tensor = torch.ones(3)
    tensor.storage().resize_(0)
    with pytest.raises(evenkeel.InputError, match="has lost its memory"):
        pack(LAYOUT, tensor)
    shorter = torch.ones(6)[3:]
    shorter.storage().resize_(4)
    with pytest.raises(evenkeel.InputError, match="has lost its memory"):
        pack(LAYOUT, shorter)


def test_a_pad_that_the_dtype_cannot_hold_is_refused():
    with pytest.raises(evenkeel.InputError, match="300 does not fit into the dtype torch.uint8"):
        pack(LAYOUT, torch.ones(3, dtype=torch.uint8), pad=300)
    with pytest.raises(evenkeel.InputError, match="1.5 does not fit"):
        pack(LAYOUT, torch.ones(3, dtype=torch.int64), pad=1.5)
    assert pack(LAYOUT, torch.ones(3, dtype=torch.bfloat16), pad=0.1)[-1] == torch.tensor(0.1, dtype=torch.bfloat16)


def test_kinds_are_not_mixed_in_one_result():
    with pytest.raises(evenkeel.InputError, match="out: has the dtype"):
        pack(LAYOUT, torch.arange(3), out=np.empty(4, np.int64))
    with pytest.raises(evenkeel.InputError, match=r"locals\[1\]"):
        merge(LAYOUT, [torch.zeros(4), np.zeros(4, np.float32)])


def test_arrays_that_know_dlpack_only_are_read():
    values = torch.tensor([5, 6, 7])
    packed = pack(LAYOUT, ThroughDlpack(values))
    assert isinstance(packed, np.ndarray) and packed.tolist() == [5, 0, 7, 0]
    assert _arrays.as_numpy(ThroughDlpack(values), "x").__array_interface__["data"][0] == values.data_ptr()
    assert PackedLayout(ThroughDlpack(torch.tensor([3, 4]))).lengths.tolist() == [3, 4]


def test_arrays_of_the_library_are_exported_over_its_memory():
    ids = evenkeel.PrefixTree.from_tokens([[1, 2, 3], [1, 4]]).position_ids()
    tensor, address = torch.from_dlpack(ids), ids.__array_interface__["data"][0]
    del ids
    gc.collect()
    assert tensor.data_ptr() == address and tensor.tolist() == [0, 1, 2, 1]


@pytest.mark.skipif(np.lib.NumpyVersion(np.__version__) < "2.1.0", reason="NumPy exports read-only arrays since 2.1")
def test_read_only_arrays_of_the_library_are_exported():
    ids = evenkeel.PrefixTree.from_tokens([[1, 2]]).position_ids()
    ids.flags.writeable = False
    assert torch.from_dlpack(ids).tolist() == [0, 1]


def test_memory_of_a_device_is_refused_before_it_is_touched():
    with pytest.raises(evenkeel.InputError, match="on a device of DLPack type 2"):
        pack(LAYOUT, ThroughDlpack(torch.tensor([5, 6, 7]), device=(2, 0)))
