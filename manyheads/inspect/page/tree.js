// The beam: what was looked at in every step, best first; what was kept goes on, the rest was cut.

import { CanvasSurface, reveal } from "./surface.js";

const ROW = 25, HEAD = 22, AIR = 26;

export class Tree {
  constructor(canvas, { onSay }) {
    this.canvas = canvas;
    canvas.addEventListener("pointermove", (event) => this.look(this.at(event.offsetX, event.offsetY), onSay));
    canvas.addEventListener("pointerleave", () => this.look(null, onSay));
    canvas.addEventListener("keydown", (event) => {
      const [across, down] = { ArrowLeft: [-1, 0], ArrowRight: [1, 0], ArrowUp: [0, -1], ArrowDown: [0, 1] }[event.key] ?? [0, 0];
      if (!across && !down) return;
      event.preventDefault();
      const { steps } = this.shown.beam, [step, at] = this.here ?? [0, -down];
      const next = Math.max(0, Math.min(steps.length - 1, step + across));
      this.look([next, Math.max(0, Math.min(steps[next].length - 1, at + down))], onSay);
      reveal(canvas, this.lefts[next] - AIR, AIR + this.widths[next] + 34);
    });
  }

  // shown: { beam, colours }
  draw(shown) {
    this.shown = shown;
    this.here = null;
    const measure = this.canvas.getContext("2d"), { steps } = shown.beam;
    measure.font = "14px system-ui";
    this.widths = steps.map((step) => Math.max(30, ...step.map(([, text, , state]) => Math.min(150, measure.measureText(text).width * 1.06) + (state === "cut" ? 20 : 4))));
    this.lefts = this.widths.reduce((found, width) => [...found, found.at(-1) + width + AIR + 34], [4]);
    const rows = Math.max(...steps.map((step) => step.length));
    this.size = [this.lefts.at(-1), HEAD + rows * ROW + 4];
    Object.assign(this.canvas.style, { width: `${this.size[0]}px`, height: `${this.size[1]}px` });
    this.redraw();
  }

  redraw() {
    this.export(new CanvasSurface(this.canvas, ...this.size));
  }

  at(x, y) {
    const { steps } = this.shown.beam, row = Math.floor((y - HEAD) / ROW);
    const step = this.lefts.findLastIndex((left) => x >= left - 6);
    return steps[step]?.[row] ? [step, row] : null;
  }

  look(here, onSay) {
    if (String(here) === String(this.here)) return;
    this.here = here;
    this.redraw();
    onSay(here ? this.say(here) : "");
  }

  // From its first token to this one.
  way([step, at]) {
    const found = [];
    for (let s = step, i = at; s >= 0 && i >= 0; i = this.shown.beam.steps[s][i][0], s--) found.unshift(i);
    return found;
  }

  words(here) {
    return this.way(here).map((i, s) => this.shown.beam.steps[s][i][1]).join(" ");
  }

  say([step, at]) {
    const [, , total, state] = this.shown.beam.steps[step][at];
    return `“${this.words([step, at])}”: log-probability ${total.toFixed(2)}, ${state}`;
  }

  table() {
    const rows = this.shown.beam.steps.flatMap((step, s) => step.map(([, , total, state], i) => [this.words([s, i]), s, total.toFixed(2), state]));
    return [["up to here", "step", "log-probability", "kept or cut"], rows];
  }

  export(surface) {
    const { beam: { steps, best }, colours } = this.shown;
    const way = this.here ? this.way(this.here) : best;
    const middle = (row) => HEAD + (row + 0.5) * ROW;
    steps.forEach((step, s) => {
      surface.text(this.lefts[s], 9, String(s), { fill: colours.muted, size: 11 });
      step.forEach(([parent, text, total, state], i) => {
        const on = way[s] === i, cut = state === "cut";
        if (s && parent >= 0 && (!cut || on)) {
          const from = [this.lefts[s] - AIR - 2, middle(parent)], to = [this.lefts[s] - 6, middle(i)];
          surface.curve(from, to, false, { stroke: on ? colours.accent : colours.muted, width: on ? 2.5 : 1, alpha: on ? 1 : 0.45 });
        }
        const fill = on ? colours.accent : cut ? colours.muted : colours.ink;
        const shown = text.length > 18 ? `${text.slice(0, 17)}…` : text;
        surface.text(this.lefts[s], middle(i), cut ? `✂ ${shown}` : shown, { fill, size: 14, weight: on ? 600 : 400 });
        surface.text(this.lefts[s] + this.widths[s] + 30, middle(i), total.toFixed(1), { fill: colours.muted, size: 10, align: "right" });
      });
    });
  }
}
