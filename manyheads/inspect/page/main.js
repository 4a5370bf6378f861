// The page: what is chosen, and every view of it.

import { MEAN, ROLLED, decodeBase64, differ, makeNpz, percent, readPayload } from "./data.js";
import { CanvasSurface, SvgSurface, colours, paint } from "./surface.js";
import { Lines, sayLooked } from "./lines.js";
import { Grid, LargeMap, sayCell } from "./maps.js";
import { Ranking, fillBelow, fillCandidates, fillRow } from "./tables.js";
import { GraphView } from "./graph.js";
import { PictureView } from "./picture.js";
import { Roll } from "./roll.js";
import { Lens } from "./lens.js";
import { Tree } from "./tree.js";
import { download, keepFocus, readState, writeState } from "./state.js";

const PARTS = {
  cross: ["the output reads the source", "output reads source", "output", "source"],
  encoder: ["the source reads itself", "source reads source", "who reads", "what is read"],
  decoder: ["the output reads what is written so far", "output reads output", "output", "written so far"],
};
const MOST_HEADS = 6; // as many as there are colours
const byId = (id) => document.getElementById(id);
const tables = () => document.querySelectorAll("details[data-of]");

export class Page {
  // `other` is compared with, where there is one.
  constructor(attention, other = null) {
    this.state = readState();
    [this.first, this.both] = [attention, other && [attention, other]];
    this.looked = null;
    this.live = null; // who asks the model again, where the page is live
    const pin = (side, at) => this.pin(side, at);
    this.lines = new Lines(byId("lines"), { onHover: (side, at) => this.look(side, at), onPin: pin });
    this.grid = new Grid(byId("grid"), { onChoose: (key, more) => this.choose(key, more), onSay: (said) => { byId("grid-said").textContent = said; } });
    this.large = new LargeMap(byId("large"), { onCell: (cell) => this.cell(cell), onPin: (side, at) => { pin(side, at); this.pick(); } });
    this.tree = new Tree(byId("beam"), { onSay: (said) => { byId("beam-said").textContent = said; } });
    this.lens = new Lens(byId("lens"), { onSay: (said) => { byId("lens-said").textContent = said; }, onHover: (place) => this.lookAtPlace(place) });
    this.roll = new Roll(byId("roll"), { onHover: (side, at) => this.look(side, at), onPin: pin });
    this.graph = new GraphView(byId("graph"), { onHover: (side, at) => this.look(side, at), onPin: pin });
    this.picture = new PictureView(byId("picture"), { onHover: (side, at) => this.look(side, at), onPin: pin });
    this.ranking = new Ranking(byId("ranking"), {
      onChoose: (key, more) => this.choose(key, more), onSort: (sort) => this.set({ sort }),
    });
    this.listen();
    this.compareBy(this.state.versus);
  }

  // The first, the second, or how much more the first reads than the second.
  compareBy(versus) {
    this.state.versus = this.both ? versus : "";
    this.show(this.state.versus === "second" ? this.both[1] : this.both?.[0] ?? this.first);
  }

  get differs() {
    return this.state.versus === "difference";
  }

  mapOf(key) {
    const { part } = this.state, [one, other] = this.both ?? [];
    return this.differs ? differ(one.map(key, part, this.words), other.map(key, part, this.words)) : this.attention.map(key, part, this.words);
  }

  // Of both, where they are not the same words.
  unitsOf(side) {
    const [units, others] = (this.differs ? this.both : [this.attention]).map((one) => one.units(one.sides(this.state.part)[side], this.words));
    return others ? units.map((unit, i) => ({ ...unit, text: unit.text === others[i].text ? unit.text : `${unit.text} / ${others[i].text}` })) : units;
  }

  show(attention) {
    this.attention = attention;
    this.large.here = null;
    const { unit = "word" } = attention.header;
    byId("ranking-about").textContent = `Each head was switched off by itself. ${attention.header.numbers
      ? "Worth is how far the answer then moves, in standard deviations of what was learned from."
      : `Worth is what the log-probability of the same output then loses${attention.header.sides.written ? `; pin a ${unit} to see it for that ${unit}` : ""}.`}`;
    const { model, task } = attention.header;
    const name = (model ?? "").split(/[\\/]/).filter(Boolean).at(-1);
    byId("title").textContent = name ? `What ${name} looked at` : "What the model looked at";
    document.title = byId("title").textContent;
    const { note, long } = attention.header;
    byId("made").textContent = task ?? "";
    byId("long").hidden = !note;
    byId("long-about").textContent = note ?? "";
    document.querySelector(".ask-part").hidden = !long;
    this.order = ["cross", "encoder", "decoder"].filter((part) => attention.parts.includes(part));
    this.order.push(...attention.parts.filter((part) => !this.order.includes(part)));
    if (!this.order.includes(this.state.part)) this.state.part = this.order[0];
    if (!this.order.includes(this.state.only)) this.state.only = "all";
    byId("parts").replaceChildren(...this.order.map((part) => {
      const button = Object.assign(document.createElement("button"), { type: "button", textContent: this.named(part)[0] });
      button.dataset.part = part;
      button.addEventListener("click", () => this.set({ part, heads: MEAN, side: "", at: "" }));
      return button;
    }));
    byId("only").replaceChildren(...["all", ...this.order].map((part) =>
      Object.assign(document.createElement("option"), { value: part, textContent: part === "all" ? "all heads" : this.named(part)[0] })));
    showTried(attention.header.tried);
    this.render();
  }

  named(part) {
    return this.attention.header.parts?.[part] ?? PARTS[part] ?? [part, part, "rows", "columns"];
  }

  set(changes) {
    Object.assign(this.state, changes);
    keepFocus(() => this.render());
  }

  choose(key, more = false) {
    const { part } = this.attention.heads.get(key);
    const same = part === this.state.part, now = this.chosen.filter((one) => this.attention.heads.has(one));
    let heads = [key];
    if (more && same) heads = now.includes(key) ? now.filter((one) => one !== key) : [...now, key].slice(-MOST_HEADS);
    this.set({ part, heads: heads.join(" ") || MEAN, ...(same ? {} : { side: "", at: "" }) });
  }

  pin(side, at) {
    const again = this.pinned && this.pinned.side === side && this.pinned.at === at;
    this.set(again ? { side: "", at: "" } : { side, at: String(at) });
  }

  get words() {
    return this.state.words === "1" || this.differs; // words can be as many where pieces are not
  }

  get pinned() {
    const { side, at } = this.state;
    return this.units?.[side]?.[+at] && at !== "" ? { side, at: +at } : null;
  }

  // The word of the output that is pinned.
  pinnedWord() {
    const written = this.attention.sides(this.state.part).queries === "written";
    return written && this.pinned?.side === "queries" ? this.units.queries[this.pinned.at] : null;
  }

  // What is not a row of words is drawn as what it is.
  get shaped() {
    const { roll, graph, picture } = this.attention.header;
    return !!(roll || graph || picture);
  }

  get theme() {
    return ["dark", "light"].includes(this.state.theme) ? this.state.theme : (matchMedia("(prefers-color-scheme: dark)").matches ? "dark" : "light");
  }

  // Everything, from what is chosen.
  render() {
    const { attention, state } = this;
    const known = state.heads.split(" ").filter((key) => attention.heads.get(key)?.part === state.part);
    this.chosen = known.length ? known.slice(0, MOST_HEADS) : [state.heads === ROLLED && !attention.header.long ? ROLLED : MEAN];
    state.heads = this.chosen.join(" ");
    document.documentElement.dataset.theme = this.theme;
    this.colours = colours(this.theme);
    this.units = { queries: this.unitsOf("queries"), keys: this.unitsOf("keys") };
    const path = this.findPath();
    if (!path) state.through = "";
    this.maps = (state.through ? [path] : this.chosen).map((key, colour) => ({
      key, colour, map: this.mapOf(key), name: this.nameOf(key),
    }));
    this.controls();
    this.live?.controls(this.maps);
    byId("only-this").hidden = true;
    if (!this.shaped) {
      this.lines.fill("keys", this.units.keys);
      this.lines.fill("queries", this.units.queries);
      this.lines.layout();
    }
    this.draw();
    writeState({ ...state, part: state.part === this.order[0] ? "" : state.part });
  }

  // "a>b" where two heads of different layers are chosen that read the same tokens, all of which are there.
  findPath() {
    if (this.attention.header.long) return null;
    const [a, b, more] = this.chosen.map((key) => this.attention.heads.get(key));
    if (!a || !b || more || a.layer.layer === b.layer.layer || this.state.part === "cross") return null;
    return a.layer.layer > b.layer.layer ? `${a.key}>${b.key}` : `${b.key}>${a.key}`;
  }

  nameOf(key) {
    if (key === MEAN) return "mean of all heads";
    if (key === ROLLED) return "rolled out over all layers";
    return key.split(">").map((one) => `head ${this.attention.heads.get(one).name}`).join(" through ");
  }

  controls() {
    const { roll, graph, picture, long } = this.attention.header;
    for (const [id, there] of Object.entries({ roll, graph, picture, lines: !this.shaped, units: !this.shaped && !(long?.group > 1) }))
      byId(id).hidden = !there;
    const [, , rows, columns] = this.named(this.state.part);
    for (const button of byId("parts").children) button.ariaPressed = button.dataset.part === this.state.part;
    byId("versus").hidden = !this.both;
    for (const button of byId("versus").children) button.ariaPressed = button.dataset.versus === (this.state.versus || "first");
    byId("versus-about").hidden = !this.differs;
    document.body.classList.toggle("differs", this.differs); // what is of one alone is not shown
    byId("versus-about").textContent = this.differs ? `Blue: more than in “${this.both[1].header.name}”; orange: less.` : "";
    byId("words").ariaPressed = this.words;
    byId("pieces").ariaPressed = !this.words;
    byId("mean").ariaPressed = this.chosen[0] === MEAN;
    byId("rolled").hidden = !!long; // a row of it is not all that is read
    byId("rolled").ariaPressed = this.chosen[0] === ROLLED;
    byId("through").hidden = !this.findPath();
    byId("through").ariaPressed = !!this.state.through;
    byId("theme").textContent = this.theme === "dark" ? "light" : "dark";
    byId("only").value = this.state.only;
    byId("only").parentElement.hidden = this.order.length < 2;
    const { read, wrote } = this.attention.header;
    document.querySelector(".told .exports").hidden = !!roll; // it has its own
    byId("both").hidden = this.differs || !wrote || (read && wrote.startsWith(read)) || this.state.part === "cross" || read.length + wrote.length > 300;
    byId("both").textContent = read ? `${read} → ${wrote}` : wrote;
    byId("keys-label").textContent = columns;
    byId("queries-label").textContent = rows;
    byId("maps-are").textContent = this.attention.header.picture
      ? "Each map is the picture, stronger in colour where that pixel reads more." : `In each map, rows: ${rows}; columns: ${columns}.`;
    const chips = this.chosen.filter((key) => this.attention.heads.has(key)).map((key, colour) => {
      const chip = Object.assign(document.createElement("button"), { type: "button", className: "chip", textContent: this.nameOf(key) });
      chip.style.borderColor = chip.style.color = this.colours.heads[colour];
      chip.title = "leave it out";
      chip.addEventListener("click", () => this.choose(key, true));
      return chip;
    });
    byId("chips").replaceChildren(...chips);
    byId("heads-shown").textContent = this.maps.map(({ name }) => name).join(", ");
    byId("map-title").textContent = this.maps[0].name.replace(/^./, (letter) => letter.toUpperCase());
  }

  draw() {
    const { attention, state, colours: theme } = this;
    const heads = attention.of(state.part), word = this.pinnedWord();
    attention.weigh(word);
    byId("ranking-title").textContent = `What each head is worth${word ? ` for “${word.text}”` : ""}`;
    this.gridShown = {
      heads, chosen: this.chosen, colours: theme, dearest: attention.dearest,
      mapOf: (head) => this.mapOf(head.key),
      sayWorth: (head) => attention.sayWorth(head, word),
    };
    if (!attention.header.picture) this.grid.draw(this.gridShown);
    this.large.draw({ map: this.maps[0].map, units: this.units, colours: theme, colour: 0 });
    this.cell(this.large.here);
    this.ranking.draw({
      sayWorth: (head) => attention.sayWorth(head, word), apart: attention.header.apart,
      heads: [...attention.heads.values()].filter((head) => state.only === "all" || head.part === state.only),
      dearest: attention.dearest, sort: state.sort, chosen: this.chosen, colours: theme,
      names: Object.fromEntries(this.order.map((part) => [part, this.named(part)[1]])),
    });
    const scale = byId("scale").getContext("2d"), image = scale.createImageData(256, 1);
    new Uint32Array(image.data.buffer).set(this.differs ? theme.apart : theme.shades);
    byId("legend-low").textContent = this.differs ? "−100 %" : "0";
    scale.putImageData(image, 0, 0);
    const { beam } = attention.header;
    byId("beam-section").hidden = !beam?.steps.length;
    if (beam?.steps.length) this.tree.draw({ beam, colours: theme });
    const { lens, candidates, sides: { written }, wrote } = attention.header;
    byId("lens-section").hidden = !lens?.length;
    if (lens?.length) this.lens.draw({ lens, candidates, names: written?.tokens ?? candidates.map(({ of }) => of ?? wrote), colours: theme });
    for (const details of tables()) fillBelow(details, this[details.dataset.of]);
    this.look(null, null);
  }

  // What is under the pointer, else what is pinned.
  look(side, at) {
    const { roll, graph, picture } = this.attention.header;
    this.looked = at !== null && at !== undefined ? { side, at } : this.pinned;
    if (picture) this.looked ??= { side: "queries", at: this.leastSure().begin };
    const { maps, units, looked, pinned, colours } = this;
    if (picture) this.drawPicture(picture);
    else if (graph) this.graph.draw({ graph, units, maps, looked, pinned, colours });
    else if (roll) this.roll.draw({ roll, maps, looked, colours });
    else this.lines.draw({ maps, looked, pinned, colours });
    this.large.mark(this.large.here ?? null, this.looked?.side === "queries" ? this.looked.at : null);
    const chosen = this.pinned || (at ?? null) !== null ? "" : "The model was least sure here: "; // of a picture
    byId("said").textContent = looked ? chosen + sayLooked(looked, maps, units) : `Point at a ${this.attention.header.unit ?? "word"} to see what it reads.`;
    this.beside();
  }

  // Small maps are over the picture too.
  drawPicture(picture) {
    const { maps, looked, pinned, colours, attention, state } = this;
    this.picture.draw({ picture, maps, looked, pinned, colours });
    this.grid.draw({ ...this.gridShown, mapOf: (head) => attention.over(picture, attention.map(head.key, state.part, this.words), looked.at) });
  }

  // A token of the output, wherever it stands: looked at, where it reads here.
  lookAtPlace(place) {
    const found = this.units.queries.findIndex((unit) => unit.begin <= place && place < unit.end);
    if (this.attention.sides(this.state.part).queries === "written") this.look("queries", place === null || found < 0 ? null : found);
  }

  // The cell that was clicked: a live page can let the head read that alone.
  pick() {
    const [row, column] = this.large.here, [{ key }] = this.maps, button = byId("only-this");
    button.hidden = !this.live || !this.attention.heads.has(key) || !!this.attention.header.picture || this.attention.header.long?.group > 1;
    button.textContent = `let “${this.units.queries[row].text}” read only “${this.units.keys[column].text}” here`;
    this.picked = { key, query: this.units.queries[row], keys: this.units.keys[column] };
  }

  cell(cell) {
    byId("cell").textContent = cell ? `${this.maps[0].name}: ${sayCell(cell, this.maps[0].map, this.units)}` : "";
  }

  // What else could stand at this place, and the row in numbers.
  beside() {
    const query = this.looked?.side === "queries" ? this.looked.at : null;
    const { candidates } = this.attention.header, sides = this.attention.sides(this.state.part);
    const list = byId("candidates"), about = byId("candidates-about");
    const { numbers, wrote } = this.attention.header, written = this.attention.header.sides.written;
    const says = !written && (candidates || numbers);
    byId("candidates-title").textContent = says ? "What the model says" : candidates ? "What else could stand here" : "In numbers";
    if (says) {
      about.textContent = numbers ? wrote : candidates.length > 1 ? "" : `“${wrote}” has ${percent(candidates[0].p)}`;
      fillCandidates(list, candidates ?? [], 0, null, candidates?.map(() => wrote));
    } else if (!candidates || sides.queries !== "written") {
      list.replaceChildren();
      about.textContent = this.likely();
    } else {
      const unit = query === null ? this.leastSure() : this.units.queries[query], some = candidates.slice(unit.begin, unit.end);
      about.textContent = `${query === null ? "The model was least sure here: " : ""}“${some[0].of ?? unit.text}” has ${percent(some.reduce((product, one) => product * one.p, 1))}` +
        (some.length > 1 ? ` in ${some.length} pieces, one after another` : "");
      // Notes and pixels are not written one by one here: none is forced or forbidden.
      const { roll, picture } = this.attention.header;
      fillCandidates(list, some, unit.begin, roll || picture ? null : this.live, this.attention.header.sides.written.tokens);
    }
    byId("instead").textContent = query === null ? "" : this.instead(query);
    byId("numbers").hidden = query === null;
    if (query !== null && byId("numbers").open) fillRow(byId("row"), query, this.maps, this.units);
  }

  // "written with 92 %; instead: “had” 1.4 %, “got” 0.8 %"
  instead(query) {
    const { candidates } = this.attention.header;
    if (!candidates || this.attention.sides(this.state.part).queries !== "written") return "";
    const { id, p, best, of } = candidates[this.units.queries[query].begin];
    const others = best.filter(([other]) => ![id].flat().includes(other)).slice(0, 3).map(([, text, share]) => `“${text}” ${percent(share)}`);
    return `${of ? `“${of}” was ` : ""}written with ${percent(p)}; instead: ${others.join(", ")}`;
  }

  leastSure() {
    const { candidates, sides } = this.attention.header, all = candidates.map((one) => one.p);
    const begin = all.indexOf(Math.min(...all));
    return { begin, end: begin + 1, text: sides.written.tokens[begin] };
  }

  likely() {
    const { candidates } = this.attention.header;
    if (!candidates?.length) return "";
    const log = candidates.reduce((sum, one) => sum + one.log, 0);
    return `The output has a log-probability of ${log.toFixed(2)}.`;
  }

  listen() {
    byId("words").addEventListener("click", () => this.set({ words: "1", side: "", at: "" }));
    byId("pieces").addEventListener("click", () => this.set({ words: "0", side: "", at: "" }));
    for (const button of byId("versus").children) button.addEventListener("click", () => this.compareBy(button.dataset.versus));
    byId("mean").addEventListener("click", () => this.set({ heads: MEAN }));
    byId("rolled").addEventListener("click", () => this.set({ heads: ROLLED }));
    byId("through").addEventListener("click", () => this.set({ through: this.state.through ? "" : "1" }));
    byId("only").addEventListener("change", (event) => this.set({ only: event.target.value }));
    byId("theme").addEventListener("click", () => this.set({ theme: this.theme === "dark" ? "light" : "dark" }));
    byId("help-open").addEventListener("click", () => byId("help").showModal());
    byId("numbers").addEventListener("toggle", () => this.beside());
    for (const details of tables()) details.addEventListener("toggle", () => fillBelow(details, this[details.dataset.of]));
    byId("npz").addEventListener("click", () => download("attention.npz", makeNpz(this.attention), "application/zip"));
    for (const box of document.querySelectorAll(".exports")) {
      for (const kind of ["SVG", "PNG"]) {
        const button = Object.assign(document.createElement("button"), { type: "button", className: "quiet", textContent: kind });
        button.setAttribute("aria-label", `save ${box.dataset.view} as ${kind}`);
        button.addEventListener("click", () => this.save(box.dataset.view, kind));
        box.append(button);
      }
    }
    addEventListener("keydown", (event) => this.key(event));
    addEventListener("hashchange", () => { this.state = readState(); this.compareBy(this.state.versus); });
    matchMedia("(prefers-color-scheme: dark)").addEventListener("change", () => this.render());
    let width = innerWidth;
    addEventListener("resize", () => { if (innerWidth !== width) { width = innerWidth; this.render(); } });
  }

  key(event) {
    if (event.target.closest("input, textarea, select, dialog[open]") || event.ctrlKey || event.metaKey || event.altKey) return;
    const part = this.order["123".indexOf(event.key)];
    if (event.key === "?") byId("help").showModal();
    else if (event.key === "Escape") this.set({ side: "", at: "" });
    else if (event.key === "w") this.set({ words: this.words ? "0" : "1", side: "", at: "" });
    else if (event.key === "m") this.set({ heads: MEAN });
    else if (event.key === "r") this.set({ heads: ROLLED });
    else if (event.key === "t") byId("theme").click();
    else if (event.key === "[" || event.key === "]") this.step(event.key === "]" ? 1 : -1);
    else if (part && event.key.length === 1) this.set({ part, heads: MEAN, side: "", at: "" });
    else return;
    event.preventDefault();
  }

  step(by) {
    const keys = this.attention.of(this.state.part).map((head) => head.key);
    const at = keys.indexOf(this.chosen[0]);
    this.choose(keys[(at + by + keys.length) % keys.length]);
  }

  save(view, kind) {
    const { graph, picture, roll } = this.attention.header;
    const shape = graph ? this.graph : picture ? this.picture : roll ? this.roll : this.lines;
    const drawn = { lines: shape, grid: this.grid, map: this.large, beam: this.tree, lens: this.lens, roll: this.roll }[view];
    if (kind === "SVG") {
      const surface = new SvgSurface(...drawn.size, this.colours.paper);
      drawn.export(surface);
      download(`${view}.svg`, String(surface), "image/svg+xml");
      return;
    }
    const surface = new CanvasSurface(document.createElement("canvas"), ...drawn.size, 2);
    surface.rect(0, 0, ...drawn.size, { fill: this.colours.paper });
    drawn.export(surface);
    // At once, while the click lasts: toBlob waits until the browser is idle.
    download(`${view}.png`, decodeBase64(surface.canvas.toDataURL("image/png").split(",")[1]), "image/png");
  }
}

function showTried(tried) {
  const known = [tried ?? []].flat().filter((one) => one?.what);
  byId("tried").hidden = !known.length;
  byId("tried-list").replaceChildren(...known.flatMap(({ what, wrote, log }) => {
    const [term, said] = ["dt", "dd"].map((tag) => document.createElement(tag));
    term.textContent = String(what);
    said.textContent = log === null ? String(wrote) : `${wrote} (log-probability ${Number(log).toFixed(2)})`;
    return [term, said];
  }));
}

const held = byId("data");
if (held) {
  const began = performance.now();
  const texts = [held, byId("versus-data")].filter(Boolean).map((script) => decodeBase64(script.textContent));
  Promise.all(texts.map(readPayload)).then(([attention, other]) => {
    const page = new Page(attention, other);
    document.body.dataset.ready = String(Math.round(performance.now() - began));
    globalThis.manyheads = page; // to look at from a console
  });
}
