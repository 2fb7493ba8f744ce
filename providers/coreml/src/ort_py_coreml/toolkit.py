"""The versions of Core ML that programs are written for, and the lock without which coremltools must not be used."""

from __future__ import annotations

import threading

import coremltools

__all__ = ["BUILDING", "TARGET", "TARGETS"]

TARGET = coremltools.target.macOS14
"""The oldest one whose operators suffice."""

TARGETS = {"macOS14": TARGET, "macOS15": coremltools.target.macOS15}
"""The version for each value of the option `deployment_target`."""

BUILDING = threading.Lock()
"""Held while a program is built or converted: coremltools keeps in module variables which function is being built, and
the number of the next symbol."""
