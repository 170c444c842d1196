// Model, mechanism and epsilon, and what they mean at every moment.

import { get } from "./api.js";
import { attempt, byId, element, facts } from "./dom.js";
import { pictures } from "./picture.js";
import { promise } from "./promise.js";
import { figure, guesserWords, promiseOf } from "./words.js";

const STEPS = [0.1, 0.2, 0.5, 1, 2, 3, 4, 5, 6, 8, 10, 12, 15, 20, 25, 30, 35, 40, 50, 60, 70, 85, 100, 120];
const LARGE_STEPS = [...STEPS, 150, 250, 500, 1000, 2500]; // for models whose noise leaves nothing of a text before
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
  const isNone = mechanism === "none";
  return {
    model: byId("model").value,
    ...(mechanism === "" ? {} : { mechanism }),
    ...(isNone ? {} : { epsilon: Number(byId("epsilon").value) }),
  };
}

const pathOf = (wanted) => `/v1/noise?${new URLSearchParams(wanted)}`;

async function noiseOf(wanted) {
  const path = pathOf(wanted);
  if (!known.has(path)) known.set(path, await get(path));
  return known.get(path);
}

const steps = () => (chosen()?.budgets.length ? STEPS : LARGE_STEPS);

function show(noise) {
  const lines = noise.words.map(({ name, words }) => [name, words]);
  const full = element("details", {}, element("summary", {}, "All figures"), facts(lines));
  full.open = byId("meaning-full").querySelector("details")?.open ?? false;
  byId("meaning").replaceChildren(...pictures(noise));
  byId("meaning-full").replaceChildren(full);
  byId("meaning").removeAttribute("aria-busy");
  byId("slider").setAttribute("aria-valuetext", `epsilon ${byId("epsilon").value}. ${guesserWords(noise).title}.`);
  promise("settings", { isPrivate: noise.guarantee.private, title: `${noise.guarantee.words} for one text.`, words: promiseOf(noise) });
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
    element("option", { value: "" }, "the model's own"),
    ...chosen().mechanisms.map((name) => element("option", { value: name }, name === "none" ? "none: NOT PRIVATE" : name)),
  );
  byId("slider").max = String(steps().length - 1);
  return setEpsilon(Number(byId("epsilon").value) || START);
}

// Ask ahead, so that the slider never has to wait while the server is busy.
async function askAhead(model) {
  for (const epsilon of STEPS) {
    if (byId("model").value !== model) return;
    await noiseOf({ model, epsilon }).catch(() => null);
  }
}

export async function startBudget() {
  const offered = await get("/v1/models");
  models = offered.models;
  byId("model").replaceChildren(...models.map((each) =>
    element("option", { value: each.name, selected: each.name === offered.default, title: each.summary }, each.name)));
  byId("model").onchange = modelChanged;
  byId("mechanism").onchange = changed;
  byId("slider").oninput = () => {
    byId("epsilon").value = String(steps()[Number(byId("slider").value)]);
    changed();
  };
  byId("epsilon").onchange = () => setEpsilon(Number(byId("epsilon").value));
  for (const each of document.querySelectorAll("button[data-epsilon]")) {
    each.onclick = () => setEpsilon(Number(each.dataset.epsilon));
  }
  await modelChanged();
  askAhead(byId("model").value);
}

export const epsilonWords = () => ("epsilon" in settings() ? `epsilon ${figure(settings().epsilon)}` : "no budget");
