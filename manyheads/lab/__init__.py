"""Small experiments that show what a lecture on Transformers claims, each in minutes on a CPU."""

from manyheads.lab.report import run_experiment as run

__all__ = ["run"]
