// All requests of the page, to the server it came from. Texts travel in bodies, never in addresses.

import { byId } from "./dom.js";

let token = null; // in memory only

export class Problem extends Error {
  constructor(status, details) {
    super(sentence(details.detail ?? `The server answered with status ${status}.`));
    this.status = status;
    this.details = details;
  }
}

// The words of the command line begin without a capital.
const sentence = (words) => words.charAt(0).toUpperCase() + words.slice(1);

async function ask(path, { method = "GET", body = null, headers = {}, signal = null } = {}) {
  const sent = token === null ? headers : { ...headers, Authorization: `Bearer ${token}` };
  let answer;
  try {
    answer = await fetch(path, { method, body, headers: sent, signal, cache: "no-store", credentials: "omit" });
  } catch (error) {
    if (error.name === "AbortError") throw error;
    throw new Problem(0, { detail: "The server does not answer. Is 'dpbart serve' still running?" });
  }
  if (answer.ok) return answer;
  if (answer.status === 401) byId("token-form").hidden = false;
  throw new Problem(answer.status, await answer.json().catch(() => ({})));
}

// A list is a name that occurs several times.
export const queryOf = (wanted) =>
  new URLSearchParams(Object.entries(wanted).flatMap(([name, value]) => [value].flat().map((each) => [name, String(each)])));

export const get = async (path, signal) => (await ask(path, { signal })).json();

// A file, with the name that the server gives it.
export async function fetched(path) {
  const answer = await ask(path);
  const name = /filename\*=UTF-8''(\S+)/.exec(answer.headers.get("Content-Disposition") ?? "");
  return { name: name === null ? "file" : decodeURIComponent(name[1]), blob: await answer.blob() };
}

export const act = async (method, path, body = null, headers = {}) => {
  const answer = await ask(path, { method, body, headers });
  return answer.status === 204 ? null : answer.json();
};

export const post = (path, body, headers = {}) => act("POST", path, body, { "Content-Type": "application/json", ...headers });

const unanswered = new Map(); // path: what was asked there last, and its key

const newKey = () =>
  Array.from(crypto.getRandomValues(new Uint8Array(16)), (each) => each.toString(16).padStart(2, "0")).join("");

// Ask with an Idempotency-Key. If no answer arrives, the same question keeps its key: asking again neither draws nor
// charges a second time. `what` tells questions apart; `send` gets the header.
export async function askOnce(path, what, send) {
  const last = unanswered.get(path);
  const key = last?.what === what ? last.key : newKey();
  unanswered.set(path, { what, key });
  const answer = await send({ "Idempotency-Key": key });
  unanswered.delete(path);
  return answer;
}

export function useToken(given) {
  token = given;
  byId("token-form").hidden = true;
}
