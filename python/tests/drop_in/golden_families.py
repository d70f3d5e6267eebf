"""Runs each family of tests/golden through the drop-in functions, for comparison with the vectors. Also checks some promises of
the other projects' documentation."""

from unittest import mock

import torch

from evenkeel import packing
from evenkeel.drop_in import mindspeed_rl, roll, verl
from evenkeel.drop_in.prefix_grouper import PrefixGrouper
from golden import plain, result_of
from stand_ins import DataProto, config, mask_of


def karmarkar_karp(case, strict):
    arguments = case["seqlen_list"], case["k"], case["equal_size"]
    for module in (verl, mindspeed_rl):
        raw = result_of(lambda: module.karmarkar_karp(*arguments))
    return {"partitions_raw": raw, "partitions_sorted": result_of(lambda: verl.get_seqlen_balanced_partitions(*arguments))}


def lpt(case, strict):
    arguments = case["seqlen_list"], case["k"], case["equal_size"]
    return {
        "partitions_raw": result_of(lambda: mindspeed_rl.heapq_partition(*arguments)),
        "partitions_sorted": result_of(lambda: mindspeed_rl.get_seqlen_balanced_partitions(*arguments)),
    }


def lpt_with_max(case, strict):
    return {"partitions_raw": result_of(lambda: mindspeed_rl.heapq_partition_with_max(
        case["seqlen_list"], case["k"], case["max_token_len"]))}


def balanced_bin_packing(case, strict):
    return {"partitions": result_of(lambda: mindspeed_rl.balanced_bin_packing(case["seqlen_list"], case["max_capacity"]))}


def group_balanced(case, strict):
    return {"partitions": verl.get_group_balanced_partitions(
        case["seqlen_list"], case["uid_list"], case["k"], strict_reference=strict)}


def flat(partitions):
    return [index for partition in partitions for index in partition]


def rearrange_micro_batches(case, strict, group=None):
    partitions = mindspeed_rl.rearrange_micro_batches(
        case["seqlen_list"], case["max_token_len"], case["dynamic_max_batch_size"], group, strict_reference=strict)
    return {"num_micro_batches": len(partitions), "partitions": partitions,
            "reverse_idx": mindspeed_rl.get_reverse_idx(flat(partitions))}


def verl_rearrange_micro_batches(case, strict, group=None):
    mask = mask_of(case["seqlens"], case["mask_width"])
    batch = {"attention_mask": mask, "sample": torch.arange(len(mask))}
    micro_batches, partitions = verl.rearrange_micro_batches(
        batch, case["max_token_len"], group, case["num_batches_divided_by"], case["same_micro_num_in_dp"],
        case["min_num_micro_batch"], case["use_dynamic_bsz_balance"], strict_reference=strict)
    assert [micro_batch["sample"].tolist() for micro_batch in micro_batches] == partitions
    return {"micro_bsz_idx": partitions, "reverse_idx": verl.get_reverse_idx(flat(partitions))}


def roll_dynamic_batching(case, strict):
    mask = mask_of(case["seq_lens"], case["max_len"])
    data = DataProto({"attention_mask": mask, "sample": torch.arange(len(mask))}, {}, {})
    batch, metrics = roll.dynamic_batching_shard(
        data, case["dp_size"], case["max_tokens_per_microbatch"], case["sequence_length_round"], case["pp"], case["vpp"],
        case["log_prefix"], strict_reference=strict)
    order = batch.batch["sample"].tolist()
    sizes = batch.meta_info.get("shard_sizes") or [len(order) // case["dp_size"]] * case["dp_size"]
    shards = [order[sum(sizes[:r]) : sum(sizes[: r + 1])] for r in range(len(sizes))]
    return {"order": order, "shards": shards, "metrics": metrics, **batch.meta_info}


def roll_sequence_packing(case, strict, group=None):
    cap, least = case["max_packed_sequence_length"], case["min_num_micro_batches"]
    settings = roll.SequencePackingConfig("load_balance", cap, cap, least, least)
    packer = roll.get_sequence_packing_packer(settings, strict_reference=strict)
    factor = {"pad_factor": packer.get_pad_factor(case["cp"], case["tp"])}
    mask = mask_of(case["lengths"], case["mask_width"])
    data = DataProto({"attention_mask": mask, "sample": torch.arange(len(mask))}, {}, {})

    def run():
        micro_batches = list(packer.make_micro_batch_iter_for_sequence_packing(
            data, case["tp"], case["cp"], case["vp"], case["is_train"], group))
        partitions = data.meta_info["partition_indices_list"]
        assert [m.batch["sample"].tolist() for m in micro_batches] == partitions
        assert [m.meta_info["partition_indices"] for m in micro_batches] == partitions
        return {"partition_indices_list": partitions, "num_micro_batchs": len(micro_batches)}

    found = result_of(run)
    return {**found, **factor}


def roll_batch_balance(case, strict):
    mask = mask_of(case["lengths"], case["mask_width"])
    data = DataProto({"attention_mask": mask, "sample": torch.arange(len(mask))}, {}, {})
    metrics = roll.batch_balance(data, case["dp_size"], case["minibatch_size"], keep_minibatch=case["keep_minibatch"],
                                 strict_reference=strict)
    return {"order": data.batch["sample"].tolist(), "metrics": metrics}


def roll_restore_results_order(case, strict):
    results = {"x": torch.tensor(case["results"]), "loss": torch.tensor(2.0), "name": "a"}
    restore = roll.LoadBalancePacker.restore_results_order(results, case["partition_indices_list"])
    assert restore["loss"] is results["loss"] and restore["name"] == "a"
    return {"restored": restore["x"].tolist()}


def roll_pack(case, strict):
    ids, mask = torch.tensor(case["input_tensor"]), torch.tensor(case["attention_mask"])
    packers = [roll.SequencePacker(case["tp"], case["cp"], rank, case["align_override"], strict_reference=strict)
               for rank in range(case["cp"])]

    def run():
        packed = [p._pack_sequences(ids, mask, case["pad_packed_seq_to"], case["pad_val"]) for p in packers]
        tensors = [result[0] for result in packed]
        params, cu_seqlens, cu_seqlens_padded = packed[0][1:]
        assert params.cu_seqlens_q is cu_seqlens_padded and cu_seqlens.dtype == torch.int32
        unpacked = [list(p._unpack_sequences(t, cu_seqlens_padded)) for p, t in zip(packers, tensors)]
        return {"packed_per_cp_rank": [t[0] for t in tensors], "unpacked_per_cp_rank": [[s[0] for s in u] for u in unpacked],
                "cu_seqlens": cu_seqlens, "cu_seqlens_padded": cu_seqlens_padded, "max_seqlen": params.max_seqlen_q}

    return {**result_of(run), "pad_factor": packers[0]._get_pad_factor()}


def remove_padding(case, strict):
    if case["op"] == "preprocess":
        ids, labels, mask = (torch.tensor(case[key]) for key in ("input_ids", "labels", "attention_mask_1d"))
        names = ("input_ids_packed", "position_ids_packed", "labels_packed", "seqlens_in_batch", "cu_seqlens_padded")
        return dict(zip(names, mindspeed_rl.preprocess_packed_seqs(
            ids, labels, mask, case["tp_size"], strict_reference=strict)))
    prompts = None if case["prompt_length"] is None else torch.tensor(case["prompt_length"])
    output = mindspeed_rl.postprocess_packed_seqs(
        torch.tensor(case["output"]), torch.tensor(case["seqlens_in_batch"]), torch.tensor(case["cu_seqlens_padded"]),
        case["seq_len"], prompts, strict_reference=strict)
    return {"output": output, "shape": list(output.shape)}


def restore(settings, shares, indices, packed):
    """Combines all ranks' shares, with an all-gather that gives rank 0 the parts of the others."""
    gather = {True: mindspeed_rl.get_tensor_allgather_cp_with_pack,
              False: mindspeed_rl.get_tensor_allgather_cp_without_pack}[packed]
    of_ranks = iter([shares, indices])

    def all_gather(outputs, own, group):
        outputs[:] = next(of_ranks)

    if settings.context_parallel_size == 1:
        return shares[0]
    with mock.patch("torch.distributed.all_gather", all_gather), mock.patch("torch.distributed.get_rank", lambda _: 0):
        return gather(shares[0], settings.context_parallel_size, indices[0], cp_group="the ranks above")


def mindspeed_cp_batch(case, strict):
    settings = config(**case["config"])

    def run():
        size = settings.context_parallel_size
        ids, positions, indices = [], [], []
        for rank in range(size):
            batch = {"input_ids": torch.tensor(case["input_ids"]), "position_ids": torch.tensor(case["position_ids"]),
                     "attention_mask": "as it is", "labels": None}
            found = mindspeed_rl.get_batch_on_this_cp_rank(
                settings, batch, case["actual_seq_len"], cp_rank=rank, strict_reference=strict)
            batch, index = found if isinstance(found, tuple) else (found, None)
            assert batch["attention_mask"] == "as it is" and batch["labels"] is None
            ids.append(batch["input_ids"]), positions.append(batch["position_ids"]), indices.append(index)
        packed = getattr(settings, "reset_attention_mask", False)
        whole = result_of(lambda: restore(settings, ids, indices, packed))
        return {"returns_tuple": isinstance(found, tuple), "input_ids_per_cp_rank": ids,
                "position_ids_per_cp_rank": positions, "index_per_cp_rank": indices, "restored_input_ids": whole}

    return {**result_of(run), "ring_degree": result_of(
        lambda: mindspeed_rl.get_ring_degree(settings, strict_reference=strict))}


# PrefixGrouper

def grouper_of(case, strict):
    mode = case["padding_mode"]
    return PrefixGrouper(case["group_info"], padding_mode=mode if isinstance(mode, str) else torch.tensor(mode),
                         strict_reference=strict)


def group_info(case, strict):
    grouper = grouper_of(case, strict)
    names = ("padding_mask", "grouped_prefix_mask", "grouped_suffix_mask", "ungrouped_prefix_mask", "ungrouped_suffix_mask",
             "prefix_attn_mask", "suffix_attn_mask", "grouped_prefix_indices", "grouped_suffix_indices",
             "ungrouped_prefix_indices", "ungrouped_suffix_indices", "prefix_lens", "grouped_suffix_lens",
             "ungrouped_suffix_lens", "num_samples", "total_lens")
    shapes = {name: list(getattr(grouper, name)) for name in ("x_shape", "prefix_x_shape", "suffix_x_shape")}
    return {**{name: getattr(grouper, name) for name in names}, **shapes}


def concat_input(case, strict):
    parts = (torch.tensor(case[name]) for name in ("prefix", "prefix_mask", "suffix", "suffix_mask"))
    return {"grouped": grouper_of(case, strict).concat_input(*parts)}


def split_output(case, strict):
    parts = grouper_of(case, strict).split_output(torch.tensor(case["output"]), case["include_prefix_last"])
    return {**dict(zip(("prefix_output", "prefix_mask", "suffix_output", "suffix_mask"), parts)),
            "prefix_shape": list(parts[0].shape), "suffix_shape": list(parts[2].shape)}


def ungroup(case, strict):
    grouper, x = grouper_of(case, strict), torch.tensor(case["x"])
    prefix, again, _, suffix, _, _ = grouper.ungroup(x, x, x)
    assert torch.equal(prefix, again)
    return {"x_prefix": prefix, "x_suffix": suffix, "prefix_shape": list(prefix.shape), "suffix_shape": list(suffix.shape),
            "group_of_ungrouped": grouper.group(prefix.transpose(1, 2), suffix.transpose(1, 2))}


def convert_padding(case, strict):
    mode = case["padding_mode"]
    output = PrefixGrouper.convert_padding(
        torch.tensor(case["x"]), torch.tensor(case["x_mask"]), mode if isinstance(mode, str) else torch.tensor(mode))
    return {"output": output, "shape": list(output.shape)}


def from_ungrouped_masks(case, strict):
    grouper = PrefixGrouper.from_ungrouped_masks(
        torch.tensor(case["prefix_mask"]), torch.tensor(case["suffix_mask"]), case["group_sizes"],
        padding_mode=case["padding_mode"] if isinstance(case["padding_mode"], str) else torch.tensor(case["padding_mode"]))
    return {"group_info": [list(info) for info in grouper.group_info], "padding_mask": grouper.padding_mask}


def position_ids(case, strict):
    grouper = grouper_of(case, strict)
    return {"verl_position_ids": verl.build_position_ids_for_prefix_grouper(grouper, strict_reference=strict),
            "qwen_example_text_position_ids": grouper.position_ids(1)}


def verl_build_pg_from_micro_batch(case, strict):
    batch = {name: torch.tensor(case[name]) for name in ("prompts", "responses", "response_mask")}
    grouper, ids, mask, positions, responses, response_mask = verl.build_pg_from_micro_batch(
        {**batch, "uid": case["uid"]}, case["pad_token_id"])
    assert responses is batch["responses"] and response_mask is batch["response_mask"]
    return {"group_info": [list(info) for info in grouper.group_info], "concat_input_ids": ids, "attention_mask": mask,
            "position_ids": positions}


def plain_attention(q, k, v, key_mask, scale, causal):
    """Computes attention of [x, h, queries, d] and [x, hkv, keys, d], as [x, queries, h, d]."""
    k, v = (part.repeat_interleave(q.shape[1] // part.shape[1], dim=1) for part in (k, v))
    scores = q @ k.transpose(2, 3) * scale
    seen = key_mask[:, None, None, :]
    if causal:
        behind = torch.ones(q.shape[2], k.shape[2], dtype=torch.bool).tril(k.shape[2] - q.shape[2])
        seen = seen & behind
    scores = scores.masked_fill(~seen, -1e30)
    return (scores.softmax(-1) @ v).transpose(1, 2)


def attention(case, strict):
    grouper = grouper_of(case, strict)
    q, k, v = (torch.tensor(case[name], dtype=torch.double, requires_grad=True) for name in ("q", "k", "v"))
    out = grouper.forward(plain_attention, q, k, v, case["softmax_scale"], causal=case["causal"])
    out.backward(torch.tensor(case["grad_out"], dtype=torch.double))
    return {"out": out.detach(), "dq": q.grad, "dk": k.grad, "dv": v.grad}


def prefix_grouper(case, strict):
    return globals()[case["op"]](case, strict)


# Transformer Engine's and Megatron's cuts, which evenkeel.packing provides.

def partitioned_indices(case):
    indices = [packing.partitioned_indices(case["cu_seqlens_padded"], case["cp_size"], rank).tolist()
               for rank in range(case["cp_size"])]
    return {"te_kernel_indices": indices, "te_python_indices": indices}


def cu_seqlens_on_cp_rank(case):
    ranks = []
    for rank in range(case["cp_size"]):
        found = packing.cu_seqlens_on_cp_rank(case["cu_seqlens"], case["cu_seqlens_padded"], case["cp_size"], rank)
        ranks.append({name: offsets.tolist() for name, offsets in zip(("first", "second", "both"), found)})
    return {"cu_seqlens_on_cp_rank": ranks}


def pad_thd(case):
    lengths = [end - begin for begin, end in zip(case["cu_seqlens"], case["cu_seqlens"][1:])]
    layout = packing.PackedLayout(lengths, alignment=case["divisibility_factor"])
    return {
        "input_ids_padded": packing.pack(layout, torch.tensor(case["input_ids"]), pad=case["padding_token_id"]),
        "labels_padded": packing.pack(layout, torch.tensor(case["labels"]), pad=case["padding_label_id"]),
        "cu_seqlens_padded": layout.cu_seqlens_padded.tolist(),
        "position_ids_padded": packing.position_ids(layout).tolist(),
    }


def megatron_per_sequence_zigzag(case):
    tokens, size = torch.tensor(case["tokens"]), case["cp_size"]
    cp = packing.CpGroup(size)
    layout = packing.PackedLayout([tokens.shape[1]] * len(tokens), alignment=cp.chunks, cp=cp)
    parts = packing.pack_all(layout, tokens.flatten())
    return {"tokens_per_cp_rank": [part.reshape(len(tokens), -1) for part in parts]}


def cp_thd_indices(case, strict):
    return globals()[case["op"]](case)


FAMILIES = {function.__name__: function for function in (
    karmarkar_karp, lpt, lpt_with_max, balanced_bin_packing, group_balanced, rearrange_micro_batches,
    verl_rearrange_micro_batches, roll_dynamic_batching, roll_sequence_packing, roll_batch_balance,
    roll_restore_results_order, roll_pack, remove_padding, mindspeed_cp_batch, prefix_grouper, cp_thd_indices)}


# Families of functions that have strict_reference; the cuts of evenkeel.packing do not.
STRICT = set(FAMILIES) - {"cp_thd_indices"}


def run(family, case, strict, **others):
    return result_of(lambda: plain(FAMILIES[family](case, strict, **others)))


# Promises of the documentation

def holds(partitions, sizes, cap, most=None):
    """Returns whether no group is above the cap or has more samples than `most`."""
    return all(sum(sizes[i] for i in part) <= cap and (most is None or len(part) <= most) for part in partitions)


def keeps_mindspeed(case, result):
    return holds(result["partitions"], case["seqlen_list"], case["max_token_len"], case["dynamic_max_batch_size"])


def keeps_verl(case, result):
    return holds(result["micro_bsz_idx"], case["seqlens"], case["max_token_len"])


def keeps_roll_packing(case, result):
    factor = result["pad_factor"]
    aligned = [-(-length // factor) * factor for length in case["lengths"]]
    return holds(result["partition_indices_list"], aligned, case["max_packed_sequence_length"])


def keeps_roll_batching(case, result):
    first, *_ = result["global_micro_batch_indices"]
    return first[0] < first[1] or not case["seq_lens"]


def keeps_prefix_grouper(case, result):
    if case["op"] != "split_output":
        return True
    return all(group[0] >= case["include_prefix_last"] for group in case["group_info"])


# Functions that return whether a result keeps its project's promise. Other families promise nothing beyond the result.
PROMISES = {
    "rearrange_micro_batches": keeps_mindspeed,
    "verl_rearrange_micro_batches": keeps_verl,
    "roll_sequence_packing": keeps_roll_packing,
    "roll_dynamic_batching": keeps_roll_batching,
    "prefix_grouper": keeps_prefix_grouper,
}


def keeps_promise(family, case, result):
    return "error" in result or PROMISES.get(family, lambda *_: True)(case, result)
