"""Tensors move to a device in one copy of the arena, and in separate copies if they are not in the arena."""

import numpy as np
import pytest

from evenkeel import _fields

torch = pytest.importorskip("torch")


class Copies:
    """Counts the tensors that are moved, and records them."""

    def __init__(self, monkeypatch):
        self.moved = []
        to = torch.Tensor.to

        def counting(tensor, *args, **kwargs):
            self.moved.append((tensor.dtype, tuple(tensor.shape)))
            return to(tensor, *args, **kwargs)

        monkeypatch.setattr(torch.Tensor, "to", counting)


@pytest.fixture
def arena():
    return np.arange(2048, dtype=np.int64).view(np.uint8)[: 40 * 256].copy()


def part(arena, offset, count, dtype):
    return torch.from_numpy(arena[offset : offset + count * np.dtype(dtype).itemsize].view(dtype))


def tensors_in(arena):
    return {
        "input_ids": part(arena, 256, 100, np.int64),
        "offsets": (part(arena, 1280, 6, np.float16).view(3, 2), part(arena, 1536, 4, np.int64)),
        "mask": part(arena, 2048, 9, np.bool_),
        "hidden": part(arena, 2304, 8, np.int16).view(torch.bfloat16).view(4, 2),
        "texts": ["a", "b"],
        "max_seqlen": 7,
    }


def test_everything_in_the_arena_is_copied_at_once(monkeypatch, arena):
    copies = Copies(monkeypatch)
    tensors = tensors_in(arena)
    moved = _fields.move_to_device(tensors, arena, "meta", True)
    assert copies.moved == [(torch.uint8, (2304,))], "from the first to the last part, and no text behind them"
    assert list(moved) == list(tensors) and (moved["texts"], moved["max_seqlen"]) == (["a", "b"], 7)
    for name in ("input_ids", "mask", "hidden"):
        assert moved[name].is_meta and (moved[name].dtype, moved[name].shape, moved[name].stride()) == (
            tensors[name].dtype, tensors[name].shape, tensors[name].stride())
    assert [one.shape for one in moved["offsets"]] == [one.shape for one in tensors["offsets"]]


def test_views_of_the_copy_have_the_values_of_the_tensors(monkeypatch, arena):
    tensors = {**tensors_in(arena), "a trainer's slice": part(arena, 256, 100, np.int64)[3:5]}
    monkeypatch.setattr(torch.Tensor, "to", lambda tensor, *_, **__: tensor.clone())  # a device whose memory can be read
    moved = _fields.move_to_device(tensors, arena, "meta", False)
    for name in ("input_ids", "mask", "hidden", "a trainer's slice"):
        assert torch.equal(moved[name].view(torch.uint8), tensors[name].view(torch.uint8)), name
        assert moved[name].is_contiguous() and moved[name].data_ptr() != tensors[name].data_ptr()
    assert all(map(torch.equal, moved["offsets"], tensors["offsets"]))


def test_tensors_outside_of_the_arena_and_those_of_a_trainer_are_copied_separately(monkeypatch, arena):
    tensors = tensors_in(arena)
    tensors["own"] = torch.zeros(5)
    tensors["strided"] = tensors["hidden"].T
    tensors["trained"] = part(arena, 3072, 4, np.float32).requires_grad_()
    tensors["none"] = torch.zeros(0, 3)
    copies = Copies(monkeypatch)
    moved = _fields.move_to_device(tensors, arena, "meta", False)
    assert sorted(shape for _, shape in copies.moved) == sorted([(2304,), (5,), (2, 4), (4,), (0, 3)])
    assert moved["trained"].requires_grad and moved["strided"].stride() == tensors["strided"].stride()
    copies.moved.clear()
    _fields.move_to_device({"own": torch.zeros(5)}, arena, "meta", False)
    assert copies.moved == [(torch.float32, (5,))], "nothing of the arena is needed"


def test_the_cpu_has_the_tensors_themselves(arena):
    tensors = tensors_in(arena)
    moved = _fields.move_to_device(tensors, arena, "cpu", False)
    assert moved["input_ids"].data_ptr() == tensors["input_ids"].data_ptr()
