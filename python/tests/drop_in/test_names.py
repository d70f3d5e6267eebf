"""The drop-in modules have the names that the projects' users import, with documentation, and with arguments in the same order.
"""

import importlib
import inspect
import pathlib

import pytest

DOCS = pathlib.Path(__file__).parents[3] / "docs"
PAGES = {"verl": "verl.md", "roll": "roll.md", "mindspeed_rl": "mindspeed-rl.md", "prefix_grouper": "prefix-sharing.md"}
# Names that callers of the projects import from the covered modules, in all versions that were examined.
IMPORTED = {
    "verl": {
        "verl.utils.seqlen_balancing":
            "balanced_chunk_range calculate_workload ceildiv get_group_balanced_partitions get_reverse_idx "
            "get_seqlen_balanced_partitions greedy_partition karmarkar_karp log_seqlen_unbalance prepare_dynamic_batch "
            "rearrange_micro_batches restore_dynamic_batch roundup_divisible PaddingMode "
            "get_max_sequence_length_padding_micro_batches get_truncate_padding_micro_batches "
            "synchronize_micro_batches_num_across_ranks",
        "verl.trainer.ppo.prefix_grouper_utils":
            "attach_prefix_grouper_forward_args build_pg_from_micro_batch build_position_ids_for_prefix_grouper "
            "forward_micro_batch_with_prefix_grouper pg_forward response_output_to_nested",
    },
    "roll": {
        "roll.utils.dynamic_batching":
            "dynamic_batching_shard get_dynamic_batching_loss_scale make_micro_batch_iter_for_dynamic_batching "
            "make_mini_batch_iter_for_dynamic_batching",
        "roll.utils.sequence_packing":
            "LoadBalancePacker SequencePackingConfig SequencePackingPacker get_sequence_packing_packer "
            "make_micro_batch_iter_for_sequence_packing restore_results_order",
        "roll.utils.functionals": "batch_balance get_seqlen_balanced_partitions log_seqlen_unbalance",
        "roll.distributed.strategy.megatron_strategy": "_get_pad_factor _pack_sequences _unpack_sequences",
    },
    "mindspeed_rl": {
        "mindspeed_rl.utils.seqlen_balancing":
            "balanced_bin_packing get_reverse_idx get_seqlen_balanced_partitions heapq_partition heapq_partition_with_max "
            "karmarkar_karp rearrange_micro_batches",
        "mindspeed_rl.utils.remove_padding": "postprocess_packed_seqs preprocess_packed_seqs",
        "mindspeed_rl.utils.context_parallel":
            "allgather_output_cp_group allgather_tensor_cp_group get_batch_on_this_cp_rank "
            "get_output_allgather_cp_with_pack get_output_allgather_cp_without_pack get_ring_degree "
            "get_tensor_allgather_cp_with_pack get_tensor_allgather_cp_without_pack",
    },
    "prefix_grouper": {
        "prefix_grouper": "GroupInfo GroupInfoForPackedSequence Info PrefixGrouper PrefixGrouperForPackedSequence",
        "prefix_grouper.forward": "AttentionForward",
        "prefix_grouper.function": "ConvertPaddingFunction GroupFunction UngroupFunction",
    },
}
SIGNATURES = {
    "verl.karmarkar_karp": "seqlen_list k_partitions equal_size",
    "verl.get_seqlen_balanced_partitions": "seqlen_list k_partitions equal_size",
    "verl.get_group_balanced_partitions": "seqlen_list uid_list k_partitions",
    "verl.log_seqlen_unbalance": "seqlen_list partitions prefix",
    "verl.rearrange_micro_batches": "batch max_token_len dp_group num_batches_divided_by same_micro_num_in_dp "
                                    "min_num_micro_batch use_dynamic_bsz_balance force_group_size",
    "verl.get_reverse_idx": "idx_map",
    "verl.prepare_dynamic_batch": "data max_token_len dp_group num_batches_divided_by same_micro_num_in_dp "
                                  "min_num_micro_batch use_dynamic_bsz_balance",
    "verl.restore_dynamic_batch": "data batch_idx_list",
    "verl.build_pg_from_micro_batch": "micro_batch pad_token_id padding_mode",
    "roll.get_seqlen_balanced_partitions": "seqlen_list k_partitions equal_size",
    "roll.batch_balance": "batch dp_size minibatch_size logging_prefix keep_minibatch",
    "roll.dynamic_batching_shard": "origin_batch dp_size max_tokens_per_microbatch sequence_length_round "
                                   "pipeline_model_parallel_size virtual_pipeline_model_parallel_size log_prefix",
    "roll.make_mini_batch_iter_for_dynamic_batching": "data epochs ga_steps keep_mini_batch mini_batch_size "
                                                      "pipeline_model_parallel_size virtual_pipeline_model_parallel_size",
    "roll.make_micro_batch_iter_for_dynamic_batching": "mini_batch",
    "roll.make_micro_batch_iter_for_sequence_packing": "mini_batch tp_size cp_size vp_size is_train dp_group "
                                                       "micro_batch_size config",
    "roll.restore_results_order": "results partition_indices_list config",
    "roll._pack_sequences": "self input_tensor attention_mask pad_packed_seq_to pad_val",
    "roll._unpack_sequences": "self output_tensor cu_seqlens_padded",
    "mindspeed_rl.heapq_partition": "seqlen_list k_partitions equal_size",
    "mindspeed_rl.heapq_partition_with_max": "seqlen_list k_partitions max_token_len",
    "mindspeed_rl.balanced_bin_packing": "seqlen_list max_capacity",
    "mindspeed_rl.rearrange_micro_batches": "seqlen_list max_token_len dynamic_max_batch_size dp_group",
    "mindspeed_rl.preprocess_packed_seqs": "input_ids labels attention_mask_1d tp_size",
    "mindspeed_rl.postprocess_packed_seqs": "output seqlens_in_batch cu_seqlens_padded seq_len prompt_length",
    "mindspeed_rl.get_batch_on_this_cp_rank": "megatron_config batch actual_seq_len",
    "mindspeed_rl.get_ring_degree": "megatron_config",
    "prefix_grouper.PrefixGrouper": "group_info device padding_mode",
    "prefix_grouper.PrefixGrouper.from_ungrouped_masks": "prefix_mask suffix_mask group_sizes device padding_mode",
    "prefix_grouper.PrefixGrouper.convert_padding": "x x_mask padding_mode",
    "prefix_grouper.PrefixGrouper.concat_input": "self prefix prefix_mask suffix suffix_mask",
    "prefix_grouper.PrefixGrouper.split_output": "self output include_prefix_last",
    "prefix_grouper.PrefixGrouper.ungroup": "self q k v",
    "prefix_grouper.PrefixGrouper.group": "self o_prefix o_suffix",
}


def imported():
    return [(ours, theirs, name) for ours, modules in IMPORTED.items() for theirs, names in modules.items()
            for name in names.split()]


def missing_names(page):
    """Returns, for each name without a function, the reason on the page."""
    section = page.partition("### Names that are not here")[2].split("\n## ", 1)[0]
    rows = [line.split("|") for line in section.splitlines()]
    return {name: row[3].strip() for row in rows if len(row) > 3 for name in row[1].replace("`", "").replace(",", "").split()}


@pytest.mark.skipif(not DOCS.exists(), reason="the package is tested without the repository")
def test_each_name_that_callers_import_exists_or_its_page_gives_the_reason():
    pages = {ours: (DOCS / page).read_text(encoding="utf-8") for ours, page in PAGES.items()}
    for ours, theirs, name in imported():
        page, missing = pages[ours], missing_names(pages[ours])
        there = hasattr(importlib.import_module(f"evenkeel.drop_in.{ours}"), name)
        assert there == (name not in missing), f"{theirs}.{name}"
        assert there or missing[name], f"no reason for {theirs}.{name}"
        assert f"`{name}`" in page, f"{theirs}.{name}"


def resolve(path):
    module, *names = path.split(".")
    thing = importlib.import_module(f"evenkeel.drop_in.{module}")
    for name in names:
        thing = getattr(thing, name)
    return thing


@pytest.mark.parametrize("path", SIGNATURES)
def test_arguments_have_the_projects_names_and_order(path):
    parameters = inspect.signature(resolve(path)).parameters.values()
    positional = [p.name for p in parameters if p.kind is p.POSITIONAL_OR_KEYWORD]
    assert positional == SIGNATURES[path].split()
    assert {p.name for p in parameters if p.kind is p.KEYWORD_ONLY} <= {"strict_reference", "cp_rank"}


@pytest.mark.parametrize("name", PAGES)
def test_everything_named_is_there_and_documented(name):
    module = importlib.import_module(f"evenkeel.drop_in.{name}")
    assert module.__doc__ and module.__all__ == sorted(module.__all__)
    for each in module.__all__:
        assert getattr(module, each).__doc__, each


@pytest.mark.parametrize("name", PAGES)
def test_the_strict_modules_have_the_same_names_with_the_same_arguments(name):
    ours = importlib.import_module(f"evenkeel.drop_in.{name}")
    strict = importlib.import_module(f"evenkeel.drop_in.strict.{name}")
    assert strict.__all__ == ours.__all__
    for each in strict.__all__:
        assert inspect.signature(getattr(strict, each)) == inspect.signature(getattr(ours, each)), each
        assert getattr(strict, each).__doc__, each
