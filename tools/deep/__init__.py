"""Checks that take minutes, or more precision than a test: each module is one of them, with `run` and a command."""
