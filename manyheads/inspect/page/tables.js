// The same in numbers: heads by what they are worth, the row of a token, its candidates.

import { percent, sayShare } from "./data.js";
import { walk } from "./state.js";

export const COLUMNS = [
  ["cost", "worth", "how much less likely the output is without this head", (head) => head.worth],
  ["entropy", "spread", "bits: 0 where it looks at one token, more where it looks at many", (head) => head.numbers.entropy],
  ["distance", "distance", "tokens between the one that reads and those it reads, on average", (head) => head.numbers.distance],
  ["previous", "previous", "share on the token just before", (head) => head.numbers.previous],
  ["signs", "signs", "share on the start and the stop sign, which are no words", (head) => head.numbers.signs],
];

const cell = (tag, text, set = {}) => Object.assign(document.createElement(tag), { textContent: text, ...set });

export class Ranking {
  constructor(table, { onChoose, onSort }) {
    this.table = table;
    this.onChoose = onChoose;
    this.onSort = onSort;
    table.tBodies[0].addEventListener("keydown", (event) => walk(event, table.tBodies[0].querySelectorAll("button")));
  }

  // Of all numbers those that these heads have.
  fillHead(columns, sort, apart) {
    const row = document.createElement("tr");
    row.append(Object.assign(cell("th", "head"), { scope: "col" }));
    for (const [name, label, about] of columns) {
      const head = Object.assign(cell("th", ""), { scope: "col", ariaSort: name === sort ? "descending" : "none" });
      const button = cell("button", label, { type: "button", title: name === "distance" && apart ? apart : about });
      button.addEventListener("click", () => this.onSort(name));
      head.dataset.sort = name;
      head.append(button);
      row.append(head);
    }
    const held = document.activeElement?.closest("th")?.dataset.sort;
    this.table.tHead.replaceChildren(row);
    if (held) this.table.tHead.querySelector(`[data-sort="${held}"] button`)?.focus();
  }

  // shown: { heads, dearest, sort, chosen, names, colours, sayWorth, apart }
  draw({ heads, sort, apart, ...shown }) {
    this.shown = { ...shown, columns: COLUMNS.filter(([, , , read]) => heads.some((head) => (read(head) ?? null) !== null)) };
    const read = COLUMNS.find(([name]) => name === sort)?.[3] ?? COLUMNS[0][3];
    const sorted = heads.toSorted((a, b) => (read(b) ?? -Infinity) - (read(a) ?? -Infinity));
    this.fillHead(this.shown.columns, sort, apart);
    this.table.tBodies[0].replaceChildren(...sorted.map((head, at) => this.row(head, at)));
  }

  row(head, at) {
    const { chosen, names, colours, columns } = this.shown;
    const row = document.createElement("tr"), number = chosen.indexOf(head.key);
    const name = Object.assign(cell("th", ""), { scope: "row" });
    const button = cell("button", head.name, { type: "button", tabIndex: at ? -1 : 0 });
    button.setAttribute("aria-label", `show head ${head.name} of ${names[head.part]}`);
    button.addEventListener("click", (event) => this.onChoose(head.key, event.shiftKey || event.ctrlKey || event.metaKey));
    if (number >= 0) {
      row.className = "chosen";
      button.style.color = colours.heads[number];
    }
    name.append(button, cell("small", names[head.part]));
    row.append(name);
    for (const [kind, , , read] of columns) row.append(this.number(kind, read(head), head));
    return row;
  }

  number(kind, value, head) {
    if (value === null || value === undefined) return cell("td", "–", { className: "none" });
    if (kind !== "cost") return cell("td", kind === "previous" || kind === "signs" ? percent(value) : value.toFixed(2));
    const found = cell("td", "", { className: "cost", title: this.shown.sayWorth(head) });
    const bar = cell("span", "", { className: "bar" });
    bar.style.width = `${Math.max(0, (100 * value) / this.shown.dearest)}%`;
    found.append(cell("span", value.toFixed(2).replace("-0.00", "0.00")), cell("span", "", { className: "track" }));
    found.lastChild.append(bar);
    return found;
  }
}

// The names of the columns, and rows whose first cell is their name.
export function fillTable(table, names, rows) {
  const row = (texts, tag, scope) => {
    const made = document.createElement("tr");
    made.append(...texts.map((text, i) => cell(i ? tag : "th", text, i && tag === "td" ? {} : { scope })));
    return made;
  };
  table.tHead.replaceChildren(row(names, "th", "col"));
  table.tBodies[0].replaceChildren(...rows.map((one) => row(one, "td", "row")));
}

// A row for each token that can be read, a column for each head that is shown.
export function fillRow(table, at, maps, units) {
  fillTable(table, [`what “${units.queries[at].text}” reads`, ...maps.map(({ name }) => name)],
    units.keys.map((unit, column) => [unit.text, ...maps.map(({ map }) => sayShare(map, at, column))]));
}

// What a view draws, in a table below it while that is open.
export function fillBelow(details, view) {
  if (details.open) fillTable(details.querySelector("table"), ...view.table());
}

// The likeliest tokens where this one was written, each with its probability.
export function fillCandidates(list, candidates, begin, live, tokens) {
  list.replaceChildren(...candidates.flatMap(({ id, best, p, of, at }, number) => {
    const written = [id].flat(); // of a pixel, one of each colour
    const rows = Array.isArray(id) || best.some(([other]) => other === id) ? best : [...best.slice(0, -1), [id, tokens[begin + number], p]];
    return rows.map(([other, text, share]) => {
      const item = cell("li", "", { className: written.includes(other) ? "written" : "" });
      item.dataset.id = other;
      const bar = cell("span", "", { className: "bar" });
      bar.style.width = `${100 * share}%`;
      const track = cell("span", "", { className: "track" });
      track.append(bar);
      item.append(cell("span", of ? `${of}: ${text}` : text, { className: "word", dir: "auto" }), track, cell("span", percent(share), { className: "share" }));
      if (live) item.append(live.choice(at ?? begin + number, other, text, written.includes(other)));
      return item;
    });
  }));
}
