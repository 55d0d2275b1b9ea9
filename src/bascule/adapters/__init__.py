"""The world's shapes onto ours. Only these modules import the packages they adapt to."""
