"""A short animation of a page, small enough for a README."""

from __future__ import annotations

import io
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from PIL import Image, ImageChops
from playwright.sync_api import Page

_STEP: Final = 400.0
"""Milliseconds between two looks."""
_MAX_SECONDS: Final = 2.5
"""Seconds a picture but the last is shown at most: nobody wants to watch something start."""
_COLOURS: Final = 128


@dataclass(slots=True)
class Frame:
    picture: Image.Image
    seconds: float


def still(page: Page, seconds: float) -> Frame:
    """What is there now, to be shown that long."""
    return Frame(_look(page), seconds)


def shoot(page: Page, is_over: Callable[[], bool]) -> Sequence[Frame]:
    """Look until it is over; what does not change is one picture."""
    frames = [Frame(_look(page), 0)]
    began = time.monotonic()
    while not is_over():
        page.wait_for_timeout(_STEP)
        picture = _look(page)
        frames[-1].seconds = time.monotonic() - began
        if _differ(picture, frames[-1].picture):
            began = time.monotonic()
            frames.append(Frame(picture, 0))
    return frames


def save(frames: Sequence[Frame], file: Path) -> None:
    """One palette for all and no dithering: text stays sharp, and what stays costs nothing."""
    palette = _palette([each.picture for each in frames])
    first, *others = (
        each.picture.quantize(palette=palette, dither=Image.Dither.NONE) for each in frames
    )
    shown = [min(each.seconds, _MAX_SECONDS) for each in frames[:-1]] + [frames[-1].seconds]
    first.save(
        file,
        save_all=True,
        append_images=others,
        duration=[round(seconds * 1000) for seconds in shown],
        loop=0,
        optimize=True,
    )


def _look(page: Page) -> Image.Image:
    return Image.open(io.BytesIO(page.screenshot())).convert("RGB")


def _differ(one: Image.Image, other: Image.Image) -> bool:
    return ImageChops.difference(one, other).getbbox() is not None


def _palette(pictures: Sequence[Image.Image]) -> Image.Image:
    """Of the colours of some of them, from the first to the last."""
    some = [pictures[round(n * (len(pictures) - 1) / 3)] for n in range(4)]
    width, height = some[0].size
    sheet = Image.new("RGB", (width, height * len(some)))
    for number, each in enumerate(some):
        sheet.paste(each, (0, height * number))
    return sheet.quantize(_COLOURS, method=Image.Quantize.MEDIANCUT)
