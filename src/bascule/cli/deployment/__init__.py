"""A hub that people use from elsewhere, looked at as they meet it: `bascule doctor --cloud`."""
