"""Programs that show ort-py at work, and the model files they and the tests use. Not part of any distribution."""
