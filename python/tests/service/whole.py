"""Delivers whole samples on every context-parallel rank. Checks their parts, their layout, and results, which come from the
first rank."""

import numpy as np

import evenkeel
from jobs import group, report_result

settings = {"mesh": {"cp": 2}, "micro_batch": {"max_tokens": 32}, "pack": {"deliver": "samples"}}
service = evenkeel.DataService(group(), settings, tensors="numpy")
lengths = np.array([5, 0, 11, 3, 16])
tokens = [100 * (sample + 1) + np.arange(length) for sample, length in enumerate(lengths)]
patches = [np.full((sample % 3, 2), sample) for sample in range(5)]
mine = range(5) if service.rank == 0 else []
samples = evenkeel.Samples(
    ids=mine, prompt_lengths=[lengths[i] // 2 for i in mine], response_lengths=[lengths[i] - lengths[i] // 2 for i in mine],
    token={"input_ids": [tokens[i] for i in mine]}, rows={"patches": [patches[i] for i in mine]},
    text={"name": [f"sample {i}" for i in mine]},
)
step = service.step(samples)
seen, contexts = [], set()
for micro_batch in step:
    ids = micro_batch.samples.tolist()
    assert micro_batch.layout.cp.size == 1 and micro_batch.layout.cu_seqlens.tolist() == micro_batch.cu_seqlens.tolist()
    assert micro_batch.flash_attn_varlen_kwargs()["cu_seqlens_q"].tolist() == micro_batch.cu_seqlens.tolist()
    assert micro_batch.route("zigzag", "contiguous").num_rows == lengths[ids].sum()  # this rank already has all rows
    for parts, brought in ((micro_batch.parts("input_ids"), tokens), (micro_batch.parts("patches"), patches)):
        assert all(np.array_equal(part, brought[sample]) for part, sample in zip(parts, ids, strict=True))
    assert [len(part) for part in micro_batch.nested("input_ids").unbind()] == lengths[ids].tolist()
    micro_batch.put("rank", np.full(len(micro_batch["input_ids"]), service.rank), kind="token")
    micro_batch.put("tokens", micro_batch["input_ids"], kind="token")
    contexts.add(micro_batch.context)
    seen.append(ids)
back = service.collect(step)
refused = []
for name in ("name", "cu_seqlens"):
    try:
        step.micro_batches[0].parts(name)
    except evenkeel.InputError as error:
        refused.append(str(error))
report_result(service.rank, seen=seen, contexts=sorted(contexts), back=back["tokens"].tolist(), ranks=back["rank"].tolist(), refused=refused)
