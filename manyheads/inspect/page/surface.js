// What views are drawn on: a canvas, or an SVG with the same calls; and the colours of both.

import { MIDDLE } from "./data.js";

const STOPS = {
  light: ["#fdfcfa", "#dce8f4", "#9cc3e6", "#4a8fca", "#1c5c9f", "#0a2c5c"],
  dark: ["#16191e", "#1b3450", "#23598c", "#3f8fcb", "#92cdf2", "#f4fbff"],
};
// Less and more than another: orange, nothing, blue.
const APART = {
  light: ["#8f3d00", "#d55e00", "#f3b888", "#fdfcfa", "#9cc3e6", "#1c5c9f", "#0a2c5c"],
  dark: ["#ffd9b8", "#ff9a4d", "#7a431b", "#16191e", "#23598c", "#7ab8ec", "#f4fbff"],
};
// Told apart by people who see few colours, and by their dashes.
const HEADS = {
  light: ["#1c5c9f", "#d55e00", "#00795b", "#a3397d", "#7a6200", "#5b3fb0"],
  dark: ["#7ab8ec", "#ff9a4d", "#3fd0a4", "#f08cc4", "#e6c84a", "#b8a3ff"],
};
export const DASHES = [[], [7, 4], [2, 4], [10, 4, 2, 4], [4, 2], [1, 3]];
const TABLES = new Map();

export function colours(theme) {
  const style = getComputedStyle(document.documentElement);
  const read = (name) => style.getPropertyValue(name).trim();
  return {
    theme, ink: read("--ink"), muted: read("--muted"), rule: read("--rule"), paper: read("--paper"),
    accent: read("--accent"), heads: HEADS[theme], shades: shadesOf(STOPS[theme]), apart: shadesOf(APART[theme]),
  };
}

// Over a darkened picture the colours of heads are bright in either theme: 0xrrggbb.
export const BRIGHT = HEADS.dark.map((hex) => parseInt(hex.slice(1), 16));

// 256 colours as one number each, in the order of bytes that a canvas has.
function shadesOf(named) {
  if (!TABLES.has(named)) {
    const stops = named.map((hex) => [1, 3, 5].map((i) => parseInt(hex.slice(i, i + 2), 16)));
    TABLES.set(named, Uint32Array.from({ length: 256 }, (_, i) => {
      const at = (i / 255) * (stops.length - 1), low = Math.min(stops.length - 2, Math.floor(at));
      const [r, g, b] = [0, 1, 2].map((c) => Math.round(stops[low][c] + (at - low) * (stops[low + 1][c] - stops[low][c])));
      return ((255 << 24) | (b << 16) | (g << 8) | r) >>> 0;
    }));
  }
  return TABLES.get(named);
}

export function shade(shades, value) {
  const rgba = shades[value];
  return `rgb(${rgba & 255} ${(rgba >> 8) & 255} ${(rgba >> 16) & 255})`;
}

// The map in so many pixels: a cell fills several, or the largest of several cells fills one.
export function paint(pixels, stride, left, top, width, height, map, colours) {
  const { cells, rows, columns, signed } = map, shades = signed ? colours.apart : colours.shades, middle = signed ? MIDDLE : 0;
  const across = edges(columns, width), down = edges(rows, height);
  for (let y = 0; y < height; y++) {
    const at = (top + y) * stride + left;
    if (y && down[2 * y] === down[2 * y - 2] && down[2 * y + 1] === down[2 * y - 1]) {
      pixels.copyWithin(at, at - stride, at - stride + width);
      continue;
    }
    for (let x = 0; x < width; x++) {
      let best = middle, most = 0;
      for (let r = down[2 * y]; r < down[2 * y + 1]; r++)
        for (let i = r * columns + across[2 * x], end = r * columns + across[2 * x + 1]; i < end; i++)
          if (Math.abs(cells[i] - middle) > most) { best = cells[i]; most = Math.abs(best - middle); }
      pixels[at + x] = shades[best];
    }
  }
}

// For each pixel the first cell in it and the one after its last.
function edges(cells, pixels) {
  const found = new Int32Array(2 * pixels);
  for (let i = 0; i < pixels; i++) {
    const first = Math.floor((i * cells) / pixels);
    found[2 * i] = first;
    found[2 * i + 1] = Math.max(first + 1, Math.floor(((i + 1) * cells) / pixels));
  }
  return found;
}

function picture(map, width, height, colours) {
  const canvas = document.createElement("canvas");
  canvas.width = width;
  canvas.height = height;
  const context = canvas.getContext("2d");
  const image = context.createImageData(width, height);
  paint(new Uint32Array(image.data.buffer), width, 0, 0, width, height, map, colours);
  context.putImageData(image, 0, 0);
  return canvas;
}

// Pixels of 0xrrggbb, one each.
function imageOf(pixels, columns) {
  const canvas = document.createElement("canvas");
  Object.assign(canvas, { width: columns, height: pixels.length / columns });
  const context = canvas.getContext("2d"), image = context.createImageData(canvas.width, canvas.height);
  pixels.forEach((rgb, i) => image.data.set([rgb >> 16, (rgb >> 8) & 255, rgb & 255, 255], 4 * i));
  context.putImageData(image, 0, 0);
  return canvas;
}

// What all surfaces draw by what each of them can.
class Surface {
  // Over what lies between where there is a lift, else down and up, or across.
  curve([x, y], [a, b], upright, { lift = null, ...style }) {
    const top = Math.min(y, b) - lift;
    const bends = lift !== null ? [x + (a - x) / 4, top, x + (3 * (a - x)) / 4, top]
      : upright ? [x, (y + b) / 2, a, (y + b) / 2] : [(x + a) / 2, y, (x + a) / 2, b];
    this.bezier([x, y], bends, [a, b], style);
  }

  // Straight, or bent to one side by a part of its length.
  line([x, y], [a, b], { bend = 0, ...style }) {
    const [right, down] = [bend * (y - b), bend * (a - x)];
    const third = (from, to, by) => [from + (to - from) / 3 + by, from + (2 * (to - from)) / 3 + by];
    const [[c, e], [d, f]] = [third(x, a, right), third(y, b, down)];
    this.bezier([x, y], [c, d, e, f], [a, b], style);
  }
}

// What stands in a canvas that is wider than its box is brought into sight.
export function reveal({ parentElement: box }, left, width) {
  box.scrollLeft = Math.max(left + width - box.clientWidth, Math.min(left, box.scrollLeft));
}

// Tell at which place of a canvas somebody points, null where at none, and which one is clicked.
export function followPointer(canvas, find, { onHover, onPin }) {
  const at = (event) => find(event.offsetX, event.offsetY);
  canvas.addEventListener("pointermove", (event) => onHover("queries", at(event)));
  canvas.addEventListener("pointerleave", () => onHover("queries", null));
  canvas.addEventListener("click", (event) => at(event) !== null && onPin("queries", at(event)));
}

const FONT = 'system-ui, -apple-system, "Segoe UI", Roboto, "Noto Sans", sans-serif';

export class CanvasSurface extends Surface {
  constructor(canvas, width, height, scale = devicePixelRatio || 1) {
    super();
    this.canvas = canvas;
    this.scale = scale;
    const [w, h] = [Math.round(width * scale), Math.round(height * scale)];
    if (canvas.width !== w || canvas.height !== h) Object.assign(canvas, { width: w, height: h });
    this.context = canvas.getContext("2d");
    this.context.setTransform(scale, 0, 0, scale, 0, 0);
    this.context.clearRect(0, 0, width, height);
  }

  rect(x, y, width, height, { fill, stroke, line = 1, alpha = 1 } = {}) {
    const context = this.context;
    context.globalAlpha = alpha;
    if (fill) { context.fillStyle = fill; context.fillRect(x, y, width, height); }
    if (stroke) {
      context.strokeStyle = stroke;
      context.lineWidth = line;
      context.setLineDash([]);
      context.strokeRect(x, y, width, height);
    }
    context.globalAlpha = 1;
  }

  bezier([x, y], bends, [a, b], { stroke, width, alpha = 1, dash = [] }) {
    const context = this.context;
    context.globalAlpha = alpha;
    context.strokeStyle = stroke;
    context.lineWidth = width;
    context.lineCap = dash.length ? "butt" : "round"; // round ends would fill the gaps
    context.setLineDash(dash);
    context.beginPath();
    context.moveTo(x, y);
    context.bezierCurveTo(...bends, a, b);
    context.stroke();
    context.globalAlpha = 1;
  }

  circle(x, y, radius, { fill, stroke, line = 1 } = {}) {
    const context = this.context;
    context.beginPath();
    context.arc(x, y, radius, 0, 2 * Math.PI);
    if (fill) { context.fillStyle = fill; context.fill(); }
    if (stroke) {
      Object.assign(context, { strokeStyle: stroke, lineWidth: line });
      context.setLineDash([]);
      context.stroke();
    }
  }

  text(x, y, words, { fill, size = 12, align = "left", turn = 0, weight = 400 } = {}) {
    const context = this.context;
    context.save();
    context.translate(x, y);
    context.rotate(turn);
    Object.assign(context, { fillStyle: fill, textAlign: align, textBaseline: "middle" });
    context.font = `${weight} ${size}px ${FONT}`;
    context.fillText(words, 0, 0);
    context.restore();
  }

  map(map, x, y, width, height, colours) {
    const [w, h] = [width, height].map((one) => Math.max(1, Math.round(one * this.scale)));
    this.context.imageSmoothingEnabled = false;
    this.context.drawImage(picture(map, w, h, colours), x, y, width, height);
  }

  pixels(pixels, columns, x, y, scale) {
    this.context.imageSmoothingEnabled = false;
    this.context.drawImage(imageOf(pixels, columns), x, y, columns * scale, (pixels.length / columns) * scale);
  }
}

export class SvgSurface extends Surface {
  constructor(width, height, paper) {
    super();
    Object.assign(this, { width, height, parts: [] });
    this.rect(0, 0, width, height, { fill: paper });
  }

  rect(x, y, width, height, { fill = "none", stroke = "none", line = 1, alpha = 1 } = {}) {
    this.add("rect", { x, y, width, height, fill, stroke, "stroke-width": line, opacity: alpha });
  }

  bezier([x, y], [c, d, e, f], [a, b], { stroke, width, alpha = 1, dash = [] }) {
    this.add("path", {
      d: `M ${x} ${y} C ${c} ${d}, ${e} ${f}, ${a} ${b}`, fill: "none", stroke, "stroke-width": width,
      "stroke-linecap": dash.length ? "butt" : "round", opacity: alpha, "stroke-dasharray": dash.join(" ") || "none",
    });
  }

  circle(x, y, radius, { fill = "none", stroke = "none", line = 1 } = {}) {
    this.add("circle", { cx: x, cy: y, r: radius, fill, stroke, "stroke-width": line });
  }

  text(x, y, words, { fill, size = 12, align = "left", turn = 0, weight = 400 } = {}) {
    const anchor = { left: "start", center: "middle", right: "end" }[align];
    this.add("text", {
      transform: `translate(${x} ${y}) rotate(${(turn * 180) / Math.PI})`, fill, "font-size": size,
      "font-family": FONT, "font-weight": weight, "text-anchor": anchor, "dominant-baseline": "central",
    }, words);
  }

  map(map, x, y, width, height, colours) {
    this.image(picture(map, map.columns, map.rows, colours), x, y, width, height);
  }

  pixels(pixels, columns, x, y, scale) {
    this.image(imageOf(pixels, columns), x, y, columns * scale, (pixels.length / columns) * scale);
  }

  image(canvas, x, y, width, height) {
    const href = canvas.toDataURL("image/png");
    this.add("image", { x, y, width, height, href, preserveAspectRatio: "none", style: "image-rendering: pixelated" });
  }

  add(tag, attributes, words = "") {
    const told = Object.entries(attributes).map(([name, value]) => `${name}="${escape(String(value))}"`);
    this.parts.push(`<${tag} ${told.join(" ")}>${escape(words)}</${tag}>`);
  }

  toString() {
    const { width, height } = this;
    return `<svg xmlns="http://www.w3.org/2000/svg" width="${width}" height="${height}" viewBox="0 0 ${width} ${height}">\n${this.parts.join("\n")}\n</svg>\n`;
  }
}

// What XML cannot hold at all is shown as a sign.
const escape = (text) => text.replace(/[\0-\x08\x0b\x0c\x0e-\x1f\ufffe\uffff]|[\ud800-\udbff](?![\udc00-\udfff])|(?<![\ud800-\udbff])[\udc00-\udfff]/g, "�")
  .replace(/[&<>"]/g, (letter) => `&#${letter.charCodeAt(0)};`);
