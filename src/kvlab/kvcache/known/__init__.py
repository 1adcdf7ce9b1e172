"""Data: the configuration keys that each release reads."""
