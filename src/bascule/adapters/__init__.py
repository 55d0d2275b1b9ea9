"""Adapters to other products (OpenHands, MCP). Only they import the packages they adapt to."""
