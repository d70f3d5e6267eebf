"""Computes the weights of loss tokens from the formulas in the documentation alone."""

import collections

from dumps import require
from expected import Entry, Pass


class Losses:
    """Computes the loss weights of one step from the entries of its micro-batches. Weights are unknown if mini-batches are
    drawn at random."""

    def __init__(self, job, passing: Pass, step, entries_of_micro_batches: list[list[Entry | None]], ordered):
        self._job, self._pass, self._step = job, passing, step
        self._entries = entries_of_micro_batches
        settings = passing.settings
        self._aggregation = settings.key("loss.aggregation", "token-mean")
        self._counts_masked = settings.key("loss.fully_masked", "count") == "count"
        self._norm = settings.key("loss.norm_length", 1)
        self._mini_batch = self._mini_batches(ordered)
        self._totals = self._sums() if self._mini_batch is not None else {}

    def _mini_batches(self, ordered: list[Entry] | None) -> dict[int, int] | None:
        """Maps the identity of each entry to its mini-batch."""
        count = self._job.key("batch.mini_batches", 1)
        present = [e for entries in self._entries for e in entries if e is not None]
        if count == 1:
            return {id(entry): 0 for entry in present}
        drawn = not self._job.key("batch.keep_mini_batch", True) or self._job.key("prefix.share")
        if ordered is None or drawn or len({id(entry) for entry in ordered}) != len(ordered):
            return None
        each, rest = divmod(len(ordered), count)
        ends = [each * (m + 1) + min(m + 1, rest) for m in range(count)]
        return {id(e): next(m for m, end in enumerate(ends) if at < end) for at, e in enumerate(ordered)}

    def _sums(self) -> dict:
        totals: dict = collections.defaultdict(lambda: {"tokens": 0, "samples": 0, "prompts": collections.Counter()})
        for entry in (e for entries in self._entries for e in entries if e is not None):
            total, own = totals[self._mini_batch[id(entry)]], self._pass.loss_tokens(entry)
            total["tokens"] += own
            if own or self._counts_masked:
                total["samples"] += 1
                total["prompts"][entry.group] += 1
        return totals

    def _counted(self, entries: list[Entry | None]) -> int:
        return sum(1 for e in entries if e is not None and (self._counts_masked or self._pass.loss_tokens(e)))

    def weights(self, at: int) -> list[float | None]:
        """Returns, for each entry of a micro-batch, the weight of a loss token."""
        return [self._weight(entry, at) for entry in self._entries[at]]

    def _weight(self, entry: Entry | None, at: int) -> float | None:
        own = 0 if entry is None else self._pass.loss_tokens(entry)
        if own == 0:
            return 0.0
        if self._mini_batch is None:
            return None
        total = self._totals[self._mini_batch[id(entry)]]
        samples = total["samples"]
        if self._aggregation == "mindspeed-rl":
            return self._mindspeed(at)
        return {"token-mean": lambda: 1 / total["tokens"], "token-sum": lambda: 1.0,
                "seq-mean-token-sum": lambda: 1 / samples,
                "seq-mean-token-mean": lambda: 1 / (samples * own),
                "seq-mean-token-sum-norm": lambda: 1 / (samples * self._norm),
                "prompt-mean": lambda: 1 / (len(total["prompts"]) * total["prompts"][entry.group] * own),
                }[self._aggregation]()

    def _mindspeed(self, at: int) -> float | None:
        if self._job.key("batch.mini_batches", 1) > 1:
            return None
        m = self._step.micro_batches[at]
        of_rank = sum(self._counted(entries) for other, entries in zip(self._step.micro_batches, self._entries)
                      if other.first == m.first)
        tokens = sum(self._pass.loss_tokens(e) for e in self._entries[at] if e is not None)
        return self._counted(self._entries[at]) / (of_rank * tokens * len(self._step.counts))

    def check_sum(self) -> None:
        """Checks randomly drawn mini-batches: the weights of each mini-batch with loss tokens sum to 1, on average over all of
        them."""
        is_whole = self._aggregation == "token-mean" or self._aggregation == "seq-mean-token-mean" and not self._counts_masked
        if self._mini_batch is not None or not is_whole:
            return
        whole = sum(w for m in self._step.micro_batches for part in m.parts[-1] for w in part["loss_weights"].values)
        has_loss = any(self._pass.loss_tokens(e) for entries in self._entries for e in entries if e is not None)
        count = round(whole)
        fits = abs(whole - count) < 1e-5 and has_loss <= count <= self._job.key("batch.mini_batches", 1)
        require(fits, f"step {self._step.number}: loss weights sum to", whole)

    def check_mean_weight(self, at: int) -> None:
        """Checks the factor by which a trainer multiplies its own mean over a micro-batch."""
        if self._pass.settings.is_flexible or self._job.key("batch.mini_batches", 1) > 1 or not self._totals:
            return
        m, entries, total = self._step.micro_batches[at], self._entries[at], self._totals[0]
        loss = self._pass.settings
        scale = self._step.counts[m.first] if loss.key("loss.micro_batches") == "mean" else 1
        scale *= len(self._step.counts) if loss.key("loss.dp_ranks", "mean") == "mean" else 1
        tokens = sum(self._pass.loss_tokens(e) for e in entries if e is not None)
        if self._aggregation == "token-mean":
            part = tokens / max(1, total["tokens"])
        elif self._aggregation == "token-sum":
            part = tokens
        elif self._aggregation.startswith("seq-mean"):
            part = self._counted(entries) / max(1, total["samples"])
        else:
            part = sum((self._weight(e, at) or 0) * self._pass.loss_tokens(e) for e in entries if e is not None)
        stored = float(m.metadata["loss_weight"])
        require(abs(stored - scale * part) <= 1e-12 * max(1, abs(stored)), m.place, "loss_weight is", stored, "not", scale * part)
