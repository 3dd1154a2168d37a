"""Tags for texts, from bytes to tags without Python in between."""

from texttags._tagger import Tagger, features

__all__ = ["Tagger", "features"]
