"""A language model: generate, score and inspect text."""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from pathlib import Path
from random import Random
from typing import TYPE_CHECKING, Any, NamedTuple, Unpack, overload

from torch import nn

from manyheads.data.shards import Shard
from manyheads.data.sources import read_lines, require_utf8
from manyheads.decoding.draft_table import Ids
from manyheads.decoding.graphed_step import GraphedStep
from manyheads.decoding.likelihood import compute_log_probs
from manyheads.decoding.step import RewindableStep
from manyheads.inspect.attention_page import AttentionPage
from manyheads.inspect.interventions import Intervention
from manyheads.inspect.long import Part
from manyheads.tasks.continuation import ContinuationModel
from manyheads.tasks.language.chat import Chat
from manyheads.tasks.language.decoding import LanguageDecoding, LanguageOptions, add_implied
from manyheads.tasks.language.generate import (
    Continuation,
    generate,
    is_recorded,
    make_step,
    stream,
    write_on,
)
from manyheads.tasks.language.inspection import inspect_text
from manyheads.tasks.model import Texts, as_list, show_options
from manyheads.tasks.portable import Portable, describe

if TYPE_CHECKING:
    from manyheads.tasks.language.task import LanguageTask


class Scored(NamedTuple):
    """How likely a text is, token by token."""

    pieces: list[str]
    logs: list[float]  # natural log-probability of each piece, given all before it
    bytes: int
    unknown: int = 0  # number of unknown tokens: the characters behind them are not scored

    @property
    def bits_per_byte(self) -> float:
        """Bits per byte; NaN if nothing was scored."""
        return -sum(self.logs) / math.log(2) / self.bytes if self.bytes else math.nan

    @property
    def perplexity(self) -> float:
        """Perplexity per token; infinite if it overflows a float, NaN if nothing was scored."""
        mean = -sum(self.logs) / len(self.logs) if self.logs else math.nan
        if math.isnan(mean):
            return mean
        return math.exp(mean) if mean < 700 else math.inf


NOTHING = Scored([], [], 0)
BEGINNINGS, BEGINNING = 10_000, 16  # prompts that drafts are made from, and tokens of each


class LanguageModel(ContinuationModel):
    """A trained language model, which continues, scores and compresses texts."""

    task: LanguageTask

    def __init__(
        self, task: LanguageTask, network: nn.Module, name: str = "", chat: Chat | None = None
    ):
        super().__init__(task, network, name)
        self.chat = chat

    @show_options(LanguageDecoding, LanguageOptions)
    def generate(self, prompts: Texts, **options: Unpack[LanguageOptions]) -> Texts:
        """model.generate("ROMEO:", max_new_tokens=50) -> " What lady ..."; a list gives a list.

        `write` returns several texts for each prompt.
        """
        how = LanguageDecoding(**add_implied(options))
        found = [best.text for best, *_ in self.write(as_list(prompts), how)]
        return found[0] if isinstance(prompts, str) else found

    def write(
        self, prompts: Sequence[str], how: LanguageDecoding = LanguageDecoding(), first: int = 0
    ) -> list[list[Continuation]]:
        """Return the continuations of each prompt, the best first; samples are seeded by the number
        of the prompt, counted from `first`.
        """
        several = [self.lay_out_prompt(prompt, how) for prompt in prompts]
        drafter = self.find_drafter(how.draft)
        return generate(self.task.author(self.network), several, how, first, drafter)

    @show_options(LanguageDecoding, LanguageOptions)
    def stream(
        self,
        prompt: str,
        how: LanguageDecoding | None = None,
        **options: Unpack[LanguageOptions],
    ) -> Iterator[str]:
        """Yield the text that `generate` returns, piece by piece while it is written."""
        how = how or LanguageDecoding(**add_implied(options))
        author, drafter = self.task.author(self.network), self.find_drafter(how.draft)
        return stream(author, self.lay_out_prompt(prompt, how), how, drafter=drafter)

    def vocabularies(self) -> list[Any]:
        return [self.task.codec.tokenizer.get_vocab()]

    def begin_draft(self, source: Sequence[int]) -> tuple[RewindableStep, list[int]]:
        author = self.task.author(self.network)
        if is_recorded(author.network):
            return GraphedStep(author.network, None, author.context, drafted=1), [*source]
        return make_step(author, LanguageDecoding()), [*source]

    def find_sources(self, path: Path | None) -> Sequence[Ids]:
        """Return prompts: lines of a file, parts of the training data, or else empty ones; of what
        is longer than half a context the end, so that there is room to write on.
        """
        codec, data = self.task.codec, self.task.held_in() / "data"
        room = max(1, self.task.context // 2 - len(codec.special_tokens.bos))
        if path is not None:
            lines = codec.encode_all([*read_lines(path)])
            if not (found := [ids[-room:] for ids in lines if ids]):
                raise ValueError(f"{path} has no text to go on from")
            return found
        if data.is_dir():
            return draw_beginnings(Shard(data / "train").tokens, min(BEGINNING, room))
        if codec.special_tokens.bos:
            return [()] * BEGINNINGS
        raise ValueError(
            f"{self.name} was trained elsewhere; --source FILE says what it is to go on from"
        )

    def write_for(self, sources: Sequence[Ids], first: int) -> list[list[int]]:
        author, eos = self.task.author(self.network), self.task.codec.special_tokens.eos
        how = LanguageDecoding(max_new_tokens=max(1, min(256, self.task.context // 2)))
        found = write_on(author, sources, how, first)
        return [[*best.ids, *[eos] * best.finished] for best, *_ in found]

    def lay_out_prompt(self, prompt: str, how: LanguageDecoding) -> str:
        """Return the prompt as the network reads it, in the chat template if `chat` is set."""
        prompt = require_utf8(prompt, "the prompt")
        if not how.chat:
            return prompt
        if self.chat is None:
            raise ValueError(
                f"{self.name or 'the model'} has no chat template, which chat fills in; "
                "special tokens may be written into the prompt: --special, special=True"
            )
        return self.chat.ask(prompt)

    @overload
    def score(self, texts: str, stride: int = 0, given: str = "") -> Scored: ...
    @overload
    def score(self, texts: list[str], stride: int = 0, given: str = "") -> list[Scored]: ...
    def score(
        self, texts: str | list[str], stride: int = 0, given: str = ""
    ) -> Scored | list[Scored]:
        """Return how likely each text is after the text `given`, which is not scored itself.

        In a text longer than the context, the window moves by `stride` tokens, by default half the
        context: the smaller the stride, the more tokens before it each token sees.
        """
        found = [self.score_one(text, stride, given) for text in as_list(texts)]
        return found[0] if isinstance(texts, str) else found

    def score_one(self, text: str, stride: int, given: str) -> Scored:
        if not text:
            raise ValueError("a text to score has at least one character, an empty one came")
        codec, context = self.task.codec, self.task.context
        if not 0 <= stride <= context:
            raise ValueError(f"a stride is 1 to the context of {context} tokens, got {stride}")
        both = require_utf8(given, "what is given") + require_utf8(text, "the text")
        ids, ends = codec.encode_with_ends(both)
        stride = stride or max(1, context // 2)
        logs = compute_log_probs(self.network, codec.special_tokens, ids, context, stride)
        # Without a start token, the first token of a text is given and not scored.
        unscored = len(ids) - len(logs)
        skipped = max(unscored, sum(end <= len(given) for end in ends) if given else 0)
        begin = max([len(given), *ends[:skipped]])
        unknown = sum(token == codec.special_tokens.unknown for token in ids[skipped:])
        size = len(both[begin:].encode())
        return Scored(codec.pieces(ids)[skipped:], logs[skipped - unscored :], size, unknown)

    def inspect(
        self,
        text: str,
        *,
        what_if: Sequence[Intervention] = (),
        max_new_tokens: int = 20,
        tokens: Part | None = None,
    ) -> AttentionPage:
        """Return a page of what every head attends to in a text and its greedy continuation.

        A notebook shows the page, `.save("page.html")` writes it. `what_if` lists interventions
        such as `Off("2.self", 5)`; `tokens=(600, 1100)` shows that part of a long text in full.
        """
        if max_new_tokens < 0:
            raise ValueError(f"max_new_tokens counts tokens, got {max_new_tokens}")
        return inspect_text(self, require_utf8(text, "the text"), what_if, max_new_tokens, tokens)

    def portable(self) -> Portable:
        return describe(self, "decoder", self.task.context, chat=self.chat)


def draw_beginnings(tokens: Any, length: int) -> list[Ids]:
    """Return short prompts from random places of the training data."""
    chance, last = Random(0), max(1, len(tokens) - length)
    starts = (chance.randrange(last) for _ in range(BEGINNINGS))
    return [tokens[i : i + length].tolist() for i in starts]
