// What is promised, in one place on every tab: the worst promise of all that is in sight. If anything is not private, this
// says so, in its one colour.

import { byId, element } from "./dom.js";

export const NOT_PRIVATE = "NOT PRIVATE";
const WEAK = ["weak", "almost none"]; // levels of the scale that cards use
const said = new Map(); // what: { guarantee, words }

const weakness = ({ guarantee }) => (guarantee.private ? guarantee.epsilon : Infinity);

export function promise(what, statement) {
  if (statement === null) said.delete(what);
  else said.set(what, statement);
  if (said.size === 0) return; // the settings are not known yet
  const every = [...said.values()];
  const shown = every.reduce((worst, each) => (weakness(each) > weakness(worst) ? each : worst), said.get("settings") ?? every[0]);
  const { guarantee, words } = shown;
  const place = byId("promise");
  place.classList.toggle("open", !guarantee.private);
  place.classList.toggle("weak", guarantee.private && WEAK.includes(guarantee.level));
  place.replaceChildren(element("strong", {}, guarantee.private ? `Promise: ${guarantee.level}.` : NOT_PRIVATE), words);
}
