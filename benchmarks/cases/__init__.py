"""What is measured: one module per case. Each runs alone: `python -m benchmarks.cases.latency`."""
