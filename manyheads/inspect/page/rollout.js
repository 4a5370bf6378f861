// Attention over attention: what reaches a token over all layers, or through two heads.

// Half of what a layer passes on is what was there, half what its heads read, on average.
export function rollOut(attention, part) {
  const rolled = part === "cross" ? rollAcross(attention) : rollOwn(attention, part);
  const { first, shape: [, rows, columns] } = attention.sides(part);
  return attention.encode(rolled.subarray(first * columns, (first + rows) * columns), rows, columns);
}

function rollOwn(attention, part) {
  let rolled = null;
  for (const layer of layersOf(attention, part)) {
    const read = square(attention.meanOf(layer), layer);
    rolled = rolled === null ? mixed(read, null, read.size) : mixed(read, rolled, read.size);
  }
  return rolled;
}

// Of the source, what reaches each place of the output.
function rollAcross(attention) {
  const source = attention.parts.includes("encoder") ? rollOwn(attention, "encoder") : null;
  const own = layersOf(attention, "decoder");
  let reached = null;
  for (const [number, layer] of layersOf(attention, "cross").entries()) {
    const [, rows, columns] = layer.shape, size = rows + layer.first;
    reached ??= new Float32Array(size * columns);
    const self = own[number] && square(attention.meanOf(own[number]), own[number]);
    const from = self ? product(self, reached, size, size, columns) : reached;
    const cross = new Float32Array(size * columns);
    cross.set(attention.meanOf(layer), layer.first * columns);
    const read = source ? product(cross, source, size, columns, columns) : cross;
    reached = reached.map((one, i) => one / 4 + from[i] / 4 + read[i] / 2);
  }
  return reached && shares(reached, layersOf(attention, "cross")[0].shape[2]);
}

// What the later head reads through the earlier one.
export function readThrough(attention, later, earlier) {
  const { layer, rows, columns } = later;
  const [a, b] = [later, earlier].map((head) => square(attention.decode(head.cells), head.layer));
  const whole = product(a, b, a.size, a.size, a.size);
  return attention.encode(whole.subarray(layer.first * columns, (layer.first + rows) * columns), rows, columns);
}

const layersOf = (attention, part) => attention.layers.filter((layer) => layer.part === part);

// Rows that were not recorded read themselves.
function square(cells, { first, shape: [, rows, columns] }) {
  const found = new Float32Array(columns * columns);
  found.size = columns;
  found.set(cells.subarray(0, Math.min(rows, columns - first) * columns), first * columns);
  for (let i = 0; i < columns; i++) if (i < first || i >= first + rows) found[i * columns + i] = 1;
  return found;
}

function product(a, b, rows, inner, columns) {
  const found = new Float32Array(rows * columns);
  for (let i = 0; i < rows; i++)
    for (let k = 0; k < inner; k++) {
      const weight = a[i * inner + k];
      if (weight < 1e-6) continue;
      for (let j = 0; j < columns; j++) found[i * columns + j] += weight * b[k * columns + j];
    }
  return found;
}

function mixed(read, before, size) {
  const found = before ? product(read, before, size, size, size) : read.slice();
  for (let i = 0; i < found.length; i++) found[i] = found[i] / 2 + (before ? before[i] : +(i % (size + 1) === 0)) / 2;
  return found;
}

function shares(cells, columns) {
  for (let begin = 0; begin < cells.length; begin += columns) {
    const row = cells.subarray(begin, begin + columns), sum = row.reduce((total, one) => total + one, 0);
    if (sum > 0) row.forEach((one, i) => { row[i] = one / sum; });
  }
  return cells;
}
