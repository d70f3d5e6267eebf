"""Balanced micro-batches in Hugging Face's Trainer, TRL's SFTTrainer and GRPOTrainer, and loops over Accelerate.

    from evenkeel.collate import PaddingFree
    from evenkeel.huggingface import balanced

    trainer = balanced(SFTTrainer, max_tokens=16384)(model=model, args=args, train_dataset=data, data_collator=PaddingFree())

Each item of the loader is a whole optimizer step: the list of this rank's micro-batches, whose number differs between steps. The
trainer accumulates gradients over the list, so one item is one of its update steps, and its counters, schedules and resumed
positions are correct. Needs transformers or accelerate; docs/huggingface.md has the details.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from contextlib import nullcontext
from typing import Any

from evenkeel._c import refuse
from evenkeel._grpo import BalancedGRPOTrainer
from evenkeel._text import counted
from evenkeel.collate import MicroBatches, Padded, PaddingFree, Steps
from evenkeel.sampler import BalancedBatchSampler

__all__ = ["balanced", "loss_tokens", "step_loader"]

_Base: Any = object


def balanced(
    trainer: Any, *, max_tokens: int, padded: bool | None = None, pad_to_multiple_of: int | None = None, **settings: Any
) -> Any:
    """Returns a subclass of a Trainer whose training steps are planned by Evenkeel.

    An update step has ``per_device_train_batch_size`` samples per process, as in ``trainer`` itself. Evenkeel cuts them into
    micro-batches of at most ``max_tokens`` tokens. Set ``gradient_accumulation_steps=1``, because the number of micro-batches
    depends on the lengths. The loss of a step is the mean over all its tokens with loss on all ranks, as
    ``num_items_in_batch`` counts them.

    max_tokens          the cap of a micro-batch, in tokens
    padded              whether the trainer's data_collator pads; known for the collators of evenkeel.collate
    pad_to_multiple_of  the multiple to which the collator rounds padded lengths up; known for the collators of evenkeel.collate
    settings            settings of the planner, as for evenkeel.plan: ``config=...``, ``balance={"cost": "flops-7b"}``

    Arguments of the trainer keep their meaning: seed and data_seed, dataloader_drop_last, dataloader_num_workers,
    train_sampling_strategy ("random" or "sequential"), length_column_name. Raises InputError for arguments that do not fit.

    TRL's GRPOTrainer generates its samples itself. Its batches of ``per_device_train_batch_size`` samples stay on their ranks, and
    each is cut into padded micro-batches of at most ``max_tokens`` tokens when its loss is computed; ``gradient_accumulation_steps``
    and all other arguments keep their meaning. Raises InputError for other keywords of ``balanced``.
    """
    if hasattr(trainer, "_generate_and_score_completions"):
        given = {"padded": padded, "pad_to_multiple_of": pad_to_multiple_of, **settings}
        for name in (name for name, value in given.items() if value is not None):
            refuse(name, f"is not a setting of {trainer.__name__}, which makes and pads its samples itself", "Pass only max_tokens")
        return type(f"Balanced{trainer.__name__}", (BalancedGRPOTrainer, trainer), {"balance_cap": max_tokens})
    if not hasattr(trainer, "_get_num_items_in_batch"):
        refuse(
            "balanced", f"does not support {trainer.__name__}, which has no method _get_num_items_in_batch",
            'Pass transformers.Trainer or a subclass; see "Tested versions" in docs/huggingface.md for supported transformers versions',
        )
    body = {
        "balance_settings": {"max_tokens": max_tokens, **settings},
        "balance_padding": {"padded": padded, "pad_to_multiple_of": pad_to_multiple_of},
    }
    return type(f"Balanced{trainer.__name__}", (_BalancedTrainer, trainer), body)


def step_loader(
    data: Any, sampler: BalancedBatchSampler, collator: Any, *, accelerator: Any = None, **options: Any
) -> Any:
    """Returns a DataLoader whose items are whole steps of ``sampler``: lists of batches that ``collator`` makes.

    With ``accelerator``, the loader puts batches on its device and follows ``set_epoch``. Do not pass it to
    ``accelerator.prepare``, which would distribute the steps of one rank over all of them. ``options`` go to DataLoader.
    """
    from torch.utils.data import DataLoader

    loader = DataLoader(MicroBatches(data), batch_sampler=sampler.steps, collate_fn=Steps(collator), **options)
    if accelerator is None:
        return loader
    from accelerate.data_loader import prepare_data_loader

    # With one process, it only moves batches and does not change the sampler.
    return prepare_data_loader(
        loader,
        accelerator.device,
        num_processes=1,
        process_index=0,
        put_on_device=accelerator.device_placement,
        non_blocking=accelerator.non_blocking,
        use_stateful_dataloader=accelerator.use_stateful_dataloader,
    )


def loss_tokens(step: Iterable[Mapping[str, Any]]) -> Any:
    """Counts the tokens with loss in the batches of one rank's step, as a tensor, by labels that the model shifts.

    ``accelerator.reduce(loss_tokens(step))`` is the ``num_items_in_batch`` of the step.
    """
    return sum(batch["labels"][..., 1:].ne(-100).sum() for batch in step)


class _BalancedTrainer(_Base):  # type: ignore[misc]
    """Makes a Trainer train on lists of micro-batches. Must precede the Trainer in the list of base classes."""

    balance_settings: dict[str, Any]
    balance_padding: dict[str, Any]

    def get_train_dataloader(self) -> Any:
        args, data, collator = self.args, self.train_dataset, self.data_collator
        self._require_arguments()
        if not hasattr(data, "__len__"):
            refuse("train_dataset", f"has the type {type(data).__name__}, which has no length", "Pass a data set that can be indexed")
        columns = getattr(data, "column_names", None) or []
        if "seq_lengths" in columns:
            refuse("train_dataset", "has packed rows, as its column seq_lengths shows", "Set packing=False, since Evenkeel packs the samples")
        sampler = BalancedBatchSampler(
            self._lengths(data, columns),
            global_batch=self._train_batch_size * args.world_size,
            ranks=args.world_size,
            rank=args.process_index,
            shuffle=args.train_sampling_strategy == "random",
            seed=args.seed if args.data_seed is None else args.data_seed,
            drop_last=args.dataloader_drop_last,
            empty="keep" if isinstance(collator, (Padded, PaddingFree)) else "error",
            **self._padding(collator),
            **self.balance_settings,
        )
        if columns:
            data = self._remove_unused_columns(data, description="training")
        else:
            collator = self._get_collator_with_removed_columns(collator, description="training")
        return step_loader(
            data,
            sampler,
            collator,
            accelerator=self.accelerator,
            num_workers=args.dataloader_num_workers,
            pin_memory=args.dataloader_pin_memory,
            persistent_workers=args.dataloader_persistent_workers,
            prefetch_factor=args.dataloader_prefetch_factor,
        )

    def training_step(self, model: Any, inputs: Sequence[Any], num_items_in_batch: Any = None) -> Any:
        """Accumulates gradients over the micro-batches of a step, and synchronizes them at the last. Returns the step's loss."""
        if num_items_in_batch is None:
            if not any("labels" in micro_batch for micro_batch in inputs):
                refuse(
                    type(self).__name__, "cannot count the loss tokens of a step: its batches have no labels",
                    "Pass a data_collator that makes labels",
                )
            refuse(
                type(self).__name__, "cannot count the loss tokens of a step: the model does not accept num_items_in_batch",
                "Pass a compute_loss_func that accepts it",
            )
        self.current_gradient_accumulation_steps = len(inputs)
        loss: Any = 0
        for index, micro_batch in enumerate(inputs):
            last = index + 1 == len(inputs)
            self.accelerator.gradient_state._set_sync_gradients(last)
            with nullcontext() if last else self.accelerator.no_sync(model=model):
                loss = loss + super().training_step(model, micro_batch, num_items_in_batch)
        return loss

    def floating_point_ops(self, inputs: Any) -> Any:
        return sum(super(_BalancedTrainer, self).floating_point_ops(batch) for batch in _batches_of(inputs))

    def _get_num_items_in_batch(self, batch_samples: Sequence[Any], device: Any) -> Any:
        return super()._get_num_items_in_batch([batch for step in batch_samples for batch in _batches_of(step)], device)

    def _track_num_input_tokens(self, inputs: Any) -> None:
        for batch in _batches_of(inputs):
            super()._track_num_input_tokens(batch)

    def _lengths(self, data: Any, columns: Sequence[str]) -> list[int]:
        name = self.args.length_column_name
        return list(data[name]) if name in columns else [len(sample["input_ids"]) for sample in data]

    def _padding(self, collator: Any) -> dict[str, Any]:
        known = {name: getattr(collator, name, None) for name in self.balance_padding} if self.balance_padding["padded"] is None else {}
        padding = {name: known.get(name) if value is None else value for name, value in self.balance_padding.items()}
        if padding["padded"] is None:
            refuse(
                "data_collator", f"has the type {type(collator).__name__}, and Evenkeel does not know whether it pads",
                "Pass evenkeel.collate.PaddingFree() or Padded(...), or padded=True or False to balanced()",
            )
        return {"padded": padding["padded"], "pad_to_multiple_of": padding["pad_to_multiple_of"] or 1}

    def _require_arguments(self) -> None:
        args = self.args
        if args.gradient_accumulation_steps != 1:
            refuse(
                "gradient_accumulation_steps", f"is {args.gradient_accumulation_steps}, but Evenkeel makes the micro-batches of a step",
                f"Set it to 1 and per_device_train_batch_size to {args.per_device_train_batch_size * args.gradient_accumulation_steps}",
            )
        if args.train_sampling_strategy not in ("random", "sequential"):
            refuse(
                "train_sampling_strategy", f"is {args.train_sampling_strategy!r}, but Evenkeel balances the steps",
                'Set it to "random" or "sequential"',
            )
        if args.world_size > 1 and not args.average_tokens_across_devices:
            refuse(
                "average_tokens_across_devices", "is False, but ranks train on different numbers of tokens",
                "Set it to True, so that the loss is the mean over the tokens of all ranks",
            )
        if args.n_gpu > 1:
            refuse("n_gpu", f"is {args.n_gpu}, so torch.nn.DataParallel would split batches by rows", "Start one process per GPU with torchrun")
        if self.is_deepspeed_enabled:
            refuse("deepspeed", "needs a fixed number of micro-batches per step, but Evenkeel varies it", "Use FSDP or DDP")
        for name, size in (("tensor", self.get_tp_size()), ("context", self.get_cp_size()), ("sequence", self.get_sp_size())):
            if size != 1:
                refuse(f"{name} parallelism", f"has {counted(size, 'rank')}, but only data parallelism is supported here", "Set it to 1")


def _batches_of(step: Any) -> list[Any]:
    """Returns the batches of a training step, or the one batch of an evaluation."""
    return step if isinstance(step, list) else [step]
