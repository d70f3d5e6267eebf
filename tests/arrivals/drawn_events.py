"""Draws random events for a buffer and its job: settings, samples and events. Equal seeds give equal draws."""
import dataclasses
import json
import random

MOST_TOKENS = 64  # maximum length of a sample that the job accepts
UIDS = ['a\nb', 'tab\there', 'ü', '💥', 7, '7', 0, -5, 2**63 - 1, 2**63, 2**64 - 1, -2**63, 'x' * 1024, 'é' * 512, ' ', '"',
        '\x00', '..', 'a/b', '%2F', 'null', '007', '\u2028', 'close', 'a?b#c', "it's"]
REFUSED_UIDS = ['', None, True, 1.5, 2**64, -2**63 - 1, ['a'], {'a': 1}, 'x' * 1025, 'é' * 513]

# Keys that replace those of a sample so that no job can train it; None removes the key.
FAULTS = [
    {'response_ids': list(range(MOST_TOKENS))}, {'loss_mask': 1}, {'loss_mask': 0.5}, {'labels': [0.5, 1.5]},
    {'labels': 3}, {'position_ids': 0.5}, {'sample_index': 3}, {'loss_weights': [1.0, 1.0]}, {'cu_seqlens': 1},
    {'index': None}, {'index': -1}, {'index': 1 << 40}, {'index': '0'}, {'index': 0.5},
    {'version': None}, {'version': -1}, {'version': 1 << 40}, {'version': 'new'}, {'versions': [[1 << 40, 3]]},
    {'prompt_ids': None}, {'prompt_ids': 'text'}, {'response_ids': [1.5]}, {'response_ids': [1, None]}, {'response_ids': {}},
] + [{'uid': uid} for uid in REFUSED_UIDS]
TORN_LINES = ['{', '[]', '7', '{"uid": "a", "uid": }', '{"uid": "\ud800"}', '{"uid": "u", "prompt_ids": [NaN]}', '\x00',
              '{"uid": 1e999}']


@dataclasses.dataclass(frozen=True)
class Settings:
    store: str
    group_size: int
    min_group: int
    groups: int  # number of groups per step
    max_staleness: int | None
    on_stale: str
    deadline: int | None  # deadline of groups, in seconds
    ticket_deadline: int
    state_every: int
    look_ahead: int

    def limits_tickets(self):
        return self.max_staleness is not None and self.on_stale == 'wait'


@dataclasses.dataclass(frozen=True)
class Event:
    """An event of the test: `what` is the name of a method of Play, and `given` are its arguments."""

    what: str
    given: dict

    def __str__(self):
        return f'{self.what} {json.dumps(self.given)[:300]}'


def draw_settings(draw):
    group_size = draw.randint(1, 3)
    max_staleness, on_stale = draw.choice([(None, 'wait'), (1, 'wait'), (2, 'wait'), (2, 'drop'), (2, 'mask')])
    return Settings(draw.choice(['lmdb', 'lmdb', 'lmdb', 'memory']), group_size, draw.randint(1, group_size), draw.randint(1, 3),
                    max_staleness, on_stale, draw.choice([None, None, 1]), draw.choice([1, 600]), draw.randint(1, 3),
                    draw.choice([0, 0, 2]))


class Draws:
    """Draws the events of one seed."""

    def __init__(self, seed):
        self._draw = random.Random(seed)
        self.settings = draw_settings(self._draw)
        self.uids = [*self._draw.sample(UIDS, 8), *(f'g{number}' for number in range(200))]
        self.samples = []  # indexed by key: group * group_size + index
        self._unsent = []

    def events(self):
        """Yields events. The last one leaves the job and its buffer in the middle of their work."""
        draw = self._draw
        if draw.random() < 0.2 and self.settings.max_staleness is None:
            yield Event('begin_with_sample_that_is_too_long', {})
        yield self._send()
        yield Event('start_job', {'ranks': draw.randint(1, 2)})
        disruptions = [self._kill_job, self._fence] + 2 * [self._restart, self._change_rules] * (self.settings.store == 'lmdb')
        disruptions = draw.sample(disruptions, min(len(disruptions), 3))
        for disrupt in disruptions:
            for _ in range(draw.randint(3, 6)):
                yield draw.choice([self._send, self._send, self._send, self._send_again, self._refuse, self._refuse_line,
                                   self._lose_tickets, self._die_with_tickets, self._close, self._abort, self._abort_in_step])()
            yield disrupt()
        if draw.random() < 0.3:
            yield Event('refuse_second_job', {'is_program': draw.random() < 0.5})
        yield self._send()

    def _new_samples(self, number):
        """Draws samples of groups that several requests complete, in an order that mixes groups."""
        while len(self._unsent) < number + self.settings.group_size:
            group = len(self.samples) // self.settings.group_size
            for index in range(self.settings.group_size):
                key = len(self.samples)
                tokens = [self._draw.randrange(1000) for _ in range(self._draw.randint(1, 20))]
                self.samples.append({'uid': self.uids[group], 'index': index, 'key': key, 'prompt_ids': [key],
                                     'response_ids': tokens})
                self._unsent.append(key)
        window = self._unsent[:number + self.settings.group_size]
        chosen = self._draw.sample(window, number)
        self._unsent = [key for key in self._unsent if key not in chosen]
        return chosen

    def _send(self):
        keys = self._new_samples(self._draw.randint(1, 3 * self.settings.group_size))
        return Event('send', {'keys': keys, 'behind': [self._draw.choice([0, 0, 1, 2, 4]) for _ in keys],
                              'holder': f'worker-{self._draw.randint(0, 2)}', 'repeats': self._draw.choice([0, 0, 1]),
                              'packing': self._draw.choice(['', '', 'gzip'])})

    def _send_again(self):
        return Event('send_again', {'share': self._draw.random(), 'seed': self._draw.randrange(1 << 30),
                                    'changes': self._draw.choice([None, 'version', 'tokens'])})

    def _refuse(self):
        key, = self._new_samples(1)
        self._unsent.insert(0, key)  # The sample is sent later.
        return Event('refuse', {'key': key, 'fault': self._draw.choice(FAULTS), 'is_first': self._draw.random() < 0.5})

    def _refuse_line(self):
        key, = self._new_samples(1)
        self._unsent.insert(0, key)
        return Event('refuse_line', {'key': key, 'line': self._draw.choice(TORN_LINES)})

    def _lose_tickets(self):
        return Event('lose_tickets', {'groups': self._draw.randint(1, 4), 'holder': f'worker-{self._draw.randint(0, 2)}',
                                      'key': f'request-{self._draw.randrange(1 << 30)}'})

    def _die_with_tickets(self):
        return Event('die_with_tickets', {'holder': f'worker-{self._draw.randint(0, 2)}'})

    def _any_group(self):
        return self._draw.randrange(len(self.samples) // self.settings.group_size)

    def _close(self):
        return Event('close', {'group': self._any_group(), 'in_url': self._draw.random() < 0.5})

    def _abort(self):
        index = self._draw.choice([None, self._draw.randrange(self.settings.group_size)])
        return Event('abort', {'group': self._any_group(), 'index': index, 'in_url': self._draw.random() < 0.5})

    def _abort_in_step(self):
        return Event('abort_in_step', {'group': self._any_group()})

    def _kill_job(self):
        return Event('kill_job', {'victim': self._draw.choice(['launcher', 'first rank', 'last rank']),
                                  'ranks': self._draw.randint(1, 2), 'pause': self._draw.choice([0, 0.2])})

    def _fence(self):
        return Event('fence', {'ranks': self._draw.randint(1, 2)})

    def _restart(self):
        return Event('restart_buffer', {'is_killed': self._draw.random() < 0.7, 'pause': self._draw.choice([0, 0.3]),
                                        'ticket_deadline': self._draw.choice([None, None, 300])})

    def _change_rules(self):
        rule = self._draw.choice(['deadline', 'max_staleness'])
        return Event('change_rules', {'rule': rule, 'ranks': self._draw.randint(1, 2)})
