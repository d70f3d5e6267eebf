"""Synthetic text: prompts with several responses each, with long-tailed lengths. The same seed makes the same samples.
"""

import dataclasses

import numpy as np
import torch

LETTERS = np.frombuffer(b"etaoinshrdlu", np.uint8)


@dataclasses.dataclass
class Sample:
    """Bytes, as int64. Samples of one group share one prompt."""

    id: int
    group: int
    prompt: torch.Tensor
    response: torch.Tensor

    @property
    def tokens(self):
        return torch.cat([self.prompt, self.response])

    def __len__(self):
        return len(self.prompt) + len(self.response)


class Language:
    """Words followed by one of three other words, so that there is something to learn."""

    def __init__(self, seed=1, words=60):
        random = np.random.default_rng(seed)
        self.words = [random.choice(LETTERS, random.integers(2, 7)).tobytes() + b" " for _ in range(words)]
        self.next = random.integers(0, words, (words, 3))

    def write(self, random, length):
        text, word = b"", int(random.integers(len(self.words)))
        while len(text) < length:
            text += self.words[word]
            word = int(self.next[word, random.choice(3, p=[0.7, 0.2, 0.1])])
        return torch.tensor(list(text[:length]), dtype=torch.int64)


LANGUAGE = Language()


def samples_of(step, groups=6, responses=4, *, typical=40, sigma=0.8, longest=300, seed=0):
    """The samples of a step. Response lengths are lognormal around ``typical``, truncated to ``longest``; one response
    in the first group is empty: a sample without loss."""
    random = np.random.default_rng([seed, step])

    def length():
        return int(np.clip(random.lognormal(np.log(typical), sigma), 1, longest))

    samples = []
    for group in range(groups):
        prompt = LANGUAGE.write(random, max(1, length() // 2))
        for _ in range(int(random.integers(2, responses + 1))):
            of_response = 0 if group == 0 and len(samples) == 0 else length()
            number = step * groups * responses + len(samples)
            samples.append(Sample(number, step * groups + group, prompt, LANGUAGE.write(random, of_response)))
    return samples
