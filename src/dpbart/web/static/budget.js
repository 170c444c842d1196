// Model, mechanism and epsilon, and what they mean at every moment.

import { get, queryOf } from "./api.js";
import { bookOptions, showBook, startBook } from "./book.js";
import { attempt, byId, element, facts } from "./dom.js";
import { pictures } from "./picture.js";
import { NOT_PRIVATE, promise } from "./promise.js";
import { bookWords, promiseWords, said } from "./words.js";

const STEPS = [0.5, 1, 2, 5, 10, 20, 50, 100, 150, 250, 500, 1000, 2500]; // for models that take any budget
const START = 10;

const known = new Map(); // path: what the server said
const listeners = [];
let models = [];
let asked = 0;

export const whenBudgetChanges = (listener) => listeners.push(listener);

const chosen = () => models.find((each) => each.name === byId("model").value);

// What a request says about model and budget.
export function settings() {
  const mechanism = byId("mechanism").value;
  const epsilon = Number(byId("epsilon").value);
  return { model: byId("model").value, mechanism, ...(mechanism === "none" ? {} : { epsilon }), ...bookOptions() };
}

const pathOf = (wanted) => `/v1/noise?${queryOf(wanted)}`;

async function noiseOf(wanted) {
  const path = pathOf(wanted);
  if (!known.has(path)) known.set(path, await get(path));
  return known.get(path);
}

const steps = () => (chosen().budgets.length > 0 ? chosen().budgets : STEPS);
const largest = () => chosen().budgets.at(-1) ?? Infinity; // a model without steps takes any budget

function show(noise) {
  const lines = noise.words.map(({ name, words }) => [name, words]);
  const full = element("details", {}, element("summary", {}, "All figures"), facts(lines));
  full.open = byId("meaning-full").querySelector("details")?.open ?? false;
  byId("meaning").replaceChildren(...pictures(noise));
  byId("book-said").textContent = bookWords(noise, settings());
  byId("meaning-full").replaceChildren(full);
  byId("meaning").removeAttribute("aria-busy");
  byId("slider").setAttribute("aria-valuetext", `epsilon ${byId("epsilon").value}. ${said(noise, "In words")}`);
  promise("settings", { guarantee: noise.guarantee, words: promiseWords(noise) });
}

async function changed() {
  const mine = ++asked;
  const isNone = byId("mechanism").value === "none";
  byId("slider").disabled = byId("epsilon").disabled = isNone;
  byId("meaning").setAttribute("aria-busy", "true");
  for (const listener of listeners) listener();
  await attempt(async () => {
    const noise = await noiseOf(settings());
    if (mine === asked) show(noise); // a later answer may have overtaken this one
  });
}

export function setEpsilon(epsilon) {
  byId("epsilon").value = String(epsilon);
  const nearest = steps().reduce((best, step, place) =>
    (Math.abs(Math.log(step / epsilon)) < Math.abs(Math.log(steps()[best] / epsilon)) ? place : best), 0);
  byId("slider").value = String(nearest);
  return changed();
}

function modelChanged() {
  byId("mechanism").replaceChildren(
    ...chosen().mechanisms.map((name) => element("option", { value: name }, name === "none" ? `none: ${NOT_PRIVATE}` : name)),
  );
  byId("slider").max = String(steps().length - 1);
  for (const each of document.querySelectorAll("button[data-epsilon]")) each.disabled = Number(each.dataset.epsilon) > largest();
  showBook(chosen());
  return setEpsilon(Math.min(Number(byId("epsilon").value) || START, largest()));
}

// Ask ahead, so that the slider never has to wait while the server is busy.
async function askAhead() {
  const { model, mechanism } = settings();
  for (const epsilon of steps()) {
    if (byId("model").value !== model) return;
    await noiseOf({ model, mechanism, epsilon }).catch(() => null);
  }
}

export async function startBudget() {
  const offered = await get("/v1/models");
  models = offered.models;
  byId("model").replaceChildren(...models.map((each) =>
    element("option", { value: each.name, selected: each.name === offered.default, title: each.summary }, each.name)));
  byId("model").onchange = modelChanged;
  byId("mechanism").onchange = changed;
  startBook(changed);
  byId("slider").oninput = () => {
    byId("epsilon").value = String(steps()[Number(byId("slider").value)]);
    changed();
  };
  byId("epsilon").onchange = () => setEpsilon(Number(byId("epsilon").value));
  for (const each of document.querySelectorAll("button[data-epsilon]")) {
    each.onclick = () => setEpsilon(Number(each.dataset.epsilon));
  }
  await modelChanged();
  askAhead();
}
