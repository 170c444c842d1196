// Elements are made here and only here. Text is always set as text, never parsed as HTML.

const SVG = "http://www.w3.org/2000/svg";

export const byId = (id) => document.getElementById(id);

function fill(made, attributes, children) {
  for (const [name, value] of Object.entries(attributes)) {
    if (name.startsWith("on")) made.addEventListener(name.slice(2), value);
    else if (value === true) made.setAttribute(name, "");
    else if (value !== false && value !== null) made.setAttribute(name, String(value));
  }
  made.append(...children.filter((child) => child !== null)); // a string becomes a text node
  return made;
}

export const element = (tag, attributes = {}, ...children) => fill(document.createElement(tag), attributes, children);

export const drawn = (tag, attributes = {}, ...children) => fill(document.createElementNS(SVG, tag), attributes, children);

export const button = (words, press, attributes = {}) =>
  element("button", { type: "button", onclick: press, ...attributes }, words);

// A table of names and values, as on a card.
export const facts = (lines) =>
  element("table", {}, element("tbody", {}, ...lines.map(([name, words]) =>
    element("tr", {}, element("th", { scope: "row" }, name), element("td", {}, words)))));

// A mistake in what is chosen, which is told beside it: in the element with the id `place`.
export class Mistake extends Error {
  constructor(place, words) {
    super(words);
    this.place = place;
  }
}

// One problem at a time, at the top of the page or in its own place, where the reader is taken.
export function showProblem(error) {
  const place = byId(error?.place ?? "problem");
  for (const each of document.querySelectorAll("[data-problem]")) {
    each.textContent = each === place && error !== null ? error.message : "";
    each.hidden = each.textContent === "";
  }
  if (error !== null) place.scrollIntoView({ block: "center" });
}

// Run something; what goes wrong is shown in words.
export async function attempt(act) {
  showProblem(null);
  try {
    await act();
  } catch (error) {
    showProblem(error);
  }
}

// The browser saves what the page made. The name never holds a text.
export function save(name, blob) {
  const link = element("a", { href: URL.createObjectURL(blob), download: name });
  document.body.append(link);
  link.click();
  link.remove();
  setTimeout(() => URL.revokeObjectURL(link.href), 60_000);
}
