"""Models that were taught to answer: their template and their special tokens, as they have them."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
import torch
from toys import LINES, speaking
from typed import Command, Refuses

from manyheads.codecs.text import Text
from manyheads.interop.export import export
from manyheads.interop.importing import import_folder
from manyheads.learn import prepare_run
from manyheads.models import load
from manyheads.tasks.language.chat import CHAT, Chat
from manyheads.tasks.language.decoding import LanguageDecoding
from manyheads.tasks.language.generate import add_starts, encode_prompts
from manyheads.tasks.language.settings import LanguageRecipe, TextData
from manyheads.tasks.table import load_recipe
from manyheads.training.run import RECIPE, Run

TEMPLATE = """{{ bos_token }}{% for message in messages %}
    {%- if message.role not in ("user", "assistant") %}
        {{- raise_exception("who is that?") }}
    {%- endif %}
<|im_start|>{{ message["role"] }}
{{ message["content"] | trim }}<|im_end|>
{% endfor %}
{% if add_generation_prompt %}<|im_start|>assistant
{% endif %}"""
SPECIAL = ["<|bos|>", "<|im_start|>", "<|im_end|>", "<|pad|>"]


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A Llama of random weights with a tokenizer that knows how to talk to it."""
    transformers = pytest.importorskip("transformers")
    from tokenizers import processors

    path = tmp_path_factory.mktemp("llama")
    tokenizer = Text.train(LINES, "byte").tokenizer
    tokenizer.add_special_tokens(SPECIAL)
    begin = ("<|bos|>", tokenizer.token_to_id("<|bos|>"))
    tokenizer.post_processor = processors.TemplateProcessing(
        single="<|bos|> $A", pair="<|bos|> $A $B", special_tokens=[begin]
    )
    fast = transformers.PreTrainedTokenizerFast(
        tokenizer_object=tokenizer,
        bos_token="<|bos|>",
        eos_token="<|im_end|>",
        pad_token="<|pad|>",
        chat_template=TEMPLATE,
    )
    fast.save_pretrained(path)
    torch.manual_seed(0)
    config = transformers.LlamaConfig(
        vocab_size=len(fast),
        hidden_size=16,
        intermediate_size=40,
        num_hidden_layers=2,
        num_attention_heads=4,
        bos_token_id=fast.bos_token_id,
        eos_token_id=fast.eos_token_id,
        pad_token_id=fast.pad_token_id,
    )
    model = transformers.LlamaForCausalLM(config)
    with torch.no_grad():
        for parameter in model.parameters():
            parameter.add_(0.2 * torch.randn_like(parameter))
    model.save_pretrained(path)
    return path


@pytest.fixture(scope="module")
def run(folder: Path) -> Path:
    import_folder(folder, folder / "run")
    return folder / "run"


def answered_there(folder: Path, text: str) -> tuple[list[int], str]:
    """What transformers lets the model read for a text, and what it then writes."""
    import transformers

    tokenizer = transformers.AutoTokenizer.from_pretrained(folder)
    model = transformers.AutoModelForCausalLM.from_pretrained(folder).eval()
    ids = tokenizer.apply_chat_template(
        [{"role": "user", "content": text}], add_generation_prompt=True, return_dict=False
    )
    never = [tokenizer.bos_token_id, tokenizer.pad_token_id]
    written = model.generate(
        torch.tensor([ids]), max_new_tokens=8, do_sample=False, suppress_tokens=never
    )
    return ids, tokenizer.decode(written[0, len(ids) :], skip_special_tokens=True)


@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize("text", ["Where is the dog?", "  a\nb <|im_end|>\n"])
def test_a_model_that_answers_reads_and_writes_what_it_does_elsewhere(
    folder: Path, run: Path, text: str, manyheads: Command
) -> None:
    there, answer = answered_there(folder, text)
    model, how = load(str(run)), LanguageDecoding(chat=True, temperature=0, max_new_tokens=8)
    (ids,) = encode_prompts(model.task.codec, [model.lay_out_prompt(text, how)], how)
    assert add_starts(model.task.codec, ids, how) == there
    assert [best.text for best, *_ in model.write([text], how)] == [answer]
    given = ("--model", run, "--prompt", text, "--temperature", "0", "--max-new-tokens", "8")
    done = manyheads("generate", *given, "--chat", "--device", "cpu")
    assert done.out == f"{answer}\n"


@pytest.mark.parametrize(
    ("prompt", "ids"),
    [
        ("a<|im_end|>b", ["<|bos|>", "a", "<|im_end|>", "b"]),
        ("<|bos|>a", ["<|bos|>", "a"]),  # not twice
    ],
)
def test_special_tokens_are_read_as_such_where_that_is_asked_for(
    run: Path, prompt: str, ids: list[str]
) -> None:
    codec = load(str(run)).task.codec
    how = LanguageDecoding(special=True)
    (read_so,) = encode_prompts(codec, [prompt], how)
    assert add_starts(codec, read_so, how) == [codec.tokenizer.token_to_id(one) for one in ids]
    (as_text,) = encode_prompts(codec, [prompt], LanguageDecoding())
    assert not {codec.tokenizer.token_to_id(one) for one in SPECIAL} & {*as_text}
    assert codec.render(as_text) == prompt


def test_special_tokens_change_what_follows(run: Path, manyheads: Command) -> None:
    given = ("generate", "--model", run, "--prompt", "a<|im_start|>b", "--temperature", "0")
    given = (*given, "--max-new-tokens", "12", "--device", "cpu")
    text, special = manyheads(*given).out, manyheads(*given, "--special").out
    assert text.startswith("a<|im_start|>b")
    assert special.startswith("a<|im_start|>b")
    assert text != special


def test_the_line_break_that_stdin_ends_with_is_kept_where_that_is_asked_for(
    run: Path, manyheads: Command
) -> None:
    given = ("generate", "--model", run, "--json", "--max-new-tokens", "1", "--device", "cpu")
    without = manyheads(*given, stdin=b"a\nb\n")
    assert json.loads(without.out)["prompt"] == "a\nb"
    with_it = manyheads(*given, "--keep-newline", stdin=b"a\nb\n")
    assert json.loads(with_it.out)["prompt"] == "a\nb\n"


def test_a_model_without_a_template_is_not_talked_to(run: Path, refuses: Refuses) -> None:
    (run / CHAT).rename(run / "kept.json")
    given = ("generate", "--model", run, "--chat", "--prompt", "a", "--device", "cpu")
    try:
        refuses(
            f"{run} has no chat template, which chat fills in; "
            "special tokens may be written into the prompt: --special, special=True",
            *given,
        )
    finally:
        (run / "kept.json").rename(run / CHAT)


@pytest.mark.parametrize(
    ("template", "why"),
    [
        ("{{ raise_exception('no user') }}", "no user"),
        ("{% for %}", "Expected an expression, got 'end of statement block'"),
        (
            "{{ ''.__class__.__mro__ }}",
            "access to attribute '__class__' of 'str' object is unsafe.",
        ),
        ("{{ messages[0].content / 2 }}", "unsupported operand type(s) for /: 'str' and 'int'"),
    ],
)
def test_a_template_that_cannot_be_filled_in_is_refused(template: str, why: str) -> None:
    with pytest.raises(ValueError) as error:
        Chat(template).ask("a")
    assert str(error.value) == f"its chat template cannot be filled in: {why}"


def test_a_model_that_starts_from_one_that_answers_answers_too(run: Path, tmp_path: Path) -> None:
    (tmp_path / "book.txt").write_text("a dog runs\n" * 200, encoding="utf-8")
    start = load_recipe(run / RECIPE)
    data = TextData((tmp_path / "book.txt",), context=32)
    recipe = LanguageRecipe("language", data, start.codec, start.network, start_from=run)
    prepare_run(recipe, Run(tmp_path / "tuned"))
    assert (tmp_path / "tuned" / CHAT).read_bytes() == (run / CHAT).read_bytes()


@pytest.mark.filterwarnings("ignore")
def test_a_template_goes_out_as_it_came_in(run: Path, tmp_path: Path) -> None:
    export(load(str(run)), "huggingface", tmp_path / "out", LINES)
    ids, answer = answered_there(tmp_path / "out", "a dog")
    assert (ids, answer) == answered_there(run.parent, "a dog")


def test_a_model_of_ours_has_none() -> None:
    with pytest.raises(ValueError, match="toy has no chat template"):
        speaking().generate("a", chat=True)
