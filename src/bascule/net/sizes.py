"""Limits on the size of a net, so that a small or hostile file cannot use up time or memory.

`bascule net check` runs on every change of the text in an editor. So reading any file has to end
within seconds and needs at most a few hundred megabytes.
"""

from __future__ import annotations

from typing import Final

MAX_YAML_CHARACTERS: Final = 2_000_000
MAX_YAML_VALUES: Final = 60_000
"""Keys and values in the text of a YAML file. Reading each takes about 40 µs."""
MAX_ALIASED_VALUES: Final = 100_000
"""Values that YAML aliases (`*name`) may repeat; 16 characters of a long text count as one
value."""
MAX_DEPTH: Final = 100
"""Maximum nesting of mappings and lists, or of XML elements."""
MAX_PNML_BYTES: Final = 64_000_000
MAX_ELEMENTS: Final = 300_000
"""Places, transitions, arcs and references together."""
MAX_TOKENS: Final = 1_000_000
"""Maximum tokens of a whole marking, and maximum weight of an arc."""
MAX_DIGITS: Final = 1_000
MAX_CODE_CHARACTERS: Final = 200_000
"""Characters of all code in a net: to parse each character, Python takes up to 1 KB and 20 µs."""
MAX_FINDINGS: Final = 200
"""Maximum number of errors that are reported for one file. The same maximum holds for warnings."""
MAX_DRAWN_NODES: Final = 2_000
"""Maximum nodes and bends of a drawing."""
