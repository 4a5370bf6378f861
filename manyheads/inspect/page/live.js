// The page, live: what is typed and changed goes to the model, and what it then does is shown.

import { readPayload, times } from "./data.js";
import { Page } from "./main.js";
import { download, keepFocus } from "./state.js";

const find = (id) => document.getElementById(id);
const make = (tag, text, set = {}) => Object.assign(document.createElement(tag), { textContent: text, ...set });

class Live {
  constructor() {
    this.edits = []; // what is otherwise: { said, asked: [interventions] }
    this.tried = [];
    this.page = null;
    document.body.classList.add("live");
    find("live").hidden = find("save").hidden = false;
    document.documentElement.dataset.theme = matchMedia("(prefers-color-scheme: dark)").matches ? "dark" : "light";
    this.models = JSON.parse(find("live").dataset.models);
    find("model").replaceChildren(...this.models.map(({ name }) => make("option", shortName(name), { value: name })));
    find("model").hidden = this.models.length < 2;
    find("model").addEventListener("change", () => this.choose());
    find("ask").addEventListener("submit", (event) => { event.preventDefault(); this.begin(); });
    find("long").addEventListener("submit", (event) => { event.preventDefault(); this.showPart(find("tokens").value); });
    find("around").addEventListener("click", () => { find("tokens").value = this.around(); this.showPart(this.around()); });
    find("off").addEventListener("click", () => this.toggleOff());
    find("only-this").addEventListener("click", () => this.readOnly());
    find("save").addEventListener("click", () => this.save());
    find("text").value = this.models[0].text;
    this.choose();
  }

  get model() {
    return this.models.find(({ name }) => name === find("model").value);
  }

  // What it asks for; where that is there already, it is shown.
  choose() {
    const { asks } = this.model, text = find("text");
    if (this.page) Object.assign(this.page.state, { part: "", heads: "mean" });
    [text.hidden, text.disabled] = [asks !== "text", asks !== "text"];
    find("seconds").hidden = asks !== "seconds";
    if (asks !== "text" || text.value.trim()) { this.begin(); return; }
    this.clear();
    text.focus();
  }

  // What is there is of another model.
  clear() {
    find("title").textContent = `What ${shortName(this.model.name)} looks at`;
    delete document.body.dataset.ready;
  }

  get sent() {
    return { model: this.model.name, text: this.text, tokens: this.tokens, interventions: this.edits.flatMap((edit) => edit.asked) };
  }

  async post(name, asked) {
    const found = await fetch(name, { method: "POST", body: JSON.stringify(asked) }).catch(() => null);
    if (!found) throw new Error("The model does not answer any more: start `manyheads inspect` again.");
    if (!found.ok) throw new Error((await found.json()).error);
    return found;
  }

  async ask() {
    find("wrong").textContent = "";
    document.body.classList.add("busy");
    try {
      return await readPayload(new Uint8Array(await (await this.post("inspect", this.sent)).arrayBuffer()));
    } catch (error) {
      find("wrong").textContent = error.message;
      return null;
    } finally {
      document.body.classList.remove("busy");
    }
  }

  async begin() {
    const text = this.model.asks === "seconds" ? find("seconds").querySelector("input").value : find("text").value;
    const { name } = this.model, before = [this.text, this.tokens, this.edits, this.tried];
    [this.text, this.tokens, this.edits, this.tried] = [text, "", [], []];
    const found = await this.ask();
    if (!found) {
      [this.text, this.tokens, this.edits, this.tried] = before;
      if (this.name !== name) this.clear();
      return;
    }
    [this.base, this.name, find("tokens").value] = [found, name, ""];
    this.show(found);
  }

  // Some tokens of a long text one by one; none: all of them.
  async showPart(tokens) {
    const before = this.tokens;
    this.tokens = tokens.trim();
    const found = await this.ask();
    if (!found) { this.tokens = before; return; }
    [this.base, this.edits, this.tried] = [found, [], []];
    this.show(found);
  }

  async change(edits) {
    const before = this.edits;
    this.edits = edits;
    const found = await this.ask();
    if (!found) { this.edits = before; return; }
    if (!this.tried.length) this.tried.push(sayTried("as it is", this.base));
    if (edits.length) this.tried.push(sayTried(edits.map((edit) => edit.said).join("; "), found));
    keepFocus(() => this.show(found));
    if (!document.activeElement.checkVisibility() || document.activeElement === document.body) find("edits").lastChild?.focus();
  }

  show(attention) {
    if (this.page) {
      Object.assign(this.page.state, { side: "", at: "" });
      this.page.show(attention);
    } else {
      this.page = new Page(attention);
      this.page.live = this;
      this.page.render();
      globalThis.manyheads = this.page;
    }
    document.body.dataset.ready = "1";
    this.compare(attention);
  }

  compare(attention) {
    find("changed").hidden = !this.edits.length;
    find("edits").replaceChildren(...this.edits.map((edit) => {
      const chip = make("button", edit.said, { type: "button", className: "chip", title: "as it was" });
      chip.addEventListener("click", () => this.change(this.edits.filter((one) => one !== edit)));
      return chip;
    }));
    const [was, now] = [this.base, attention].map((one) => one.header.wrote.split(/\s+/));
    const { numbers } = attention.header; // those stand in what was written
    const log = (one) => make("dd", numbers ? "" : `log-probability ${total(one).toFixed(2)}`, { className: "log" });
    const told = log(attention);
    if (!numbers) told.textContent += `: ${times(total(this.base) - total(attention))}`;
    find("compared").replaceChildren(
      make("dt", "as it is"), marked(was, now), log(this.base),
      make("dt", "what if"), marked(now, was), told,
    );
  }

  // ---- what the page offers -----------------------------------------------------------------

  controls([{ key }]) {
    find("off").hidden = !this.page.attention.heads.has(key);
    find("off").textContent = { "": "switch it off", zero: "let it read all alike", mean: "on again" }[this.offBy(key)];
    const { pinned, units, attention: { header: { long } } } = this.page;
    find("around").hidden = !long || (long.group > 1 && !pinned);
    find("around").textContent = long?.group > 1 && pinned ? `those around “${units[pinned.side][pinned.at].text}”` : "all";
  }

  // The tokens at the middle of which the pinned group stands; of a page that shows a part, all.
  around() {
    const { pinned, units, attention: { header: { long } } } = this.page;
    if (long.group === 1 || !pinned) return "";
    const middle = units[pinned.side][pinned.at].begin * long.group;
    const first = Math.max(0, Math.min(long.tokens - 512, middle - 256));
    return `${first}:${first + 512}`;
  }

  offBy(key) {
    return this.edits.find((edit) => edit.key === key)?.by ?? "";
  }

  // On, off by zero, off by the mean, on again.
  toggleOff() {
    const { key, layer, head, name, part } = this.page.attention.heads.get(this.page.chosen[0]);
    const by = { "": "zero", zero: "mean", mean: "" }[this.offBy(key)];
    const others = this.edits.filter((edit) => edit.key !== key);
    const said = `head ${name} (${this.page.named(part)[1]}) ${by === "zero" ? "off" : "reads all alike"}`;
    const edit = { key, by, said, asked: [{ kind: "off", layer: layer.name, head, by }] };
    this.change(by ? [...others, edit] : others);
  }

  readOnly() {
    const { key, query, keys } = this.page.picked, { long } = this.page.attention.header, begin = long?.first ?? 0;
    const { layer, head, name } = this.page.attention.heads.get(key);
    const places = Array.from({ length: keys.end - keys.begin }, (_, i) => begin + keys.begin + i);
    const weights = Object.fromEntries(places.map((place) => [place, 1 / places.length]));
    const asked = [];
    for (let at = query.begin; at < query.end; at++)
      asked.push({ kind: "overwritten", layer: layer.name, head, place: begin + at + layer.first, weights });
    this.change([...this.edits, { said: `in head ${name}, “${query.text}” reads only “${keys.text}”`, asked }]);
  }

  // Two buttons beside a candidate.
  choice(place, token, text, written) {
    const box = make("span", "", { className: "choices" });
    const add = (kind, label) => {
      const button = make("button", label, { type: "button" });
      button.setAttribute("aria-label", `${label} “${text}” here`);
      const said = `“${text}” ${kind} at place ${place}`;
      button.addEventListener("click", () => {
        const others = this.edits.filter((edit) => kind !== "forced" || edit.forced !== place);
        this.change([...others, { said, asked: [{ kind, place, token }], forced: kind === "forced" ? place : null }]);
      });
      box.append(button);
    };
    if (!written) add("forced", "force");
    add("forbidden", "forbid");
    return box;
  }

  async save() {
    const page = await this.post("save", { ...this.sent, tried: this.tried });
    download("attention.html", await page.blob(), "text/html");
  }
}

const sayTried = (what, one) => ({ what, wrote: one.header.wrote, log: one.header.numbers ? null : total(one) });
const shortName = (name) => name.split(/[\\/]/).filter(Boolean).at(-1) ?? name;
const total = (attention) => (attention.header.candidates ?? []).reduce((sum, one) => sum + one.log, 0);

// The words, with those marked that the other has not, in order.
function marked(words, others) {
  const rows = Array.from({ length: words.length + 1 }, () => new Uint16Array(others.length + 1));
  for (let i = words.length - 1; i >= 0; i--)
    for (let j = others.length - 1; j >= 0; j--)
      rows[i][j] = words[i] === others[j] ? rows[i + 1][j + 1] + 1 : Math.max(rows[i + 1][j], rows[i][j + 1]);
  const found = make("dd", "", { dir: "auto" });
  for (let i = 0, j = 0; i < words.length; i++) {
    while (j < others.length && words[i] !== others[j] && rows[i][j + 1] >= rows[i + 1][j]) j++;
    const same = words[i] === others[j];
    if (same) j++;
    found.append(make(same ? "span" : "mark", words[i]), " ");
  }
  return found;
}

new Live();
