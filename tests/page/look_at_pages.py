#!/usr/bin/env python3
"""Opens pages of a run and of a plan in Chromium, without a network, and checks what is drawn.

    look_at_pages.py PROGRAM FOLDER            makes pages below FOLDER and checks them
    look_at_pages.py PROGRAM FOLDER --renew    also updates docs/report-light.png and docs/report-dark.png

Exit status: 0 if all is right, 1 if something is not, 77 without Chromium.
"""

import html.parser
import pathlib
import re
import shutil
import struct
import subprocess
import sys

ROOT = pathlib.Path(__file__).resolve().parents[2]
MPIRUN = ["mpirun", "--allow-run-as-root", "--oversubscribe", "--mca", "mpi_yield_when_idle", "1"]
SECTIONS = {
    "plan": ["What to change", "DP ranks, before and after", "Micro-batches of a step", "Lengths", "Padding removed"],
    "run": ["Balance over steps", "Micro-batches over steps", "Phases of steps", "Phases of ranks", "Memory of ranks",
            "Bytes from rank to rank"],
    "comparison": ["Ways to plan", "Context parallelism", "DP ranks, before and after", "Micro-batches of a step"],
}
MOST_BYTES_IN_DOCS = 250 * 1024


class Failure(Exception):
    """Raised if a page lacks something, or has something that it should not have."""


def require(is_so: bool, what: str) -> None:
    if not is_so:
        raise Failure(what)


def run(*command, folder: pathlib.Path | None = None) -> subprocess.CompletedProcess:
    done = subprocess.run([str(word) for word in command], capture_output=True, text=True, check=False, cwd=folder)
    require(done.returncode == 0, f"{' '.join(map(str, command))}: {done.stderr}")
    return done


class Browser:
    """Runs a new Chromium for each page. All of its network requests fail."""

    def __init__(self, program: str, folder: pathlib.Path):
        self._program = program
        self._folder = folder

    def open(self, page: pathlib.Path, *options: str) -> str:
        done = run(self._program, "--headless", "--no-sandbox", "--disable-gpu", "--hide-scrollbars",
                   "--disable-dev-shm-usage", f"--user-data-dir={self._folder / 'chromium'}", "--no-first-run",
                   "--host-resolver-rules=MAP * ~NOTFOUND", "--enable-logging=stderr",
                   "--force-device-scale-factor=1", *options, page.as_uri())
        console = [line for line in done.stderr.splitlines() if "CONSOLE" in line]
        require(not console, f"{page.name}: the browser's console says: {console}")
        return done.stdout

    def document(self, page: pathlib.Path) -> str:
        return self.open(page, "--dump-dom", "--window-size=1240,1000")

    def picture(self, page: pathlib.Path, to: pathlib.Path, height: int, dark: bool = False, width: int = 1240) -> None:
        scheme = ["--blink-settings=preferredColorScheme=0"] if dark else []
        self.open(page, f"--screenshot={to}", f"--window-size={width},{height}", *scheme)
        require(to.read_bytes()[:8] == b"\x89PNG\r\n\x1a\n", f"{to.name} is no picture")
        require(struct.unpack(">II", to.read_bytes()[16:24]) == (width, height), f"{to.name} has another size")


class Elements(html.parser.HTMLParser):
    """Counts the elements of a drawn page."""

    def __init__(self, document: str):
        super().__init__()
        self.sections: list[str] = []
        self.drawn = False
        self.failed = True
        self.paths = 0
        self.addresses: list[str] = []
        self.feed(document)

    def handle_starttag(self, tag, attrs):
        given = dict(attrs)
        if tag == "html":
            self.drawn = given.get("data-drawn") == "yes"
        if tag == "section":
            self.sections.append(given.get("aria-label", ""))
        if given.get("id") == "failure":
            self.failed = "hidden" not in given
        if tag == "path" and len(given.get("d", "")) > 10:
            self.paths += 1
        self.addresses += [value for name, value in attrs if name in ("src", "href")]


def check_page(browser: Browser, page: pathlib.Path, sections: list[str]) -> None:
    text = page.read_text(encoding="utf-8")
    outside = re.findall(r"(?:https?:)?//[a-z0-9][^\s\"'`]*\.[a-z]", text.replace("http://www.w3.org/2000/svg", ""))
    require(not outside, f"{page.name} names {outside[:3]}")
    elements = Elements(browser.document(page))
    require(elements.drawn and not elements.failed, f"{page.name} is not drawn to its end")
    missing = [name for name in sections if name not in elements.sections]
    require(not missing, f"{page.name} lacks {missing}; it has {elements.sections}")
    require(elements.paths >= 5, f"{page.name} has {elements.paths} drawings")
    require(not elements.addresses, f"{page.name} refers to {elements.addresses}")


def check_words(browser: Browser, pages: dict[str, pathlib.Path]) -> None:
    """Checks the text of pages about several steps, and about the page itself."""
    documents = {name: browser.document(pages[name]) for name in ("run", "profiles", "comparison")}
    require("Sums over all steps" in documents["run"], "the page of the run with several steps lacks 'Sums over all steps'")
    require("Sums over all steps" not in documents["profiles"], "the page of the run with one step has 'Sums over all steps'")
    require("job.yaml, " in documents["run"] and "from " in documents["run"], "the run's page lacks 'job.yaml, ' or 'from '")
    require("<title>Ways to plan a step: " in documents["comparison"],
            "the comparison's title does not begin with 'Ways to plan a step: '")


def check_colours(browser: Browser, page: pathlib.Path, folder: pathlib.Path) -> None:
    light, dark, narrow = (folder / f"{page.stem}-{name}.png" for name in ("light", "dark", "narrow"))
    browser.picture(page, light, 1000)
    browser.picture(page, dark, 1000, dark=True)
    browser.picture(page, narrow, 900, width=560)
    require(light.read_bytes() != dark.read_bytes(), f"{page.name} looks alike in light and dark")
    printed = folder / f"{page.stem}.pdf"
    browser.open(page, f"--print-to-pdf={printed}", "--no-pdf-header-footer")
    require(printed.read_bytes()[:5] == b"%PDF-", f"{page.name} cannot be printed")


def make_pages(program: pathlib.Path, folder: pathlib.Path) -> dict[str, pathlib.Path]:
    def here(*command) -> None:  # Files are named without a path, since pages show the names.
        run(*command, folder=folder)

    here(program, "synth", "--samples", 2048, "--prompt-median", 300, "--response-median", 900, "--response-max", 12000,
         "--out", "rollouts.jsonl")
    (folder / "job.yaml").write_text(
        "source: {kind: jsonl, path: rollouts.jsonl}\n"
        "batch: {global_batch: 128}\nmesh: {dp: 8}\nmicro_batch: {max_tokens: 14336}\n"
        "balance: {cost: flops-7b}\nprofiles: {verl: {balance: {preset: verl}}, auto: {}}\n", encoding="utf-8")
    job = [*MPIRUN, "-np", 8, program, "run", "job.yaml", "--progress", "off"]
    here(*job, "--report", "run")
    here(*job, "--steps", 1, "--profiles", "auto,verl", "--report", "profiles")
    plan = [program, "plan", "--lengths", "rollouts.jsonl", "--set", "micro_batch.max_tokens=14336"]
    for dp in (1, 1024):
        here(*plan, "--set", f"mesh.dp={dp}", "--html", f"plan-{dp}.html")
    here(*plan, "--set", "mesh.dp=64", "--compare", "--html", "ways.html")
    return {"run": folder / "run/report.html", "profiles": folder / "profiles/report.html",
            "plan of 1": folder / "plan-1.html", "plan of 1024": folder / "plan-1024.html",
            "comparison": folder / "ways.html"}


def renew(browser: Browser, page: pathlib.Path) -> None:
    for dark in (False, True):
        picture = ROOT / "docs" / f"report-{'dark' if dark else 'light'}.png"
        browser.picture(page, picture, 2080, dark=dark, width=1100)
        require(picture.stat().st_size < MOST_BYTES_IN_DOCS, f"{picture} has {picture.stat().st_size} bytes")


def main() -> int:
    program, folder = (pathlib.Path(word).resolve() for word in sys.argv[1:3])
    chromium = shutil.which("chromium") or shutil.which("chromium-browser")
    if chromium is None:
        print("no chromium here: launch/install-packages.sh --tests installs it")
        return 77
    shutil.rmtree(folder, ignore_errors=True)
    folder.mkdir(parents=True)
    browser = Browser(chromium, folder)
    try:
        pages = make_pages(program, folder)
        for name, page in pages.items():
            if name == "comparison":
                check_page(browser, page, SECTIONS["comparison"])
                continue
            more = [] if name.startswith("plan") else SECTIONS["run"][0 if name == "run" else 2:]
            check_page(browser, page, SECTIONS["plan"] + more)
        check_colours(browser, pages["run"], folder)
        check_words(browser, pages)
        if "--renew" in sys.argv:
            renew(browser, pages["run"])
    except Failure as failure:
        print(failure)
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main())
