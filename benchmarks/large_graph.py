"""How far one process gets: training rounds of HiFGL on a drawn graph of as many devices and messages as asked.

Neighbours are drawn uniformly, and hear each other. Everything is executed; the first round,
which also compiles and shares what stays the same, is shown apart. Example, of ten minutes and 10 GB:
`python benchmarks/large_graph.py --devices 1000000 --messages 20000000 --scheme 'relay-coded[graph-shown,x25519]'`.
The default scheme, which hides the graph, needs more.
"""

from __future__ import annotations

import argparse
import json
import resource
import sys
import time

import numpy as np

from fgl_secure.graph import FederatedGraph, Graph
from fgl_secure.graph.partition import random_split
from fgl_secure.methods.hifgl.configuration import HiFGL

CLASSES = 4


def main() -> None:
    """Times rounds and prints one JSON object."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.ArgumentDefaultsHelpFormatter)
    parser.add_argument("--devices", type=int, default=100_000, help="nodes")
    parser.add_argument("--messages", type=int, default=2_000_000, help="edges along which rows travel, before doubles")
    parser.add_argument("--width", type=int, default=16, help="features of a device")
    parser.add_argument("--silos", type=int, default=5, help="silos of equal size")
    parser.add_argument("--scheme", default="relay-coded", help="scheme of neighbours' rows")
    parser.add_argument(
        "--rounds", type=int, default=2, help="training rounds; the last one is followed by an evaluation"
    )
    args = parser.parse_args()
    rng, start = np.random.default_rng(0), time.perf_counter()
    graph = _draw_graph(args.devices, args.messages, args.width, args.silos, rng)
    subject, *_ = HiFGL(epochs=args.rounds).plan(graph, (args.scheme,), device="cpu").subjects
    times = [time.perf_counter()]
    made = times[0] - start, _gigabytes()

    def after_a_round(number: int, _: int) -> None:
        times.append(time.perf_counter())
        print(f"round {number}: {times[-1] - times[-2]:.1f} s, {_gigabytes():.2f} GB at most", file=sys.stderr)

    result = subject.train(progress=after_a_round)
    report = {
        "devices": graph.num_devices,
        "messages_per_layer": int(graph.edges.shape[1]),
        "width": args.width,
        "scheme": subject.name,
        "seconds_to_make_the_graph": made[0],
        "gigabytes_with_the_graph": made[1],
        "seconds_of_rounds": [float(item) for item in np.diff(times)],
        "gigabytes_at_most": _gigabytes(),
        "messages": result.transcript.message_count,
        "bytes": result.transcript.byte_count,
    }
    print(json.dumps(report, indent=2))


def _draw_graph(devices: int, messages: int, width: int, silos: int, rng: np.random.Generator) -> FederatedGraph:
    one_way = rng.integers(0, devices, size=(2, messages // 2))
    edges = np.concatenate([one_way, one_way[::-1]], axis=1)
    features = rng.random((devices, width), dtype=np.float32)
    graph = Graph.from_arrays("drawn", features, rng.integers(0, CLASSES, size=devices), edges)
    return FederatedGraph.from_assignment(graph, rng.permutation(devices) % silos, random_split(devices, 0), "drawn")


def _gigabytes() -> float:
    """The most memory that the process has had, 10^9 bytes."""
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024 / 1e9


if __name__ == "__main__":
    main()
