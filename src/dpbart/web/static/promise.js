// What is promised, in one place on every tab. If anything in sight is not private, this says so, in its one colour.

import { byId, element } from "./dom.js";

export const NOT_PRIVATE = "NOT PRIVATE";
const WEAK = ["weak", "almost none"]; // levels of the scale that cards use
const said = new Map(); // what: { isPrivate, level, words }

export function promise(what, statement) {
  if (statement === null) said.delete(what);
  else said.set(what, statement);
  const open = [...said.values()].find((each) => !each.isPrivate);
  const shown = open ?? said.get("settings");
  if (shown === undefined) return;
  const place = byId("promise");
  place.classList.toggle("open", open !== undefined);
  place.classList.toggle("weak", open === undefined && WEAK.includes(shown.level));
  place.replaceChildren(element("strong", {}, open ? NOT_PRIVATE : `Promise: ${shown.level}.`), shown.words);
}
