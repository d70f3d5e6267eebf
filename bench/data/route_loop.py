"""Times loops in PyTorch that build one rank's route from a zigzag to a contiguous cut, on the given lengths, and
prints the results."""
import json
import sys
import time

import torch


def by_chunks(lengths, cp, rank):
    """Chunk by chunk: each of a zigzag rank's two chunks of a sequence goes to one rank, and each half of a contiguous
    part comes from one."""
    send, receive = [[] for _ in range(cp)], [[] for _ in range(cp)]
    start = 0
    for length in lengths:
        chunk = length // (2 * cp)
        for half, number in enumerate((rank, 2 * cp - 1 - rank)):
            send[number // 2].append(torch.arange(start + half * chunk, start + (half + 1) * chunk))
        for half, number in enumerate((2 * rank, 2 * rank + 1)):
            source = min(number, 2 * cp - 1 - number)
            receive[source].append(torch.arange(start + half * chunk, start + (half + 1) * chunk))
        start += 2 * chunk
    return joined(send, receive)


def by_owners(lengths, cp, rank):
    """Row by row: a rank's rows of each sequence in one split, and the ranks that have these rows in the other."""
    send, receive = [[] for _ in range(cp)], [[] for _ in range(cp)]
    start = 0
    for length in lengths:
        part, chunk = length // cp, length // (2 * cp)
        mine = torch.cat([torch.arange(chunk) + number * chunk for number in (rank, 2 * cp - 1 - rank)])
        here = (torch.arange(part) + rank * part) // chunk
        owners = torch.minimum(here, 2 * cp - 1 - here)
        for peer in range(cp):
            send[peer].append(start + (mine // part == peer).nonzero().flatten())
            receive[peer].append(start + (owners == peer).nonzero().flatten())
        start += part
    return joined(send, receive)


def joined(send, receive):
    rows = [[torch.cat(of_peer) if of_peer else torch.zeros(0, dtype=torch.int64) for of_peer in lists]
            for lists in (send, receive)]
    return [part for lists in rows for part in (torch.cat(lists), torch.tensor([len(of_peer) for of_peer in lists]))]


def main():
    with open(sys.argv[1]) as file:
        question = json.load(file)
    lengths, cp, rank, rounds = (question[key] for key in ("lengths", "cp", "rank", "rounds"))
    torch.set_num_threads(1)
    cases = {"by_chunks": by_chunks, "by_owners": by_owners}
    seconds = {name: [] for name in cases}
    routes = {}
    for turn in range(rounds + 1):
        for name, build in cases.items():
            start = time.perf_counter()
            route = build(lengths, cp, rank)
            if turn > 0:
                seconds[name].append(time.perf_counter() - start)
            routes[name] = [array.tolist() for array in route]
    with open(sys.argv[2], "w") as file:
        json.dump({"version": torch.__version__, "seconds": seconds, "routes": routes}, file)


main()
