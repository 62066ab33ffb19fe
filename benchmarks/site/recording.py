"""The moving picture at the top of the README: a real run of `farthing run` in a terminal.

    python -m benchmarks.site.recording

The commands run in a pseudo-terminal, and what they print is kept with its time. The picture shows
it faster than it was, by the factor in its title bar.
"""

from __future__ import annotations

import argparse
import fcntl
import os
import pty
import re
import shlex
import shutil
import struct
import sys
import tempfile
import termios
import time
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

from PIL import Image, ImageDraw, ImageFont
from rich.ansi import AnsiDecoder
from rich.console import Console
from rich.terminal_theme import TerminalTheme
from rich.text import Text

ROOT = Path(__file__).resolve().parents[2]
PICTURE = ROOT / "docs" / "figures" / "terminal.gif"
COMMANDS = (
    "farthing run --budget {budget} --param lr=float:1e-3:1:log --param depth=int:1:16 "
    "-- python examples/train.py --lr {{lr}} --depth {{depth}}",
    "farthing best",
)
COLUMNS, ROWS = 100, 17
FONT, LINE = 14, 19  # pixels
MARGIN, BAR = 14, 30
LENGTH = 12.0  # seconds of the picture for the first command
EVERY = 0.16  # seconds between two frames
PAUSES = {"command": 1.6, "end": 5.0}  # seconds for which a typed command and the end are shown
COLOURS = 96
MOST_BYTES = 600_000
BACKGROUND, TITLE = (24, 27, 31), (154, 163, 173)
THEME = TerminalTheme(
    BACKGROUND,
    (222, 226, 230),
    [
        *((40, 44, 50), (255, 123, 114), (95, 211, 141), (240, 190, 90)),
        *((104, 172, 255), (195, 166, 255), (86, 212, 221), (222, 226, 230)),
    ],
    [
        *((126, 135, 146), (255, 150, 140), (130, 225, 165), (250, 210, 120)),
        *((140, 195, 255), (210, 190, 255), (120, 225, 235), (255, 255, 255)),
    ],
)
TOKEN = re.compile(r"\x1b\[(?P<how>\??[\d;]*)(?P<code>[A-Za-z])|[\r\n]|[^\x1b\r\n]+")


class Frame(NamedTuple):
    """The lines of the screen, with their colour codes, and for how many seconds they stay."""

    lines: list[str]
    seconds: float


class Screen:
    """What a terminal shows after the few codes that the package prints."""

    def __init__(self) -> None:
        self.lines, self.row, self.at_start = [""], 0, False

    def feed(self, text: str) -> None:
        for token in TOKEN.finditer(text):
            code, given = token["code"], token[0]
            if code == "A":
                self.row = max(self.row - int(token["how"] or 1), 0)
            elif code == "K":
                self.lines[self.row] = ""
            elif code is None and given == "\r":
                self.at_start = True
            elif code is None and given == "\n":
                self.row, self.at_start = self.row + 1, False
                self.lines += [""] * (self.row + 1 - len(self.lines))
            elif code in (None, "m"):
                self.lines[self.row] = given if self.at_start else self.lines[self.row] + given
                self.at_start = False

    @property
    def shown(self) -> list[str]:
        return self.lines[:] if self.lines[-1] else self.lines[:-1]


def printed(command: list[str], folder: Path) -> Iterator[tuple[float, str]]:
    """Run a command in a terminal, and return what it prints with the seconds since its start."""
    child, terminal = pty.fork()
    if child == 0:
        os.chdir(folder)
        path = f"{Path(sys.executable).parent}:{os.environ['PATH']}"
        os.environ |= {"TERM": "xterm-256color", "PATH": path}
        os.execv(command[0], command)
    fcntl.ioctl(terminal, termios.TIOCSWINSZ, struct.pack("HHHH", ROWS, COLUMNS, 0, 0))
    started, rest = time.monotonic(), b""
    while True:
        try:
            rest += os.read(terminal, 65536)
        except OSError:  # the command has ended
            break
        text, rest = _decoded(rest)
        yield time.monotonic() - started, text
    os.close(terminal)
    if os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]):
        raise SystemExit(f"{shlex.join(command)} failed.")


def _decoded(data: bytes) -> tuple[str, bytes]:
    """The complete characters and codes, and the bytes that belong to the next ones."""
    text = data.decode("utf-8", "surrogateescape")
    whole = re.sub(r"(\x1b(\[[\d;?]*)?|[\udc80-\udcff]+)\Z", "", text)
    return whole, text[len(whole) :].encode("utf-8", "surrogateescape")


def record(budget: str, folder: Path) -> tuple[list[Frame], float]:
    """The frames of all commands, and how much faster they are than the run."""
    screen, frames, factor = Screen(), list[Frame](), 1.0
    for number, pattern in enumerate(COMMANDS):
        command = pattern.format(budget=budget)
        screen.feed(f"\x1b[32m$\x1b[0m {_folded(command)}\n")
        frames.append(Frame(screen.shown, PAUSES["command"]))
        words = shlex.split(command)[1:]
        run = [sys.executable, "-c", "from farthing.cli import main; main()", *words]
        states = []
        for at, text in printed(run, folder):
            screen.feed(text)
            states.append((at, screen.shown))
        if number == 0:
            factor = max(round(states[-1][0] / LENGTH), 1)
            frames += _sampled(states, factor)
        screen.feed("\n")
    frames.append(Frame(screen.shown, PAUSES["end"]))
    return frames, factor


def _folded(command: str) -> str:
    head, _, rest = command.partition(" -- ")
    return f"{head} \\\n    -- {rest}" if rest else head


def _sampled(states: list[tuple[float, list[str]]], factor: float) -> Iterator[Frame]:
    """One frame for every `EVERY` seconds of the picture, of the latest state by then."""
    end, k = states[-1][0] / factor, 0
    for step in range(1, int(end / EVERY) + 2):
        while k + 1 < len(states) and states[k + 1][0] / factor <= step * EVERY:
            k += 1
        yield Frame(states[k][1], EVERY)


def draw(frame: Frame, factor: float) -> Image.Image:
    import matplotlib

    folder = Path(matplotlib.get_data_path()) / "fonts" / "ttf"
    plain, bold = (
        ImageFont.truetype(str(folder / f"DejaVuSansMono{weight}.ttf"), FONT)
        for weight in ("", "-Bold")
    )
    wide = plain.getlength("m")
    size = round(COLUMNS * wide) + 2 * MARGIN, ROWS * LINE + BAR + 2 * MARGIN
    image = Image.new("RGB", size, BACKGROUND)
    pen = ImageDraw.Draw(image)
    pen.rectangle((0, 0, size[0], BAR), fill=(38, 42, 48))
    for k, hue in enumerate(((255, 95, 87), (254, 188, 46), (40, 200, 64))):
        pen.ellipse((14 + 20 * k, 10, 24 + 20 * k, 20), fill=hue)
    pen.text((size[0] / 2, BAR / 2), f"{factor:g} times faster", TITLE, plain, anchor="mm")
    rows = [part for line in frame.lines for part in _wrapped(line)]
    for row, text in enumerate(rows[-ROWS:]):
        column = 0
        for piece, style, _ in text.render(Console(width=COLUMNS)):
            hue = THEME.foreground_color
            if style is not None and style.color is not None:
                hue = style.color.get_truecolor(THEME)
            face = bold if style is not None and style.bold else plain
            for letter in piece.rstrip("\n"):
                pen.text((MARGIN + column * wide, BAR + MARGIN + row * LINE), letter, hue, face)
                column += 1
    return image


def _wrapped(line: str) -> list[Text]:
    """A line as a terminal breaks it."""
    text = Text("").join(AnsiDecoder().decode(line))
    return list(text.divide(range(COLUMNS, len(text), COLUMNS)))


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--budget", default="5m", help="of the run")
    parser.add_argument("--frames", type=Path, help="a folder for some frames as PNG, to look at")
    given = parser.parse_args()
    folder = Path(tempfile.gettempdir()) / "digits"  # the picture shows this name
    try:
        shutil.copytree(ROOT / "examples", folder / "examples")
        frames, factor = record(given.budget, folder)
    finally:
        shutil.rmtree(folder)
    merged: list[Frame] = []
    for frame in frames:
        if merged and merged[-1].lines == frame.lines:
            merged[-1] = Frame(frame.lines, merged[-1].seconds + frame.seconds)
        else:
            merged.append(frame)
    images = [draw(frame, factor) for frame in merged]
    if given.frames:
        given.frames.mkdir(exist_ok=True, parents=True)
        for k in range(0, len(images), max(len(images) // 6, 1)):
            images[k].save(given.frames / f"{k:03}.png")
        images[-1].save(given.frames / "last.png")
    middle = images[len(images) // 2]  # has colours that the end does not
    both = Image.new("RGB", (middle.width, 2 * middle.height))
    both.paste(middle, (0, 0))
    both.paste(images[-1], (0, middle.height))
    palette = both.quantize(COLOURS, kmeans=1)
    shown = [image.quantize(palette=palette, dither=Image.Dither.NONE) for image in images]
    shown[0].save(
        PICTURE,
        save_all=True,
        append_images=shown[1:],
        duration=[round(1000 * frame.seconds) for frame in merged],
        loop=0,
        optimize=True,
    )
    size = PICTURE.stat().st_size
    print(f"wrote {PICTURE}: {len(shown)} frames, {size:,} bytes, {factor:g} times faster")
    assert size < MOST_BYTES, "The picture is too large for a README."


if __name__ == "__main__":
    main()
