// The same in numbers: heads by what they are worth, the row of a token, its candidates.

import { percent, shareAt } from "./data.js";
import { times } from "./maps.js";

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
    const row = table.tHead.insertRow();
    row.append(Object.assign(cell("th", "head"), { scope: "col" }));
    for (const [name, label, about] of COLUMNS) {
      const head = Object.assign(cell("th", ""), { scope: "col" });
      const button = cell("button", label, { type: "button", title: about });
      button.addEventListener("click", () => onSort(name));
      head.dataset.sort = name;
      head.append(button);
      row.append(head);
    }
  }

  // shown: { heads, dearest, sort, chosen, names, colours }
  draw({ heads, dearest, sort, chosen, names, colours }) {
    const read = COLUMNS.find(([name]) => name === sort)?.[3] ?? COLUMNS[0][3];
    const sorted = heads.toSorted((a, b) => (read(b) ?? -Infinity) - (read(a) ?? -Infinity));
    for (const head of this.table.tHead.querySelectorAll("th[data-sort]"))
      head.ariaSort = head.dataset.sort === sort ? "descending" : "none";
    this.table.tBodies[0].replaceChildren(...sorted.map((head) => this.row(head, dearest, chosen, names, colours)));
  }

  row(head, dearest, chosen, names, colours) {
    const row = document.createElement("tr"), number = chosen.indexOf(head.key);
    const name = Object.assign(cell("th", ""), { scope: "row" });
    const button = cell("button", head.name, { type: "button" });
    button.setAttribute("aria-label", `show head ${head.name} of ${names[head.part]}`);
    button.addEventListener("click", (event) => this.onChoose(head.key, event.shiftKey || event.ctrlKey || event.metaKey));
    if (number >= 0) {
      row.className = "chosen";
      button.style.color = colours.heads[number];
    }
    name.append(button, cell("small", names[head.part]));
    row.append(name);
    for (const [kind, , , read] of COLUMNS) row.append(this.number(kind, read(head), dearest));
    return row;
  }

  number(kind, value, dearest) {
    if (value === null || value === undefined) return cell("td", "–", { className: "none" });
    if (kind !== "cost") return cell("td", kind === "previous" || kind === "signs" ? percent(value) : value.toFixed(2));
    const found = cell("td", "", { className: "cost", title: `without it, the output is ${times(value)}` });
    const bar = cell("span", "", { className: "bar" });
    bar.style.width = `${Math.max(0, (100 * value) / dearest)}%`;
    found.append(cell("span", value.toFixed(2)), cell("span", "", { className: "track" }));
    found.lastChild.append(bar);
    return found;
  }
}

// A row for each token that can be read, a column for each head that is shown.
export function fillRow(table, at, maps, units) {
  const head = document.createElement("tr");
  head.append(cell("th", `what “${units.queries[at].text}” reads`, { scope: "col" }));
  for (const { name } of maps) head.append(cell("th", name, { scope: "col" }));
  table.tHead.replaceChildren(head);
  table.tBodies[0].replaceChildren(...units.keys.map((unit, column) => {
    const row = document.createElement("tr");
    row.append(cell("th", unit.text, { scope: "row" }));
    for (const { map } of maps) row.append(cell("td", percent(shareAt(map, at, column))));
    return row;
  }));
}

// The likeliest tokens where this one was written, each with its probability.
export function fillCandidates(list, candidates, begin, live, tokens) {
  list.replaceChildren(...candidates.flatMap(({ id, best, p }, number) => {
    const rows = best.some(([other]) => other === id) ? best : [...best.slice(0, -1), [id, tokens[begin + number], p]];
    return rows.map(([other, text, share]) => {
      const item = cell("li", "", { className: other === id ? "written" : "" });
      item.dataset.id = other;
      const bar = cell("span", "", { className: "bar" });
      bar.style.width = `${100 * share}%`;
      const track = cell("span", "", { className: "track" });
      track.append(bar);
      item.append(cell("span", text, { className: "word", dir: "auto" }), track, cell("span", percent(share), { className: "share" }));
      if (live) item.append(live.choice(begin + number, other, text, other === id));
      return item;
    });
  }));
}
