from __future__ import annotations

import json

import pytest

from bascule.cli import main
from bascule.wire.schema import json_schema


def test_the_schema_is_printed_as_json(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["schema"]) == 0
    assert json.loads(capsys.readouterr().out) == json_schema()
