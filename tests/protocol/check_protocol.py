#!/usr/bin/env python3
"""check_protocol.py WORK_DIR: lets Spin check every state of the models in this folder, which must hold, and of mutants with
one error each, in which Spin must find a failure. Prints how many states were checked."""
import pathlib
import re
import resource
import subprocess
import sys

MODELS = pathlib.Path(__file__).resolve().parent

# A model, and the macros with which it is compiled.
MUST_HOLD = [
    ('service', ['CALLS=1']),
    ('ahead', ['STEPS=2', 'DEPTH=1']),
    ('ahead', ['STEPS=3', 'DEPTH=2', 'WITHOUT_THREADS']),
    ('ahead', ['STEPS=2', 'DEPTH=1', 'STOPS_APART']),
]
MUST_FAIL = [
    ('service', ['CALLS=1', 'ONLY_STEPS', 'MUTANT_THROWS_ALONE']),
    ('service', ['CALLS=1', 'MUTANT_ROOT_IS_NOT_TOLD']),
    ('service', ['CALLS=1', 'ONLY_STEPS', 'MUTANT_COUNTS_ALONE']),
    ('service', ['CALLS=1', 'ONLY_STEPS', 'MUTANT_LEAVES_OUT_ITS_PEERS']),
    ('service', ['CALLS=1', 'ONLY_STEPS', 'MUTANT_NO_LAST_AGREEMENT']),
    ('service', ['CALLS=1', 'ONLY_STEPS', 'MUTANT_MEMORY_BETWEEN_SPLITS']),
    ('ahead', ['STEPS=2', 'MUTANT_NO_LAST_AGREEMENT']),
    ('ahead', ['STEPS=2', 'MUTANT_PREFETCHER_SHARES_THE_COMMUNICATOR']),
    ('ahead', ['STEPS=2', 'MUTANT_STOPS_ALONE']),
    ('ahead', ['STEPS=2', 'MUTANT_FAILS_AFTER_THE_HANDOVER']),
    ('ahead', ['STEPS=2', 'MUTANT_THREAD_IS_NOT_JOINED']),
]


def search(work, model, defines):
    """Returns the output of Spin's verifier."""
    folder = work / '-'.join([model, *defines]).lower()
    folder.mkdir(parents=True, exist_ok=True)
    given = ['-D' + define for define in defines]
    # The verifier is not optimized, since that would take longer than the search.
    for command in (['spin', *given, '-a', str(MODELS / f'{model}.pml')],
                    ['gcc', '-O0', '-w', '-DSAFETY', '-DCOLLAPSE', '-DMEMLIM=4000', '-o', 'verifier', 'pan.c']):
        run = subprocess.run(command, cwd=folder, capture_output=True, text=True, check=False)
        if run.returncode != 0:
            sys.exit(f'{" ".join(command)}:\n{run.stdout}{run.stderr}')
    return subprocess.run(['./verifier', '-m200000'], cwd=folder, capture_output=True, text=True, check=False).stdout


def main():
    work = pathlib.Path(sys.argv[1])
    wrong = []
    total = 0
    for model, defines in MUST_HOLD + MUST_FAIL:
        output = search(work, model, defines)
        found = re.search(r'errors: (\d+)\s+(\d+) states, stored', output)
        what = re.search(r'assertion violated|invalid end state', '\n'.join(re.findall(r'^pan:\d+: .*', output, re.M)))
        complete = bool(found) and 'Search not completed' not in output and 'max search depth too small' not in output
        if (model, defines) in MUST_FAIL:
            holds = what is not None
        else:
            holds = complete and found.group(1) == '0'
        states = int(found.group(2)) if found else 0
        total += states
        result = what.group() if what else 'no way to fail' if complete else 'not all was seen'
        print(f'{model:8} {" ".join(defines):52} {states:9} states: {result}', flush=True)
        if not holds:
            wrong.append(f'{model} {" ".join(defines)}: {result}\n{output}')
    used = resource.getrusage(resource.RUSAGE_CHILDREN)
    print(f'{total} states in {used.ru_utime + used.ru_stime:.0f} s of one processor')
    sys.exit('\n'.join(wrong) or 0)


if __name__ == '__main__':
    main()
