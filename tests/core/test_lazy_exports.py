from __future__ import annotations

import subprocess
import sys

import pytest

import bascule.wire
from bascule.core.lazy_exports import lazy_exports


@pytest.mark.slow
@pytest.mark.parametrize(
    "package", ["bascule.hub", "bascule.runtime", "bascule.runtime.spawn.local", "bascule.wire"]
)
def test_a_package_imports_the_modules_of_its_names_on_first_use(package: str) -> None:
    code = (
        f"import sys, {package} as package\n"
        "assert 'pydantic' not in sys.modules\n"
        "for name in package.__all__:\n"
        "    assert name not in vars(package)\n"
        "    assert getattr(package, name) is vars(package)[name]\n"
    )

    subprocess.run([sys.executable, "-c", code], check=True, timeout=60)


def test_an_unknown_name_is_an_attribute_error() -> None:
    with pytest.raises(AttributeError, match=r"module 'bascule\.wire' has no attribute 'nothing'"):
        lazy_exports("bascule.wire", {"to_json": "jsontext"})("nothing")

    assert not hasattr(bascule.wire, "nothing")
