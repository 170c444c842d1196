// People and what they have spent, from the ledger of the server.

import { get } from "./api.js";
import { attempt, button, byId, element } from "./dom.js";
import { NOT_PRIVATE, promise } from "./promise.js";
import { whenOpened } from "./tabs.js";

const PAGE = 100; // people in one answer
const COLUMNS = [["Person", null], ["Texts", "number"], ["Spent", "number"], ["Limit", "number"], ["Left", "number"]];

const isOpen = (epsilon) => epsilon === "Infinity";
const spent = (epsilon) => (isOpen(epsilon) ? element("span", { class: "not-private" }, NOT_PRIVATE) : epsilon);

const row = (one) => element("tr", {},
  element("th", { scope: "row" }, one.person),
  element("td", { class: "number" }, one.texts.toLocaleString("en")),
  element("td", { class: "number" }, spent(one.spent)),
  element("td", { class: "number" }, one.limit ?? "none"),
  element("td", { class: "number" }, one.left ?? "no limit"));

const table = (people) => element("div", { class: "scroll", tabindex: "0", role: "region", "aria-label": "People" },
  element("table", {},
    element("thead", {}, element("tr", {}, ...COLUMNS.map(([words, kind]) => element("th", { scope: "col", class: kind }, words)))),
    element("tbody", {}, ...people.map(row))));

function summary(held) {
  if (held.people === 0) return "Nobody has spent anything yet.";
  const limit = held.limit === null ? "There is no limit for everybody." : `Everybody without a limit of their own may spend epsilon ${held.limit}.`;
  const people = held.people === 1 ? "1 person" : `${held.people.toLocaleString("en")} people`;
  return `${people}, ${held.texts.toLocaleString("en")} texts. ${limit} Spending is the epsilon of all texts of a person together, at delta ${held.delta}.`;
}

function pages(held) {
  const turn = (words, start, offered) => (offered ? button(words, () => attempt(() => show(start))) : null);
  return element("div", { class: "buttons" },
    turn("Earlier people", held.start - PAGE, held.start > 0),
    turn("More people", held.start + PAGE, held.start + held.spending.length < held.people));
}

async function show(start) {
  const held = await get(`/v1/ledger?start=${start}`);
  const open = held.spending.some((one) => isOpen(one.spent)) || isOpen(held.most_spent);
  promise("people", open ? { isPrivate: false, words: "Somebody in the ledger has a release without a guarantee." } : null);
  byId("people").replaceChildren(element("p", {}, summary(held)), held.spending.length > 0 ? table(held.spending) : "", pages(held));
}

async function opened() {
  const { ledger } = await get("/healthz");
  if (ledger) return show(0);
  byId("people").replaceChildren(element("p", {},
    "This server has no ledger, so nobody is counted. To count what people spend, start it with ",
    element("code", {}, "dpbart serve --ledger budgets.db"), "."));
  return null;
}

export const startPeople = () => whenOpened("tab-people", () => attempt(opened));
