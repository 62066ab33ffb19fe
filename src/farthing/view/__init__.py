"""Output for people: text, figures, HTML reports and progress."""
