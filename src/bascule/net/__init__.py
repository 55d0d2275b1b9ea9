"""Petri nets: load, check, run, simulate and explore them."""

from bascule.core.extras import missing_extra

from .diagnostics import Loaded, NetDiagnostic, Severity
from .explore import StateSpace, explore
from .mermaid import to_mermaid
from .model import Arc, ArcKind, Inscription, InscriptionKind, Net, Place, Span, Transition
from .policy import FirstEnabled, HighestPriority, Policy, RandomChoice, policy_named
from .replay import Moment, replay
from .runner import FiringHook, RunLimits, Runner, RunResult
from .simulate import Simulation, simulate
from .svg import to_svg
from .trace import RunOutcome
from .window import Operation, UnavailableWindow

try:
    from .load import load, load_bytes
except ModuleNotFoundError as error:
    raise missing_extra(error) from error

__all__ = [
    "Arc",
    "ArcKind",
    "FiringHook",
    "FirstEnabled",
    "HighestPriority",
    "Inscription",
    "InscriptionKind",
    "Loaded",
    "Moment",
    "Net",
    "NetDiagnostic",
    "Operation",
    "Place",
    "Policy",
    "RandomChoice",
    "RunLimits",
    "RunOutcome",
    "RunResult",
    "Runner",
    "Severity",
    "Simulation",
    "Span",
    "StateSpace",
    "Transition",
    "UnavailableWindow",
    "explore",
    "load",
    "load_bytes",
    "policy_named",
    "replay",
    "simulate",
    "to_mermaid",
    "to_svg",
]
