"""A model that answers questions with spans of their texts."""

from __future__ import annotations

import warnings
from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import TYPE_CHECKING, Any, NoReturn

import torch
from torch import Tensor

from manyheads.data.batches import gather_texts
from manyheads.data.sources import require_utf8
from manyheads.decoding.config import DecodingConfig
from manyheads.inspect.attention_page import AttentionPage
from manyheads.inspect.interventions import Intervention
from manyheads.tasks.model import Model, Texts, as_list
from manyheads.tasks.pointing.inspection import inspect_question
from manyheads.tasks.pointing.questions import QuestionFrame, part_question
from manyheads.tasks.seq2seq.model import AT_ONCE, Aligned, Written, require_readable

if TYPE_CHECKING:
    from manyheads.tasks.pointing.task import PointingTask

LONGEST = 30  # tokens of an answer


class Pointer(Model):
    """A trained model for extractive question answering."""

    task: PointingTask

    def translate(self, texts: Texts) -> Texts:
        """model.translate("Who wrote it? A play by Goethe.") -> "Goethe"; a list gives a list.

        The question is the first line, or ends at the first "? ".
        """
        found = [best.text for best, *_ in self.write(as_list(texts))]
        return found[0] if isinstance(texts, str) else found

    def write(
        self,
        texts: Iterable[str],
        how: DecodingConfig = DecodingConfig(),
        *,
        at_once: int = AT_ONCE,
        ready: Callable[[], bool] = lambda: True,
        told: Callable[[str], None] = warnings.warn,
        name: Callable[[int], str] = "line {}".format,
    ) -> Iterator[list[Written]]:
        """Yield the best spans for each question with its text, in order, for input of any length;
        `told` is called if a text is too long and cut, with its `name`.
        """
        if how.temperature:
            raise ValueError("an answer that is pointed at is not drawn; leave the temperature out")
        first = 1
        read = map(part_question, require_readable(texts, name))
        for some in gather_texts(read, at_once, ready):
            yield from self.point(some, how.nbest, told, name, first)
            first += len(some)

    def point(
        self,
        texts: Sequence[str],
        nbest: int = 1,
        told: Callable[[str], None] = lambda _: None,
        name: Callable[[int], str] = "line {}".format,
        first: int = 1,
    ) -> Iterator[list[Written]]:
        """Yield the best spans of each text; `told` is called with the `name` of each that is cut,
        made of its number, from `first` on.
        """
        frames = [self.task.frame(text) for text in texts]
        for number, (text, frame) in enumerate(zip(texts, frames, strict=True), start=first):
            if len(frame.ids) == self.task.room and frame.ends[-1] < len(text.rstrip()):
                told(f"{name(number)}: the first {self.task.room:,} tokens are read")
        logs = self.task.decode(self.network, frames)
        for text, frame, each in zip(texts, frames, logs, strict=True):
            yield best_spans(text, frame, each, nbest)

    @torch.no_grad()
    def inspect(self, text: str, *, what_if: Sequence[Intervention] = ()) -> AttentionPage:
        """Return a page of what every head attends to in a question and its text, for a notebook or
        `.save("page.html")`.
        """
        return inspect_question(self, require_utf8(text, "the text"), what_if)

    def best_ends(self, text: str, frame: QuestionFrame) -> tuple[tuple[int, int], str]:
        """Return the first and last token of the answer, and the answer."""
        (logs,) = self.task.point_at(self.network, [frame]).cpu()
        begin, end = max_span(logs)
        return (begin, end), span_of(text, frame, begin, end, 0.0).text

    def align(self, text: str, written: Written) -> Aligned:
        """Return no links: the answer is copied from the text, not generated."""
        return Aligned(text.split(), written.text.split(), [])

    def portable(self) -> NoReturn:
        raise ValueError("a model that points at answers is not exported")


def best_spans(text: str, frame: QuestionFrame, logs: Tensor, nbest: int) -> list[Written]:
    """Return the likeliest spans that are not too long, only one for each answer text; for a blank
    text, an empty answer.
    """
    if not any(frame.types):
        return [Written("", 0.0, 0.0, [], True)]
    flat = score_spans(logs).flatten()
    best: Any = flat.topk(int(flat.isfinite().sum()) if nbest > 1 else 1)
    found = dict[str, Written]()
    for score, place in zip(best.values.tolist(), best.indices.tolist(), strict=True):
        span = span_of(text, frame, place // len(logs), place % len(logs), score)
        found.setdefault(span.text, span)  # spans that cut a word differently give the same answer
        if len(found) == nbest:
            break
    return [*found.values()]


def score_spans(logs: Tensor) -> Tensor:
    """Score spans: (T, 2) -> (T, T), starts by ends; -inf if the end comes first or is too far."""
    scores = logs[:, :1] + logs[:, 1]
    within = torch.ones_like(scores, dtype=torch.bool).triu().tril(LONGEST - 1)
    return scores.masked_fill(~within, -torch.inf)


def max_span(logs: Tensor) -> tuple[int, int]:
    return divmod(int(score_spans(logs).argmax()), len(logs))


def span_of(text: str, frame: QuestionFrame, begin: int, end: int, score: float) -> Written:
    """Return the text of a span, extended to whole words."""
    first, last = frame.ends[begin - 1] if begin else 0, frame.ends[end]
    while first > 0 and in_word(text[first - 1 : first + 1]):
        first -= 1
    while last < len(text) and in_word(text[last - 1 : last + 1]):
        last += 1
    return Written(text[first:last].strip(), score, score, frame.ids[begin : end + 1], True)


def in_word(both: str) -> bool:
    """Whether two characters are in one word: both digits or letters of a script with case."""
    return all(one.isdigit() or one.lower() != one.upper() for one in both)
