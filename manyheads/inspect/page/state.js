// What is chosen, kept in the part of the address after #, so that a link shows the same.

export const DEFAULTS = { part: "", heads: "mean", through: "", side: "", at: "", words: "1", sort: "cost", only: "all", theme: "", versus: "" };

export function readState() {
  const given = new URLSearchParams(location.hash.slice(1));
  return Object.fromEntries(Object.entries(DEFAULTS).map(([name, value]) => [name, given.get(name) ?? value]));
}

export function writeState(state) {
  const kept = Object.entries(state).filter(([name, value]) => value !== DEFAULTS[name]);
  const hash = new URLSearchParams(kept).toString();
  try {
    history.replaceState(null, "", hash ? `#${hash}` : location.pathname + location.search);
  } catch {
    // A page inside a page has no address of its own.
  }
}

// While a change replaces buttons, the one that has the focus passes it on to that in its place.
export function keepFocus(change) {
  const held = document.activeElement, box = held?.closest?.(".tokens ol, tbody, #chips, #edits");
  const at = box ? [...box.querySelectorAll("button")].indexOf(held) : -1;
  change();
  if (at < 0 || held.isConnected) return;
  const buttons = box.querySelectorAll("button"), next = buttons[Math.min(at, buttons.length - 1)] ?? document.getElementById("mean");
  next.focus({ preventScroll: true });
}

// The arrow keys, from a button to the one before or after it.
export function walk(event, buttons) {
  const step = { ArrowRight: 1, ArrowDown: 1, ArrowLeft: -1, ArrowUp: -1 }[event.key];
  if (!step) return;
  event.preventDefault();
  buttons[Math.max(0, Math.min(buttons.length - 1, [...buttons].indexOf(document.activeElement) + step))].focus();
}

export function download(name, content, type) {
  const link = document.createElement("a");
  link.href = URL.createObjectURL(content instanceof Blob ? content : new Blob([content], { type }));
  link.download = name;
  link.click();
  setTimeout(() => URL.revokeObjectURL(link.href), 10_000);
}
