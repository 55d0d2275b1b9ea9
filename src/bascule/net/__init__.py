"""Petri nets: load them, fire them, run them, look at all they can do."""

from .diagnostics import Diagnostic, Loaded, Severity
from .explore import StateSpace, explore
from .load import load, load_bytes
from .mermaid import to_mermaid
from .model import Arc, ArcKind, Inscription, InscriptionKind, Net, Place, Span, Transition
from .policy import First, Lot, Policy, Priority, policy_named
from .replay import Moment, replay
from .runner import Gate, Limits, Result, Runner
from .simulate import Simulation, simulate
from .svg import to_svg
from .trace import Outcome
from .window import NoWindow, Operation

__all__ = [
    "Arc",
    "ArcKind",
    "Diagnostic",
    "First",
    "Gate",
    "Inscription",
    "InscriptionKind",
    "Limits",
    "Loaded",
    "Lot",
    "Moment",
    "Net",
    "NoWindow",
    "Operation",
    "Outcome",
    "Place",
    "Policy",
    "Priority",
    "Result",
    "Runner",
    "Severity",
    "Simulation",
    "Span",
    "StateSpace",
    "Transition",
    "explore",
    "load",
    "load_bytes",
    "policy_named",
    "replay",
    "simulate",
    "to_mermaid",
    "to_svg",
]
