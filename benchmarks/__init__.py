"""Ours, the physical limit and our peers, measured side by side in one run.

`python -m benchmarks` runs every case and writes `RESULTS.md`, `results.json` and `results.svg`
beside this file. Each subject lives in a worker process of its own (`peers/`), in the Python that
has it installed; the harness asks one after the other, round by round, so that whatever else the
machine does meets all of them alike.
"""
