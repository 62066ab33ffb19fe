"""Pictures for README.md and the docs."""
