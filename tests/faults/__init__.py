"""Instruments that break the store's disk in every way: see README.md."""
