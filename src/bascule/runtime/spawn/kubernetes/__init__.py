"""Sandboxes as pods of a Kubernetes cluster."""

from __future__ import annotations

__all__: list[str] = []
