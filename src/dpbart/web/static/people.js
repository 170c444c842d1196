// People and what they have spent, from the ledger of the server.

import { get, post } from "./api.js";
import { attempt, button, byId, drawn, element } from "./dom.js";
import { NOT_PRIVATE, promise } from "./promise.js";
import { whenClosed, whenOpened } from "./tabs.js";
import { countedWords, slack, spentWords } from "./words.js";

const PAGE = 100; // people in one answer
const INFINITE = "infinite"; // spent by a release without a guarantee
const COLUMNS = [["Person", null], ["Texts", "number"], ["Spent", "number"], ["Limit", "number"], ["Left", "number"]];
const RUNS = [["Last text", null], ["Texts", "number"], ["Epsilon of each", "number"], ["Mechanism", null], ["Model", null], ["Run", null]];

let page = 0; // where the page of all people starts
let asked = 0;

const isOpen = (epsilon) => epsilon === INFINITE;
const budget = (epsilon) => (isOpen(epsilon) ? element("span", { class: "not-private" }, NOT_PRIVATE) : epsilon);

// How much of a limit is spent. The words next to it say the same.
function bar(one) {
  if (one.limit === null) return "";
  const share = isOpen(one.spent) ? 1 : Math.min(1, Number(one.spent) / Number(one.limit));
  const part = (width, kind) => drawn("rect", { width, height: 4, rx: 1, class: kind });
  return drawn("svg", { viewBox: "0 0 100 4", preserveAspectRatio: "none", class: "share", "aria-hidden": "true", focusable: "false" },
    part(100, "away"), part(100 * share, isOpen(one.spent) ? "open" : "there"));
}

const number = (...inside) => element("td", { class: "number" }, ...inside);

const row = (one) => element("tr", {},
  element("th", { scope: "row" }, one.person),
  number(one.texts.toLocaleString("en")),
  number(budget(one.spent), bar(one)),
  number(one.limit ?? "none"),
  number(one.left ?? "no limit"));

const run = (each) => element("tr", {},
  element("td", {}, `${each.last.slice(0, 16).replace("T", " ")} UTC`),
  number(each.texts.toLocaleString("en")),
  number(budget(each.epsilon), each.delta === "0" ? "" : `, delta ${each.delta}`),
  element("td", {}, each.mechanism),
  element("td", {}, each.model),
  element("td", {}, each.run));

const table = (name, columns, rows) => element("div", { class: "scroll", tabindex: "0", role: "region", "aria-label": name },
  element("table", {},
    element("thead", {}, element("tr", {}, ...columns.map(([words, kind]) => element("th", { scope: "col", class: kind }, words)))),
    element("tbody", {}, ...rows)));

function summary(held) {
  if (held.people === 0) return "Nobody has spent anything yet.";
  const limit = held.limit === null ? "There is no limit for everybody." : `Everybody without a limit of their own may spend epsilon ${held.limit}.`;
  const people = held.people === 1 ? "1 person" : `${held.people.toLocaleString("en")} people`;
  return `${people}, ${held.texts.toLocaleString("en")} texts. ${limit} Spending is the epsilon of all texts of a person together, at ${slack(held.delta)}.`;
}

function pages(held) {
  const turn = (words, start, offered) => (offered ? button(words, () => attempt(() => showAll(start))) : null);
  return element("div", { class: "buttons" },
    turn("Earlier people", held.start - PAGE, held.start > 0),
    turn("More people", held.start + PAGE, held.start + held.spending.length < held.people));
}

const warn = (isPrivate, words) => promise("people", isPrivate ? null : { guarantee: { private: false }, words });

// Shows an answer, unless something else was asked for in the meantime.
async function answer(asking, show) {
  const mine = ++asked;
  const held = await asking;
  if (mine === asked) show(held);
}

const showAll = (start) => answer(get(`/v1/ledger?start=${start}`), (held) => {
  page = start;
  warn(held.private, "Somebody in the ledger has a release without a guarantee.");
  byId("people").replaceChildren(element("p", {}, summary(held)), held.spending.length > 0 ? table("People", COLUMNS, held.spending.map(row)) : "", pages(held));
});

function showOne(one) {
  warn(!isOpen(one.spent), "A release about this person has no guarantee.");
  const name = element("h3", { id: "person-name", tabindex: "-1" }, one.person);
  byId("people").replaceChildren(
    name,
    element("p", {}, isOpen(one.spent) ? element("strong", { class: "not-private" }, `${NOT_PRIVATE}. `) : null, spentWords(one, isOpen(one.spent))),
    bar(one),
    isOpen(one.spent) ? "" : element("p", {}, countedWords(one)),
    one.runs.length > 0 ? table("Releases", RUNS, one.runs.map(run)) : "",
    one.composition === null ? "" : element("p", { class: "quiet" }, `How the releases add up: ${one.composition}.`),
    element("div", { class: "buttons" }, button("Back to all people", back)));
  name.focus();
}

async function back() {
  byId("person").value = "";
  await attempt(() => showAll(page));
  byId("person").focus();
}

async function find(event) {
  event.preventDefault();
  const person = byId("person").value;
  await attempt(async () => {
    if (person.trim() === "") return showAll(0);
    return answer(post("/v1/ledger/person", JSON.stringify({ person })), showOne).catch(async (error) => {
      await showAll(page); // and not whoever was found before
      throw error;
    });
  });
}

async function opened() {
  const { ledger } = await get("/healthz");
  byId("person-form").hidden = !ledger;
  byId("person").value = "";
  if (ledger) return showAll(0);
  byId("people").replaceChildren(element("p", {},
    "This server has no ledger, so nobody is counted. To count what people spend, start it with ",
    element("code", {}, "dpbart serve --ledger budgets.db"), "."));
  return null;
}

export function startPeople() {
  byId("person-form").onsubmit = find;
  whenOpened("tab-people", () => {
    byId("budget").hidden = true; // it is about texts that are still to be rewritten
    return attempt(opened);
  });
  whenClosed("tab-people", () => {
    byId("budget").hidden = false;
    asked += 1;
    promise("people", null);
  });
}
