// Files: sent, followed, cancelled, resumed and downloaded with their card.

import { act, fetched, get } from "./api.js";
import { settings } from "./budget.js";
import { hideCard, showCard } from "./card.js";
import { attempt, button, byId, element, save } from "./dom.js";
import { promise } from "./promise.js";

const PAUSE = 500; // milliseconds between two looks at running jobs
const SAID = { waiting: "waiting for its turn", running: "rewriting", cancelled: "cancelled", failed: "failed", done: "done" };

const shown = new Map(); // id of a job: its place on the page, and what it shows
let following = false;

const isOpen = (job) => job.status === "waiting" || job.status === "running";

function words(job, stopping) {
  if (stopping && isOpen(job)) return "stops after this batch";
  const rows = job.rows === null ? "" : `: ${job.done.toLocaleString("en")} of ${job.rows.toLocaleString("en")} rows`;
  return `${SAID[job.status]}${rows}`;
}

async function change(job, step) {
  await attempt(async () => {
    await act("POST", `/v1/jobs/${job.id}/${step}`);
    if (step === "cancel") shown.get(job.id).stopping = true;
    await look();
  });
}

async function remove(job) {
  await attempt(async () => {
    await act("DELETE", `/v1/jobs/${job.id}`);
    hideCard();
    await look();
    byId("file").focus();
  });
}

const part = (job, kind) => fetched(job.card.replace(/json$/, kind));

async function card(job) {
  const [json, html] = await Promise.all(["json", "html"].map(async (kind) => (await part(job, kind)).blob.text()));
  showCard(job.name, { json, html });
}

async function download(job) {
  const output = await fetched(job.result);
  save(output.name, output.blob);
  for (const kind of ["json", "html"]) {
    save(`${output.name}.card.${kind}`, (await part(job, kind)).blob);
  }
}

function buttons(job) {
  const offered = {
    waiting: [button("Cancel", () => change(job, "cancel"))],
    running: [button("Cancel", () => change(job, "cancel"))],
    cancelled: [button("Resume", () => change(job, "resume")), button("Delete", () => remove(job))],
    failed: [button("Resume", () => change(job, "resume")), button("Delete", () => remove(job))],
    done: [button("Download with its card", () => attempt(() => download(job)), { class: "main" }),
      button("Show the card", () => attempt(() => card(job))), button("Delete", () => remove(job))],
  };
  return element("div", { class: "buttons" }, ...offered[job.status]);
}

// What stays as long as the status stays, so that the focus stays where it is.
function frame(job) {
  const standing = element("p", { role: "status" });
  const bar = element("progress", { "aria-label": `Progress of ${job.name}` });
  const isNotPrivate = job.guarantee !== null && !job.guarantee.private;
  const place = element("article", { class: "job", "data-job": job.id },
    element("h3", {}, job.name),
    isNotPrivate ? element("p", { class: "not-private" }, "NOT PRIVATE") : null,
    standing, isOpen(job) ? bar : null,
    ...job.notices.map((notice) => element("p", { class: "quiet" }, notice)),
    job.problem === null ? null : element("p", { class: "problem" }, job.problem.detail),
    job.status === "done" ? element("p", { class: "quiet" }, "The server has deleted the original. It deletes the output ten minutes after you download it.") : null,
    buttons(job));
  return { place, standing, bar, key: `${job.status} ${job.notices.length}`, stopping: false };
}

function draw(job) {
  let seen = shown.get(job.id);
  if (seen === undefined || seen.key !== `${job.status} ${job.notices.length}`) {
    const fresh = { ...frame(job), stopping: (seen?.stopping ?? false) && isOpen(job) };
    const hadFocus = seen?.place.contains(document.activeElement);
    if (seen === undefined) byId("jobs").prepend(fresh.place);
    else seen.place.replaceWith(fresh.place);
    if (hadFocus) fresh.place.querySelector("button").focus();
    shown.set(job.id, fresh);
    seen = fresh;
  }
  const said = words(job, seen.stopping);
  if (seen.standing.textContent !== said) seen.standing.textContent = said;
  if (job.rows !== null) [seen.bar.max, seen.bar.value] = [Math.max(1, job.rows), job.done];
}

// What the server has, now and while something runs.
export async function look() {
  const { jobs } = await get("/v1/jobs");
  for (const [id, { place }] of shown) {
    if (jobs.every((job) => job.id !== id)) {
      place.remove();
      shown.delete(id);
    }
  }
  for (const job of [...jobs].reverse()) draw(job);
  const open = jobs.some((job) => job.guarantee !== null && !job.guarantee.private);
  promise("jobs", open ? { isPrivate: false, words: "A file below has no guarantee." } : null);
  if (jobs.some(isOpen) && !following) follow();
}

async function follow() {
  following = true;
  try {
    do await new Promise((resume) => setTimeout(resume, PAUSE));
    while (await look().then(() => [...shown.values()].some(({ key }) => /^(waiting|running)/.test(key))));
  } catch {
    // The server is gone or busy. The next action of the reader says so.
  }
  following = false;
}

async function send() {
  const [file] = byId("file").files;
  if (file === undefined) throw new Error("There is no file yet. Choose one first.");
  const person = byId("person-column").value.trim();
  const options = { ...settings(), text_column: byId("text-column").value.trim(), ...(person === "" ? {} : { person_column: person }) };
  const form = new FormData();
  form.append("options", JSON.stringify(options));
  form.append("file", file);
  hideCard();
  await act("POST", "/v1/jobs", form);
  byId("file").value = "";
  await look();
}

function startDrop() {
  const drop = byId("drop");
  const over = (isOver) => (event) => {
    event.preventDefault();
    drop.classList.toggle("over", isOver);
  };
  drop.ondragover = over(true);
  drop.ondragleave = over(false);
  drop.ondrop = (event) => {
    over(false)(event);
    if (event.dataTransfer.files.length > 0) byId("file").files = event.dataTransfer.files;
  };
  // A file dropped next to the field must not replace the page.
  window.ondragover = window.ondrop = (event) => event.preventDefault();
}

export function startJobs() {
  startDrop();
  byId("file-form").onsubmit = async (event) => {
    event.preventDefault();
    byId("file-go").disabled = true;
    await attempt(send);
    byId("file-go").disabled = false;
  };
}
