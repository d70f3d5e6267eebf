"""Lengths and costs can be lists, arrays and tensors. A value is not converted if that would change it."""

import array
import threading

import numpy as np
import pytest

import evenkeel
from evenkeel import _arrays

NUMBERS = [7, 0, 3, 2**40]


class Indexed:
    """A number type of another library."""

    def __index__(self):
        return 5


def read(values):
    return _arrays.integers(values, "lengths").tolist()


@pytest.mark.parametrize("dtype", ["int8", "int16", "int32", "int64", "uint8", "uint16", "uint32", "uint64", ">i4", ">i8"])
def test_every_integer_dtype_is_read(dtype):
    assert read(np.array([7, 0, 3], dtype=dtype)) == [7, 0, 3]


@pytest.mark.parametrize("make", [list, tuple, np.array, lambda x: array.array("q", x), lambda x: memoryview(np.array(x))])
def test_every_kind_of_list_is_read(make):
    assert read(make(NUMBERS)) == NUMBERS


def test_ranges_and_objects_with_an_index_are_read():
    assert read(range(2, 8, 2)) == [2, 4, 6]
    assert read([np.int32(4), Indexed(), 1]) == [4, 5, 1]


def test_an_empty_list_of_any_dtype_has_no_numbers():
    assert read([]) == read(()) == read(np.array([])) == read(range(0)) == []


def test_strides_are_followed():
    numbers = np.arange(24).reshape(4, 6)
    assert read(numbers[1]) == list(range(6, 12))
    assert read(numbers[:, 2]) == [2, 8, 14, 20]
    assert read(numbers[3, ::-2]) == [23, 21, 19]
    assert read(np.broadcast_to(np.int64(3), 4)) == [3, 3, 3, 3]


def test_a_read_only_array_is_read():
    numbers = np.arange(3)
    numbers.flags.writeable = False
    assert read(numbers) == [0, 1, 2]


@pytest.mark.parametrize(
    "values, what",
    [
        (np.array([1.0, 2.0]), "dtype 'float64'"),
        (np.array([True, False]), "dtype 'bool'"),
        (np.array(["a"]), "dtype 'str"),
        (np.array([1, None], dtype=object), "dtype 'object'"),
        (np.array([1j]), "dtype 'complex128'"),
        (np.zeros(2, dtype="M8[s]"), "dtype 'datetime64"),
        (np.zeros((2, 2), dtype=int), "2 dimensions"),
        (np.array(3), "0 dimensions"),
        (np.array([1, 2**63], dtype=np.uint64), r"lengths\[1\]"),
        (np.ma.masked_array([1, 2], mask=[0, 1]), "masked array.*compressed"),
        ([1, 2.0], r"lengths\[1\]: is 2.0"),
        ([1, True], r"lengths\[1\]: is True"),
        ([1, None], r"lengths\[1\]: is None"),
        ([1, "2"], r"lengths\[1\]: is '2'"),
        ([[1], [2]], r"lengths\[0\]: is \[1\]"),
        ([2**63], r"lengths\[0\]: .* does not fit into int64"),
        ([-(2**64)], r"lengths\[0\]: .* does not fit into int64"),
    ],
)
def test_lists_without_whole_numbers_are_refused(values, what):
    with pytest.raises(evenkeel.InputError, match=what):
        read(values)


@pytest.mark.parametrize("dtype", ["bfloat16", "float16", "float8_e4m3fn"])
def test_a_tensor_of_small_floats_is_refused(dtype):
    torch = pytest.importorskip("torch")
    if not hasattr(torch, dtype):
        pytest.skip(f"this PyTorch has no {dtype}")
    with pytest.raises(evenkeel.InputError, match=f"dtype 'torch.{dtype}'"):
        read(torch.tensor([1.0, 2.0]).to(getattr(torch, dtype)))


@pytest.mark.parametrize("values", [None, 3, "123", {1, 2}, {1: 2}, object(), iter([1, 2])])
def test_an_object_that_is_not_a_list_has_a_wrong_type(values):
    with pytest.raises(TypeError, match="lengths has the type"):
        read(values)


def test_a_list_that_an_entry_changes_meanwhile_is_read_as_it_was():
    numbers = []

    class Shrinks:
        def __index__(self):
            del numbers[1:]
            return 1

    numbers += [Shrinks(), *range(1000)]
    assert read(numbers) == [1, *range(1000)]


def test_an_error_of_an_entry_is_its_own():
    class Fails:
        def __index__(self):
            raise KeyError("mine")

    with pytest.raises(KeyError, match="mine"):
        read([Fails()])


def test_an_array_that_others_write_to_meanwhile_does_no_harm():
    numbers = np.full(20_000, 5, dtype=np.int64)
    done = threading.Event()

    def write():
        while not done.is_set():
            numbers[:] = -1
            numbers[:] = 5

    writer = threading.Thread(target=write)
    writer.start()
    try:
        for _ in range(20):
            try:
                assert evenkeel.karmarkar_karp(numbers, 8).sums(np.full(20_000, 5)).sum() == 100_000
            except evenkeel.InputError:
                pass  # the array was read while it contained -1
    finally:
        done.set()
        writer.join()
