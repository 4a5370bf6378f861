// What the file holds: a header and the attention of every head, as the root of each weight in 1/255.

import { readThrough, rollOut } from "./rollout.js";

export async function readPayload(bytes) {
  const stream = new Blob([bytes]).stream().pipeThrough(new DecompressionStream("gzip"));
  const raw = new Uint8Array(await new Response(stream).arrayBuffer());
  const length = new DataView(raw.buffer).getUint32(0, true);
  const header = JSON.parse(new TextDecoder().decode(raw.subarray(4, 4 + length)));
  return new Attention(header, raw.subarray(4 + length));
}

export function decodeBase64(text) {
  if (Uint8Array.fromBase64) return Uint8Array.fromBase64(text);
  const letters = atob(text);
  const bytes = new Uint8Array(letters.length);
  for (let i = 0; i < letters.length; i++) bytes[i] = letters.charCodeAt(i);
  return bytes;
}

export const percent = (share) => {
  const value = 100 * share;
  if (value > 0 && value < 0.01) return "< 0.01 %";
  return `${value >= 10 || value === 0 ? Math.round(value) : value.toFixed(value < 0.1 ? 2 : 1)} %`;
};

// A loss of log-probability in words: 1.1 -> "3 times less likely"
export function times(cost) {
  const ratio = Math.exp(Math.abs(cost));
  if (ratio < 1.005) return "as likely as before";
  const shown = ratio >= 1e6 ? "more than a million" : ratio >= 1000 ? Number(ratio.toPrecision(2)).toLocaleString("en") : ratio >= 10 ? Math.round(ratio) : ratio.toFixed(ratio < 2 ? 2 : 1);
  return `${shown} times ${cost > 0 ? "less" : "more"} likely`;
}

export const MEAN = "mean"; // of all heads of a part
export const ROLLED = "rolled"; // over all its layers

const SHARES = Float32Array.from({ length: 256 }, (_, stored) => (stored / 255) ** 2);
export const MIDDLE = 128; // of a difference: neither more nor less
const DIFFERENCES = Float32Array.from({ length: 256 }, (_, stored) => Math.sign(stored - MIDDLE) * ((stored - MIDDLE) / 127) ** 2);
const stored = (share) => Math.round(255 * Math.sqrt(Math.min(1, share)));

export class Attention {
  constructor(header, bytes) {
    this.header = header;
    this.layers = header.layers;
    this.heads = new Map(); // "decoder.0.cross/2" -> what is known of it
    this.made = new Map(); // maps of words, and means, made when first asked for
    let begin = 0;
    for (const layer of this.layers) {
      const [count, rows, columns] = layer.shape;
      for (let head = 0; head < count; head++, begin += rows * columns) {
        const key = `${layer.name}/${head}`;
        const costs = header.costs?.[key] ?? [];
        this.heads.set(key, {
          key, layer, head, costs, part: layer.part,
          name: `${layer.layer}.${head}`,
          numbers: layer.numbers[head],
          cells: bytes.subarray(begin, begin + rows * columns), rows, columns,
        });
      }
    }
    this.parts = [...new Set(this.layers.map((layer) => layer.part))];
    this.weigh(null);
  }

  // What each head is worth for all that is written, or for one word of it.
  weigh(unit) {
    const all = [...this.heads.values()];
    for (const head of all) {
      const costs = unit ? head.costs.slice(unit.begin, unit.end) : head.costs;
      head.worth = costs.length ? costs.reduce((sum, one) => sum + (this.header.numbers ? Math.abs(one) : one), 0) : null;
    }
    this.dearest = Math.max(1e-6, ...all.map((head) => head.worth ?? 0));
  }

  // "without it, the output is 3 times less likely"
  sayWorth({ worth }, word = null) {
    if (this.header.numbers) return `without it, the answer moves by ${worth.toFixed(3)}`;
    return `without it, ${word ? `“${word.text}”` : "the output"} is ${times(worth)}`;
  }

  of(part) {
    return [...this.heads.values()].filter((head) => head.part === part);
  }

  sides(part) {
    return this.layers.find((layer) => layer.part === part);
  }

  // The tokens of a side, or its words: each with its text and the tokens it is made of.
  units(label, words) {
    const side = this.header.sides[label];
    const units = [];
    side.tokens.forEach((text, i) => {
      const joins = i > 0 && side.words[i] >= 0 && side.words[i] === side.words[i - 1];
      const last = units.at(-1);
      if (words && joins) {
        if (text !== "␣") last.text = last.text === "␣" ? text : last.text + text;
        last.end = i + 1;
      } else {
        units.push({ text, sign: side.signs[i], joins, begin: i, end: i + 1 });
      }
    });
    if (words) for (const unit of units) unit.text = side.spelled?.[side.words[unit.begin]] ?? unit.text; // pieces may be parts of characters
    return units;
  }

  // The map of a head, or of the mean of a part's: a word reads as its pieces do on average, and is
  // read as they are together.
  map(key, part, words) {
    const name = `${key} ${part} ${words}`;
    if (!this.made.has(name)) {
      const [later, earlier] = key.split(">").map((one) => this.heads.get(one));
      const plain = key === MEAN ? this.mean(part) : key === ROLLED ? rollOut(this, part) : earlier ? readThrough(this, later, earlier) : later;
      this.made.set(name, words ? this.gather(plain, this.sides(part)) : plain);
    }
    return this.made.get(name);
  }

  // What one pixel reads, as a map over the picture, as dark as the darkest of it.
  over({ rows, columns, square, spots }, map, at) {
    const [down, across] = [Math.ceil(rows / square), Math.ceil(columns / square)], found = new Uint8Array(down * across);
    const shares = spots.map((_, i) => shareAt(map, at, i + 1)), most = Math.max(1e-9, ...shares);
    spots.forEach(([row, column], i) => { found[(row / square) * across + column / square] = stored(shares[i] / most); });
    return { rows: down, columns: across, cells: found };
  }

  mean(part) {
    const { rows, columns } = this.of(part)[0];
    return this.encode(averageOf(this.of(part)), rows, columns);
  }

  meanOf(layer) {
    return averageOf(this.of(layer.part).filter((head) => head.layer === layer));
  }

  encode(shares, rows, columns) {
    return { rows, columns, cells: Uint8Array.from(shares, stored) };
  }

  decode(cells) {
    return Float32Array.from(cells, (one) => SHARES[one]);
  }

  gather({ cells, columns }, { queries, keys }) {
    const down = this.units(queries, true), across = this.units(keys, true);
    const found = new Uint8Array(down.length * across.length);
    down.forEach((query, i) => across.forEach((key, j) => {
      let sum = 0;
      for (let q = query.begin; q < query.end; q++)
        for (let k = key.begin; k < key.end; k++) sum += SHARES[cells[q * columns + k]];
      found[i * across.length + j] = stored(sum / (query.end - query.begin));
    }));
    return { rows: down.length, columns: across.length, cells: found };
  }
}

function averageOf(heads) {
  const sum = new Float32Array(heads[0].cells.length);
  for (const { cells } of heads) for (let i = 0; i < sum.length; i++) sum[i] += SHARES[cells[i]];
  return sum.map((one) => one / heads.length);
}

const tableOf = (map) => (map.signed ? DIFFERENCES : SHARES);
export const shareAt = (map, row, column) => tableOf(map)[map.cells[row * map.columns + column]];

// "71 %", or "+12 %" of a difference
export function sayShare(map, row, column) {
  const share = shareAt(map, row, column);
  return map.signed ? `${share < 0 ? "−" : "+"}${percent(Math.abs(share))}` : percent(share);
}

// How much more is read in one map than in another of the same size.
export function differ(one, other) {
  const cells = Uint8Array.from(one.cells, (value, i) => {
    const more = SHARES[value] - SHARES[other.cells[i]];
    return MIDDLE + Math.round(127 * Math.sign(more) * Math.sqrt(Math.min(1, Math.abs(more))));
  });
  return { rows: one.rows, columns: one.columns, cells, signed: true };
}

// The strongest of a row or of a whole map, as [row, column, share], the strongest first.
export function strongest(map, { row = null, column = null, least = 0.02, most = 1500 } = {}) {
  const found = [], table = tableOf(map);
  const [first, last] = row === null ? [0, map.rows] : [row, row + 1];
  for (let i = first; i < last; i++) {
    const [from, to] = column === null ? [0, map.columns] : [column, column + 1];
    for (let j = from; j < to; j++) {
      const share = table[map.cells[i * map.columns + j]];
      if (share >= least || -share >= least) found.push([i, j, share]);
    }
  }
  return found.sort((a, b) => Math.abs(b[2]) - Math.abs(a[2])).slice(0, most);
}

// A .npz of all maps: a zip, nothing of it compressed, of one .npy for each layer.
export function makeNpz(attention) {
  const files = attention.layers.map((layer) => {
    const values = attention.of(layer.part).filter((head) => head.layer === layer);
    const size = values[0].cells.length;
    const data = new Float32Array(values.length * size);
    values.forEach((head, h) => head.cells.forEach((one, i) => { data[h * size + i] = SHARES[one]; }));
    return [`${layer.name}.npy`, npy(data, layer.shape)];
  });
  return zip(files);
}

function npy(data, shape) {
  const text = `{'descr': '<f4', 'fortran_order': False, 'shape': (${shape.join(", ")}), }`;
  const padded = text.padEnd(Math.ceil((text.length + 11) / 64) * 64 - 11) + "\n";
  const head = new Uint8Array([0x93, ...ascii("NUMPY"), 1, 0, padded.length & 255, padded.length >> 8]);
  return join([head, ascii(padded), new Uint8Array(data.buffer)]);
}

const ascii = (text) => Uint8Array.from(text, (letter) => letter.charCodeAt(0));

function join(parts) {
  const whole = new Uint8Array(parts.reduce((sum, part) => sum + part.length, 0));
  let at = 0;
  for (const part of parts) { whole.set(part, at); at += part.length; }
  return whole;
}

function zip(files) {
  const local = [], central = [];
  let at = 0;
  for (const [name, data] of files) {
    const label = ascii(name);
    const about = [20, 0, 0, 0, 0x21, crc32(data), data.length, data.length, label.length];
    const widths = [2, 2, 2, 2, 2, 4, 4, 4, 2];
    const entry = join([numbers([0x04034b50], [4]), numbers([...about, 0], [...widths, 2]), label, data]);
    central.push(join([
      numbers([0x02014b50, 20], [4, 2]), numbers(about, widths),
      numbers([0, 0, 0, 0, 0, at], [2, 2, 2, 2, 4, 4]), label,
    ]));
    local.push(entry);
    at += entry.length;
  }
  const size = central.reduce((sum, one) => sum + one.length, 0);
  const end = numbers([0x06054b50, 0, 0, files.length, files.length, size, at, 0], [4, 2, 2, 2, 2, 4, 4, 2]);
  return join([...local, ...central, end]);
}

function numbers(values, widths) {
  const bytes = [];
  values.forEach((value, i) => {
    for (let b = 0; b < widths[i]; b++) bytes.push((value >>> (8 * b)) & 255);
  });
  return Uint8Array.from(bytes);
}

const REMAINDERS = Uint32Array.from({ length: 256 }, (_, byte) => {
  let crc = byte;
  for (let b = 0; b < 8; b++) crc = (crc >>> 1) ^ (crc & 1 ? 0xedb88320 : 0);
  return crc;
});

function crc32(data) {
  let crc = -1;
  for (let i = 0; i < data.length; i++) crc = (crc >>> 8) ^ REMAINDERS[(crc ^ data[i]) & 255];
  return ~crc >>> 0;
}
