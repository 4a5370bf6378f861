"""A little run to ask, and the commands as they are typed, in this process."""

import io
import sys
from pathlib import Path

import pytest
from typed import Command, Done, Files, Refuses, learned

from manyheads.cli.app import main


@pytest.fixture
def manyheads(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> Command:
    monkeypatch.setattr("manyheads.catalog.BUILT_IN", tmp_path / "none")

    def run(*arguments: object, stdin: bytes = b"") -> Done:
        monkeypatch.setattr(sys, "argv", ["manyheads", *map(str, arguments)])
        monkeypatch.setattr(sys, "stdin", io.TextIOWrapper(io.BytesIO(stdin)))
        with pytest.raises(SystemExit) as ended:
            main()
        return Done(int(ended.value.code or 0), *capsys.readouterr())

    return run


@pytest.fixture
def refuses(manyheads: Command) -> Refuses:
    """One sentence, exit code 2, nothing else."""

    def check(sentence: str, *arguments: object, stdin: bytes = b"", out: str = "") -> None:
        done = manyheads(*arguments, stdin=stdin)
        assert done.err == f"manyheads: {sentence}\n"
        assert (done.code, done.out) == (2, out)

    return check


@pytest.fixture(scope="session")
def run(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return learned(tmp_path_factory.getbasetemp())


@pytest.fixture(scope="session")
def files(run: Path) -> Files:
    return run.parent / "source.txt", run.parent / "target.txt"
