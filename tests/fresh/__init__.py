"""A machine nobody has used, and a person who has nothing but the README: `make test-fresh`."""
