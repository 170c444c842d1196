// Files: sent, followed, cancelled, resumed and downloaded with their card.

import { act, askOnce, fetched, get } from "./api.js";
import { settings } from "./budget.js";
import { hideCard, showCard } from "./card.js";
import { chooseFile, columnOptions } from "./columns.js";
import { attempt, button, byId, element, save } from "./dom.js";
import { collectionBudget, isCollection } from "./kind.js";
import { furtherOptions } from "./options.js";
import { NOT_PRIVATE, promise } from "./promise.js";
import { showTopics } from "./topics.js";
import { lasting, moment, rate, timeLeft } from "./words.js";

const PAUSE = 500; // milliseconds between two looks at running jobs
const LONG_PAUSE = 2000; // and if the server does not answer
const SAID = { waiting: "waiting for its turn", asking: "waiting for your answer", cancelled: "cancelled", failed: "failed", done: "done" };

const RUNNING = { texts: "rewriting", collection: "reading" };

const shown = new Map(); // id of a job: its place on the page, and what it shows
let following = false;
let looks = 0;
let limits = null; // of the server: how long it keeps a job, in seconds

export const keepFor = (told) => { limits = told; };

const isOpen = (job) => job.status === "waiting" || job.status === "running";

function words(job, seen) {
  if (seen.stopping && isOpen(job)) return "stops after this batch";
  const rows = job.rows === null ? "" : `: ${job.done.toLocaleString("en")} of ${job.rows.toLocaleString("en")} rows`;
  return `${SAID[job.status] ?? RUNNING[job.kind]}${rows}${job.status === "running" ? pace(job, seen) : ""}`;
}

// How fast it goes since the page first saw it move, and how long it will take. Both change with each batch.
function pace({ rows, done }, seen) {
  if (rows === null || done === 0) return "";
  const now = { at: Date.now(), done };
  seen.first ??= now;
  if (done > (seen.last ?? seen.first).done) seen.last = now;
  if (seen.last === undefined) return "";
  const perSecond = (1000 * (done - seen.first.done)) / (seen.last.at - seen.first.at);
  return `, ${rate(perSecond)} a second, ${timeLeft((rows - done) / perSecond)} left`;
}

async function change(job, step) {
  await attempt(async () => {
    await act("POST", `/v1/jobs/${job.id}/${step}`);
    shown.get(job.id).stopping = step === "cancel"; // it may have stopped before this answer came, and be resumed later
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
  await look(); // the output is kept for a shorter time now
}

function buttons(job, told) {
  const offered = {
    waiting: [button("Cancel", () => change(job, "cancel"))],
    running: [button("Cancel", () => change(job, "cancel"))],
    asking: [button(`${job.kind === "texts" ? "Rewrite" : "Release"} it all the same`, () => change(job, "resume")), button("Delete", () => remove(job))],
    cancelled: [button("Resume", () => change(job, "resume")), button("Delete", () => remove(job))],
    failed: [button("Resume", () => change(job, "resume")), button("Delete", () => remove(job))],
    done: [button("Download with its card", () => attempt(() => download(job)), { class: "main" }),
      button("Show the card", () => attempt(() => card(job))), button("Show topics", () => attempt(() => showTopics(job, told))),
      button("Delete", () => remove(job))],
  };
  return element("div", { class: "buttons" }, ...offered[job.status]);
}

// What the output promises.
function promised({ kind, guarantee, shuffled }) {
  if (guarantee === null) return null;
  if (!guarantee.private) return element("p", { class: "not-private" }, NOT_PRIVATE);
  if (kind === "collection") return element("p", {}, `Each person has ${guarantee.words} with all their texts. No row belongs to anybody.`);
  const together = shuffled === null ? "" : ` The shuffled output as a whole has ${shuffled.words} for those who see nothing else.`;
  return element("p", {}, `Each text has ${guarantee.words}.${together}`);
}

// A job that promises somebody less than the page showed, or has too few people, does nothing before its owner has answered.
function question({ kind, status, worst, notices }) {
  if (status !== "asking") return null;
  if (kind === "collection") return element("p", { class: "problem", role: "alert" }, `${notices[0]} Nothing is counted or spent yet.`);
  const { guarantee, texts, words } = worst;
  const remedy = texts === 1 ? "" : " Joined into one text, they would have one epsilon. For that, delete this job, tick the option that joins them, and send the file again.";
  return element("p", { class: "problem", role: "alert" }, `This file promises less than the page showed: ${guarantee.words} for ${words}. That promise is ${
    guarantee.level}. Nothing is rewritten or spent yet.${remedy}`);
}

// What the server still has of a job, and how long.
function kept(job) {
  if (job.expires === null) return null;
  const isDownloaded = job.expires < job.ended + limits.job_seconds;
  const sooner = isDownloaded ? "" : `, or ${lasting(limits.downloaded_seconds)} after you download it`;
  return element("p", { class: "quiet" }, job.status === "done"
    ? `The server has deleted the original. It deletes the output on ${moment(job.expires)}${sooner}.`
    : `The server keeps your file until ${moment(job.expires)}, so that the job can resume. Then it deletes it. To delete it now, press Delete.`);
}

const keyOf = (job) => `${job.status} ${job.notices.length} ${job.expires}`;

// What stays as long as the status stays, so that the focus stays where it is.
function frame(job, told) {
  const standing = element("p", { role: isOpen(job) ? null : "status" }); // numbers that change all the time are not read out
  const bar = element("progress", { "aria-label": `Progress of ${job.name}` });
  const place = element("article", { class: "job", "data-job": job.id },
    element("h3", {}, job.name),
    question(job), promised(job), standing, isOpen(job) ? bar : null,
    ...job.notices.map((notice) => element("p", { class: "quiet" }, notice)),
    job.problem === null ? null : element("p", { class: "problem" }, job.problem.detail),
    kept(job), buttons(job, told), told);
  return { place, standing, bar, told, key: keyOf(job), stopping: false };
}

function draw(job) {
  let seen = shown.get(job.id);
  if (seen === undefined || seen.key !== keyOf(job)) {
    const fresh = { ...frame(job, seen?.told ?? element("div")), stopping: (seen?.stopping ?? false) && isOpen(job) };
    const hadFocus = seen?.place.contains(document.activeElement);
    if (seen === undefined) byId("jobs").prepend(fresh.place);
    else seen.place.replaceWith(fresh.place);
    if (hadFocus) fresh.place.querySelector("button").focus();
    shown.set(job.id, fresh);
    seen = fresh;
  }
  const said = words(job, seen);
  if (seen.standing.textContent !== said) seen.standing.textContent = said;
  if (job.rows !== null) [seen.bar.max, seen.bar.value] = [Math.max(1, job.rows), job.done];
}

// The weakest promise that anybody gets from these files.
function worstOf(jobs) {
  const rewritten = jobs.filter(({ status, worst }) => worst !== null && status !== "asking");
  const open = rewritten.find(({ worst }) => !worst.guarantee.private);
  if (open !== undefined) return { guarantee: open.worst.guarantee, words: "A file below has no guarantee." };
  const [first] = rewritten.sort((one, other) => other.worst.guarantee.epsilon - one.worst.guarantee.epsilon);
  return first === undefined ? null
    : { guarantee: first.worst.guarantee, words: `${first.worst.guarantee.words} for ${first.worst.words} in ${first.name}.` };
}

// What the server has, now and while something runs.
export async function look() {
  const mine = ++looks;
  const { jobs } = await get("/v1/jobs");
  if (mine !== looks) return; // a later look knows more, and its answer may have come first
  for (const [id, { place }] of shown) {
    if (jobs.every((job) => job.id !== id)) {
      place.remove();
      shown.delete(id);
    }
  }
  for (const job of [...jobs].reverse()) draw(job);
  promise("jobs", worstOf(jobs));
  if (jobs.some(isOpen) && !following) follow();
}

const unfinished = () => [...shown.values()].filter(({ key }) => /^(waiting|running)/.test(key));

// The server may be gone for a while, and continue its jobs when it is back.
async function follow() {
  following = true;
  let pause = PAUSE;
  while (unfinished().length > 0) {
    await new Promise((resume) => setTimeout(resume, pause));
    pause = await look().then(() => PAUSE, () => LONG_PAUSE);
    if (pause === LONG_PAUSE) for (const { standing } of unfinished()) standing.textContent = "The server does not answer. Asking again.";
  }
  following = false;
}

async function send() {
  const [file] = byId("file").files;
  if (file === undefined) throw new Error("There is no file yet. Choose one first.");
  const budget = isCollection() ? collectionBudget() : { ...settings(), expected_epsilon: settings().epsilon };
  const path = isCollection() ? "/v1/collections" : "/v1/jobs";
  const options = JSON.stringify({ ...budget, ...(await columnOptions(file)), ...furtherOptions() });
  const form = new FormData();
  form.append("options", options);
  form.append("file", file);
  hideCard();
  const what = JSON.stringify([file.name, file.size, file.lastModified, options]);
  await askOnce(path, what, (key) => act("POST", path, form, key));
  byId("file").value = "";
  chooseFile(null);
  await look();
}

const choose = () => attempt(() => chooseFile(byId("file").files[0] ?? null));

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
    if (event.dataTransfer.files.length === 0) return;
    byId("file").files = event.dataTransfer.files;
    choose();
  };
  // A file dropped next to the field must not replace the page.
  window.ondragover = window.ondrop = (event) => event.preventDefault();
}

export function startJobs() {
  startDrop();
  document.onvisibilitychange = () => { if (!document.hidden) look().catch(() => null); }; // another tab may have changed a job
  byId("file").onchange = choose;
  byId("file-form").onsubmit = async (event) => {
    event.preventDefault();
    byId("file-go").disabled = true;
    await attempt(send);
    byId("file-go").disabled = false;
  };
}
