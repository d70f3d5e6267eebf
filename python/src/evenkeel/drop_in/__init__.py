"""Evenkeel under the names that users of other projects import today, one module a project:

    verl             verl.utils.seqlen_balancing and verl.trainer.ppo.prefix_grouper_utils
    roll             roll.utils.functionals, roll.utils.dynamic_batching, roll.utils.sequence_packing, and the packing of
                     its Megatron strategy
    mindspeed_rl     mindspeed_rl.utils.seqlen_balancing, .remove_padding and .context_parallel
    prefix_grouper   prefix_grouper

Names, arguments, return types and results are those of the project. Where a project's code breaks what its own
documentation promises, the functions here keep the promise, or raise a typed error where that is impossible;
``strict_reference=True`` gives what the project's code does. docs/verl.md, roll.md, mindspeed-rl.md and prefix-sharing.md list the differences.

Bad input raises evenkeel.InputError, or LimitError for a sample that fits no micro-batch, where the projects use
assertions. Only what takes tensors imports torch.
"""
