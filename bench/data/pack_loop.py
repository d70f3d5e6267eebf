"""Times the PyTorch loops that packing replaces, sequence by sequence, on the given lengths."""
import json
import sys
import time

import torch
from torch.nn.functional import pad


def pack_into(sequences, packed):
    """Copies every sequence to its position."""
    start = 0
    for sequence in sequences:
        packed[start:start + len(sequence)] = sequence
        start += len(sequence)


def pad_and_cat(sequences, multiple):
    """Pads every sequence to a multiple and concatenates them."""
    return torch.cat([pad(s, (0, -len(s) % multiple)) for s in sequences])


def zigzag(sequences, cp):
    """Returns the rows of each context-parallel rank: chunks r and 2*cp-1-r of every padded sequence."""
    ranks = []
    for rank in range(cp):
        pieces = []
        for sequence in sequences:
            padded = pad(sequence, (0, -len(sequence) % (2 * cp)))
            chunk = len(padded) // (2 * cp)
            mirrored = 2 * cp - 1 - rank
            pieces.append(padded[rank * chunk:(rank + 1) * chunk])
            pieces.append(padded[mirrored * chunk:(mirrored + 1) * chunk])
        ranks.append(torch.cat(pieces))
    return ranks


def main():
    with open(sys.argv[1]) as file:
        question = json.load(file)
    lengths, cp, rounds, sets = (question[key] for key in ("lengths", "cp", "rounds", "sets"))
    torch.set_num_threads(1)
    total = sum(lengths)
    sources = [torch.arange(total, dtype=torch.int64) for _ in range(sets)]
    batches = [list(source.split(lengths)) for source in sources]
    targets = [torch.zeros(total, dtype=torch.int64) for _ in range(sets)]
    cases = {
        "copy": lambda i: targets[i].copy_(sources[i]),
        "pack_into": lambda i: pack_into(batches[i], targets[i]),
        "pad_and_cat": lambda i: pad_and_cat(batches[i], 2 * cp),
        "zigzag": lambda i: zigzag(batches[i], cp),
    }
    seconds = {name: [] for name in cases}
    call = 0
    for turn in range(rounds + 1):
        for name, run in cases.items():
            start = time.perf_counter()
            run(call % sets)
            if turn > 0:
                seconds[name].append(time.perf_counter() - start)
            call += 1
    with open(sys.argv[2], "w") as file:
        json.dump({"version": torch.__version__, "seconds": seconds}, file)


main()
