"""Evenkeel's functions under the names that users of other projects import today, one module per project:

    verl             verl.utils.seqlen_balancing and verl.trainer.ppo.prefix_grouper_utils
    roll             roll.utils.functionals, roll.utils.dynamic_batching, roll.utils.sequence_packing, and the packing of
                     its Megatron strategy
    mindspeed_rl     mindspeed_rl.utils.seqlen_balancing, .remove_padding and .context_parallel
    prefix_grouper   prefix_grouper

Names, arguments, return types and results match the project's. If a project's code violates its own documentation, the
functions here follow the documentation, or raise a typed error if that is impossible; ``strict_reference=True`` reproduces
the project's code. docs/verl.md, roll.md, mindspeed-rl.md and prefix-sharing.md list the differences.

The modules slime, nemo_rl and prime_rl also have the projects' interfaces, but the results of evenkeel.plan.

Invalid input raises evenkeel.InputError, or LimitError for a sample that does not fit into a micro-batch, where the projects
use assertions. torch is imported only by functions that take tensors.
"""
