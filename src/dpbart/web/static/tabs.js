// Tabs, as the ARIA authoring practices describe them: arrow keys, Home and End move; the page keeps one address.

import { byId } from "./dom.js";

const tabs = () => [...document.querySelectorAll("[role=tab]")];
const opened = new Map(); // id of a tab: what happens when it is opened
const closed = new Map(); // and when another one is

export const whenOpened = (id, act) => opened.set(id, act);
export const whenClosed = (id, act) => closed.set(id, act);

export function open(tab) {
  for (const each of tabs()) {
    const isThis = each === tab;
    each.setAttribute("aria-selected", String(isThis));
    each.tabIndex = isThis ? 0 : -1;
    byId(each.getAttribute("aria-controls")).hidden = !isThis;
    if (!isThis) closed.get(each.id)?.();
  }
  opened.get(tab.id)?.();
}

function moved(event) {
  const all = tabs(), here = all.indexOf(event.target);
  const to = { ArrowRight: here + 1, ArrowLeft: here - 1, Home: 0, End: all.length - 1 }[event.key];
  if (to === undefined || here < 0) return;
  event.preventDefault();
  const tab = all[(to + all.length) % all.length];
  tab.focus();
  open(tab);
}

export function startTabs() {
  for (const tab of tabs()) tab.onclick = () => open(tab);
  document.querySelector("[role=tablist]").onkeydown = moved;
}
