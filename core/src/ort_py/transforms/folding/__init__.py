"""Values known when the session is created: computed once, selected, or written out."""
