"""Templates: names that E2B's clients give for the kind of sandbox they want."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final

from bascule.core.errors import InvalidRequest, NotSupported
from bascule.serving.refusals import Refused

BASE: Final = "base"
_USUAL: Final = (BASE, "code-interpreter-v1", "code-interpreter")
_DOCKER: Final = "docker"
_NO_BUILDS: Final = (
    "This hub builds no templates. Use the template base or code-interpreter-v1, the name of a "
    "spawner, or docker:IMAGE with an image that exists"
)


@dataclass(frozen=True, slots=True)
class Template:
    """The spawner and image that a template stands for."""

    name: str
    spawner: str
    image: str = ""


def find_template(name: str, spawners: Sequence[str]) -> Template:
    """The template with this name. `spawners`: those of the hub, the default first.

    Raises `Refused` if the hub has no such template.
    """
    name = name or BASE
    if name in _USUAL:
        return Template(name, spawners[0])
    if name in spawners:
        return Template(name, name)
    kind, _, image = name.partition(":")
    if kind == _DOCKER and image and _DOCKER in spawners:
        return Template(name, _DOCKER, image)
    known = ", ".join([*_USUAL, *spawners, *(["docker:IMAGE"] if _DOCKER in spawners else [])])
    raise Refused(404, InvalidRequest(f"There is no template {name!r}; this hub has: {known}"))


def refuse_build() -> NotSupported:
    return NotSupported(_NO_BUILDS)
