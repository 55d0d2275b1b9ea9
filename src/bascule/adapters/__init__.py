"""Adapters to other products (OpenHands, MCP). Only adapters import the packages of these
products."""
