// The columns of the chosen file, and what happens to each of them.

import { act } from "./api.js";
import { attempt, byId, element } from "./dom.js";

const LEFT_OUT = "left out", RELEASED = "released as it is";
const PERSON = "person: whose text it is";
const ROLES = {
  out: LEFT_OUT, text: "text: rewritten", "person-out": `${PERSON}, ${LEFT_OUT}`, person: `${PERSON}, ${RELEASED}`, label: "label", other: RELEASED,
};
const PLAIN = /\.txt(\.(gz|bz2|zst))?$/i; // has texts and no columns

let asked = null; // the file whose columns are shown, or will be
let isKnown = false; // whether they are shown
let isCounted = false; // whether the server has a ledger

export const countPeople = (ledger) => { isCounted = ledger; };

const lines = () => [...byId("roles").querySelectorAll("select")];
const having = (role) => lines().filter((each) => each.value === role).map((each) => each.dataset.column);

// A name alone decides. The values of a column are private. What nobody has asked for is not released.
const guess = (name, names) => (names.length === 1 || name === "text" ? "text" : "out");

function line(name, place, names) {
  const first = guess(name, names);
  const options = Object.entries(ROLES).map(([role, words]) => element("option", { value: role, selected: role === first }, words));
  return element("div", { class: "role" },
    element("label", { for: `role-${place}` }, name),
    element("select", { id: `role-${place}`, "data-column": name, autocomplete: "off", onchange: update }, ...options));
}

// Offer a role, or have another one in its place.
function offer(role, instead, isOffered) {
  for (const each of lines()) {
    each.querySelector(`option[value=${role}]`).hidden = !isOffered;
    if (!isOffered && each.value === role) each.value = instead;
  }
}

// Show the fields that belong to what is chosen.
function update() {
  const isShuffled = byId("shuffle").checked, isJoined = byId("join-documents").checked;
  offer("other", "out", !isShuffled && !isJoined);
  offer("person", "person-out", !isShuffled);
  byId("join-columns-field").hidden = having("text").length < 2;
  byId("label-fields").hidden = having("label").length === 0;
  for (const field of document.querySelectorAll("[data-randomized]")) field.hidden = byId("label-policy").value !== "randomize";
}

function show(file, { columns, reading }) {
  const isPlain = PLAIN.test(file.name);
  byId("columns").hidden = isPlain;
  byId("document-field").hidden = !isPlain || reading === null;
  byId("roles").replaceChildren(...(isPlain ? [] : columns.map(line)));
  update();
}

// Which characters the bytes of a file stand for, if the file itself does not say it.
const encodingOption = () => (byId("encoding").value === "" ? {} : { encoding: byId("encoding").value });

// Ask for the columns of a file, and show them. Without a file, show none.
export async function chooseFile(file) {
  asked = file;
  isKnown = false;
  byId("columns").hidden = byId("document-field").hidden = true;
  byId("join-columns").checked = byId("document").checked = false;
  if (file === null) return;
  const form = new FormData();
  form.append("options", JSON.stringify(encodingOption()));
  form.append("file", file);
  byId("columns-asked").textContent = "Looking for the columns.";
  try {
    const answer = await act("POST", "/v1/columns", form);
    if (asked !== file) return; // another one was chosen meanwhile
    show(file, answer);
    isKnown = true;
  } finally {
    if (asked === file) byId("columns-asked").textContent = "";
  }
}

function only(named, words) {
  if (named.length > 1) throw new Error(`Only one column can be the ${words}, and ${named.length} are. Choose one of them.`);
  return named[0] ?? null;
}

const thePerson = () => only([...having("person"), ...having("person-out")], "person");

function labelOptions() {
  const column = only(having("label"), "label");
  if (column === null) return {};
  const policy = byId("label-policy").value;
  if (policy !== "randomize") return { label_column: column, labels: policy };
  const epsilon = Number(byId("label-epsilon").value);
  const set = byId("label-set").value.split(",").map((each) => each.trim()).filter((each) => each !== "");
  if (!(epsilon > 0)) throw new Error("Randomised labels need an epsilon greater than 0. Type one next to the columns.");
  if (set.length < 2) throw new Error("Randomised labels need all labels that there can be, at least two. Type them next to the columns.");
  return { label_column: column, labels: `randomize:${epsilon}`, label_set: set };
}

function plainOptions() {
  if (isCounted) throw new Error("This server counts what people spend, and plain text does not say whose it is. Use a table with a column of ids.");
  return byId("document").checked ? { document: true } : {};
}

// What is chosen, as options of a job.
export async function columnOptions(file) {
  const wasKnown = isKnown && asked === file;
  if (!wasKnown) await chooseFile(file);
  if (PLAIN.test(file.name)) return plainOptions();
  if (!wasKnown) throw new Error("The columns of the file are shown now. Look at them, and press the button again.");
  const texts = having("text"), person = thePerson(), label = labelOptions();
  if (texts.length === 0) throw new Error("No column is rewritten yet. Choose the one that has the texts.");
  if (isCounted && person === null) throw new Error("This server counts what people spend. Choose the column that says whose text it is.");
  return {
    text_column: texts.length === 1 ? texts[0] : texts,
    ...(texts.length > 1 && byId("join-columns").checked ? { join_columns: true } : {}),
    ...(person === null ? {} : { person_column: person }),
    ...label,
    keep_columns: [...having("person"), ...having("other")],
  };
}

// The further choices, as options of a job. What is left as it is, is not sent.
export function moreOptions() {
  const options = encodingOption();
  for (const [id, name] of [["shuffle", "shuffle"], ["join-documents", "join_documents"]]) {
    if (byId(id).checked) options[name] = true;
  }
  if (byId("split").checked) {
    options.split = "sentences";
    if (byId("pieces").value !== "") options.pieces = Number(byId("pieces").value);
  }
  if (byId("missing-person").value !== "refuse") options.missing_person = byId("missing-person").value;
  if (byId("person-budget").value !== "") options.person_budget = Number(byId("person-budget").value);
  return options;
}

export function startColumns() {
  for (const id of ["shuffle", "join-documents", "label-policy"]) byId(id).onchange = update;
  byId("encoding").onchange = () => attempt(() => chooseFile(asked));
  byId("split").onchange = () => { byId("pieces-field").hidden = !byId("split").checked; };
}
