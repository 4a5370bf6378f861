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

export function download(name, content, type) {
  const link = document.createElement("a");
  link.href = URL.createObjectURL(content instanceof Blob ? content : new Blob([content], { type }));
  link.download = name;
  link.click();
  setTimeout(() => URL.revokeObjectURL(link.href), 10_000);
}
