"""Spans and metrics of ort-py's sessions: `plugin` hears of what happens, `spans` and `metrics` tell it on."""
