// The sentence that is read and the one that is written, and lines between them.

import { sayShare, shareAt, strongest } from "./data.js";
import { walk } from "./state.js";
import { CanvasSurface, DASHES, shade } from "./surface.js";

const ALL = 1200; // lines at the most, the strongest
const LEAST = 0.06; // of a line while no token is looked at

export class Lines {
  constructor(frame, { onHover, onPin }) {
    this.frame = frame;
    this.scroll = frame.querySelector(".tokens");
    this.canvas = frame.querySelector("canvas");
    this.rows = { keys: frame.querySelector(".keys"), queries: frame.querySelector(".queries") };
    for (const [side, list] of Object.entries(this.rows)) {
      const find = (event) => event.target.closest("button");
      list.addEventListener("pointerover", (event) => find(event) && onHover(side, +find(event).dataset.at));
      list.addEventListener("pointerleave", () => onHover(side, null));
      list.addEventListener("focusin", (event) => onHover(side, +find(event).dataset.at));
      list.addEventListener("click", (event) => find(event) && onPin(side, +find(event).dataset.at));
      list.addEventListener("keydown", (event) => walk(event, list.querySelectorAll("button")));
    }
    this.scroll.addEventListener("scroll", () => this.draw(this.shown), { passive: true });
  }

  // Tokens as buttons; pieces of one word stand close together.
  fill(side, units) {
    const items = units.map((unit, at) => {
      const item = document.createElement("li"), button = document.createElement("button");
      button.type = "button";
      button.textContent = unit.text;
      button.dataset.at = at;
      button.tabIndex = at ? -1 : 0;
      button.dir = "auto";
      button.classList.toggle("sign", unit.sign);
      if (unit.sign) button.setAttribute("aria-label", at ? "the stop sign" : "the sign at the start");
      item.classList.toggle("joins", unit.joins);
      item.append(button);
      return item;
    });
    this.rows[side].replaceChildren(...items);
  }

  // Above each other where both fit into the width, smaller if need be; else in two columns.
  layout() {
    const lists = Object.values(this.rows), { classList } = this.frame;
    const wide = () => lists.some((list) => list.scrollWidth > this.scroll.clientWidth + 1);
    classList.remove("columns", "tight");
    if (wide()) classList.add("tight");
    this.upright = !wide();
    if (!this.upright) classList.replace("tight", "columns");
    const box = this.scroll.getBoundingClientRect();
    this.places = Object.fromEntries(Object.entries(this.rows).map(([side, list]) => [
      side, [...list.querySelectorAll("button")].map((button) => {
        const at = button.getBoundingClientRect();
        return { left: at.left - box.left + this.scroll.scrollLeft, top: at.top - box.top + this.scroll.scrollTop, width: at.width, height: at.height, button };
      }),
    ]));
    this.size = [this.frame.clientWidth, this.frame.clientHeight];
  }

  // Where lines of a token begin: below those above, above those below.
  anchor(side, at, shift) {
    const place = this.places[side][at], [x, y] = [this.scroll.scrollLeft, this.scroll.scrollTop];
    const first = side === "keys";
    if (this.upright) return [place.left + place.width / 2 - x + shift, place.top - y + (first ? place.height + 3 : -3)];
    return [place.left - x + (first ? place.width + 3 : -3), place.top + place.height / 2 - y + shift];
  }

  // shown: { maps, looked: { side, at } | null, pinned, colours }
  draw(shown) {
    if (!shown) return;
    this.shown = shown;
    const surface = new CanvasSurface(this.canvas, ...this.size);
    this.drawLines(surface);
    this.tint();
  }

  drawLines(surface) {
    const { maps, looked, colours } = this.shown;
    maps.forEach(({ map, colour }, number) => {
      const shift = 6 * (number - (maps.length - 1) / 2); // side by side: none hides another
      const only = looked && { [looked.side === "keys" ? "column" : "row"]: looked.at, least: 0.015 };
      const lines = only ? strongest(map, only) : (map.lines ??= strongest(map, { least: map.signed ? LEAST / 3 : LEAST, most: ALL }));
      for (const [row, column, share] of lines.toReversed()) {
        const [from, to] = [this.anchor("keys", column, shift), this.anchor("queries", row, shift)];
        if (Math.max(from[1], to[1]) < -200 || Math.min(from[1], to[1]) > this.size[1] + 200) continue;
        surface.curve(from, to, this.upright, {
          stroke: colours.heads[share < 0 ? 1 : colour], dash: maps.length > 1 || share < 0 ? DASHES[share < 0 ? 1 : number] : [],
          width: 0.75 + 5 * Math.abs(share), alpha: looked ? 0.25 + 0.75 * Math.sqrt(Math.abs(share)) : Math.min(0.9, 0.1 + Math.abs(share)),
        });
      }
    });
  }

  // What is read is as dark as it is read. Only what changes is touched.
  tint() {
    const { looked, pinned } = this.shown;
    for (const [side, places] of Object.entries(this.places)) {
      const values = looked && side !== looked.side ? this.readFrom(side, looked.at, places.length) : null;
      places.forEach((place, at) => {
        const value = values ? values[at] : 0;
        const here = (one) => !!one && one.side === side && one.at === at;
        const marks = (here(looked) ? 1 : 0) + (here(pinned) ? 2 : 0);
        if (value !== (place.value ?? 0)) this.shade(place, value);
        if (marks !== (place.marks ?? 0)) this.sign(place, marks);
      });
    }
  }

  // What the maps have, on average, between one token and each of the other side.
  readFrom(side, at, count) {
    const { maps } = this.shown;
    return Uint8Array.from({ length: count }, (_, i) => {
      let share = 0;
      for (const { map } of maps) share += side === "keys" ? shareAt(map, at, i) : shareAt(map, i, at);
      share = Math.abs(share);
      return share / maps.length > 0.004 ? 235 * Math.sqrt(share / maps.length) : 0;
    });
  }

  shade(place, value) {
    const { colours } = this.shown, { style } = place.button;
    place.value = value;
    style.backgroundColor = value ? shade(colours.shades, value) : "";
    style.color = value > (colours.theme === "light" ? 130 : 165) ? colours.paper : "";
  }

  sign(place, marks) {
    place.marks = marks;
    place.button.classList.toggle("looked", !!(marks & 1));
    place.button.classList.toggle("pinned", !!(marks & 2));
    if (marks & 2) place.button.setAttribute("aria-pressed", "true");
    else place.button.removeAttribute("aria-pressed");
  }

  // The whole view again, with its words, for a file.
  export(surface) {
    this.drawLines(surface);
    for (const places of Object.values(this.places)) {
      for (const { button, left, top, width, height } of places) {
        const [x, y] = [left - this.scroll.scrollLeft, top - this.scroll.scrollTop];
        if (button.style.backgroundColor) surface.rect(x, y, width, height, { fill: button.style.backgroundColor });
        const fill = button.style.color || this.shown.colours.ink;
        surface.text(x + width / 2, y + height / 2, button.textContent, { fill, size: parseFloat(getComputedStyle(button).fontSize) * 0.82, align: "center" });
      }
    }
  }
}

// "“dog” reads “Hund” 71 %, “Ein” 12 %", or of several heads "“dog” reads “Hund” 71 % (head 0.3), …"
export function sayLooked({ side, at }, maps, units) {
  const name = (unit) => (unit.sign ? unit.text : `“${unit.text}”`), [, ...more] = maps;
  const rows = maps.flatMap(({ map, name: head }) => strongest(map, { [side === "keys" ? "column" : "row"]: at, least: 0.01, most: more.length ? 1 : 3 })
    .map(([row, column]) => [row, column, map, more.length ? ` (${head})` : ""]));
  const others = rows.map(([row, column, map, head]) => `${name(side === "keys" ? units.queries[row] : units.keys[column])} ${sayShare(map, row, column)}${head}`);
  const verb = side === "keys" ? "is read by" : "reads";
  return `${name(units[side][at])} ${verb} ${others.join(", ") || "nothing much"}`;
}
