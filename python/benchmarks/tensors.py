#!/usr/bin/env python3
"""Measures the time to view a tensor as an array, to pass an array to torch, and to pack rows between two tensors."""

import statistics
import time

import numpy as np
import torch

import evenkeel
from evenkeel import _arrays, packing


def microseconds_of(call, rounds=2001):
    """Returns the median, after a tenth of the rounds as warm-up."""
    times = []
    for _ in range(rounds):
        start = time.perf_counter()
        call()
        times.append(time.perf_counter() - start)
    return 1e6 * statistics.median(times[rounds // 10 :])


def address(array: np.ndarray) -> int:
    return array.__array_interface__["data"][0]


def main() -> None:
    torch.set_num_threads(1)
    random = np.random.default_rng(1)
    lengths = np.clip(random.lognormal(7.5, 1.0, size=1024), 1, 8192).astype(np.int64)
    layout = evenkeel.PackedLayout(lengths, cp=4)
    tokens = torch.arange(layout.num_tokens)
    packed = evenkeel.pack(layout, tokens)
    array = packing.position_ids(layout)
    assert _arrays.convert_like(array, tokens).data_ptr() == address(array)
    assert address(_arrays.as_numpy(packed, "packed")) == packed.data_ptr()

    print("microseconds, medians; the buffers have " + f"{packed.numel() * 8:,} bytes, of which none is copied")
    print(f"  a packed buffer handed to torch       {microseconds_of(lambda: _arrays.convert_like(array, tokens)):8.2f}")
    print(f"  a tensor looked at as an array        {microseconds_of(lambda: _arrays.as_numpy(packed, 'x')):8.2f}")
    bits = packed.view(torch.float32).to(torch.bfloat16)
    print(f"  the same, bfloat16                    {microseconds_of(lambda: _arrays.as_numpy(bits, 'x')):8.2f}")
    small = evenkeel.PackedLayout([2, 1])
    few = torch.arange(3)
    print(f"  pack of three tokens, tensors         {microseconds_of(lambda: evenkeel.pack(small, few)):8.2f}")
    few = np.arange(3)
    print(f"  the same, arrays                      {microseconds_of(lambda: evenkeel.pack(small, few)):8.2f}")

    out = torch.empty_like(packed)
    bytes_moved = packed.numel() * 8
    took = microseconds_of(lambda: evenkeel.pack(layout, tokens, out=out), 51)
    copied = microseconds_of(lambda: out.copy_(packed), 51)
    print(f"  pack of one of four ranks             {took:8.0f}   {bytes_moved / took / 1000:.1f} GB/s")
    print(f"  torch's copy of as many bytes         {copied:8.0f}   {bytes_moved / copied / 1000:.1f} GB/s")


if __name__ == "__main__":
    main()
