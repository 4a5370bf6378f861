"""The commands models and env."""

from __future__ import annotations

import platform
import sys
from importlib import metadata

LIBRARIES = ("torch", "numpy", "tokenizers", "safetensors", "sacrebleu", "pyyaml", "typer", "rich")


def models() -> None:
    """List the models that come with the package.

    Example: manyheads models

    Then: manyheads translate --model en-de "I have no time."
    """
    from manyheads.catalog import BUILT_IN, built_in

    if not built_in():
        print("no model is built in; `manyheads train` makes one", file=sys.stderr)
    for name in built_in():
        card = (BUILT_IN / name / "README.md").read_text(encoding="utf-8").splitlines()
        size = sum(path.stat().st_size for path in (BUILT_IN / name).iterdir()) / 1e6
        print(f"{name:<10} {size:5.1f} MB  {card[2]}")


def env() -> None:
    """Show the versions and the devices of this machine, for a bug report.

    Example: manyheads env
    """
    import torch

    from manyheads import __version__

    print(f"manyheads    {__version__}")
    print(f"python       {platform.python_version()} on {platform.platform()}")
    for name in LIBRARIES:
        try:
            print(f"{name:<12} {metadata.version(name)}")
        except metadata.PackageNotFoundError:
            print(f"{name:<12} not installed")
    print(f"threads      {torch.get_num_threads()}")
    if not torch.cuda.is_available():
        print("cuda         no GPU found")
    for i in range(torch.cuda.device_count()):
        found = torch.cuda.get_device_properties(i)
        print(f"cuda:{i}       {found.name}, {found.total_memory / 2**30:.0f} GiB")
