// What it would have written after each layer: the likeliest token there, as dark as it is likely.

import { percent } from "./data.js";
import { CanvasSurface, reveal, shade } from "./surface.js";

const HIGH = 27, ABOVE_ALL = 30, BESIDE = 96, MOST_COLUMNS = 160;

export class Lens {
  constructor(canvas, { onSay, onHover }) {
    this.canvas = canvas;
    canvas.addEventListener("pointermove", (event) => this.look(this.at(event.offsetX, event.offsetY), onSay, onHover));
    canvas.addEventListener("pointerleave", () => this.look(null, onSay, onHover));
    canvas.addEventListener("keydown", (event) => {
      const [across, down] = { ArrowLeft: [-1, 0], ArrowRight: [1, 0], ArrowUp: [0, -1], ArrowDown: [0, 1] }[event.key] ?? [0, 0];
      if (!across && !down) return;
      event.preventDefault();
      const [layer, column] = this.here ?? [0, -1], clamp = (value, count) => Math.max(0, Math.min(count - 1, value));
      this.look([clamp(layer + down, this.rows.length), clamp(column + (this.here ? across : 1), this.names.length)], onSay, onHover);
      reveal(canvas, this.lefts[this.here[1]] - BESIDE, BESIDE + this.widths[this.here[1]]);
    });
  }

  // shown: { lens, candidates, names, colours }; the output is the last row.
  draw(shown) {
    this.shown = shown;
    this.here = null;
    this.names = shown.names.slice(0, MOST_COLUMNS);
    this.rows = [...shown.lens, shown.candidates.map(({ best, p }) => [best[0][1], best[0][2], p])];
    const measure = this.canvas.getContext("2d");
    measure.font = "14px system-ui";
    const wide = (text) => Math.min(130, measure.measureText(text).width * 1.06);
    this.widths = this.names.map((name, i) => 16 + Math.max(22, wide(name), ...this.rows.map((row) => wide(row[i][0]))));
    this.lefts = this.widths.reduce((found, width) => [...found, found.at(-1) + width + 2], [BESIDE]);
    this.size = [this.lefts.at(-1) + 4, ABOVE_ALL + this.rows.length * (HIGH + 2) + 4];
    Object.assign(this.canvas.style, { width: `${this.size[0]}px`, height: `${this.size[1]}px` });
    this.redraw();
  }

  redraw() {
    this.export(new CanvasSurface(this.canvas, ...this.size));
  }

  at(x, y) {
    const column = this.lefts.findLastIndex((left) => x >= left), row = Math.floor((y - ABOVE_ALL) / (HIGH + 2));
    return this.names[column] !== undefined && this.rows[row] ? [row, column] : null;
  }

  look(here, onSay, onHover) {
    if (String(here) === String(this.here)) return;
    this.here = here;
    this.redraw();
    onSay(here ? this.say(here) : "");
    onHover(here ? here[1] : null);
  }

  label(row) {
    return row === this.rows.length - 1 ? "the output" : row ? `after layer ${row - 1}` : "no layer";
  }

  table() {
    const rows = this.names.map((name, i) => [name, ...this.rows.map((row) => `${row[i][0]} ${percent(row[i][1])}`)]);
    return [["written", ...this.rows.map((_, row) => this.label(row))], rows];
  }

  say([row, column]) {
    const [text, share, own] = this.rows[row][column];
    const written = text === this.names[column] ? "" : `; “${this.names[column]}” has ${percent(own)}`;
    return `${this.label(row)}: “${text}” ${percent(share)}${written}`;
  }

  export(surface) {
    const { colours } = this.shown, cut = (text) => (text.length > 16 ? `${text.slice(0, 15)}…` : text);
    this.names.forEach((name, i) => surface.text(this.lefts[i] + this.widths[i] / 2, 14, cut(name), { fill: colours.ink, size: 14, align: "center", weight: 600 }));
    this.rows.forEach((row, r) => {
      const top = ABOVE_ALL + r * (HIGH + 2);
      surface.text(BESIDE - 10, top + HIGH / 2, this.label(r), { fill: colours.muted, size: 12, align: "right" });
      this.names.forEach((name, i) => {
        const [text, share] = row[i], value = Math.round(225 * share);
        surface.rect(this.lefts[i], top, this.widths[i], HIGH, { fill: shade(colours.shades, value) });
        const fill = value > (colours.theme === "light" ? 120 : 135) ? colours.paper : text === name || value > 40 ? colours.ink : colours.muted;
        surface.text(this.lefts[i] + this.widths[i] / 2, top + HIGH / 2, cut(text), { fill, size: 14, align: "center", weight: text === name ? 600 : 400 });
        if (this.here?.[0] === r && this.here[1] === i) surface.rect(this.lefts[i], top, this.widths[i], HIGH, { stroke: colours.heads[1], line: 3 });
      });
    });
  }
}
