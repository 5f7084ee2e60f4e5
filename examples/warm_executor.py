"""A Flower SuperExec whose ClientApp processes begin with the libraries loaded.

Flower starts a fresh Python for every message to a client, and that loads Flower, torch and PyTorch Geometric again:
seconds of work, five times a round and client. This one loads them once and forks a process for every message; the
app itself is loaded in the fork, as ever. It is for SuperNodes of this machine that run with `--isolation process`, and
imports private modules of Flower 1.41 and 1.42: with other versions, leave it out, and Flower starts each process.

    python warm_executor.py --preload MODULE... --root-certificates FILE ADDRESS...
"""

from __future__ import annotations

import argparse
import gc
import importlib
import os
import sys
import time
import warnings
from contextlib import suppress
from pathlib import Path

from flwr.proto.runtime_pb2 import AcquireTaskRequest
from flwr.supercore.constant import TaskType
from flwr.supercore.interceptors import RuntimeVersionHttpInterceptor
from flwr.supercore.retry import make_simple_http_retry_invoker
from flwr.supercore.runtime import RuntimeHttpClient
from flwr.supernode.runtime.run_clientapp import run_clientapp

POLL_SECONDS = 1.0
"""A request takes a twentieth of a second of the processor, for Flower makes a TLS context for each."""


def main() -> None:
    """Serves every SuperNode that is named, each from a process of its own, until it is killed."""
    parser = argparse.ArgumentParser(description="Runs ClientApps for SuperNodes of this machine.")
    parser.add_argument("addresses", nargs="+", metavar="ADDRESS", help="Runtime API of a SuperNode, host:port")
    parser.add_argument("--root-certificates", type=Path, required=True, help="whom to trust, PEM")
    parser.add_argument("--preload", nargs="*", default=[], metavar="MODULE", help="modules to load before forking")
    options = parser.parse_args()
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # the app's own processes will tell
        for module in options.preload:
            importlib.import_module(module)
    gc.freeze()  # or the first collection in every fork would copy all pages
    certificates = options.root_certificates.read_bytes()
    for address in options.addresses:
        if os.fork() == 0:
            serve(address, certificates)
    while True:
        os.wait()


def serve(address: str, certificates: bytes) -> None:
    """Takes one task after another from a SuperNode and forks a process for each; never returns.

    Args:
        address: of its Runtime API, host:port.
        certificates: of the authority to trust, PEM.
    """
    client = RuntimeHttpClient.from_server_address(
        server_address=address,
        insecure=False,
        root_certificates=certificates,
        interceptors=[RuntimeVersionHttpInterceptor(component_name="SuperExec")],
        retry_invoker=make_simple_http_retry_invoker(),
    )
    while True:
        task = client.AcquireTask(AcquireTaskRequest(supported_task_types=[TaskType.CLIENT_APP]))
        if task.token and os.fork() == 0:
            _answer(address, task.token, certificates)
        with suppress(ChildProcessError):
            while os.waitpid(-1, os.WNOHANG)[0]:
                pass
        time.sleep(POLL_SECONDS)


def _answer(address: str, token: str, certificates: bytes) -> None:
    """Runs a ClientApp and ends the process, without the seconds that taking libraries down would cost."""
    try:
        run_clientapp(address, token, insecure=False, certificates=certificates, parent_pid=os.getppid())
    finally:
        sys.stdout.flush()
        sys.stderr.flush()
        os._exit(0)


if __name__ == "__main__":
    main()
