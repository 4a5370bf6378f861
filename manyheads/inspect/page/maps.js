// Maps of heads: all of a part as small ones, one of them large.

import { sayShare } from "./data.js";
import { CanvasSurface, paint } from "./surface.js";

const GAP = 10, LEFT = 22, TOP = 20, BAR = 5;

// Layers down, heads across; below each map a bar for what the output loses without that head.
export class Grid {
  constructor(canvas, { onChoose, onSay }) {
    this.canvas = canvas;
    this.onSay = onSay;
    canvas.addEventListener("click", (event) => {
      const head = this.at(event.offsetX, event.offsetY);
      if (head) onChoose(head.key, event.shiftKey || event.ctrlKey || event.metaKey);
    });
    canvas.addEventListener("pointermove", (event) => {
      const head = this.at(event.offsetX, event.offsetY);
      this.say(head ? head.key : this.shown?.chosen.at(-1));
      canvas.style.cursor = head ? "pointer" : "";
    });
    canvas.addEventListener("pointerleave", () => this.say(this.shown?.chosen.at(-1)));
    canvas.addEventListener("keydown", (event) => this.move(event, onChoose));
  }

  // "head 3.2: without it, the output is 3 times less likely"
  say(key) {
    const head = this.shown?.heads.find((one) => one.key === key);
    this.onSay(!head ? "" : `head ${head.name}` + (head.worth === null ? "" : `: ${this.shown.sayWorth(head)}`));
  }

  move(event, onChoose) {
    const [down, across] = { ArrowLeft: [0, -1], ArrowRight: [0, 1], ArrowUp: [-1, 0], ArrowDown: [1, 0] }[event.key] ?? [0, 0];
    if (!down && !across) return;
    event.preventDefault();
    const { heads, chosen } = this.shown, now = heads.find((head) => head.key === chosen.at(-1));
    const find = (layer, number) => heads.find((head) => head.layer.layer === layer && head.head === number);
    const step = (head) => (head ? find(head.layer.layer + down, head.head + across) : heads[0]);
    let next = step(now);
    while (next && event.shiftKey && chosen.includes(next.key)) next = step(next);
    if (next) onChoose(next.key, event.shiftKey);
  }

  at(x, y) {
    return this.shown?.heads.find((head) => {
      const [left, top] = this.corner(head);
      return x >= left && x < left + this.width && y >= top && y < top + this.height + BAR + 3;
    });
  }

  corner(head) {
    return [LEFT + head.head * (this.width + GAP), TOP + head.layer.layer * (this.height + GAP + BAR + 3)];
  }

  // shown: { heads, chosen, mapOf, colours, dearest, sayWorth }
  draw(shown) {
    const columns = 1 + Math.max(...shown.heads.map((head) => head.head));
    const layers = 1 + Math.max(...shown.heads.map((head) => head.layer.layer));
    this.shown = { ...shown, columns, layers };
    const space = this.canvas.parentElement.clientWidth;
    const { rows, columns: across } = shown.mapOf(shown.heads[0]);
    this.width = Math.max(24, Math.min(116, Math.floor((space - LEFT) / columns - GAP)));
    this.height = Math.max(24, Math.min(1.4 * this.width, Math.round((this.width * rows) / across)));
    const width = LEFT + columns * (this.width + GAP) - GAP + 3;
    const height = TOP + layers * (this.height + GAP + BAR + 3) - GAP + 2;
    this.size = [width, height];
    Object.assign(this.canvas.style, { width: `${width}px`, height: `${height}px` });
    const surface = new CanvasSurface(this.canvas, width, height);
    this.drawMaps(surface);
    this.frame(surface);
    this.say(shown.chosen.at(-1));
  }

  // All maps are one image: one write, however many there are.
  drawMaps(surface) {
    const { scale } = surface, { heads, mapOf, colours } = this.shown;
    const [w, h] = [this.canvas.width, this.canvas.height];
    const image = surface.context.createImageData(w, h);
    const pixels = new Uint32Array(image.data.buffer);
    for (const head of heads) {
      const [x, y] = this.corner(head).map((one) => Math.round(one * scale));
      paint(pixels, w, x, y, Math.round(this.width * scale), Math.round(this.height * scale), mapOf(head), colours);
    }
    surface.context.putImageData(image, 0, 0);
  }

  frame(surface) {
    const { heads, chosen, colours, dearest, columns, layers } = this.shown;
    const label = { fill: colours.muted, size: 11 };
    for (let head = 0; head < columns; head++)
      surface.text(LEFT + head * (this.width + GAP) + this.width / 2, 9, String(head), { ...label, align: "center" });
    for (let layer = 0; layer < layers; layer++)
      surface.text(8, TOP + layer * (this.height + GAP + BAR + 3) + this.height / 2, String(layer), { ...label, align: "center" });
    for (const head of heads) {
      const [x, y] = this.corner(head), number = chosen.indexOf(head.key);
      surface.rect(x, y, this.width, this.height, { stroke: colours.rule });
      const cost = Math.max(0, head.worth ?? 0) / dearest;
      surface.rect(x, y + this.height + 4, this.width, 3, { fill: colours.rule });
      surface.rect(x, y + this.height + 4, this.width * cost, 3, { fill: colours.muted });
      if (number >= 0) surface.rect(x - 1.5, y - 1.5, this.width + 3, this.height + 3, { stroke: colours.heads[number], line: 3 });
    }
  }

  export(surface) {
    for (const head of this.shown.heads)
      surface.map(this.shown.mapOf(head), ...this.corner(head), this.width, this.height, this.shown.colours);
    this.frame(surface);
  }
}

// One head, with its words.
export class LargeMap {
  constructor(frame, { onCell, onPin }) {
    this.frame = frame;
    [this.canvas, this.over] = frame.querySelectorAll("canvas");
    this.over.addEventListener("pointermove", (event) => this.look(this.cell(event.offsetX, event.offsetY), onCell));
    this.over.addEventListener("pointerleave", () => this.look(null, onCell));
    this.over.addEventListener("click", () => this.here && onPin("queries", this.here[0]));
    this.over.addEventListener("keydown", (event) => {
      const step = { ArrowLeft: [0, -1], ArrowRight: [0, 1], ArrowUp: [-1, 0], ArrowDown: [1, 0] }[event.key];
      if (event.key === "Enter" && this.here) onPin("queries", this.here[0]);
      if (!step) return;
      event.preventDefault();
      const { rows, columns } = this.shown.map, [row, column] = this.here ?? [0, 0];
      const clamp = (value, end) => Math.max(0, Math.min(end - 1, value));
      this.look(this.here ? [clamp(row + step[0], rows), clamp(column + step[1], columns)] : [0, 0], onCell);
    });
  }

  cell(x, y) {
    const { rows, columns } = this.shown.map;
    const row = Math.floor((y - this.top) / this.height), column = Math.floor((x - this.left) / this.width);
    return row >= 0 && row < rows && column >= 0 && column < columns ? [row, column] : null;
  }

  look(here, onCell) {
    this.here = here;
    this.mark(here);
    onCell(here);
  }

  // shown: { map, units, colours, colour }
  draw(shown) {
    this.shown = shown;
    const { map, units } = shown, space = this.frame.clientWidth;
    const measure = this.canvas.getContext("2d");
    measure.font = "13px system-ui";
    const longest = (side) => Math.min(124, 12 + 1.05 * Math.max(1, ...side.map((unit) => measure.measureText(unit.text).width)));
    this.named = map.columns <= 64 && map.rows <= 64;
    this.left = this.named ? longest(units.queries) : 14;
    this.top = this.named ? longest(units.keys) * 0.78 + 6 : 14;
    this.width = Math.min(34, (space - this.left - (this.named ? 34 : 2)) / map.columns);
    this.height = Math.min(this.width, 560 / map.rows);
    this.size = [Math.min(space, this.left + this.width * map.columns + (this.named ? 34 : 2)), this.top + this.height * map.rows + 2];
    for (const canvas of [this.canvas, this.over])
      Object.assign(canvas.style, { width: `${this.size[0]}px`, height: `${this.size[1]}px` });
    this.export(new CanvasSurface(this.canvas, ...this.size));
    if (this.here?.[0] >= map.rows || this.here?.[1] >= map.columns) this.here = null;
    this.mark(this.here ?? null);
  }

  export(surface) {
    const { map, units, colours } = this.shown;
    surface.map(map, this.left, this.top, this.width * map.columns, this.height * map.rows, colours);
    surface.rect(this.left, this.top, this.width * map.columns, this.height * map.rows, { stroke: colours.rule });
    if (!this.named) return;
    const size = Math.max(7, Math.min(13, this.height * 0.8));
    const cut = (text) => (text.length > 16 ? `${text.slice(0, 15)}…` : text);
    units.queries.forEach((unit, i) => surface.text(this.left - 6, this.top + (i + 0.5) * this.height, cut(unit.text), { fill: colours.ink, size, align: "right" }));
    units.keys.forEach((unit, j) => surface.text(this.left + (j + 0.5) * this.width, this.top - 7, cut(unit.text), { fill: colours.ink, size, turn: unit.sign ? 0 : -Math.PI / 4 }));
  }

  // A cross over what is looked at: the map below is not drawn again.
  mark(here, pinned = this.pinned) {
    this.pinned = pinned;
    const surface = new CanvasSurface(this.over, ...this.size);
    const { map, colours, colour } = this.shown;
    const [across, down] = [this.width * map.columns, this.height * map.rows];
    if (pinned !== null && pinned !== undefined && pinned < map.rows)
      surface.rect(this.left, this.top + pinned * this.height, across, this.height, { stroke: colours.ink, line: 1.5 });
    if (!here) return;
    const [row, column] = here;
    surface.rect(this.left, this.top + row * this.height, across, this.height, { stroke: colours.muted });
    surface.rect(this.left + column * this.width, this.top, this.width, down, { stroke: colours.muted });
    surface.rect(this.left + column * this.width, this.top + row * this.height, this.width, this.height, { stroke: colours.heads[colour], line: 2.5 });
  }
}

export const sayCell = ([row, column], map, units) =>
  `“${units.queries[row].text}” reads “${units.keys[column].text}” ${sayShare(map, row, column)}`;
