"""Rows of any kind as aligned chunks on workers."""
