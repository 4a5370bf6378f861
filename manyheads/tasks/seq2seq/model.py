"""The model that reads a text and writes one: a translation, a summary, an answer."""

from __future__ import annotations

import warnings
from collections.abc import Callable, Iterable, Iterator, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal, NamedTuple, Unpack, get_args

import torch

from manyheads.codecs.text import SpecialTokens
from manyheads.data.batches import gather_texts
from manyheads.data.sources import read_lines, require_utf8
from manyheads.decoding.bounds import Hypothesis, find_room
from manyheads.decoding.config import BEAM, DecodingConfig, DecodingOptions, choose_beam
from manyheads.decoding.step import RewindableStep
from manyheads.inspect.attention_page import AttentionPage
from manyheads.inspect.drawing import AttentionMap
from manyheads.inspect.interventions import Intervention
from manyheads.inspect.long import LONGEST, fit_page
from manyheads.inspect.long import Part as PagePart
from manyheads.inspect.record import recording
from manyheads.modules.transformer import EncoderDecoder, Tokens
from manyheads.tasks.draft_file import Pairs, WrittenStates
from manyheads.tasks.drafted import DraftedModel
from manyheads.tasks.inspection import note_cut
from manyheads.tasks.model import Texts, as_list, show_options
from manyheads.tasks.portable import Portable, describe
from manyheads.tasks.seq2seq.alignment import link_words
from manyheads.tasks.seq2seq.corpus import load_pairs
from manyheads.tasks.seq2seq.inspection import inspect_pair, write_traced
from manyheads.tasks.seq2seq.parallel.network import ParallelNetwork
from manyheads.tasks.seq2seq.sentences import cut_at_spaces, join_texts, split_sentences
from manyheads.tasks.seq2seq.writing import Ids, make_draft_step, read_source, write_targets
from manyheads.tasks.words import words_of_pieces

if TYPE_CHECKING:
    from manyheads.tasks.seq2seq.task import Seq2Seq

AT_ONCE = 1024  # texts of a long file that are held in memory
MOST_TOKENS = 4096  # that are read of one text
PART_TOKENS = 256  # of each part, where a text is split
WRITTEN_TOKENS = 4096  # in a batch, while drafts are made

Long = Literal["split", "truncate", "refuse"]


class Part(NamedTuple):
    """What is read at once: a sentence of a text, or the whole text."""

    text: str
    after: str  # the characters between it and the next part
    ids: list[int]


class Written(NamedTuple):
    """An output text, and how likely it is for the model."""

    text: str
    score: float  # ranks outputs: log_prob / tokens ** length_penalty
    log_prob: float  # the logarithm of its probability
    ids: list[int]
    finished: bool  # False if it was cut at the largest number of tokens
    parts: tuple[tuple[Part, list[int]], ...] = ()  # each part, and the ids written for it
    tokens: int = 0  # with the end token of each part


NOTHING = Written("", 0.0, 0.0, [], True)


class Translator(DraftedModel):
    """A trained network with its vocabularies."""

    task: Seq2Seq
    network: EncoderDecoder
    reads = True
    written_at_once = 2048

    @property
    def special_tokens(self) -> tuple[SpecialTokens, SpecialTokens]:
        return self.task.codecs.special_tokens

    @show_options(DecodingConfig, DecodingOptions)
    def translate(
        self,
        texts: Texts,
        *,
        beam: int | None = None,
        prefix: str = "",
        long: Long | None = None,
        **options: Unpack[DecodingOptions],
    ) -> Texts:
        """model.translate("Ein Hund rennt.") -> "A dog is running."; for a list, a list.

        Uses a beam of 5 unless a temperature is given. `long` is for a text of several sentences,
        or of too many tokens: `split`, the default of translations, reads each sentence alone,
        `truncate` reads the beginning, `refuse` raises an error for too many tokens.
        """
        width = choose_beam(beam, options)
        how = DecodingConfig(beam=self.usual_beam(width) if beam is None else width, **options)
        several = self.write(as_list(texts), how, prefix=prefix, long=long)
        found = [best.text for best, *_ in several]
        return found[0] if isinstance(texts, str) else found

    @show_options(DecodingConfig, DecodingOptions)
    def translate_nbest(
        self,
        texts: str | Sequence[str],
        nbest: int = BEAM,
        *,
        beam: int | None = None,
        prefix: str = "",
        long: Long | None = None,
        **options: Unpack[DecodingOptions],
    ) -> list[Any]:
        """Return the `nbest` best outputs for a text, each a Written with text, score and log_prob,
        best first; for a list of texts, a list of such lists.
        """
        if beam is None and nbest == 1:
            beam = self.usual_beam()
        elif beam is None:
            beam = max(BEAM, nbest if isinstance(nbest, int) else 0)
        how = DecodingConfig(beam=beam, nbest=nbest, **options)
        found = list(self.write(as_list(texts), how, prefix=prefix, long=long))
        return found[0] if isinstance(texts, str) else found

    def usual_beam(self, width: int = BEAM) -> int:
        """Return the beam to use where none was asked for: 1 if the network has no beam search."""
        plain = isinstance(self.network, ParallelNetwork) and "beam" not in self.network.takes
        return 1 if plain else width

    def write(
        self,
        texts: Iterable[str],
        how: DecodingConfig = DecodingConfig(),
        *,
        prefix: str = "",
        long: Long | None = None,
        at_once: int = AT_ONCE,
        ready: Callable[[], bool] = lambda: True,
        told: Callable[[str], None] = warnings.warn,
        name: Callable[[int], str] = "line {}".format,
    ) -> Iterator[list[Written]]:
        """Yield the best outputs for each text, in order, however long the input is.

        Where the next text is not `ready`, those before it are written first. A text that cannot be
        read is refused after those before it were written; what is cut off a text is reported by
        `told`. `name` says what the text of a number, from 1 up, is called.
        """
        long = long or ("split" if self.kind == "translation" else "truncate")
        if long not in get_args(Long):
            raise ValueError(f"long is one of {', '.join(get_args(Long))}, got {long!r}")
        forced = self.task.codecs.target.encode(require_utf8(prefix, "the prefix"))
        first = 0
        for some in gather_texts(require_readable(texts, name), at_once, ready):
            cut: list[list[Part]] = []
            try:
                for number, text in enumerate(some, start=first + 1):
                    cut.append(self.parts(text, long, name(number), told))
            finally:  # texts before a refused one are still written
                yield from self.write_parts(cut, how, forced, first)
            first += len(some)

    def parts(self, text: str, long: Long, name: str, told: Callable[[str], None]) -> list[Part]:
        """Cut a text into parts that are read at once; a blank text has none."""
        codec = self.task.codecs.source
        most = min(
            MOST_TOKENS,
            find_room(self.network.encoder) - len(self.special_tokens[0].encoder_bos) - 1,
        )
        if not text.strip():  # nothing to read is nothing to write
            return []
        if long == "split":
            found, some = list[Part](), min(PART_TOKENS, most)
            for sentence in split_sentences(text):
                for part in cut_at_spaces(
                    sentence.text, lambda part: len(codec.encode(part)) <= some
                ):
                    found.append(Part(part, " ", codec.encode(part)))
                found[-1] = found[-1]._replace(after=sentence.after)
            return found
        ids = codec.encode(text)
        if len(ids) > most:
            if long == "refuse":
                raise ValueError(
                    f"{name} has {len(ids):,} tokens, {most:,} are the most that are read at once; "
                    "cut it into sentences"
                )
            told(f"{name} has {len(ids):,} tokens: the first {most:,} are read")
        return [Part(text, "", ids[:most])]

    def write_parts(
        self, cut: Sequence[list[Part]], how: DecodingConfig, forced: Ids, first: int
    ) -> Iterator[list[Written]]:
        """Yield for each text the best outputs, those of its parts joined."""
        places = [(i, j) for i, parts in enumerate(cut) for j in range(len(parts))]
        found = write_targets(
            self.network,
            [cut[i][j].ids for i, j in places],
            how,
            prefixes=[() if j else forced for _, j in places] if forced else (),
            special=self.special_tokens,
            # Seeds of sampling: the number of the text, another one for each further sentence.
            numbers=[first + i + (j << 40) for i, j in places],
            drafter=self.find_drafter(how.draft),
        )
        of = dict(zip(places, found, strict=True))
        for i, parts in enumerate(cut):
            best = [NOTHING]
            for j, part in enumerate(parts):
                both = [self.join_part(one, part, two, how) for one in best for two in of[i, j]]
                best = sorted(both, key=lambda one: one.score, reverse=True)[: how.nbest]
            yield best

    def vocabularies(self) -> list[Any]:
        both = self.task.codecs.source, self.task.codecs.target
        return [one.tokenizer.get_vocab() for one in both]

    def begin_draft(self, source: Ids) -> tuple[RewindableStep, list[int]]:
        reads, writes = self.special_tokens
        read = Tokens.padded([[*reads.encoder_bos, *source, reads.eos]], reads.pad)
        memory = read_source(self.network, read.to(self.device))
        return make_draft_step(self.network.decoder, memory, len(source)), [*writes.bos]

    def stops(self) -> Ids:
        return self.special_tokens[1].all_eos

    def find_sources(self, path: Path | None) -> Sequence[Ids]:
        codecs, folder = self.task.codecs, self.task.held_in()
        if path is not None:
            found = codecs.source.encode_all([*read_lines(path)])
        elif (folder / "data").is_dir():
            shard = load_pairs(folder, "train", codecs).source
            found = [shard[i].tolist() for i in range(len(shard))]
        else:
            raise ValueError(
                f"{self.name} was trained elsewhere; --source FILE says what it is to write for"
            )
        if not (some := [ids for ids in found if ids]):
            raise ValueError(f"{path or self.name} has no sources to write for")
        return some

    def write_for(self, sources: Sequence[Ids], first: int) -> list[list[int]]:
        special = self.special_tokens
        found = write_targets(
            self.network, sources, DecodingConfig(), special=special, tokens=WRITTEN_TOKENS
        )
        return [[*best.ids, special[1].eos] for best, *_ in found]

    def read_written(self, pairs: Pairs, spare: int) -> WrittenStates:
        network, (reads, writes) = self.network, self.special_tokens
        rows = [[*reads.encoder_bos, *source, reads.eos] for source, _ in pairs]
        starts = [[*writes.bos[-1:], *ids, *[writes.eos] * spare] for _, ids in pairs]
        source, target = (Tokens.padded(x, reads.pad).to(self.device) for x in (rows, starts))
        memory = network.encode(source)
        states = network.decoder.states(target.ids, target.at, target.seen, None, memory)
        read, ends = (torch.tensor([*map(len, x)], device=self.device) for x in (rows, starts))
        hidden = (torch.arange(source.ids.shape[1], device=self.device) >= read[:, None])[:, None]
        return WrittenStates(
            target.ids, ends - spare, states.float(), memory.states.float(), hidden
        )

    def join_part(
        self, one: Written, part: Part, found: Hypothesis, how: DecodingConfig
    ) -> Written:
        """Append what was written for a part to what was written so far."""
        log_prob, tokens = one.log_prob + found.log_prob, one.tokens + len(found.logs)
        after = one.parts[-1][0].after if one.parts else ""
        return Written(
            join_texts(one.text, after, self.task.codecs.target.render(found.ids)),
            log_prob / max(tokens, 1) ** how.length_penalty,
            log_prob,
            [*one.ids, *found.ids],
            one.finished and found.finished,
            (*one.parts, (part, found.ids)),
            tokens,
        )

    @torch.no_grad()
    def attention(self, text: str, written: str | None = None, layer: int = -1) -> AttentionMap:
        """Return what each head of a layer attended to while the model wrote."""
        source, target = self.task.codecs.source, self.task.codecs.target
        read = source.encode(text)
        ids = target.encode(written) if written is not None else self.write_best(read)
        layers = record_cross_attention(self.network, read, ids, self.special_tokens)
        if not layers:
            raise ValueError("this network writes without attention: there is nothing to look at")
        if isinstance(layer, bool) or not isinstance(layer, int):
            raise ValueError(f"layer is a whole number, got {layer!r}")
        if not -len(layers) <= layer < len(layers):
            raise ValueError(
                f"layers are numbered 0 to {len(layers) - 1}, the last also -1; "
                f"{layer} was asked for"
            )
        rows = [*target.pieces(ids), "■"]
        return AttentionMap(layers[layer], rows, [*source.pieces(read), "■"], text)

    @torch.no_grad()
    def inspect(
        self,
        text: str,
        written: str | None = None,
        *,
        what_if: Sequence[Intervention] = (),
        beam: int = BEAM,
        tokens: PagePart | None = None,
    ) -> AttentionPage:
        """Return what every head attended to, as a page for a notebook or `.save("page.html")`.

        The page is about what the model writes, unless another output is given as `written`;
        `what_if` are interventions such as `Off("decoder.2.cross", 5)`. Of a long text `tokens`
        chooses some, (600, 1100); otherwise all are shown in groups.
        """
        if isinstance(self.network, ParallelNetwork):
            raise ValueError(
                f"a page shows how a text is written token by token, {self.name} writes in "
                "parallel; a transformer would do"
            )
        source, target = self.task.codecs.source, self.task.codecs.target
        read = source.encode(require_utf8(text, "the text"))
        if not read:
            raise ValueError("a text to look at has at least one word, a blank one came")
        about: dict[str, Any] = {"model": self.name, "task": self.kind, "read": text}
        if written is None:
            ids, about["beam"] = write_traced(self, read[:LONGEST], beam, what_if)
        else:
            ids = target.encode(require_utf8(written, "what is written"))
        about["wrote"] = target.render(ids)
        about |= note_cut(read, ids, most=LONGEST)
        if self.kind == "translation" and len(list(split_sentences(text))) > 1:
            about.setdefault("note", "read at once; translate reads each sentence by itself")
        page = inspect_pair(self, read[:LONGEST], ids[:LONGEST], about, what_if)
        return fit_page(page, tokens)

    def write_best(self, ids: Ids) -> list[int]:
        ((best, *_),) = write_targets(self.network, [ids], special=self.special_tokens)
        return best.ids

    def alignment(self, text: str, written: Written) -> list[tuple[int, int]]:
        """Return which word of the text each output word was read from: [(0, 0), (1, 2)]

        Empty where the network writes without attention.
        """
        return self.align(text, written).links

    @torch.no_grad()
    def align(self, text: str, written: Written) -> Aligned:
        """Align words of the text and of the output; pieces where a script has no spaces."""
        source, target = self.task.codecs.source, self.task.codecs.target
        found = Aligned([], [], [])
        for part, ids in written.parts or ((Part(text, "", source.encode(text)), written.ids),):
            (read, names), (wrote, others) = (
                words_of_pieces(source, part.ids),
                words_of_pieces(target, ids),
            )
            weights = (
                record_cross_attention(self.network, part.ids, ids, self.special_tokens)
                if read and wrote
                else []
            )
            pairs = link_words(weights, read, wrote) if weights else []
            before, behind = len(found.read), len(found.written)
            found.links.extend((i + before, j + behind) for i, j in pairs)
            found.read.extend(names)
            found.written.extend(others)
        return found

    def portable(self) -> Portable:
        if isinstance(self.network, ParallelNetwork):
            raise ValueError(
                f"{self.name} is a {self.task.recipe.network.kind} network, which has no "
                "counterpart elsewhere; a transformer has"
            )
        codecs = self.task.codecs
        both = (codecs.source,) if codecs.joint else (codecs.source, codecs.target)
        return describe(self, "encoder-decoder", codecs=both)


class Aligned(NamedTuple):
    """Words of a text and of its output, and the pairs of their indices."""

    read: list[str]
    written: list[str]
    links: list[tuple[int, int]]


def record_cross_attention(
    network: EncoderDecoder, read: Ids, written: Ids, special: tuple[SpecialTokens, SpecialTokens]
) -> list[torch.Tensor]:
    """Return the cross-attention of each decoder layer: (heads, written, read).

    The end tokens are included, the tokens before the first word are left out.
    """
    if isinstance(network, ParallelNetwork):
        return []  # it does not write token by token
    device = next(network.parameters()).device
    reads, writes = special
    rows = [*reads.encoder_bos, *read, reads.eos], [*writes.bos, *written]
    source, target = (Tokens.padded([row]).to(device) for row in rows)
    with recording(network) as seen:
        network(source, target)
    own = "self_attention"
    across = [
        one for one in seen if one.layer.startswith("decoder") and not one.layer.endswith(own)
    ]
    first, opened = len(writes.bos) - 1, len(reads.encoder_bos)
    return [one.weights[0][:, first:, opened:] for one in across]


def require_readable(
    texts: Iterable[str], name: Callable[[int], str] = "line {}".format
) -> Iterator[str]:
    for number, text in enumerate(texts, start=1):
        if not isinstance(text, str):
            raise ValueError(f"texts are str, number {number} is a {type(text).__name__}")
        yield require_utf8(text, name(number))
