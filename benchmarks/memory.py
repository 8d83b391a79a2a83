"""Memory over 1,000 fits of each kind in one process: `python -m benchmarks.memory --json OUT`.

Fifty fits of a kind come first; the table compares what the process holds after them and after
1,000 more. The do-nothing row is the same loop around drawing the data. Linux only: reads /proc.
"""

from __future__ import annotations

import resource
import time
from collections.abc import Callable
from pathlib import Path

import numpy as np
from rich.progress import Progress

from benchmarks._report import arguments, machine, publish
from least import Least, dense
from least.problem import Options
from least.synthetic import random_graph, random_weights, sample


def main() -> None:
    """Run the benchmark."""
    parser = arguments(__doc__ or "")
    parser.add_argument("--fits", type=int, default=1_000)
    parser.add_argument("--nodes", type=int, default=30)
    parser.add_argument("--kinds", nargs="+", help="only these (default: all)")
    asked = parser.parse_args()
    where = machine()
    rng = np.random.default_rng(0)
    true = random_weights(random_graph("ER", asked.nodes, 2, rng), rng)

    def draw() -> np.ndarray:
        return sample(true, 10 * asked.nodes, rng)

    def warm() -> None:
        dense.fit_gram(np.corrcoef(draw(), rowvar=False), options=Options.monitor())

    kinds: dict[str, Callable[[], object]] = {
        "nothing but data": draw,
        "monitor's warm fit": warm,
        "LEAST, ordering start": lambda: Least().fit(draw()),
        "LEAST, likelihood start": lambda: Least("likelihood").fit(draw()),
        "LEAST alone": lambda: Least("random").fit(draw()),
        "LEAST-SP alone": lambda: Least("random", backend="sparse").fit(draw()),
    }
    rows = []
    with Progress(transient=True) as progress:
        for name, run in kinds.items():
            if asked.kinds and name not in asked.kinds:
                continue
            for _ in range(50):
                run()
            before, began = _resident(), time.process_time()
            for _ in progress.track(range(asked.fits), description=name):
                run()
            after, seconds = _resident(), time.process_time() - began
            rows.append(
                {
                    "kind": name, "fits": asked.fits, "MB before": before / 1e6,
                    "MB after": after / 1e6, "growth %": 100 * (after / before - 1),
                    "CPU ms per fit": 1000 * seconds / asked.fits,
                }
            )  # fmt: skip
    publish(f"Memory, d = {asked.nodes}", rows, where, asked.json)


def _resident() -> int:
    pages = int(Path("/proc/self/statm").read_text().split()[1])
    return pages * resource.getpagesize()


if __name__ == "__main__":
    main()
