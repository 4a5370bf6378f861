"""Chat templates: turn a question into the prompt of an instruction-tuned model."""

from __future__ import annotations

import json
from dataclasses import asdict, dataclass, field
from datetime import datetime
from pathlib import Path
from typing import Any

CHAT = "chat.json"  # in the folder of a run


@dataclass(frozen=True)
class Chat:
    """The Jinja chat template of a model, and the special tokens that it uses by name."""

    template: str
    tokens: dict[str, str] = field(default_factory=dict)  # {"eos_token": "<|im_end|>", ...}

    def ask(self, text: str) -> str:
        """Return the prompt that makes the model answer the text."""
        from jinja2 import TemplateError
        from jinja2.sandbox import ImmutableSandboxedEnvironment

        # The same environment as in transformers, so that a template renders the same here.
        jinja = ImmutableSandboxedEnvironment(
            trim_blocks=True, lstrip_blocks=True, extensions=["jinja2.ext.loopcontrols"]
        )
        jinja.filters["tojson"] = as_json
        jinja.globals["raise_exception"] = refuse
        jinja.globals["strftime_now"] = lambda form: datetime.now().strftime(form)
        messages = [{"role": "user", "content": text}]
        try:
            return jinja.from_string(self.template).render(
                **self.tokens, messages=messages, add_generation_prompt=True
            )
        except (TemplateError, TypeError, ArithmeticError, LookupError, RecursionError) as error:
            raise ValueError(f"its chat template cannot be filled in: {error}") from None

    def save(self, path: Path) -> None:
        path.write_text(json.dumps(asdict(self), ensure_ascii=False) + "\n", encoding="utf-8")

    @staticmethod
    def load(path: Path) -> Chat | None:
        """Return None if the model has no chat template."""
        if not path.exists():
            return None
        try:
            held = json.loads(path.read_text(encoding="utf-8"))
            return Chat(str(held["template"]), dict(held["tokens"]))
        except (ValueError, KeyError, TypeError):
            raise ValueError(f"{path} holds no chat template") from None


def as_json(held: Any, indent: int | None = None) -> str:
    """Return plain JSON: Jinja's own filter escapes < and > for HTML."""
    return json.dumps(held, ensure_ascii=False, indent=indent)


def refuse(why: str) -> None:
    from jinja2 import TemplateError

    raise TemplateError(why)
