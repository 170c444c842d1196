// The columns of the chosen file, and what happens to each of them.

import { act } from "./api.js";
import { attempt, byId, element, Mistake } from "./dom.js";
import { isCollection, labelValues, whenKindChanges } from "./kind.js";
import { furtherOptions, whenOptionsChange } from "./options.js";

const LEFT_OUT = "left out", RELEASED = "released as it is";
const PERSON = "person: whose text it is";
const ROLES = {
  out: LEFT_OUT, text: "text: rewritten", "person-out": `${PERSON}, ${LEFT_OUT}`, person: `${PERSON}, ${RELEASED}`, label: "label", other: RELEASED,
};
const READ = "text: read and counted"; // in a collection
// The last word of a name says what a column holds: "patient note", and not "note id".
const SOUNDS_LIKE_TEXT = ["text", "texts", "note", "notes", "feedback", "comment", "comments", "review", "reviews", "message", "messages", "narrative",
  "complaint", "complaints", "description", "remark", "remarks", "opinion", "body", "content", "letter", "report", "transcript", "utterance", "sentence"];
const PLAIN = /\.txt(\.(gz|bz2|zst))?$/i; // has texts and no columns

let asked = null; // the file whose columns are shown, or will be
let isKnown = false; // whether they are shown
let isDocument = false; // whether it may be one text
let isCounted = false; // whether the server has a ledger

export const countPeople = (ledger) => { isCounted = ledger; };

const lines = () => [...byId("roles").querySelectorAll("select")];
const having = (role) => lines().filter((each) => each.value === role).map((each) => each.dataset.column);

// Beside the columns, if they are shown.
const wrong = (words) => new Mistake(byId("columns").hidden ? "problem" : "columns-problem", words);

const lastWord = (name) => name.replace(/([a-z])([A-Z])/g, "$1 $2").toLowerCase().split(/[^a-z]+/).filter((word) => word !== "").at(-1);

// A name alone decides. The values of a column are private. What nobody has asked for is not released, so one column at
// most is taken for the texts: the one that sounds most like it.
function guess(names) {
  if (names.length === 1 || names.includes("text")) return names.length === 1 ? names[0] : "text";
  const rank = (name) => SOUNDS_LIKE_TEXT.indexOf(lastWord(name));
  return names.filter((name) => rank(name) >= 0).sort((one, other) => rank(one) - rank(other))[0];
}

function line(name, place, names) {
  const first = name === guess(names) ? "text" : "out";
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
  const { shuffle: isShuffled = false, join_documents: isJoined = false } = furtherOptions();
  const isWhole = isCollection(), isRandomized = !isWhole && byId("label-policy").value === "randomize";
  offer("other", "out", !isShuffled && !isJoined && !isWhole);
  offer("person", "person-out", !isShuffled && !isWhole);
  for (const each of lines()) each.querySelector("option[value=text]").textContent = isWhole ? READ : ROLES.text;
  byId("join-columns-field").hidden = having("text").length < 2 || isWhole;
  byId("document-field").hidden = !isDocument || isWhole;
  byId("label-fields").hidden = having("label").length === 0;
  byId("label-epsilon-field").hidden = !isRandomized;
  byId("label-set-field").hidden = !isRandomized && !isWhole;
}

function show(file, { columns, reading }) {
  const isPlain = PLAIN.test(file.name);
  byId("columns").hidden = isPlain;
  isDocument = isPlain && reading !== null;
  byId("roles").replaceChildren(...(isPlain ? [] : columns.map(line)));
  update();
}

// How to read a file, as far as the file itself does not say it.
function dialect() {
  const { delimiter, encoding, sheet } = furtherOptions();
  return { delimiter, encoding, sheet }; // JSON leaves out what is undefined
}

// Ask for the columns of a file, and show them. Without a file, show none.
export async function chooseFile(file) {
  asked = file;
  isKnown = isDocument = false;
  byId("columns").hidden = byId("document-field").hidden = true;
  byId("join-columns").checked = byId("document").checked = false;
  if (file === null) return;
  const form = new FormData();
  form.append("options", JSON.stringify(dialect()));
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
  if (named.length > 1) throw wrong(`Only one column can be the ${words}, and ${named.length} are. Choose one of them.`);
  return named[0] ?? null;
}

const thePerson = () => only([...having("person"), ...having("person-out")], "person");

function labelOptions() {
  const column = only(having("label"), "label");
  if (column === null) return {};
  const policy = byId("label-policy").value, set = labelValues();
  if (isCollection()) {
    if (set.length < 2) throw wrong("A label column needs all labels that there can be, at least two. Type them next to the columns.");
    return { label_column: column, label_values: set };
  }
  if (policy !== "randomize") return { label_column: column, labels: policy };
  const epsilon = Number(byId("label-epsilon").value);
  if (!(epsilon > 0)) throw wrong("Randomised labels need an epsilon greater than 0. Type one next to the columns.");
  if (set.length < 2) throw wrong("Randomised labels need all labels that there can be, at least two. Type them next to the columns.");
  return { label_column: column, labels: `randomize:${epsilon}`, label_set: set };
}

function plainOptions() {
  if (isCounted) throw wrong("This server counts what people spend, and plain text does not say whose it is. Use a table with a column of ids.");
  return byId("document").checked && !isCollection() ? { document: true } : {};
}

// What comes out besides, if each text is rewritten.
const released = (texts) => ({
  ...(texts.length > 1 && byId("join-columns").checked ? { join_columns: true } : {}),
  keep_columns: [...having("person"), ...having("other")],
});

// What is chosen, as options of a job.
export async function columnOptions(file) {
  const wasKnown = isKnown && asked === file;
  if (!wasKnown) await chooseFile(file);
  if (PLAIN.test(file.name)) return plainOptions();
  if (!wasKnown) throw wrong("The columns of the file are shown now. Look at them, and press the button again.");
  const texts = having("text"), person = thePerson(), label = labelOptions();
  if (texts.length === 0) throw wrong(`No column is ${isCollection() ? "read" : "rewritten"} yet. Choose the one that has the texts.`);
  if (isCounted && person === null) throw wrong("This server counts what people spend. Choose the column that says whose text it is.");
  return {
    text_column: texts.length === 1 ? texts[0] : texts,
    ...(person === null ? {} : { person_column: person }),
    ...label,
    ...(isCollection() ? {} : released(texts)),
  };
}

export function startColumns() {
  byId("label-policy").onchange = update;
  whenKindChanges(update);
  whenOptionsChange("shuffle", update);
  whenOptionsChange("join_documents", update);
  for (const name of ["encoding", "sheet"]) whenOptionsChange(name, () => attempt(() => chooseFile(asked)));
}
