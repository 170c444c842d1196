// The card of an output, in its own words. It is read from the card's page and built again as text.

import { byId, element, facts } from "./dom.js";
import { promise } from "./promise.js";

const words = (place) => place.textContent.trim();

// A fact, and below it what it means.
function fact(cell) {
  const meaning = cell.querySelector(".meaning");
  meaning?.remove();
  const lines = [words(cell), ...(meaning === null ? [] : [element("span", { class: "quiet meant" }, words(meaning))])];
  return element("div", {}, ...lines);
}

// The page of the card, parsed without its style: it is never shown itself.
function parsed(page) {
  return new DOMParser().parseFromString(page.replace(/<style>[\s\S]*?<\/style>/, ""), "text/html");
}

// One step of the scale from strong to none.
function step(item) {
  const isHere = item.classList.contains("here");
  return element("li", { class: isHere ? "here" : null, "aria-current": isHere ? "true" : null }, words(item));
}

// One part of the card as elements of this page.
function rebuilt(part) {
  const each = (selector, make) => [...part.querySelectorAll(selector)].map(make);
  switch (part.tagName) {
    case "H2": return element("h3", {}, words(part));
    case "UL": return element("ul", {}, ...each("li", (item) => element("li", {}, words(item))));
    case "OL": return element("ol", { class: "scale", "aria-label": part.getAttribute("aria-label") }, ...each("li", step));
    case "DL": return facts(each("dt", (name) => [words(name), words(name.nextElementSibling)]));
    case "TABLE": return facts(each("tr", (row) => [words(row.querySelector("th")), fact(row.querySelector("td"))]));
    case "P": return element("p", { class: part.className === "warning" ? "problem" : null }, words(part));
    default: return null;
  }
}

// Both are strings: the JSON and the page.
export function showCard(name, { json, html }) {
  promise("card", JSON.parse(json).private ? null : { guarantee: { private: false }, words: "The output of this card has no guarantee." });
  byId("card-title").textContent = `Privacy card of ${name}`;
  byId("card-page").replaceChildren(...[...parsed(html).body.children].map(rebuilt).filter((each) => each !== null));
  byId("card").hidden = false;
  byId("card").focus();
}

export function hideCard() {
  byId("card").hidden = true;
  byId("card-page").replaceChildren();
  promise("card", null);
}
