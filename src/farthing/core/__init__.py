"""The core: settings, state, events, and the one function that applies an event."""
