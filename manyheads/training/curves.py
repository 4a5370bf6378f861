"""The losses and the score of a run, as a picture."""

from __future__ import annotations

from manyheads.training.run import METRICS, Run


def curves(run: Run) -> None:
    from matplotlib.figure import Figure

    lines = list(run.lines(METRICS))
    trained = [(line["step"], line["loss"]) for line in lines if "loss" in line]
    valid = [(line["step"], line["valid"]) for line in lines if "valid" in line]
    if not trained:
        return
    figure = Figure(figsize=(8, 4.5), layout="constrained")
    left = figure.subplots()
    left.plot(*zip(*trained, strict=True), color="#4477aa", label="training loss")
    if valid:
        steps = [step for step, _ in valid]
        left.plot(
            steps, [scores["loss"] for _, scores in valid], color="#ee6677", label="validation loss"
        )
        name = next(iter(valid[0][1]))
        right = left.twinx()
        right.plot(steps, [scores[name] for _, scores in valid], color="#228833", label=name)
        right.set_ylabel(name)
    left.set_xlabel("step")
    left.set_ylabel("loss of a token")
    figure.legend(loc="outside upper center", ncols=3, frameon=False)  # over no curve
    figure.savefig(run / "loss.png", dpi=120)
