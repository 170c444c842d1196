// Words of the page itself. What a budget means comes from the server, in the words of the command line.

const LARGE = new Intl.NumberFormat("en", { maximumSignificantDigits: 2 });

// What the server says about one figure of a budget; empty if it says nothing.
export const said = ({ words }, name) => words.find((line) => line.name === name)?.words ?? "";

// The sentence of the scale, without the name of its level, and the guarantee itself.
export function promiseWords(noise) {
  if (!noise.guarantee.private) return "Texts come out without any guarantee at this setting.";
  return `${said(noise, "Promise").slice(noise.guarantee.level.length + 2)} ${noise.guarantee.words} for one text.`;
}

// What can come out of the model's book, and what areas would bring as long as none are chosen.
export function bookWords(noise, { areas, topics }) {
  const more = areas === undefined && topics === undefined ? " Choose areas, and the same budget says more." : "";
  return `${said(noise, "Book")}.${more}`;
}

// A span of time, such as "10 minutes".
export function lasting(seconds) {
  const [size, unit] = [[3600, "hour"], [60, "minute"], [1, "second"]].find(([each]) => seconds % each === 0 || each === 1);
  return `${seconds / size} ${unit}${seconds === size ? "" : "s"}`;
}

export const rate = (perSecond) => LARGE.format(perSecond);

// A guess at how long something takes, rounded up.
export function timeLeft(seconds) {
  if (seconds < 60) return `${Math.ceil(seconds)} seconds`.replace(/^1 seconds$/, "1 second");
  const minutes = Math.ceil(seconds / 60);
  return minutes < 60 ? `${lasting(60 * minutes)}` : `${(minutes / 60).toFixed(1)} hours`;
}

// A moment, given in seconds since 1970, as the clock of the reader shows it.
export const moment = (seconds) => new Date(1000 * seconds).toLocaleString("en", { dateStyle: "medium", timeStyle: "short" });

// A delta, and what it means.
export const slack = (delta) => `delta ${delta}, a slack of 1 in ${LARGE.format(1 / Number(delta))}`;

// What a person has spent of their limit. Not all of it, as long as anything is left.
export function spentWords(one, isOpen) {
  const limit = one.limit === null ? "There is no limit." : `The limit is epsilon ${one.limit}.`;
  if (isOpen) return `A release about this person has no guarantee, so no epsilon says what they have spent. ${limit}`;
  if (one.texts === 0) return `Nothing is spent yet. ${limit}`;
  if (one.limit === null) return `Epsilon ${one.spent} is spent. ${limit}`;
  const share = Math.ceil((100 * one.spent) / one.limit);
  const percent = Number(one.left) > 0 ? Math.min(99, share) : 100;
  return `Epsilon ${one.spent} of ${one.limit} is spent (${percent}%), and ${one.left} is left.`;
}

// What was counted for it.
export function countedWords(one) {
  if (one.texts === 0) return `Spending will count all their texts together, at ${slack(one.delta)}.`;
  const texts = one.texts === 1 ? "their only text" : `all their ${one.texts.toLocaleString("en")} texts together, over all runs`;
  return `This counts ${texts}. It bounds what a reader of everything that came out can learn about this person, at ${slack(one.delta)}.${
    one.texts === 1 ? "" : " It can be less than the sum of the epsilons below, because they are counted together."}`;
}
