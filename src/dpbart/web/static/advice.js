// Advice about epsilon from a file of public texts. Its page can be saved, and filed.

import { act } from "./api.js";
import { settings } from "./budget.js";
import { attempt, button, byId, element, Mistake, save } from "./dom.js";

const NAME = "advice.html";

const wrong = (words) => new Mistake("advice-problem", words);

function number(field) {
  if (!byId(field).validity.valid || byId(field).value === "") throw wrong("Enter whole numbers for the texts of one person and the people in the file.");
  return Number(byId(field).value);
}

function form() {
  const [file] = byId("advice-file").files;
  if (file === undefined) throw wrong("Choose a file of public texts.");
  if (!byId("advice-public").checked) throw wrong("Tick that the texts are public or made up. Never send the private ones here.");
  const label = byId("advice-label-column").value.trim();
  const options = {
    public: true,
    text_column: byId("advice-text-column").value.trim() || "text",
    ...(label === "" ? {} : { label_column: label }),
    texts_per_person: number("guide-texts"),
    people: number("guide-people"),
    trusted_curator: byId("advice-curator").checked,
    model: settings().model,
  };
  const sent = new FormData();
  sent.append("options", JSON.stringify(options));
  sent.append("file", file);
  return sent;
}

function show(advice) {
  byId("advice").replaceChildren(
    element("h4", {}, advice.headline),
    ...advice.reasons.map((words) => element("p", {}, words)),
    element("h4", {}, "What would change it"),
    element("ul", {}, ...advice.changes.map((words) => element("li", {}, words))),
    button("Save the page with all figures", () => save(NAME, new Blob([advice.page], { type: "text/html" }))),
  );
}

async function ask() {
  const sent = form();
  byId("advice-go").disabled = true;
  byId("advice").replaceChildren(element("p", { role: "status" }, "Measuring. This takes a minute or two."));
  try {
    show(await act("POST", "/v1/advice", sent));
  } catch (error) {
    byId("advice").replaceChildren();
    throw wrong(error.message);
  } finally {
    byId("advice-go").disabled = false;
  }
}

export function startAdvice() {
  byId("advice-form").onsubmit = (event) => {
    event.preventDefault();
    attempt(ask);
  };
}
