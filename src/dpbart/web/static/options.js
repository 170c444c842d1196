// The further options of a file, as the server declares them: what it adds, the page shows.

import { get } from "./api.js";
import { BOOK_OPTIONS } from "./book.js";
import { byId, element } from "./dom.js";
import { kindOf, whenKindChanges } from "./kind.js";

// What the budget, the columns and the kind of file decide. They have places of their own on the page.
const ELSEWHERE = ["model", "epsilon", "delta", "mechanism", "length", "beams", "central_epsilon", "text_column", "join_columns",
  "keep_columns", "keep_all", "label_column", "labels", "label_set", "label_values", "person_column", "id_column", "document", "expected_epsilon"];

const listeners = new Map(); // name of an option: what to do when it changes
const OPTIONS = { texts: "JobOptions", collection: "CollectionOptions" }; // by the kind of release
const declared = { texts: [], collection: [] }; // by kind: [name, schema] of each option

export const whenOptionsChange = (name, listener) => listeners.set(name, listener);

const idOf = (name) => name.replaceAll("_", "-");
const titleOf = (name) => (name[0].toUpperCase() + name.slice(1)).replaceAll("_", " ");

// A value or null: only what kind of value it is matters here.
const valueOf = (schema) => schema.anyOf?.find((each) => each.type !== "null") ?? schema;

function field([name, schema]) {
  const { type, enum: choices } = valueOf(schema);
  const common = { id: idOf(name), autocomplete: "off", onchange: listeners.get(name) ?? null };
  const label = element("label", { for: common.id }, `${titleOf(name)} `, element("span", { class: "quiet" }, schema.description));
  if (type === "boolean") return element("div", { class: "tick", "data-option": name }, element("input", { type: "checkbox", ...common }), label);
  if (choices !== undefined) {
    const options = choices.map((each) => element("option", { value: each, selected: each === schema.default }, each));
    return element("div", { class: "field", "data-option": name }, label, element("select", common, ...options));
  }
  const isNumber = type === "number" || type === "integer";
  const kind = isNumber ? { type: "number", min: 0, step: "any", inputmode: "decimal" } : { type: "text", spellcheck: "false" };
  return element("div", { class: "field", "data-option": name }, label, element("input", { ...kind, ...common }));
}

// What is chosen, as options of a job. What is left as it is, is not sent.
export function furtherOptions() {
  const chosen = {};
  for (const [name, schema] of declared[kindOf()]) {
    const input = byId(idOf(name));
    if (input.type === "checkbox") {
      if (input.checked) chosen[name] = true;
    } else if (input.value !== "" && input.value !== schema.default) {
      chosen[name] = input.type === "number" ? Number(input.value) : input.value;
    }
  }
  return chosen;
}

// Only those of this kind of release.
function update() {
  const names = declared[kindOf()].map(([name]) => name);
  for (const each of byId("more-options").querySelectorAll("[data-option]")) each.hidden = !names.includes(each.dataset.option);
}

whenKindChanges(update);

export async function startOptions() {
  const { schemas } = (await get("/openapi.json")).components;
  for (const [kind, record] of Object.entries(OPTIONS)) {
    declared[kind] = Object.entries(schemas[record].properties).filter(([name]) => ![...ELSEWHERE, ...BOOK_OPTIONS].includes(name));
  }
  const fields = [...new Map(Object.values(declared).flat())].map(field); // each option once
  byId("more-options").replaceChildren(
    ...fields.filter((each) => each.className === "tick"),
    element("div", { class: "row" }, ...fields.filter((each) => each.className === "field")));
  update();
}
