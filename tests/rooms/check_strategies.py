#!/usr/bin/env python3
"""check_strategies.py SOURCE_DIR: fails when src or include asks how a step is planned (which strategy, mode of
micro-batches or preset is set, whether groups have their own sizes) elsewhere than strategy_of() of plan/strategies does.
What a way of planning does stands in its PlanningStrategy. --count prints how many questions there are, and where."""
import pathlib
import re
import sys

WORD = r"(?:Strategy|MicroBatchMode|Preset)::\w+"
QUESTION = re.compile(
    rf"[=!]= {WORD}|{WORD} [=!]=|\bcase {WORD}|\bgiven\.flexible\b|\bsettings_?(?:\(\))?\.flexible(?! =)\b"
    r"|\bmesh\.flexible_cp(?! =)\b")
OWN_MEMBER = re.compile(r"(?<![\w.:\"])flexible(?: \?|->| &&|\))")  # of PlanSettings

# Ways of planning themselves, and the table that says what goes together.
ANSWERS = ["src/plan/strategies/", "src/plan/settings/requirements.cpp"]
# Who else may ask, how often, and why.
ALLOWED = {
    "include/evenkeel/plan/settings.hpp": (3, "sizes and limits follow from settings alone, before there is a plan"),
    "src/plan/settings/settings.cpp": (2, "so do sizes of groups"),
    "src/config/config.cpp": (2, "a configuration becomes settings: its cap is one of a rank"),
    "src/config/keys.cpp": (1, "mesh.cp is written as a word or a number"),
    "src/service/step/step_context.cpp": (1, "the mesh makes communicators for groups of their own sizes"),
    "src/source/sample_source.cpp": (1, "the cap of a sample source, before there are settings"),
    "src/source/length_limits.cpp": (1, "no mesh decides which samples come"),
    "src/job/job.cpp": (1, "the report names the mesh"),
    "src/page/run_picture.cpp": (2, "the page names the mesh"),
    "src/cli/plan/context_comparison.cpp": (1, "it makes the settings that it compares"),
}


def questions_of(file):
    patterns = [QUESTION, OWN_MEMBER] if file.parts[-2:] in (("plan", "settings.hpp"), ("settings", "settings.cpp")) else [QUESTION]
    for number, line in enumerate(file.read_text().splitlines(), 1):
        for pattern in patterns:
            for found in pattern.finditer(line.split("//")[0]):
                yield number, found.group()


def main():
    source = pathlib.Path(sys.argv[1])
    files = [*(source / "src").rglob("*.[ch]pp"), *(source / "include").rglob("*.hpp")]
    found = {str(file.relative_to(source)): list(questions_of(file)) for file in sorted(files)}
    if not any(questions for name, questions in found.items() if name.startswith(ANSWERS[0])):
        sys.exit("strategy_of() asks nothing: has it moved?")
    others = {name: asked for name, asked in found.items() if asked and not name.startswith(tuple(ANSWERS))}
    if "--count" in sys.argv:
        for name, asked in others.items():
            print(f"{len(asked):3} {name}: {', '.join(f'{number} {text}' for number, text in asked)}")
    errors = []
    for name in sorted(others.keys() | ALLOWED.keys()):
        asked, allowed = others.get(name, []), ALLOWED.get(name, (0, ""))[0]
        if len(asked) > allowed:
            lines = ", ".join(str(number) for number, _ in asked)
            errors.append(f"{name}: asks {len(asked)} times how steps are planned, and {allowed} are allowed (lines {lines}): "
                          "let a PlanningStrategy (src/plan/strategies) answer")
        elif len(asked) < allowed:
            errors.append(f"{name}: asks {len(asked)} times, and {allowed} are allowed: lower that here")
    print("\n".join(errors) or f"{sum(map(len, others.values()))} questions outside strategies, all for a reason")
    sys.exit(bool(errors))


if __name__ == "__main__":
    main()
