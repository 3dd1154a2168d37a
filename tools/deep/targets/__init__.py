"""What the fuzzers that follow coverage call. Each module is a program of its own, started by `deep.coverage`."""
