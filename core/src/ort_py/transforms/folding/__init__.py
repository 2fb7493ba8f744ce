"""What is known when the session is created: computed once, chosen, or written out."""
