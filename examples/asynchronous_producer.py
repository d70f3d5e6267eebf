"""An asynchronous producer: many rollouts at once, each sent in a separate request as soon as it is finished.
Evenkeel's part is the standard library; generate() represents your inference server's client.

    evenkeel buffer --listen 127.0.0.1:8710 --dir buffer --capacity 1GiB --group-size 4
    python3 examples/asynchronous_producer.py http://127.0.0.1:8710 --prompts 16 --group-size 4"""

import argparse
import asyncio
import random

import evenkeel


async def generate(prompt, draw):
    """Returns (tokens, their log-probabilities). Raises an error now and then, as servers do."""
    await asyncio.sleep(draw.expovariate(50))
    if draw.random() < 0.02:
        raise ConnectionError("the server was restarted")
    response = [draw.randrange(100) for _ in range(draw.randint(1, 40))]
    return response, [-draw.random() for _ in response]


async def roll_out(producer, uid, index, prompt, draw):
    """Makes one rollout and sends it from a thread, because the producer blocks while the buffer is full or
    unavailable."""
    version = producer.version  # version for the oldest token
    try:
        response, log_probs = await generate(prompt, draw)
    except ConnectionError as error:
        await asyncio.to_thread(producer.abort, uid, index, str(error))  # only this sample
        return False
    await asyncio.to_thread(producer.put, {
        "uid": uid, "index": index, "version": version, "prompt_ids": prompt, "response_ids": response,
        "rollout_log_probs": log_probs, "reward": len(set(response)) / len(response),
    })
    return True


async def roll_out_group(producer, number, options, at_once):
    async with at_once:
        while not await asyncio.to_thread(producer.tickets, 1):  # a group started now would become too old
            await asyncio.sleep(0.2)
        uid, prompt = f"prompt {number}", [number, number + 1]
        draws = [random.Random(f"{options.seed} {uid} {index}") for index in range(options.group_size)]
        done = await asyncio.gather(*(roll_out(producer, uid, index, prompt, draw) for index, draw in enumerate(draws)))
        if not all(done):
            await asyncio.to_thread(producer.close, uid)  # it is trained with the samples that it has
        return sum(done)


async def roll_out_all(options):
    producer = evenkeel.Producer(options.url)
    at_once = asyncio.Semaphore(options.groups_at_once)
    sent = await asyncio.gather(*(roll_out_group(producer, n, options, at_once) for n in range(options.prompts)))
    await asyncio.to_thread(producer.end)
    print(f"{sum(sent)} samples in {options.prompts} groups")


def main():
    parser = argparse.ArgumentParser(description=__doc__.split("\n", maxsplit=1)[0])
    parser.add_argument("url")
    parser.add_argument("--prompts", type=int, default=16)
    parser.add_argument("--group-size", type=int, default=4)
    parser.add_argument("--groups-at-once", type=int, default=8)
    parser.add_argument("--seed", type=int, default=0)
    asyncio.run(roll_out_all(parser.parse_args()))


if __name__ == "__main__":
    main()
