"""Side by side with onnxruntime in one run: commands, never asserts in tests."""
