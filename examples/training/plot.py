"""Draws the pictures of docs/training.md, as SVG, from what proof.py and throughput.py wrote with --out.

    python3 examples/training/plot.py curves FLOAT64.json FLOAT32.json > docs/training-curves.svg
    python3 examples/training/plot.py speed SPEED.json > docs/training-speed.svg"""

import json
import math
import sys

BLUE, ORANGE, DARK = "#7aa6e8", "#d98324", "#223"
LEFT, TOP, WIDTH, HEIGHT = 60, 40, 320, 200  # position of the first panel


def page(width, height, parts):
    head = (f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {width} {height}" '
            f'font-family="Helvetica, Arial, sans-serif" font-size="12" fill="{DARK}">'
            f'<rect width="{width}" height="{height}" fill="white"/>')
    return "\n".join([head, *parts, "</svg>"])


def text(x, y, words, anchor="start"):
    return f'<text x="{x:.1f}" y="{y:.1f}" text-anchor="{anchor}">{words}</text>'


def line(points, color, width, dash=""):
    path = " ".join(f"{x:.1f},{y:.1f}" for x, y in points)
    dashes = f' stroke-dasharray="{dash}"' if dash else ""
    return f'<polyline points="{path}" fill="none" stroke="{color}" stroke-width="{width}"{dashes}/>'


class Panel:
    """Steps on the x-axis, and values between two limits on the y-axis."""

    def __init__(self, left, title, low, high, ticks, steps, label="{}".format):
        self.left, self.low, self.high, self.steps = left, low, high, steps
        self.parts = [text(left, TOP - 14, title)]
        for value in ticks:
            y = self.y(value)
            self.parts += [line([(left, y), (left + WIDTH, y)], "#dde", 1), text(left - 6, y + 4, label(value), "end")]
        for step in range(0, steps + 1, 10):
            self.parts.append(text(self.x(step), TOP + HEIGHT + 18, step, "middle"))
        self.parts.append(text(left + WIDTH, TOP + HEIGHT + 34, "step", "end"))

    def x(self, step):
        return self.left + WIDTH * step / self.steps

    def y(self, value):
        return TOP + HEIGHT * (self.high - value) / (self.high - self.low)

    def add(self, values, *style):
        self.parts.append(line([(self.x(step), self.y(value)) for step, value in enumerate(values)], *style))

    def explain(self, row, words, *style):
        y = TOP + 14 + 18 * row
        x = self.left + WIDTH - 150
        self.parts += [line([(x, y), (x + 24, y)], *style), text(x + 30, y + 4, words)]


def curves(files):
    runs = {run["dtype"]: next(iter(run["curves"].values())) for run in files}
    steps = runs["float32"]
    losses = Panel(LEFT, "loss, float32", 2, 6, range(2, 7), len(steps))
    losses.add([each["plain"] for each in steps], BLUE, 6)
    losses.add([each["evenkeel"] for each in steps], DARK, 1.5, "5 3")
    losses.explain(0, "plain, one process", BLUE, 6)
    losses.explain(1, "Evenkeel, 4 ranks", DARK, 1.5, "5 3")
    far = Panel(LEFT + WIDTH + 90, "relative distance of the gradient (log scale)", -16, -4, range(-16, -3, 2), len(steps),
                lambda power: f"1e{power}")
    for row, (dtype, color) in enumerate((("float32", ORANGE), ("float64", BLUE))):
        far.add([math.log10(max(each["gradient"], 1e-16)) for each in runs[dtype]], color, 2)
        far.explain(row + 4, dtype, color, 2)  # between the two curves
    return page(2 * WIDTH + 180, TOP + HEIGHT + 50, losses.parts + far.parts)


def speed(files):
    (told,) = files
    speeds = {name: told["tokens"] / sum(seconds) for name, seconds in told["seconds"].items()}
    scale = 420 / max(speeds.values())
    parts = [text(20, 26, f"tokens a second, {told['ranks']} ranks, {told['tokens']:,} tokens in {told['steps']} steps")]
    for row, (name, value) in enumerate(speeds.items()):
        y = 44 + 40 * row
        color = ORANGE if name == "Evenkeel" else BLUE
        bar = f'<rect x="160" y="{y}" width="{value * scale:.1f}" height="28" fill="{color}"/>'
        parts += [text(150, y + 18, name, "end"), bar, text(168 + value * scale, y + 18, f"{value:,.0f}")]
    return page(660, 44 + 40 * len(speeds) + 10, parts)


def main():
    files = []
    for name in sys.argv[2:]:
        with open(name, encoding="utf-8") as file:
            files.append(json.load(file))
    print({"curves": curves, "speed": speed}[sys.argv[1]](files))


if __name__ == "__main__":
    main()
