"""Rules that change where the channels of pictures lie, for providers that ask for it."""
