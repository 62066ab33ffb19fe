"""What a person sees of a study: text, figures, reports, progress."""
