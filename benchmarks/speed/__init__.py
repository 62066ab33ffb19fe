"""How long suggestions, storage and workers take."""
