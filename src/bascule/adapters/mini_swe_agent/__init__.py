"""A session of a hub as the environment of mini-swe-agent.

In its configuration: `environment_class: bascule.adapters.mini_swe_agent.BasculeEnvironment`. The
hub is BASCULE_HUB, with the token BASCULE_TOKEN.
"""

from . import _requirements as _requirements
from ._environment import BasculeEnvironment, BasculeEnvironmentConfig

__all__ = ["BasculeEnvironment", "BasculeEnvironmentConfig"]
