// "How much privacy do I need?": what the chosen budget means for a person, and for a shuffled file.

import { get, queryOf } from "./api.js";
import { settings, whenBudgetChanges } from "./budget.js";
import { byId } from "./dom.js";
import { whenOpened } from "./tabs.js";

const PAUSE = 400; // milliseconds without a change before the server is asked
const LEAST_DELTA_DIGITS = 5;

let waiting = null;
let asked = 0;

// A tenth of 1 / people at most, and no more than 0.00001: the delta that a new ledger gets.
const deltaFor = (people) => `1e-${Math.max(LEAST_DELTA_DIGITS, String(people).length + 1)}`;

const noise = (wanted) => get(`/v1/noise?${queryOf(wanted)}`);

const person = async (chosen, texts) => (await noise({ ...chosen, texts })).person.words;

async function shuffled(chosen, people) {
  const { guarantee } = await noise(chosen);
  if (!guarantee.private) return "There is no promise at this setting, and shuffling does not make one.";
  if (guarantee.delta > 0) return "Shuffling needs a mechanism whose delta is 0, such as response or laplace. This one has another.";
  const told = await noise({ ...chosen, people, delta: deltaFor(people) });
  return told.shuffled.words.map(({ name, words }) => `${name}: ${words.replace(/\.$/, "")}.`).join(" ");
}

// The answer to one field, in its place.
async function answer(field, place, words) {
  const mine = asked;
  byId(place).setAttribute("aria-busy", "true");
  const said = byId(field).validity.valid && byId(field).value !== ""
    ? await words(settings(), Number(byId(field).value)).catch((error) => error.message)
    : `Enter a whole number from 1 to ${Number(byId(field).max).toLocaleString("en")}.`;
  if (mine !== asked) return; // a later answer is on its way
  byId(place).textContent = said;
  byId(place).removeAttribute("aria-busy");
}

function ask() {
  if (byId("model").value === "") return; // the models are not known yet; the budget will change when they are
  asked += 1;
  answer("guide-texts", "guide-person", person);
  answer("guide-people", "guide-shuffled", shuffled);
}

function changed() {
  clearTimeout(waiting);
  if (!byId("panel-guide").hidden) waiting = setTimeout(ask, PAUSE);
}

export function startGuide() {
  whenOpened("tab-guide", ask);
  whenBudgetChanges(changed);
  for (const field of ["guide-texts", "guide-people"]) byId(field).oninput = changed;
}
