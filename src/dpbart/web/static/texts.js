// Texts that a person pastes. They are in the request of this page and nowhere else.

import { askOnce, post } from "./api.js";
import { settings } from "./budget.js";
import { hideCard, showCard } from "./card.js";
import { attempt, button, byId, element, save } from "./dom.js";
import { pairs } from "./pairs.js";
import { NOT_PRIVATE, promise } from "./promise.js";

// An empty line ends a text.
const split = (all) => all.split(/\n[ \t]*\n/).map((text) => text.trim()).filter((text) => text !== "");

function clear() {
  byId("text-result").replaceChildren();
  promise("texts", null);
  hideCard();
}

// Byte for byte: the card holds a hash of the output.
function download({ output, card }) {
  save(output.name, new Blob([output.content], { type: "text/csv" }));
  for (const kind of ["json", "html"]) save(`${output.name}.card.${kind}`, new Blob([card[kind]]));
}

function show(originals, answer) {
  const { guarantee, worst } = answer;
  promise("texts", { guarantee: worst.guarantee, words: guarantee.private
    ? `${worst.guarantee.words} for ${worst.words} that you pasted.`
    : "The rewritten texts below have no guarantee. Do not share them." });
  byId("text-result").replaceChildren(
    element("p", {}, guarantee.private
      ? `The rewritten ${answer.texts.length === 1 ? "text has" : "texts have"} ${guarantee.words}. You may share ${answer.texts.length === 1 ? "it" : "them"} within that promise.`
      : element("span", { class: "not-private" }, NOT_PRIVATE)),
    ...pairs(originals, answer.texts),
    element("div", { class: "buttons" },
      button("Download with the card", () => download(answer), { class: "main" }),
      button("Show the card", () => showCard("the rewritten texts", answer.card)),
      button("Clear", () => { byId("texts").value = ""; clear(); byId("texts").focus(); })),
    element("p", { class: "quiet" }, "The download is a table of the rewritten texts, without the originals, and a card that others can verify with ",
      element("code", {}, "dpbart card verify"), "."),
  );
}

async function rewrite() {
  const texts = split(byId("texts").value);
  if (texts.length === 0) throw new Error("There is no text yet. Paste one first.");
  const person = byId("text-person").value.trim();
  const body = JSON.stringify({ ...settings(), texts, card: true, ...(person === "" ? {} : { people: texts.map(() => person) }) });
  show(texts, await askOnce("/v1/rewrite", body, (key) => post("/v1/rewrite", body, key)));
}

export function startTexts() {
  byId("text-form").onsubmit = async (event) => {
    event.preventDefault();
    if (byId("text-go").disabled) return; // the keys below would send again what is on its way
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
}
