"""Draws random jobs over nearly all configuration keys: the configuration, and the samples in the sources.

Most draws are legal: combinations that the documentation excludes are avoided. A few of them remain, so refusals are tested
too.
"""

import math
import random

from drawn_fields import FieldDrawing
from jobs import Job, Sample, Source


class Drawing(FieldDrawing):
    def __init__(self, seed: int):
        self.draw = random.Random(seed)
        self.seed = seed
        self.config: dict = {}

    def chance(self, part: float) -> bool:
        return self.draw.random() < part

    def put(self, path: str, value) -> None:
        section, name = path.split(".")
        self.config.setdefault(section, {})[name] = value

    def put_one_of(self, part: float, path: str, *values) -> None:
        if self.chance(part):
            self.put(path, self.draw.choice(values))

    def get(self, path: str, default=None):
        section, name = path.split(".")
        return self.config.get(section, {}).get(name, default)

    def job(self) -> Job:
        self._draw_mesh()
        self._draw_kind_of_plan()
        self._draw_samples()
        self._draw_batches()
        self._draw_pack_and_loss()
        self._draw_exchange()
        self._draw_fields()
        fixed = ("labels", "loss_mask") + ("segment_ids",) * self.sharing
        if self.get("prefix.schedule") != "dfs" and not any(field.name in fixed for field in self.fields):
            self.put_one_of(0.25, "pack.predict_ahead", 1, 3)
        self._draw_cap()
        profiles = self._draw_profiles()
        self._name_sources()
        job = Job(self.seed, self.ranks, self.config, self.sources, self.fields, profiles)
        job.results, job.is_resumed, job.must_be_refused = self.chance(0.5), self.chance(0.15), self.chance(0.06)
        if job.must_be_refused:
            self._make_incompatible()
        return job

    def _draw_mesh(self) -> None:
        self.ranks = self.draw.choice([1, 2, 2, 3, 4, 4, 4, 5, 6, 6])
        self.flexible = self.ranks > 1 and self.chance(0.25)
        sizes = [(tp, cp, pp) for tp in range(1, 5) for cp in range(1, 7) for pp in range(1, 5)
                 if self.ranks % (tp * cp * pp) == 0 and not (self.flexible and (cp > 1 or tp * pp == self.ranks))]
        tp, cp, pp = self.draw.choice(sizes)
        self.tp, self.cp, self.pp, self.dp = tp, cp, pp, self.ranks // (tp * cp * pp)
        self.put("mesh.tp", tp)
        self.put("mesh.cp", "flexible" if self.flexible else cp)
        self.put("mesh.pp", pp)
        if pp > 1:
            self.put_one_of(0.4, "mesh.vpp", 2)
        if self.flexible:
            self.put_one_of(0.3, "mesh.max_cp", 1, 2)
        self.put_one_of(0.3, "mesh.dp", self.dp)
        axes = ["tp", "cp", "dp", "pp"]
        self.draw.shuffle(axes)
        self.put_one_of(0.25, "mesh.order", "-".join(axes))

    def _draw_kind_of_plan(self) -> None:
        mode = "packed" if self.flexible else self.draw.choice(["packed", "packed", "padded", "fixed"])
        self.put("micro_batch.mode", mode)
        self.sharing = mode != "padded" and self.chance(0.25)
        if self.sharing:
            self.put("prefix.share", self.draw.choice([True, "tree"]))
        self.mini_batches = self.draw.choice([1, 1, 1, 2, 3])
        self.put("batch.mini_batches", self.mini_batches)
        kinds = ["plain", "plain", "algorithm"]
        if mode == "packed":
            kinds += ["grid", "packing", "fastest"]
        if mode != "padded":
            kinds += ["speeds", "encoder"]
        if not self.sharing:
            kinds += ["preset"]
        kind = self.draw.choice(["plain", "grid", "speeds"] if self.flexible else kinds)
        if self.flexible and self.pp > 1:
            kind = "grid"
        getattr(self, "_plan_" + kind)()
        if self.flexible and kind != "grid":
            self.put(*self.draw.choice([("balance.strategy", "hierarchical"), ("balance.meet", "step")]))
        self.put_one_of(0 if self.flexible else 0.3, "balance.meet", "step", "micro-batch")
        if self.sharing and self.pp == 1 and self.chance(0.3):
            self.put("prefix.schedule", "dfs")
            self.put("balance.meet", "step")
            if self.cp == 1 and not self.flexible:
                self.put_one_of(0.5, "prefix.max_kept_tokens", 1, 16, 200)
        self.cost_kind = self.draw.choice(["tokens", "flops-7b", "numbers", "model", "measured"])
        if kind == "preset" and self.cost_kind == "measured":
            self.cost_kind = "tokens"
        if kind == "encoder":
            self.cost_kind = self.draw.choice(["tokens", "flops-7b"])
        costs = {"numbers": {"linear": 5, "quadratic": 2, "window": self.draw.choice([0, 40])},
                 "model": {"model": {"hidden_size": 64, "layers": 2, "heads": 4, "ffn_size": 128, "vocab_size": 1000}},
                 "measured": {"measured": {"initial": "flops-7b", "every": 2}}}
        cost = costs.get(self.cost_kind, self.cost_kind)
        self.has_work = kind != "preset" and self.chance(0.15)
        if self.has_work:
            self.cost_kind, cost = "field", {"field": "work"}
        if kind == "encoder":
            cost = {"model": cost, "encoder": {"field": "patches", "linear": 40, "quadratic": self.draw.choice([0, 3])}}
        self.has_encoder = kind == "encoder"
        self.has_row_caps = kind != "preset" and self.chance(0.2)
        self.is_plain = kind == "plain" and not self.flexible
        self.put("balance.cost", cost)
        self.put_one_of(0.3, "balance.placement", "none")
        self.put_one_of(0.2, "balance.overhead", 0, 100)
        if not (self.flexible or kind in ("speeds", "encoder")):
            self.put_one_of(0.2, "balance.refine", False)
        if self.flexible:
            links = {"inside_node": 2, "between_nodes": 9, "ranks_per_node": self.draw.choice([1, 2, 8]), "overlap": 0.5}
            self.put_one_of(0.4, "balance.communication", links)
        self._draw_counts(kind)

    def _plan_plain(self) -> None:
        if not self.flexible:
            self.put_one_of(0.2, "balance.equal_count", True)
            self.put_one_of(0.2, "batch.keep_mini_batch", False)

    def _plan_algorithm(self) -> None:
        self.put("balance.algorithm", self.draw.choice(["karmarkar-karp", "lpt", "sorted-stride", "none"]))

    def _plan_grid(self) -> None:
        self.put("balance.strategy", "grid")

    def _plan_packing(self) -> None:
        names = ["first-fit-decreasing", "best-fit-decreasing", "modified-first-fit-decreasing"]
        self.put("micro_batch.packing", self.draw.choice(names))

    def _plan_fastest(self) -> None:
        self.put("micro_batch.count", "fastest")

    def _plan_speeds(self) -> None:
        self.put("balance.speeds", [self.draw.choice([1, 1, 0.5, 0.75, 2]) for _ in range(self.dp)])

    def _plan_encoder(self) -> None:
        pass  # The cost model is the only setting that this kind of plan needs.

    def _plan_preset(self) -> None:
        self.put("balance.preset", self.draw.choice(["mindspeed-rl", "roll", "verl"]))

    def _draw_counts(self, kind: str) -> None:
        meets = not self.flexible or self.get("balance.strategy") == "grid"
        if meets:
            self.put_one_of(0.2, "micro_batch.min_count", 2, 3)
            self.put_one_of(0.2, "micro_batch.multiple_of", 1, 2, 3)
        self.put_one_of(0.25, "micro_batch.max_samples", 2, 3, 8)
        self.put_one_of(0.5, "micro_batch.size", 2, 3, 7)
        self.put_one_of(0.6, "micro_batch.length_round", 1, 4, 16)
        self.put_one_of(0.2, "micro_batch.shuffle", True)
        orders = ["pipeline", "plan", "cost"] + ["schedule"] * (kind != "preset")
        self.put_one_of(0.5, "micro_batch.order", *orders)
        is_packed = self.get("micro_batch.mode") == "packed"
        if is_packed and not self.flexible and kind not in ("grid", "fastest", "preset"):
            if self.chance(0.5 if self.dp > 1 else 0.1):
                self.put("micro_batch.equal_counts", "auto")
                self.put("balance.meet", self.get("balance.meet", "step"))
        fits = not (self.sharing or kind == "preset" or self.get("micro_batch.mode") == "padded")
        if fits:
            self.put_one_of(0.3, "micro_batch.shapes", 1, 2, 4)

    def _draw_samples(self) -> None:
        one = self.chance(0.7)
        kinds = ["jsonl", "jsonl", "safetensors", "safetensors"]
        if not (self.sharing or self.has_encoder or self.has_work or self.has_row_caps):
            kinds += ["lengths", "megatron"] if one else []
        names = [""] if one else self.draw.sample(["code", "math", "chat"], self.draw.choice([2, 2, 3]))
        self.sources = []
        longest = self.draw.choice([8, 30, 120])
        for name in sorted(names):
            count = self.draw.randint(3, 36 if one else 14)
            self.sources.append(Source(name, self.draw.choice(kinds), self._samples(count, longest)))
        for source in self.sources:
            if self.chance(0.2):
                source.epochs = self.draw.choice([2, 3])
        self.kinds = {source.kind for source in self.sources}
        self.has_fields = not self.kinds & {"lengths", "megatron"}
        for source in self.sources:
            self._remove_unsupported(source)
        number = 0
        for source in self.sources:
            for sample in source.samples:
                sample.number = number
                number += 1

    def _samples(self, count: int, longest: int) -> list[Sample]:
        """Draws groups with a common prompt, whose responses may start with equal tokens."""
        samples: list[Sample] = []
        text_uids, none = self.chance(0.3), self.chance(0.2)
        for group in range(count):
            prompt = self._tokens(0 if group and self.chance(0.15) else self.draw.randint(1, max(1, longest // 3)))
            for _ in range(self.draw.choice([1, 1, 2, 4])):
                response = self._tokens(self._length(longest))
                if samples and self.chance(0.3):
                    other = self.draw.choice(samples).response
                    response = other[:self.draw.randint(0, len(other))] + response
                own = prompt if self.chance(0.95) else self._tokens(len(prompt))
                uid = None if none and self.chance(0.5) else f"q{group}" if text_uids else group
                samples.append(Sample(list(own), response[:longest], uid))
        samples = samples[:count]
        self.draw.shuffle(samples)
        # The first sample decides which fields have a row per token and which a row per response token, so both parts have
        # tokens.
        if not samples[0].prompt:
            samples[0].prompt = self._tokens(2)
        if not samples[0].response:
            samples[0].response = self._tokens(3)
        return samples

    def _length(self, longest: int) -> int:
        return self.draw.choice([0, self.draw.randint(1, 4), self.draw.randint(1, longest), self.draw.randint(1, longest)])

    def _tokens(self, count: int) -> list[int]:
        return [self.draw.randint(1, 30000) for _ in range(count)]

    def _remove_unsupported(self, source: Source) -> None:
        """Removes from the samples everything that this kind of source cannot represent."""
        if source.kind == "megatron":
            source.samples = [Sample([], sample.tokens or [7], None) for sample in source.samples]
        if source.kind == "safetensors" and not all(isinstance(s.uid, int) for s in source.samples):
            for sample in source.samples:
                sample.uid = None
        if source.kind == "lengths":
            for sample in source.samples:
                sample.uid = None

    def _draw_batches(self) -> None:
        count = sum(len(source.samples) * source.epochs for source in self.sources)
        self.put("batch.global_batch", self.draw.choice([count, count, max(3, count // 2), max(3, count // 3 + 1)]))
        self.put_one_of(0.2, "batch.epochs", 2)
        self.put_one_of(0.3, "batch.shuffle", True)
        self.put_one_of(0.5, "batch.seed", 5, 2**63)
        self.put_one_of(0.4, "batch.mix", "tokens")
        has_empty = any(not sample.tokens for source in self.sources for sample in source.samples)
        self.put_one_of(0.3, "batch.empty", "drop", "keep" if has_empty else "error")
        if self.get("batch.empty") != "drop":
            self.put_one_of(0.15, "batch.drop_last", True)
        delays = not (self.flexible or self.sharing or self.cost_kind == "measured" or self.get("balance.speeds") or
                      self.has_encoder or self.has_work or self.has_row_caps)
        if delays and self.chance(0.15):
            lengths = sorted(len(sample.tokens) for source in self.sources for sample in source.samples)
            self.put("batch.delay_outliers", self.draw.choice([1, 2, 4]))
            self.put("batch.outlier_length", max(1, lengths[len(lengths) * 3 // 4]))
            self.put("batch.outliers_per_step", self.draw.choice([2, 3]))

    def _draw_pack_and_loss(self) -> None:
        self.put_one_of(0.4, "pack.cp_layout", "contiguous")
        self.put_one_of(0.3, "pack.align_lcm", 3, 8)
        self.put_one_of(0.2, "pack.pad_token", 9)
        self.put_one_of(0.2, "pack.label_pad", -1, 0)
        self.put_one_of(0.3, "pack.padding_mask", True)
        # A dump cannot represent whole samples on several context-parallel ranks.
        if not (self.sharing or self.flexible or self.cp > 1 or self.get("micro_batch.shapes")):
            self.put_one_of(0.2, "pack.deliver", "samples")
        if not self.flexible:
            self.put_one_of(0.15, "pack.align", 2 * self.cp * self.tp, 6 * self.cp)
        means = ["token-mean", "token-sum", "seq-mean-token-sum", "seq-mean-token-mean", "seq-mean-token-sum-norm",
                 "prompt-mean"] + ["mindspeed-rl"] * (not self.flexible)
        self.put_one_of(0.7, "loss.aggregation", *means)
        self.put_one_of(0.4, "loss.micro_batches", "mean")
        self.put_one_of(0.4, "loss.dp_ranks", "sum")
        self.put_one_of(0.4, "loss.fully_masked", "skip")
        self.put_one_of(0.4, "loss.norm_length", 100)

    def _draw_exchange(self) -> None:
        self.put_one_of(0.5, "exchange.path", "shared-memory", "point-to-point", "alltoallv")
        self.put_one_of(0.3, "exchange.tp_copies", "shared")
        self.put_one_of(0.3, "exchange.aggregate", "always", "never")
        self.put_one_of(0.5, "exchange.prefetch", 0, 2)

    def _draw_cap(self) -> None:
        """Draws a cap under which every sample fits, after filtering if there is a filter."""
        lengths = [len(sample.tokens) for source in self.sources for sample in source.samples]
        longest = max(lengths)
        settings = Job(self.seed, self.ranks, self.config, [], [], []).settings("")
        groups = self._group_sizes()
        if longest > 4 and self.chance(0.3):
            fates = ["drop"]
            # Rows can be cut only if spans say which tokens each row belongs to. A text is delivered whole with every piece.
            if not any(field.kind == "rows" and field.name not in ("pictures", "spans") for field in self.fields):
                fates += ["truncate"] if self.sharing else ["truncate", "split"]
            shortest = max(min(len(s.tokens) for s in source.samples if s.tokens) for source in self.sources)
            longest = self.draw.randint(max(shortest, longest // 2), longest)
            self.put("batch.too_long", self.draw.choice(fates))
            self.put("batch.max_length", longest)
            self.put("batch.drop_last", False)  # Otherwise no sample might be left.
        if self.sharing:
            self.put_one_of(0.4, "prefix.max_path_tokens", max(1, longest), longest + 3)
        need = []
        for group in groups:
            step = settings.alignment(group)
            # A shared prompt and its response are aligned separately.
            rows = -(-max(1, longest) // step) * step + (2 * step if self.sharing else 0)
            need.append(-(-rows // group))
        loose = self.draw.choice([1, 1, 1.5, 2, 4])
        if self.flexible or self.chance(0.2):
            self.put("micro_batch.max_tokens_per_rank", math.ceil(min(need) * loose))
            self.put_one_of(0.3, "micro_batch.max_tokens", "auto")
            return
        cap = math.ceil(need[0] * self.cp * loose)
        if self.get("batch.too_long") and self.chance(0.3):
            # With `auto`, a sample is too long only if it fits in no micro-batch.
            cap = -(-cap // settings.alignment(self.cp)) * settings.alignment(self.cp)
            self.put("batch.max_length", "auto")
        self.put("micro_batch.max_tokens", cap)

    def _group_sizes(self) -> list[int]:
        """Returns the possible sizes of a sample's context-parallel group."""
        if not self.flexible:
            return [self.cp]
        most = min(self.dp, self.get("mesh.max_cp", self.dp))
        return [1 << (most.bit_length() - 1)]

    def _draw_profiles(self) -> list[str]:
        if not self.chance(0.3):
            return []
        own = {"first": {}, "second": {}}
        for profile in own.values():
            if self.chance(0.4):
                profile["loss"] = {"aggregation": self.draw.choice(["token-mean", "seq-mean-token-sum"])}
            if self.chance(0.3):
                profile["pack"] = {"pad_token": 11}
            if self.chance(0.2):
                profile.setdefault("pack", {})["cp_layout"] = "contiguous"
            if self.chance(0.3):
                profile["balance"] = {"cost": "tokens"}
            own_limits = {"order": self.draw.choice(["plan", "cost"]), "max_samples": self.draw.choice([1, 5])}
            if self.get("micro_batch.max_tokens") not in (None, "auto"):
                own_limits["max_tokens"] = 2 * self.get("micro_batch.max_tokens")
            if self.is_plain and not self.sharing and not self.get("micro_batch.equal_counts"):
                own_limits["mode"] = self.draw.choice(["packed", "fixed", "padded"])
            for key in own_limits:
                if self.chance(0.2):
                    profile.setdefault("micro_batch", {})[key] = own_limits[key]
        self.config["profiles"] = own
        chosen = self.draw.choice([["first", "second"], ["second", "first"], ["second"]])
        for field in self.fields:
            fixed = ("labels", "loss_mask", "position_ids", "pictures", "spans") + ("patches",) * self.has_encoder
            fixed += ("work",) * self.has_work
            if field.name not in fixed and self.chance(0.2):
                field.settings["profiles"] = [self.draw.choice(chosen)]
                self.config.setdefault("fields", {})[field.name] = field.settings
        return chosen

    def _name_sources(self) -> None:
        """Names the files of the sources. The job is started in their folder."""
        endings = {"jsonl": ".jsonl", "safetensors": ".safetensors", "lengths": ".csv", "megatron": ""}
        for source in self.sources:
            own = {"kind": source.kind, "path": (source.name or "all") + endings[source.kind]}
            if source.epochs > 1:
                own["epochs"] = source.epochs
            if not source.name:
                self.config["source"] = own
                continue
            if self.chance(0.5):
                own["weight"] = self.draw.choice([0.5, 2, 3])
            self.config.setdefault("sources", {})[source.name] = own

    def _make_incompatible(self) -> None:
        """Requests an incompatible combination, regardless of the other draws."""
        incompatible = self.draw.choice([
            {"micro_batch.mode": "padded", "prefix.share": True},
            {"balance.preset": "verl", "prefix.share": "tree"},
            {"prefix.share": False, "prefix.max_path_tokens": 64},
            {"micro_batch.mode": "padded", "micro_batch.shapes": 2},
            {"balance.strategy": "grid", "balance.equal_count": True},
            {"balance.speeds": [1] * (self.dp + 1)},
            {"micro_batch.mode": "fixed", "micro_batch.packing": "first-fit-decreasing"},
            {"micro_batch.mode": "padded", "micro_batch.count": "fastest"},
            {"micro_batch.mode": "fixed", "micro_batch.equal_counts": "auto"},
            {"micro_batch.max_token": 64},
            {"batch.delay_outliers": 2, "batch.outlier_length": None},
            {"mesh.cp": "flexible", "micro_batch.mode": "fixed"},
            {"mesh.cp": 1, "mesh.max_cp": 2},
            {"loss.norm_length": 0},
            {"loss.aggregation": "mean"},
            {"fields.nobody": {"stage": "first"}},
            {"fields.nobody": {"layers": [[0]] * (self.pp * self.get("mesh.vpp", 1) + 1)}}])
        for path, value in incompatible.items():
            self.put(path, value)


def draw_job(seed: int) -> Job:
    return Drawing(seed).job()
