// Which sentences of a model's book may come out. Whoever uses the page chooses, and nothing is computed from a text.

import { attempt, byId, element } from "./dom.js";

export const BOOK_OPTIONS = ["areas", "topics", "book_only"];

let changed = () => null; // what to do when the choice changes

const ticked = (place) => [...byId(place).querySelectorAll("input:checked")].map((each) => each.value);

// What is chosen, as options of a request. What is left as it is, is not sent.
export function bookOptions() {
  const areas = ticked("areas"), topics = ticked("topics");
  return {
    ...(areas.length > 0 ? { areas } : {}),
    ...(topics.length > 0 ? { topics } : {}),
    ...(byId("book-only").checked ? { book_only: true } : {}),
  };
}

function tick(id, value, words, isTicked) {
  const input = element("input", { type: "checkbox", id, value, checked: isTicked, autocomplete: "off", onchange: () => changed() });
  return element("div", { class: "tick" }, input, element("label", { for: id }, `${value} `, element("span", { class: "quiet" }, words)));
}

const areaTick = ({ name, sentences, topics, examples }, place) =>
  tick(`area-${place}`, name, `${sentences.toLocaleString("en")} sentences on ${topics.length.toLocaleString("en")} topics, such as: ${examples[0]}`, false);

// A topic that was typed or picked becomes a tick of its own, once.
function addTopic() {
  const name = byId("topic").value.trim();
  const isKnown = [...byId("topic-names").children].some((each) => each.value === name);
  if (name === "") return;
  if (!isKnown) throw new Error(`The book has no topic "${name}". Choose one of the list.`);
  byId("topic").value = "";
  const place = byId("topics").childElementCount;
  const held = [...byId("topics").querySelectorAll("input")].find((each) => each.value === name);
  if (held === undefined) byId("topics").append(tick(`topic-${place}`, name, "", true));
  else held.checked = true;
  changed();
}

// The book of the chosen model. Nothing of another model's book stays chosen.
export function showBook({ sentences, areas }) {
  byId("book").hidden = sentences === 0;
  byId("areas-field").hidden = areas.length === 0;
  byId("areas").replaceChildren(...areas.map(areaTick));
  byId("topics").replaceChildren();
  byId("topic-names").replaceChildren(...areas.flatMap((area) => area.topics.map((name) => element("option", { value: name }, area.name))));
  byId("topic").value = "";
  byId("book-only").checked = false;
}

export function startBook(listener) {
  changed = listener;
  byId("topic").onchange = () => attempt(addTopic);
  byId("book-only").onchange = () => changed();
}
