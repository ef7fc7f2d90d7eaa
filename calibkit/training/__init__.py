"""Runs: what is trained, how, and the record it leaves."""
