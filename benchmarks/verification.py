"""`python -m benchmarks.verification`: what a share of verified runs costs, against sessions that verify none.

Runs of all sessions take turns, so that what disturbs the machine disturbs all of them. Two sessions without
verification show how far two equal ones are apart.
"""

from __future__ import annotations

import statistics
import time

import numpy as np
import onnx.parser

import ort_py

ROUNDS = 15

SMALL = """<ir_version: 10, opset_import: ["" : 21]>
g (float[N, 3] x) => (float[N, 3] y) <float[3] w = {1, 2, 3}> { a = Mul(x, w) b = Relu(a) y = Add(b, w) }"""

PRODUCTS = """<ir_version: 10, opset_import: ["" : 21]>
g (float[N, N] x) => (float[N, N] y) { a = MatMul(x, x) b = Relu(a) c = MatMul(b, x) y = Add(c, x) }"""

SHARES = {"none": 0.0, "none again": 0.0, "0.001": 0.001, "0.01": 0.01}


def main() -> None:
    """Measure and print."""
    for title, text, shape, runs in (
        ("three small nodes", SMALL, (2, 3), 5000),
        ("two products of 256 x 256", PRODUCTS, (256, 256), 300),
    ):
        print(f"{title}: microseconds of a run (median), ratio to none")
        for name, median, ratio in measured(text, shape, runs):
            print(f"  {name:12} {median:9.2f} {ratio:7.3f}")


def measured(text: str, shape: tuple[int, ...], runs: int) -> list[tuple[str, float, float]]:
    """For each share its name, the median time of a run in microseconds, and the median of the rounds' ratios."""
    feed = {"x": np.random.default_rng(0).standard_normal(shape).astype(np.float32)}
    sessions = {name: opened(text, share) for name, share in SHARES.items()}
    times: dict[str, list[float]] = {name: [] for name in sessions}
    for number in range(ROUNDS + 1):
        for name, session in sessions.items():
            start = time.perf_counter()
            for _ in range(runs):
                session.run(None, feed)
            if number:  # the first round warms up
                times[name].append((time.perf_counter() - start) / runs * 1e6)
    for session in sessions.values():
        session.close()
    return [
        (name, statistics.median(found), statistics.median(a / b for a, b in zip(found, times["none"], strict=True)))
        for name, found in times.items()
    ]


def opened(text: str, share: float) -> ort_py.InferenceSession:
    """A session that verifies a share of its runs."""
    options = ort_py.SessionOptions()
    options.verify = share
    model = onnx.parser.parse_model(text).SerializeToString()
    return ort_py.InferenceSession(model, options, providers=["CPUExecutionProvider"])


if __name__ == "__main__":
    main()
