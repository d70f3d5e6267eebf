"""rank_program.py RESULTS: process RANK of WORLD_SIZE (variables as set by torchrun) in torch.distributed (gloo). Processes
rendezvous in the folder RESULTS. Runs the vectors' cases for that number of ranks and further cases, and writes this rank's
results to RESULTS/RANK.json."""

import json
import os
import pathlib
import sys

import torch
import torch.distributed as distributed

import evenkeel
from evenkeel.drop_in import mindspeed_rl, roll, verl
from golden import cases_of, plain, result_of
from golden_families import run
from stand_ins import columns_of, config, data_proto

LENGTHS = {  # names of the arguments with a case's lengths
    "rearrange_micro_batches": "seqlen_list",
    "verl_rearrange_micro_batches": "seqlens",
    "roll_sequence_packing": "lengths",
}


def golden_results(rank, size, group):
    """Returns this rank's results by family and case, with strict_reference and by default."""
    results = {}
    for family, key in LENGTHS.items():
        for case in cases_of(family):
            ranks = [case["input"][key], *case["input"]["other_ranks"]]
            if len(ranks) == size:
                own = {**case["input"], key: ranks[rank]}
                results[f"{family}/{case['name']}"] = [run(family, own, strict, group=group) for strict in (True, False)]
    return results


def agree_in_subgroup(rank, size):
    """Only the ranks of dp_group agree on a count; each other rank has the count that it needs."""
    group = distributed.new_group([0, 1])
    lengths = [4] * (8 if rank == 0 else 2)
    if rank > 1:
        return len(verl.rearrange_micro_batches(columns_of(lengths), 4, None, same_micro_num_in_dp=False)[1])
    return len(verl.rearrange_micro_batches(columns_of(lengths), 4, group)[1])


def agree_without_group(rank, size):
    """All ranks of the job agree on a count, as in the calls of verl's actors and critics."""
    lengths = [4] * (8 if rank == size - 1 else 2)
    return [len(rearrange(columns_of(lengths), 4)[1]) for rearrange in (verl.rearrange_micro_batches, verl.prepare_dynamic_batch)]


def fail_on_last_rank(rank, size):
    """A sample above the cap on one rank makes all ranks raise an error."""
    lengths = [3, 9] if rank == size - 1 else [3, 3]
    try:
        verl.rearrange_micro_batches(columns_of(lengths), 8, distributed.group.WORLD)
    except evenkeel.Error as error:
        return type(error).__name__
    return "no error"


def pass_wrong_type_on_first_rank(rank, size):
    try:
        mindspeed_rl.rearrange_micro_batches("lengths" if rank == 0 else [1, 2], 8)
    except evenkeel.Error as error:
        return type(error).__name__
    return "no error"


def exceed_cap_on_first_rank(rank, size):
    """Rank 0 needs one more micro-batch than its number of tokens requires, and so do then the other ranks."""
    lengths = [2, 2, 2] if rank == 0 else [1, 1, 1]
    return verl.rearrange_micro_batches(columns_of(lengths), 3, distributed.group.WORLD)[1]


def pack_without_group(rank, size):
    settings = roll.SequencePackingConfig("load_balance", 64, 64)
    return result_of(lambda: list(roll.make_micro_batch_iter_for_sequence_packing(
        data_proto([3, 4]), 1, 1, 1, config=settings)))


def context_parallel_round_trip(rank, size):
    """Cuts a batch, gathers it from all ranks again, and computes this rank's gradient."""
    whole = torch.arange(2 * 8 * size, dtype=torch.double).reshape(2, 8 * size)
    equal = {}
    for name, settings in {
        "ring": config(context_parallel_size=size),
        "ulysses": config(context_parallel_size=size, context_parallel_algo="ulysses_cp_algo"),
    }.items():
        batch, index = mindspeed_rl.get_batch_on_this_cp_rank(settings, {"x": whole.clone()}, [], cp_rank=rank)
        own = batch["x"].requires_grad_()
        back = mindspeed_rl.get_output_allgather_cp_without_pack(own, size, index, cp_group=distributed.group.WORLD)
        beside = mindspeed_rl.allgather_tensor_cp_group(own, size, cp_group=distributed.group.WORLD)
        assert beside.shape == back.shape and torch.equal(beside.sum(), back.sum())
        (back * whole).sum().backward()
        equal[name] = [torch.equal(back.detach(), whole), torch.equal(own.grad, own.detach())]
    settings = config(context_parallel_size=size, reset_attention_mask=True, cp_attention_mask_type="causal")
    row = whole.reshape(1, -1)
    batch, index = mindspeed_rl.get_batch_on_this_cp_rank(
        settings, {"x": row.clone()}, [4, row.shape[1] // size], cp_rank=rank)
    back = mindspeed_rl.get_output_allgather_cp_with_pack(batch["x"], size, index, cp_group=distributed.group.WORLD)
    equal["packed"] = [torch.equal(back, row)]
    return equal


SPECIFICATIONS = (agree_in_subgroup, agree_without_group, fail_on_last_rank, pass_wrong_type_on_first_rank, exceed_cap_on_first_rank,
                  pack_without_group, context_parallel_round_trip)


def main():
    torch.set_num_threads(1)
    rank, size, folder = int(os.environ["RANK"]), int(os.environ["WORLD_SIZE"]), pathlib.Path(sys.argv[1]).resolve()
    distributed.init_process_group("gloo", init_method=f"file://{folder}/meeting", rank=rank, world_size=size)
    results = {"golden": golden_results(rank, size, distributed.group.WORLD)}
    for specification in SPECIFICATIONS:
        results[specification.__name__] = plain(specification(rank, size))
    (folder / f"{rank}.json").write_text(json.dumps(results), encoding="utf-8")
    distributed.destroy_process_group()


main()
# All results are written. A thread of torch 1.13's gloo may release its last tensor while Python exits. Python then ends the
# thread, and C++ the process ("terminate called without an active exception").
sys.stdout.flush()
os._exit(0)
