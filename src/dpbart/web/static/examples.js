// Public texts at the chosen budget. Nobody is charged for them.

import { get, queryOf } from "./api.js";
import { settings, whenBudgetChanges } from "./budget.js";
import { byId, element } from "./dom.js";
import { pairs } from "./pairs.js";

const PAUSE = 400; // milliseconds without a move of the slider before examples are asked for
const FIRST = 3; // examples in sight at once

let waiting = null;
let asked = null;

async function show() {
  const place = byId("examples");
  asked?.abort();
  asked = new AbortController();
  place.setAttribute("aria-busy", "true");
  try {
    const { examples } = await get(`/v1/examples?${queryOf(settings())}`, asked.signal);
    const all = pairs(examples.map((each) => each.original), examples.map((each) => each.rewritten));
    const more = element("details", {}, element("summary", {}, "More examples"), ...all.slice(FIRST));
    more.open = place.querySelector("details")?.open ?? false;
    place.replaceChildren(...all.slice(0, FIRST), more);
    place.removeAttribute("aria-busy");
  } catch (error) {
    if (error.name === "AbortError") return; // the budget has changed meanwhile
    place.replaceChildren(element("p", { class: "quiet" }, `No examples: ${error.message}`));
    place.removeAttribute("aria-busy");
  }
}

export function startExamples() {
  whenBudgetChanges(() => {
    clearTimeout(waiting);
    byId("examples").setAttribute("aria-busy", "true");
    waiting = setTimeout(show, PAUSE);
  });
  return show();
}
