// What a file becomes: each of its texts a new one, or its collection a release as a whole. And what to expect of the latter.

import { get, queryOf } from "./api.js";
import { settings, whenBudgetChanges } from "./budget.js";
import { byId, element, facts } from "./dom.js";
import { promise } from "./promise.js";
import { said } from "./words.js";

const PAUSE = 400; // milliseconds without a change before the server is asked
const SHOWN = ["Promise", "Topics", "A tenth", "Worth it", "Book"]; // of what the server says
const BUTTON = { texts: "Rewrite the file", collection: "Release the collection" };

const listeners = [];
let waiting = null;
let asked = 0;

export const whenKindChanges = (listener) => listeners.push(listener);

export const kindOf = () => document.querySelector("input[name=kind]:checked").value;
export const isCollection = () => kindOf() === "collection";

// What a collection takes of the settings of the page, and its own epsilon.
export function collectionBudget() {
  const { model, areas, topics } = settings();
  const book = { ...(areas === undefined ? {} : { areas }), ...(topics === undefined ? {} : { topics }) };
  return { model, epsilon: Number(byId("collection-epsilon").value), ...book };
}

// All labels that there can be, as typed.
export const labelValues = () => byId("label-set").value.split(",").map((each) => each.trim()).filter((each) => each !== "");

function show(told) {
  const few = said(told, "Warning");
  byId("expected").replaceChildren(
    few === "" ? "" : element("p", { class: "problem" }, few),
    facts(SHOWN.map((name) => [name, said(told, name)])));
  promise("collection", { guarantee: told.guarantee, words: `${told.guarantee.words} for each person of a collection.` });
}

async function ask() {
  const mine = ++asked, labels = labelValues().length;
  const wanted = { ...collectionBudget(), people: byId("collection-people").value, ...(labels > 1 ? { labels } : {}) };
  try {
    const told = await get(`/v1/collections/noise?${queryOf(wanted)}`);
    if (mine === asked && isCollection()) show(told);
  } catch (error) {
    if (mine !== asked) return; // a later answer is on its way
    byId("expected").replaceChildren(element("p", { class: "problem" }, error.message));
    promise("collection", null);
  }
}

function changed() {
  clearTimeout(waiting);
  if (isCollection()) waiting = setTimeout(ask, PAUSE);
}

function kindChanged() {
  asked += 1;
  for (const each of document.querySelectorAll("[data-kind]")) each.hidden = each.dataset.kind !== kindOf();
  byId("collection-fields").hidden = !isCollection();
  byId("file-go").textContent = BUTTON[kindOf()];
  for (const listener of listeners) listener();
  if (isCollection()) ask();
  else promise("collection", null);
}

export function startKind() {
  for (const each of document.querySelectorAll("input[name=kind]")) each.onchange = kindChanged;
  for (const field of ["collection-epsilon", "collection-people", "label-set"]) byId(field).oninput = changed;
  whenBudgetChanges(changed);
}
