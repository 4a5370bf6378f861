// A picture that draws itself, pixel by pixel, and what one of them was drawn from.

import { shareAt } from "./data.js";
import { BRIGHT, CanvasSurface, followPointer } from "./surface.js";

const SECONDS = 2.5, GUTTER = 28, CAPTION = 20, DIM = 0.38;
const BLANK = { light: 0xe9e6e0, dark: 0x262a31 }; // what is not drawn yet

export class PictureView {
  constructor(section, { onHover, onPin }) {
    this.section = section;
    this.canvas = section.querySelector("canvas");
    this.button = section.querySelector("button");
    followPointer(this.canvas, (x, y) => this.spotAt(x, y), { onHover, onPin });
    this.canvas.addEventListener("keydown", (event) => this.move(event, onHover, onPin));
    this.button.addEventListener("click", () => this.play());
  }

  // To the pixel beside it, above or below.
  move(event, onHover, onPin) {
    const step = { ArrowLeft: [0, -1], ArrowRight: [0, 1], ArrowUp: [-1, 0], ArrowDown: [1, 0] }[event.key];
    if (event.key === "Enter") onPin("queries", this.shown.looked.at);
    if (!step) return;
    event.preventDefault();
    const { square, spots } = this.shown.picture, [row, column] = spots[this.shown.looked.at];
    const next = this.places.get(`${row + step[0] * square} ${column + step[1] * square}`);
    if (next !== undefined) onHover("queries", next);
  }

  // shown: { picture, maps, looked, pinned, colours }
  draw(shown) {
    const { picture } = (this.shown = shown), { rows, columns, spots } = picture, space = this.section.clientWidth;
    if (this.picture !== picture) {
      this.picture = picture;
      this.places = new Map(spots.map(([row, column], at) => [`${row} ${column}`, at]));
      this.drawn = spots.length;
      if (!matchMedia("(prefers-reduced-motion: reduce)").matches) this.play();
    }
    this.wide = space >= 620;
    const most = this.wide ? Math.min(440, (space - GUTTER) / 2) : Math.min(260, space);
    this.scale = Math.max(1, Math.floor(most / Math.max(rows, columns)));
    const [width, height] = [columns * this.scale, rows * this.scale];
    this.panels = this.wide ? [[(space - GUTTER) / 2 - width, CAPTION], [(space + GUTTER) / 2, CAPTION]] : [CAPTION, height + GUTTER + CAPTION].map((top) => [(space - width) / 2, top]);
    this.size = [space, CAPTION + (this.wide ? height : 2 * height + GUTTER + CAPTION) + 2];
    Object.assign(this.canvas.style, { width: `${this.size[0]}px`, height: `${this.size[1]}px` });
    this.redraw();
  }

  redraw() {
    this.export(new CanvasSurface(this.canvas, ...this.size));
  }

  spotAt(x, y) {
    const { rows, columns, square } = this.shown.picture;
    for (const [left, top] of this.panels) {
      const [row, column] = [Math.floor((y - top) / this.scale), Math.floor((x - left) / this.scale)];
      if (row >= 0 && row < rows && column >= 0 && column < columns)
        return this.places.get(`${row - (row % square)} ${column - (column % square)}`);
    }
    return null;
  }

  export(surface) {
    const { picture, looked, pinned, colours } = this.shown, [whole, seen] = this.panels;
    const label = { fill: colours.muted, size: 12 }, [row, column] = picture.spots[looked.at];
    surface.text(whole[0], 8, "the picture", label);
    surface.text(seen[0], seen[1] - 12, `what pixel ${row},${column} was drawn from`, label);
    surface.pixels(this.shade(this.drawn, false), picture.columns, ...whole, this.scale);
    surface.pixels(this.shade(looked.at, true), picture.columns, ...seen, this.scale);
    const size = picture.square * this.scale;
    for (const [left, top] of this.panels)
      surface.rect(left + column * this.scale - 1, top + row * this.scale - 1, size + 2, size + 2, { stroke: colours.theme === "dark" || pinned ? "#ffd23f" : "#ff9f1c", line: pinned ? 3 : 2 });
  }

  // 0xrrggbb of each pixel, as far as it is drawn; with what is read over it, the brighter the more.
  shade(drawn, read) {
    const { picture: { pixels, spots, columns, rows, square }, colours, maps, looked } = this.shown;
    const found = new Uint32Array(rows * columns).fill(BLANK[colours.theme]), each = maps.map(({ map }) => map);
    const most = each.map((map) => Math.max(1e-9, ...spots.map((_, at) => shareAt(map, looked.at, at + 1))));
    const own = read && each.some((map) => shareAt(map, looked.at, looked.at + 1)); // an earlier colour of it
    for (let at = 0; at < drawn + own && at < spots.length; at++) {
      const shares = read ? each.map((map, i) => Math.sqrt(shareAt(map, looked.at, at + 1) / most[i])) : [];
      for (let row = spots[at][0]; row < Math.min(rows, spots[at][0] + square); row++)
        for (let column = spots[at][1]; column < Math.min(columns, spots[at][1] + square); column++)
          found[row * columns + column] = this.mix(pixels[row * columns + column], read ? DIM : 1, shares);
    }
    return found;
  }

  mix(pixel, bright, shares) {
    const { maps } = this.shown;
    return [16, 8, 0].reduce((sum, shift) => {
      let value = ((pixel >> shift) & 255) * bright;
      shares.forEach((share, i) => { value += share * (((BRIGHT[maps[i].colour] >> shift) & 255) - value); });
      return sum | (Math.round(value) << shift);
    }, 0);
  }

  // From the first pixel to the last.
  play() {
    const began = performance.now(), count = this.picture.spots.length, mine = (this.playing = {});
    this.drawn = 0;
    const step = (now) => {
      if (this.playing !== mine) return;
      this.drawn = Math.min(count, Math.max(0, Math.ceil((count * (now - began)) / 1000 / SECONDS)));
      this.redraw();
      if (this.drawn < count) requestAnimationFrame(step);
    };
    requestAnimationFrame(step);
  }
}
