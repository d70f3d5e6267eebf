#!/usr/bin/env python3
"""Times attention over a packed tree on a GPU: one prompt, eight agents that begin with it, six leaves each. Runs FlexAttention with
the block mask that Evenkeel makes on the host, a varlen kernel with gathered keys, and the same kernels path by path. First
compares outputs and gradients of all with a dense mask on a small tree. Needs torch 2.10 and a GPU:

    python3 python/benchmarks/tree_attention.py [rows of the tree] [heads] [head dimension]
"""

import inspect
import statistics
import sys
import time

import numpy as np
import torch
from torch.nn.attention.flex_attention import BlockMask, create_block_mask, flex_attention
from torch.nn.attention.varlen import varlen_attn

from evenkeel.prefix import PackedTreeLayout, PrefixTree

ROWS = int(sys.argv[1]) if len(sys.argv) > 1 else 65536
HEADS = int(sys.argv[2]) if len(sys.argv) > 2 else 16
DIM = int(sys.argv[3]) if len(sys.argv) > 3 else 128
AGENTS, LEAVES = 8, 6
TILE = 128
DEVICE = "cuda"

flex = torch.compile(flex_attention, dynamic=False)
# Versions of torch have different names for it.
causal = {"is_causal": True} if "is_causal" in inspect.signature(varlen_attn).parameters else {"window_size": (-1, 0)}


def tree_of(rows):
    """Returns a tree in which the prompt has a quarter of the rows, the agents' first turns a quarter, and the leaves half."""
    random = np.random.default_rng(1)
    prompt = random.integers(0, 50000, rows // 4)
    paths = []
    for agent in range(AGENTS):
        turn = np.concatenate([[agent], random.integers(0, 50000, rows // 4 // AGENTS - 1)])
        for leaf in range(LEAVES):
            own = np.concatenate([[leaf], random.integers(0, 50000, rows // 2 // AGENTS // LEAVES - 1)])
            paths.append(np.concatenate([prompt, turn, own]))
    return PackedTreeLayout(PrefixTree.from_tokens(paths), alignment=1), [len(path) for path in paths]


def on_device(array):
    return torch.from_numpy(np.ascontiguousarray(array)).to(DEVICE)


class TiledMask:
    """FlexAttention over one mask of ancestors."""

    def __init__(self, layout):
        lists = layout.block_mask(block_size=(TILE, TILE))
        tin, tout = map(on_device, layout.ancestor_intervals())
        self.mask_mod = lambda b, h, q, k: (tin[k] <= tin[q]) & (tin[q] < tout[k])
        self.mask = BlockMask(seq_lengths=(len(tin), len(tin)), BLOCK_SIZE=(TILE, TILE), mask_mod=self.mask_mod,
                              **{name: on_device(of) for name, of in lists.items()})

    def __call__(self, q, k, v):
        heads_first = (x.transpose(0, 1)[None] for x in (q, k, v))
        return flex(*heads_first, block_mask=self.mask)[0].transpose(0, 1)


class GatheredKeys:
    """A varlen kernel over keys that are gathered for each segment."""

    def __init__(self, layout):
        plan = layout.attention()
        self.rows = on_device(plan["key_rows"])
        self.q, self.k = on_device(plan["cu_seqlens_q_padded"]), on_device(plan["cu_seqlens_k_padded"])
        self.most = [int(torch.diff(of).max()) for of in (self.q, self.k)]

    def __call__(self, q, k, v):
        return varlen_attn(q, k[self.rows], v[self.rows], self.q, self.k, *self.most, **causal)


class Paths:
    """The same kernel path by path, with separate rows for every path."""

    def __init__(self, lengths):
        self.ends = torch.tensor(np.concatenate([[0], np.cumsum(lengths)]), dtype=torch.int32, device=DEVICE)
        self.most = max(lengths)

    def __call__(self, q, k, v):
        return varlen_attn(q, k, v, self.ends, self.ends, self.most, self.most, **causal)


def tensors_of(rows, dtype, seed=1):
    torch.manual_seed(seed)
    return [torch.randn(rows, HEADS, DIM, device=DEVICE, dtype=dtype, requires_grad=True) for _ in range(4)]


def run_passes(attend, q, k, v, weights):
    """Returns the output, and the gradients of a weighted sum."""
    out = attend(q, k, v)
    return [out, *torch.autograd.grad((out * weights).sum(), (q, k, v))]


def dense(layout):
    mask = on_device(layout.additive_mask())
    return lambda q, k, v: torch.nn.functional.scaled_dot_product_attention(
        *(x.transpose(0, 1)[None] for x in (q, k, v)), attn_mask=mask.to(q.dtype))[0].transpose(0, 1)


def compare():
    layout, _ = tree_of(3072)
    print(f"a tree of {len(layout.position_ids())} rows against a dense mask in float64: "
          "largest difference of output and gradients of q, k, v, over the largest value")
    for name, made, dtype in (("FlexAttention, float32", TiledMask, torch.float32), ("FlexAttention, bfloat16", TiledMask, torch.bfloat16),
                              ("varlen, gathered keys, bfloat16", GatheredKeys, torch.bfloat16)):
        values = tensors_of(len(layout.position_ids()), dtype)
        exact = [value.detach().double().requires_grad_() for value in values]
        wanted = run_passes(dense(layout), *exact)
        got = run_passes(made(layout), *values)
        print(f"  {name:34s}" + " ".join(f"{((g - w).abs().max() / w.abs().max()).item():9.1e}" for g, w in zip(got, wanted)))


def median_ms(call, rounds=11):
    times = []
    for _ in range(rounds):
        torch.cuda.synchronize()
        start = time.perf_counter()
        call()
        torch.cuda.synchronize()
        times.append(time.perf_counter() - start)
    return 1e3 * statistics.median(times[2:])


def build(layout):
    tiled = TiledMask(layout)
    rows = len(layout.position_ids())
    print(f"the block mask of {rows} rows, tiles of {TILE} by {TILE}, ms")
    print(f"  Evenkeel's lists on the host       {median_ms(lambda: layout.block_mask(block_size=(TILE, TILE))):9.2f}")
    print(f"  the same, and on the GPU           {median_ms(lambda: TiledMask(layout)):9.2f}")

    for name, make in (("create_block_mask on the GPU", create_block_mask), ("the same, compiled", torch.compile(create_block_mask))):
        def torch_makes(make=make):
            return make(tiled.mask_mod, None, None, rows, rows, device=DEVICE, BLOCK_SIZE=TILE)

        torch.cuda.empty_cache()
        torch.cuda.reset_peak_memory_stats()
        made = torch_makes()
        peak = torch.cuda.max_memory_allocated() / 2**30
        print(f"  {name:34s} {median_ms(torch_makes):9.2f}   {peak:.1f} GiB")
        require_equal(made, tiled.mask)


def require_equal(made, ours):
    """Requires the same tiles in the same order; entries after them have no meaning."""
    for kind in ("kv", "full_kv", "q", "full_q"):
        counts, lists = (getattr(made, f"{kind}_{what}")[0, 0] for what in ("num_blocks", "indices"))
        our_counts, our_lists = (getattr(ours, f"{kind}_{what}")[0, 0] for what in ("num_blocks", "indices"))
        assert torch.equal(counts, our_counts), kind
        listed = torch.arange(lists.shape[-1], device=DEVICE)[None] < counts[:, None]
        assert torch.equal(lists[listed], our_lists[..., : lists.shape[-1]][listed]), kind


def attend(layout, lengths):
    rows = len(layout.position_ids())
    print(f"one layer of attention forward and backward, {HEADS} heads of {DIM}, bfloat16; {rows} rows, {sum(lengths)} path by path")
    tasks = [("packed tree, FlexAttention", TiledMask(layout), [rows]), ("packed tree, varlen, gathered keys", GatheredKeys(layout), [rows])]
    groups = [lengths[i : i + max(1, ROWS // max(lengths))] for i in range(0, len(lengths), max(1, ROWS // max(lengths)))]
    tasks.append(("path by path, varlen, as many rows a pass", None, groups))
    for name, of, parts in tasks:
        total, peak = 0.0, 0
        for part in parts:
            kernel = of or Paths(part)
            values = tensors_of(part if isinstance(part, int) else sum(part), torch.bfloat16)
            torch.cuda.reset_peak_memory_stats()
            before = torch.cuda.memory_allocated()
            total += median_ms(lambda: run_passes(kernel, *values))
            peak = max(peak, torch.cuda.max_memory_allocated() - before)
        print(f"  {name:44s} {total:9.2f} ms in {len(parts)} passes, {peak / 2**30:.2f} GiB beside q, k, v")


def main():
    print(f"torch {torch.__version__}, {torch.cuda.get_device_name()}")
    compare()
    layout, lengths = tree_of(ROWS)
    build(layout)
    attend(layout, lengths)


if __name__ == "__main__":
    main()
