// A molecule or another graph: its edges, and what its nodes read along them and across.

import { shareAt } from "./data.js";
import { CanvasSurface, DASHES, followPointer, shade } from "./surface.js";

const ATOMS = {
  light: { O: "#c1121f", N: "#1d4ed8", S: "#8a6a00", P: "#a34e00", F: "#1f7a2c", Cl: "#1f7a2c", Br: "#8c2d04", I: "#6a1b9a" },
  dark: { O: "#ff8a80", N: "#8ab4ff", S: "#e6c84a", P: "#ffb061", F: "#7bdc8a", Cl: "#7bdc8a", Br: "#f0a07a", I: "#d3a4f5" },
};
const FAR = 14; // pairs without an edge that are drawn while no node is looked at
const LEAST_SHARE = 0.012; // of a line

export class GraphView {
  constructor(section, { onHover, onPin }) {
    this.section = section;
    this.canvas = section.querySelector("canvas");
    followPointer(this.canvas, (x, y) => this.nodeAt(x, y), { onHover, onPin });
    this.canvas.addEventListener("keydown", (event) => {
      const step = { ArrowLeft: -1, ArrowUp: -1, ArrowRight: 1, ArrowDown: 1 }[event.key], { looked } = this.shown;
      if (event.key === "Enter" && looked) onPin("queries", looked.at);
      if (!step) return;
      event.preventDefault();
      onHover("queries", Math.max(0, Math.min(this.spots.length - 1, (looked?.at ?? (step > 0 ? -1 : 1)) + step)));
    });
  }

  // shown: { graph, units, maps, looked, pinned, colours }
  draw(shown) {
    this.shown = shown;
    const { spots } = shown.graph, space = this.section.clientWidth;
    const [xs, ys] = [0, 1].map((axis) => spots.map((spot) => spot[axis]));
    const span = (values) => Math.max(...values) - Math.min(...values);
    this.scale = Math.max(14, Math.min(74, (space - 60) / Math.max(1, span(xs)), 400 / Math.max(1, span(ys))));
    this.radius = Math.max(8, 0.29 * this.scale);
    const margin = this.radius + 16, width = Math.max(space, span(xs) * this.scale + 2 * margin);
    const left = (width - span(xs) * this.scale) / 2;
    this.spots = spots.map(([x, y]) => [left + (x - Math.min(...xs)) * this.scale, margin + (Math.max(...ys) - y) * this.scale]);
    this.size = [width, span(ys) * this.scale + 2 * margin];
    Object.assign(this.canvas.style, { width: `${width}px`, height: `${this.size[1]}px` });
    this.export(new CanvasSurface(this.canvas, ...this.size));
  }

  nodeAt(x, y) {
    const near = this.spots.findIndex(([a, b]) => Math.hypot(a - x, b - y) <= this.radius + 4);
    return near < 0 ? null : near;
  }

  export(surface) {
    const { graph: { edges }, looked } = this.shown;
    this.joined = new Set(edges.flatMap(([i, j]) => [`${i} ${j}`, `${j} ${i}`]));
    this.shown.maps.forEach((one, number) => this.drawShares(surface, looked ? this.ofNode(one.map, looked) : this.ofPairs(one.map), one, number));
    for (const edge of edges) this.drawEdge(surface, edge);
    this.spots.forEach((spot, at) => this.drawNode(surface, spot, at));
  }

  // [from, to, share] of what one node reads, or is read by.
  ofNode(map, { side, at }) {
    const share = (i) => (side === "keys" ? shareAt(map, i, at) : shareAt(map, at, i));
    return this.spots.map((_, i) => [at, i, share(i)]).filter(([, i, one]) => i !== at && one >= LEAST_SHARE);
  }

  // Of all edges, and of the pairs without one that read each other most; both ways.
  ofPairs(map) {
    const found = [];
    for (let i = 0; i < map.rows; i++)
      for (let j = i + 1; j < map.columns; j++) found.push([i, j, (shareAt(map, i, j) + shareAt(map, j, i)) / 2]);
    const along = found.filter(([i, j]) => this.joined.has(`${i} ${j}`));
    const across = found.filter(([i, j, share]) => share > 2 / map.columns && !this.joined.has(`${i} ${j}`));
    return [...along, ...across.sort((a, b) => b[2] - a[2]).slice(0, FAR)];
  }

  drawShares(surface, pairs, { colour }, number) {
    const { colours, looked, maps } = this.shown, most = Math.max(0.05, ...pairs.map((pair) => pair[2]));
    for (const [i, j, share] of pairs.sort((a, b) => a[2] - b[2])) {
      const edge = this.joined.has(`${i} ${j}`), strong = share / most;
      surface.line(this.spots[i], this.spots[j], {
        stroke: colours.heads[colour], bend: edge ? 0.05 * number : 0.18 + 0.05 * number, dash: edge && maps.length < 2 ? [] : maps.length > 1 ? DASHES[number] : [5, 4],
        width: edge ? 1 + 0.3 * this.scale * strong : 0.8 + 4 * strong, alpha: looked ? 0.2 + 0.6 * strong : 0.12 + 0.5 * strong,
      });
    }
  }

  drawEdge(surface, [i, j, label]) {
    const { colours } = this.shown, [[x, y], [a, b]] = [this.spots[i], this.spots[j]];
    const kind = label.split(" ")[0].toUpperCase(), length = Math.hypot(a - x, b - y) || 1;
    const lines = { DOUBLE: [-1, 1], TRIPLE: [-2, 0, 2], AROMATIC: [-1, 1] }[kind] ?? [0];
    lines.forEach((side, number) => {
      const [right, down] = [((y - b) / length) * 2.2 * side, ((a - x) / length) * 2.2 * side];
      surface.line([x + right, y + down], [a + right, b + down], {
        stroke: colours.ink, width: 1.4, alpha: 0.75, dash: kind === "AROMATIC" && number ? [3, 3] : [],
      });
    });
  }

  drawNode(surface, [x, y], at) {
    const { graph: { labels }, units, looked, pinned, colours } = this.shown;
    const value = looked ? this.tone(at) : 0, here = (one) => one?.at === at;
    const dark = value > (colours.theme === "light" ? 130 : 165), label = labels[at] ?? units.queries[at].text;
    surface.circle(x, y, this.radius, {
      fill: value ? shade(colours.shades, value) : colours.paper,
      stroke: here(looked) || here(pinned) ? colours.accent : colours.rule, line: here(pinned) ? 4 : here(looked) ? 2.5 : 1.2,
    });
    const fill = dark ? colours.paper : ((value < 60 && ATOMS[colours.theme][label]) || colours.ink);
    const size = Math.max(8, Math.min(this.radius * 0.95, (2.6 * this.radius) / Math.max(1, label.length)));
    surface.text(x, y + 0.5, label.length > 7 ? `${label.slice(0, 6)}…` : label, { fill, size, align: "center", weight: 600 });
  }

  // How dark a node is: what the heads that are shown read of it, on average.
  tone(at) {
    const { maps, looked } = this.shown;
    const each = maps.map(({ map }) => (looked.side === "keys" ? shareAt(map, at, looked.at) : shareAt(map, looked.at, at)));
    const share = each.reduce((sum, one) => sum + one, 0) / maps.length;
    return share > 0.004 ? Math.round(235 * Math.sqrt(share)) : 0;
  }
}
