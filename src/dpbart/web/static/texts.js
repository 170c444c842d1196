// Texts that a person pastes. They are in the request of this page and nowhere else.

import { newKey, post } from "./api.js";
import { settings, whenBudgetChanges } from "./budget.js";
import { attempt, button, byId, element, save } from "./dom.js";
import { pairs } from "./pairs.js";
import { promise } from "./promise.js";

// An empty line ends a text.
const split = (all) => all.split(/\n[ \t]*\n/).map((text) => text.trim()).filter((text) => text !== "");

function clear() {
  byId("text-result").replaceChildren();
  promise("texts", null);
}

function download(answer) {
  save("rewritten.json", new Blob([`${JSON.stringify(answer, null, 2)}\n`], { type: "application/json" }));
}

function show(originals, answer) {
  const { guarantee } = answer;
  promise("texts", { isPrivate: guarantee.private, level: guarantee.level, words: "The rewritten texts below have no guarantee. Do not share them." });
  byId("text-result").replaceChildren(
    element("p", {}, guarantee.private
      ? `The rewritten ${answer.texts.length === 1 ? "text has" : "texts have"} ${guarantee.words}. You may share ${answer.texts.length === 1 ? "it" : "them"} within that promise.`
      : element("span", { class: "not-private" }, "NOT PRIVATE")),
    ...pairs(originals, answer.texts),
    element("div", { class: "buttons" },
      button("Download the rewritten texts", () => download(answer)),
      button("Clear", () => { byId("texts").value = ""; clear(); byId("texts").focus(); })),
    element("p", { class: "quiet" }, "The download holds the rewritten texts, their guarantee and the recipe, not the originals. A privacy card that others can verify comes with files, below."),
  );
}

async function rewrite() {
  const texts = split(byId("texts").value);
  if (texts.length === 0) throw new Error("There is no text yet. Paste one first.");
  const person = byId("text-person").value.trim();
  const body = { ...settings(), texts, ...(person === "" ? {} : { people: texts.map(() => person) }) };
  show(texts, await post("/v1/rewrite", body, { "Idempotency-Key": newKey() }));
}

export function startTexts() {
  byId("text-form").onsubmit = async (event) => {
    event.preventDefault();
    clear();
    byId("text-go").disabled = true;
    byId("text-go").textContent = "Rewriting";
    await attempt(rewrite);
    byId("text-go").disabled = false;
    byId("text-go").textContent = "Rewrite";
  };
  // Ctrl+Enter sends, as in other forms with a large field.
  byId("texts").onkeydown = (event) => {
    if (event.key === "Enter" && (event.ctrlKey || event.metaKey)) byId("text-form").requestSubmit();
  };
  whenBudgetChanges(() => promise("texts", null));
}
