"""RapidTable finds the structure of a table, whose text RapidOCR reads."""

from __future__ import annotations

from typing import Any

import pictures
import results


def application() -> Any:
    """HTML of the table, and the places of its cells."""
    from rapid_table import RapidTable

    html, cells, _ = RapidTable()(pictures.table()[..., ::-1])
    return {"html": html, "cells": cells}


results.main(application)
