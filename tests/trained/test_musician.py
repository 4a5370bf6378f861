"""A model of music asked from Python."""

import inspect
from dataclasses import fields, replace

import numpy as np
import pytest
import torch
from tunes import chorale, musician, performance, pianist, singer, stretch

from manyheads.attention.places import line
from manyheads.modules.transformer import Tokens
from manyheads.tasks.music.chorales import grid_of
from manyheads.tasks.music.codec_file import new_codec
from manyheads.tasks.music.compose import SHORTEST, make_bounds
from manyheads.tasks.music.decoding import MusicDecoding
from manyheads.tasks.music.melody import melody_of
from manyheads.tasks.music.model import Musician
from manyheads.tasks.music.notes import Meter, Note, Piece, Tempo, Voice, move_notes, to_quarters
from manyheads.tasks.music.performance import SHIFT
from manyheads.tasks.music.settings import VOICES
from manyheads.tasks.music.statistics import cut_opening
from manyheads.tasks.music.timing import end_after, seconds_of_numbers

KINDS = [
    pytest.param({}, id="transformer"),
    pytest.param({"kind": "recurrent"}, id="recurrent"),
    pytest.param({"relative": "ScoreContent(16)", "position": None, "token_types": 4}, id="score"),
]


def passed(model: Musician, ids: list[int]) -> float:
    each = seconds_of_numbers(model.task.codec)
    assert each is not None
    return float(each[ids].sum())


# ---- composing -------------------------------------------------------------------------------


@pytest.mark.parametrize("network", KINDS[:2])
def test_a_performance_goes_on_until_its_seconds_are_over(network: dict[str, object]) -> None:
    model = pianist(**network)
    for one in model.compose(seconds=6, count=3):
        assert one.finished == (len(one.logs) == len(one.ids) + 1)
        if not one.finished:
            assert passed(model, one.ids) >= 6
            assert passed(model, one.ids[:-1]) < 6
        assert one.piece == model.task.codec.render(one.ids)


@pytest.mark.parametrize("network", KINDS)
def test_a_chorale_ends_after_whole_steps(network: dict[str, object]) -> None:
    model = singer(32, **network)
    written = model.compose(seconds=4, count=12)
    for one in written:
        assert len(one.ids) % len(VOICES) == 0
        assert SHORTEST <= len(one.ids) <= 22 * len(VOICES)  # 22 sixteenths are 4.125 seconds
        assert one.finished or len(one.ids) == 22 * len(VOICES)
        assert not {0, 1, 2} & set(one.ids)


def test_a_chorale_goes_on_in_the_tempo_and_the_meter_of_its_beginning() -> None:
    prime = replace(stretch(chorale(8), 2), meters=(Meter(0.0, 3, 4),))
    for one in singer().compose(prime, seconds=3, count=4):
        assert (one.piece.tempos, one.piece.meters) == (prime.tempos, prime.meters)
        assert len(one.ids) <= 8 * len(VOICES)
        assert one.seconds <= 3 + 1e-6
        assert cut_opening(one.piece, prime.seconds).seconds == pytest.approx(prime.seconds)


def test_a_beginning_of_any_tempo_ends() -> None:
    mad = Piece((Note(0.0, 1e-5, 60),), (Voice(),) * 4, (Tempo(0.0, 6e7),))
    model = singer()
    bounds = make_bounds(model.task.author(model.network), 3600, mad)
    assert bounds.limits(1) == [3600 / 0.1875 * 4]


def test_the_end_comes_only_after_something_was_written() -> None:
    for model in (singer(), pianist()):
        biased = model.network.head.forward  # type: ignore[union-attr]

        def eager(states: torch.Tensor, scores: object = biased) -> torch.Tensor:
            found = scores(states)  # type: ignore[operator]
            found[..., 2] += 50
            return torch.as_tensor(found)

        model.network.head.forward = eager  # type: ignore[union-attr,assignment,method-assign]
        (one,) = model.compose(seconds=9)
        assert one.finished
        assert len(one.ids) == SHORTEST


def test_who_asks_is_told_of_seconds_as_they_come() -> None:
    for model in (singer(), pianist()):
        told: list[float] = []
        found = model.compose(seconds=3, count=2, told=told.append)
        each = seconds_of_numbers(model.task.codec)
        assert each is not None
        written = sum(float(each[one.ids].sum()) for one in found)
        assert told
        assert -1e-6 <= written - sum(told) <= 2 * each.max()  # the last of a piece goes without
        assert [one.ids for one in found] == [one.ids for one in model.compose(seconds=3, count=2)]


def test_a_beginning_is_read_and_heard_and_its_time_does_not_count() -> None:
    model = pianist(128)
    prime = performance(6)
    (one,) = model.compose(prime, seconds=3)
    assert passed(model, one.ids) >= 3 or one.finished
    other = model.compose(performance(6, seed=1), seconds=3)[0]
    assert other.ids != one.ids
    late = tuple(n._replace(start=n.start + 60, end=n.end + 60) for n in prime.notes)
    after = model.compose(Piece(late), seconds=3)[0]
    assert after.ids == one.ids  # a silence before it is not read, but kept
    assert [n.start - 60 for n in after.piece.notes] == pytest.approx(
        [n.start for n in one.piece.notes]
    )


@pytest.mark.parametrize("kind", ["performance", "chorales", "remi"])
def test_a_beginning_comes_out_as_it_went_in(kind: str) -> None:
    if kind == "remi":
        pytest.importorskip("miditok")
    model = musician(new_codec(kind), 256)
    voices = (Voice("flute", 73), *(Voice(name, 19) for name in VOICES[1:]))
    tempos = (Tempo(0.0, 90.0), Tempo(1.0, 60.0))
    # Off every grid, sung again, faster than a sixteenth, and louder than the one before.
    notes = [Note(at + 0.503, at + 0.59, 72, 33 + i) for i, at in enumerate((0.0, 0.1, 0.2, 1.1))]
    notes += [Note(0.503, 1.681, 48 + 7 * i, 71, i) for i in (1, 2, 3)]
    prime = Piece(tuple(notes), voices, tempos, (Meter(0.0, 3, 4),))
    for one in model.compose(prime, seconds=4, count=3):
        new_ones = set(one.piece.notes) - set(prime.notes)
        assert set(prime.notes) <= set(one.piece.notes)
        assert len(one.piece.notes) == len(prime.notes) + len(new_ones)
        assert one.piece.voices[:4] == voices
        assert one.piece.tempos[:2] == tempos
        assert one.piece.meters[:1] == prime.meters
        if kind != "remi":  # which may go on within a bar
            assert min((n.start for n in new_ones), default=9) > 1.681 - 0.126


def test_what_follows_a_beginning_of_chorales_goes_on_in_the_tempo_it_ends_with() -> None:
    prime = replace(chorale(8), tempos=(Tempo(0.0, 80.0), Tempo(0.75, 40.0)))
    lasts = grid_of(prime)  # four steps fast, then those of 0.75 seconds at half the tempo: two
    (one,) = singer(256).compose(prime, seconds=6, seed=2)
    new_ones = sorted(set(one.piece.notes) - set(prime.notes))
    assert len(lasts) == 6
    assert all(round((n.start - 1.5) / 0.375, 6).is_integer() for n in new_ones)
    assert len(one.ids) <= 16 * len(VOICES)  # 6 seconds


@pytest.mark.parametrize("network", KINDS)
def test_what_it_writes_it_finds_as_likely_as_it_said(network: dict[str, object]) -> None:
    model = singer(64, **network)
    prime = chorale(4)
    (one,) = model.compose(prime, seconds=1.5, voice_leading=0)
    begin = [1, *model.task.codec.encode(prime)]
    read = torch.tensor([[*begin, *one.ids]])
    with torch.no_grad():
        scores = model.network(Tokens(read, line(read.shape[1])))[0].log_softmax(-1)
    own = [scores[len(begin) + i - 1, token].item() for i, token in enumerate(one.ids)]
    # Where the stop is ruled out, what is left is a little likelier.
    ruled = [scores[len(begin) + i - 1, [0, 1, 2]].exp() for i in range(len(own))]
    off = [log - wanted for log, wanted in zip(one.logs, own, strict=False)]
    room = [-float(torch.log1p(-gone.sum())) + 1e-4 for gone in ruled]
    assert all(-1e-4 <= a <= b for a, b in zip(off, room, strict=True))


@pytest.mark.parametrize("network", KINDS)
def test_past_the_context_chorales_are_written_from_a_whole_step_on(
    network: dict[str, object],
) -> None:
    model = singer(16, **network)
    (one,) = model.compose(seconds=5, temperature=0.7)
    again = model.compose(seconds=5, temperature=0.7)[0]
    assert again == one
    assert len(one.ids) > 32 or one.finished


def test_in_events_it_is_the_same_piece() -> None:
    for model in (pianist(32), singer(32)):
        for number, one in enumerate(model.compose(seconds=3, count=3, seed=5)):
            events = [*model.stream(seconds=3, number=number, seed=5)]
            special = [2] * one.finished
            assert [said for said, _ in events] == model.task.codec.pieces([*one.ids, *special])
            assert [log for _, log in events] == pytest.approx(one.logs, abs=1e-4)


def test_each_piece_draws_by_its_number_and_the_seed() -> None:
    model = pianist()
    one, same = (model.compose(seconds=2, count=3, seed=1) for _ in range(2))
    assert one == same
    assert len({tuple(each.ids) for each in one}) == 3
    assert model.compose(seconds=2, count=1, seed=1)[0].ids == one[0].ids
    assert model.compose(seconds=2, count=1, seed=2)[0].ids != one[0].ids


def test_at_temperature_zero_all_are_alike() -> None:
    one, other = singer().compose(seconds=2, count=2, temperature=0)
    assert one.ids == other.ids


def test_of_a_long_beginning_the_end_is_read_where_that_is_asked_for() -> None:
    model, long = singer(32), chorale(20)
    with pytest.raises(ValueError, match="the beginning has 81 tokens and the context 32; shorten"):
        model.compose(long)
    with pytest.raises(ValueError, match="the beginning has 81 tokens"):
        model.stream(long)  # before the first event is asked for
    (one,) = model.compose(long, seconds=1, truncate=True)
    assert grid_of(one.piece)[:20].tolist() == grid_of(long).tolist()


def test_what_cannot_be_composed_is_refused() -> None:
    model = singer()
    with pytest.raises(ValueError, match="over 0 and up to 3600 seconds of music are written, go"):
        model.compose(seconds=0)
    with pytest.raises(ValueError, match="1 piece or more is written, got 0"):
        model.compose(count=0)
    with pytest.raises(ValueError, match="a chorale has 4 voices, each in a track of its own; th"):
        model.compose(performance())
    with pytest.raises(
        ValueError, match=r"a temperature is a finite number from 0 \(greedy\) up, got -1"
    ):
        model.compose(temperature=-1)
    with pytest.raises(ValueError, match="top_k, top_p and min_p narrow what is drawn"):
        MusicDecoding(temperature=0, top_p=0.5)


def test_by_bars_a_piece_ends_with_the_first_bar_past_its_seconds() -> None:
    pytest.importorskip("miditok")
    codec = new_codec("remi")
    ids = codec.encode(performance(60))
    over = end_after(codec, 4.0, [], 1)
    assert over is not None
    count = next(i for i, token in enumerate(ids, start=1) if over(0, token))
    bars = [i for i, said in enumerate(codec.pieces(ids), start=1) if said.startswith("Bar")]
    before = max(bar for bar in bars if bar < count)
    assert count in bars
    assert codec.render(ids[:before]).seconds < 4 <= codec.render(ids[:count]).seconds
    model = musician(codec, 128)
    with pytest.raises(ValueError, match="known of performances and chorales, not of remi"):
        model.look(performance(), layer=0)


def test_only_shifts_take_time() -> None:
    each = seconds_of_numbers(pianist().task.codec)
    assert each is not None
    assert each[SHIFT] == 0.01
    assert each.sum() == pytest.approx(50.5)


# ---- harmonizing -----------------------------------------------------------------------------


@pytest.mark.parametrize("voice", ["soprano", "bass"])
@pytest.mark.parametrize("network", KINDS)
def test_the_given_voice_stays_and_the_others_are_written(
    voice: str, network: dict[str, object]
) -> None:
    model, piece = singer(32, **network), chorale(12)
    found = grid_of(model.harmonize(piece, voice, particles=4))
    number = VOICES.index(voice)
    wanted = grid_of(piece)
    assert found[:12, number].tolist() == wanted[:, number].tolist()
    assert len(found) == 12
    assert (found != wanted).any(axis=0).sum() == 3


def test_the_given_voice_comes_out_as_it_went_in() -> None:
    repeated = [Note(at * 0.75, at * 0.75 + 0.7, 72, 60 + at) for at in range(4)]  # four crotchets
    fast = [Note(3 + i * 0.05, 3.05 + i * 0.05, 74 + i % 2, 90) for i in range(8)]
    tempos, meters = (Tempo(0.0, 80.0), Tempo(3.0, 50.0)), (Meter(0.0, 4, 4), Meter(3.0, 3, 4))
    melody = Piece((*repeated, *fast), (Voice("flute"),), tempos, meters)
    found = singer().harmonize(melody, "alto", particles=2)
    assert [n._replace(voice=0) for n in found.notes if n.voice == 1] == list(melody.notes)
    assert (found.tempos, found.meters) == (tempos, meters)
    others = [n for n in found.notes if n.voice != 1]
    assert {n.voice for n in others} == {0, 2, 3}
    steps = to_quarters(found, [at for n in others for at in (n.start, n.end)]) * 4
    assert steps == pytest.approx(np.rint(steps))  # on the melody's own beats


def test_a_melody_alone_is_harmonized_at_its_own_tempo() -> None:
    piece = chorale(8)
    notes = tuple(n._replace(voice=0) for n in piece.notes if n.voice == 2)
    alone = Piece(notes, (Voice("flute"),), piece.tempos)
    model = singer()
    assert model.harmonize(alone, "tenor", seed=3) == model.harmonize(piece, "tenor", seed=3)
    assert model.harmonize(alone, "tenor", seed=4) != model.harmonize(piece, "tenor", seed=3)
    assert model.harmonize(alone, "tenor").tempos == piece.tempos


def test_silence_before_a_melody_changes_nothing_of_its_harmony() -> None:
    melody = melody_of(chorale(12)).piece  # of 80 quarter notes a minute: 0.75 s each
    later = replace(melody, notes=move_notes(melody.notes, 15))
    soon, late = (singer().harmonize(one) for one in (melody, later))
    assert late.notes == move_notes(soon.notes, 15)


def test_a_melody_under_a_pedal_sings_one_note_at_a_time() -> None:
    ringing = tuple(Note(i, 9.0, 60 + i) for i in range(4))
    melody, told = melody_of(Piece(ringing))
    assert [(n.start, n.end) for n in melody.notes] == [(0, 1), (1, 2), (2, 3), (3, 9)]
    assert told == ("ended where the next begins: 3 notes that ring on",)
    legato = Piece(tuple(Note(i, i + 1.2, 60 + i) for i in range(4)))
    assert melody_of(legato) == (legato, ())


def test_what_cannot_be_harmonized_is_refused() -> None:
    piece, model = chorale(4), singer()
    with pytest.raises(ValueError, match="a model of chorales harmonizes, this one writes by the"):
        pianist().harmonize(piece)
    with pytest.raises(ValueError, match="voices are soprano, alto, tenor, bass; 'viola' was ask"):
        model.harmonize(piece, "viola")
    with pytest.raises(ValueError, match="no track 'x' in this piece, it has 1 soprano, 2 alto, 3"):
        model.harmonize(piece, track="x")
    with pytest.raises(ValueError, match="the bass of this piece is silent"):
        model.harmonize(Piece(tuple(n for n in piece.notes if n.voice < 3), piece.voices), "bass")
    with pytest.raises(ValueError, match=r"voice_leading is 0 nats \(no penalty\) or more, got -1"):
        model.harmonize(piece, voice_leading=-1)
    with pytest.raises(ValueError, match="a temperature over 0 would do"):
        model.harmonize(piece, temperature=0)


def song() -> Piece:
    """A melody, chords under it in a track of their own, and a bass."""
    sung = [Note(i * 0.5, i * 0.5 + 0.5, 72 + i, 90, 1) for i in range(4)]
    chords = [Note(i, i + 1, pitch, 50, 0) for i in range(2) for pitch in (60, 64, 67)]
    low = [Note(i, i + 1, 40 + i, 60, 2) for i in range(2)]
    return Piece((*sung, *chords, *low), (Voice("guitar"), Voice("Tune"), Voice("bass")))


def test_of_several_tracks_the_highest_is_the_melody_or_the_one_that_is_named() -> None:
    melody, told = melody_of(song())
    assert [note.pitch for note in melody.notes] == [72, 73, 74, 75]
    assert melody.voices == (Voice("Tune"),)
    assert told == ("the melody is track 2, Tune, the highest of 3; --track names another",)
    for track in ("3", "bass"):
        assert [note.pitch for note in melody_of(song(), track=track).piece.notes] == [40, 41]
    for name in ("tune", "TUNE"):
        assert melody_of(song(), track=name) == (melody, ())
    four = chorale(4)
    assert melody_of(four, "tenor").piece.notes == tuple(
        n._replace(voice=0) for n in four.notes if n.voice == 2
    )
    found = singer().harmonize(song(), particles=2)
    assert [note.pitch for note in found.notes if note.voice == 0] == [72, 73, 74, 75]


def test_of_chords_the_highest_notes_are_the_melody() -> None:
    melody, told = melody_of(song(), track="guitar")
    assert [(note.start, note.pitch) for note in melody.notes] == [(0, 67), (1, 67)]
    assert told == ("left out: 4 notes under the melody",)
    # Under a note that is held something moves, and what outlasts it goes on.
    held = [Note(0, 2, 72), Note(0, 1, 60), Note(0.5, 1, 62), Note(1.5, 2, 64), Note(1.9, 3, 71)]
    assert [note.pitch for note in melody_of(Piece(tuple(held))).piece.notes] == [72, 71]


@pytest.mark.parametrize("verb", ["compose", "score", "harmonize", "inspect"])
def test_a_file_is_read_before_a_model_takes_it(verb: str) -> None:
    for model in (singer(), pianist())[: 1 if verb == "harmonize" else 2]:
        with pytest.raises(ValueError, match=r"as load_midi\(path\) gives it; got 'song.mid'"):
            getattr(model, verb)("song.mid")


# ---- scoring ---------------------------------------------------------------------------------


@pytest.mark.parametrize("network", KINDS)
def test_each_token_is_scored_by_what_came_before_it(network: dict[str, object]) -> None:
    model, piece = singer(64, **network), chorale(10)
    scored = model.score(piece)
    ids = torch.tensor([[1, *model.task.codec.encode(piece), 2]])
    with torch.no_grad():
        scores = model.network(Tokens(ids[:, :-1], line(41)))
    own = scores.log_softmax(-1)[0, torch.arange(41), ids[0, 1:]]
    assert scored.logs == pytest.approx(own.tolist(), abs=1e-4)
    assert scored.loss == pytest.approx(-own.mean().item(), abs=1e-4)
    assert scored.notes == pytest.approx(-own[:-1].mean().item(), abs=1e-4)
    assert scored.perplexity == pytest.approx(np.exp(scored.loss))
    assert scored.pieces[-1] == "</s>"


def test_past_the_context_every_token_is_scored_once_from_a_whole_step_on() -> None:
    model, piece = (
        singer(24, token_types=4, relative="ScoreContent(16)", position=None),
        chorale(31),
    )
    assert len(model.score(piece).logs) == 31 * 4 + 1
    assert model.score([piece]) == [model.score(piece)]
    assert len(model.score(piece, stride=4).logs) == 31 * 4 + 1
    with pytest.raises(ValueError, match="context of 24 tokens in whole steps of 4, got 6"):
        model.score(piece, stride=6)
    with pytest.raises(ValueError, match="a piece to score has at least one note"):
        model.score(Piece(()))


# ---- looking ---------------------------------------------------------------------------------


def test_a_note_looks_back_as_the_network_does() -> None:
    model, piece = singer(32), chorale(12)
    arcs = model.look(piece, layer=1, at=1.125)  # six sixteenths
    assert arcs.weights.shape == (2, 26)  # up to its soprano
    assert arcs.weights.sum(1).tolist() == pytest.approx([1, 1], abs=1e-5)
    assert arcs.spots[-1] == (pytest.approx(6 * 0.1875), grid_of(piece)[6, 0])
    one = model.look(piece, layer=1, head=1, at=1.125)
    assert one.weights.equal(arcs.weights[1:])
    short = singer(16).look(piece, layer=1, at=1.125)
    assert short.spots == arcs.spots[12:]  # as much as the context holds, from a whole step on
    label = model.task.codec.pieces([grid_of(piece)[6, 0] + 4])[0]
    assert arcs.title == f"layer 1 at {label}, 1.12 s"


def test_all_voices_of_a_step_stand_at_its_moment_at_the_tempo_of_the_piece() -> None:
    piece = stretch(chorale(8), 0.5)
    arcs = singer(64).look(piece, layer=0)
    assert arcs.spots[0] is None
    moments = [spot[0] for spot in arcs.spots[1:] if spot is not None]
    assert moments == pytest.approx(np.repeat(np.arange(8) * 0.1875 / 2, 4))
    assert arcs.piece.seconds == pytest.approx(piece.seconds)


def test_of_a_performance_keys_that_go_down_and_up_are_notes() -> None:
    model, piece = pianist(512), performance(4)
    arcs = model.look(piece, layer=0, head=0)
    ids = [1, *model.task.codec.encode(piece)]
    assert len(arcs.spots) == len(ids)
    pressed = [spot for spot in arcs.spots if spot is not None]
    moments = sorted([n.start for n in piece.notes] + [n.end for n in piece.notes])
    assert [at for at, _ in pressed] == pytest.approx(moments, abs=0.006)


def test_silence_before_a_performance_is_counted_where_a_note_is_named() -> None:
    """It is read without that silence; a person counts from the beginning of the recording."""
    model, soon = pianist(512), performance(4)
    late = replace(soon, notes=move_notes(soon.notes, 20))
    first, moved = (model.look(one, 0, at=one.notes[2].start) for one in (soon, late))
    assert moved.weights.equal(first.weights)
    at, pitch = soon.notes[2].start, soon.notes[2].pitch
    assert moved.spots[-1] == (pytest.approx(at + 20), pitch)
    assert moved.piece.start == pytest.approx(20)
    notes = model.inspect(late).about["roll"]["notes"]
    assert notes[0][0] == pytest.approx(20)


def test_what_cannot_be_looked_at_is_refused() -> None:
    model, piece = singer(), chorale(4)
    with pytest.raises(ValueError, match="layers are numbered 0 to 1, 2 was asked for"):
        model.look(piece, layer=2)
    with pytest.raises(ValueError, match="heads are numbered 0 to 1, 5 was asked for"):
        model.look(piece, layer=0, head=5)
    with pytest.raises(
        ValueError, match=r"the last note of this piece is at 0\.56 seconds, one at 9"
    ):
        model.look(piece, layer=0, at=9)
    with pytest.raises(ValueError, match="a piece to look at has notes, this one has none"):
        pianist().look(Piece(()), layer=0)
    with pytest.raises(ValueError, match="a recurrent network has no attention to look at"):
        singer(kind="recurrent").look(piece, layer=0)


def test_every_option_is_named_with_its_default() -> None:
    options = {field.name: field.default for field in fields(MusicDecoding)}
    for method in (Musician.compose, Musician.stream, Musician.harmonize):
        parameters = inspect.signature(method).parameters.values()
        alone = [one for one in parameters if one.kind is inspect.Parameter.KEYWORD_ONLY]
        assert {one.name: one.default for one in alone} == options
    with pytest.raises(ValueError, match=r"^top_k is a whole number, got '3'$"):
        pianist().compose(top_k="3")  # type: ignore[arg-type]
