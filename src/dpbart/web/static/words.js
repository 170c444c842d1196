// What figures mean, in words. A bound on an attacker is rounded up, never down.

const ALWAYS = 0.999; // beyond this a bound says nothing useful
const LARGE = new Intl.NumberFormat("en", { maximumSignificantDigits: 2 });

// A share as so many of 100, rounded up.
export function atMostOf100(share) {
  if (share > ALWAYS) return "practically always";
  const times = 100 * share;
  const shown = times >= 10 ? Math.ceil(times - 1e-9) : Number((Math.ceil(times * 100 - 1e-9) / 100).toPrecision(3));
  return `at most ${shown} of 100 times`;
}

export function guesserWords(noise) {
  const many = noise.right_of_a_million;
  return {
    title: `A guesser ${noise.right_of_two > ALWAYS ? "may be" : "is"} right ${atMostOf100(noise.right_of_two)}`,
    more: `if your text is one of two that the guesser knows; a coin toss is right 50 times. If it is one of a million: ${
      many < 0.0001 ? "less than 1 of 10,000 times" : atMostOf100(many)}.`,
  };
}

export function bitsWords(noise) {
  if (noise.bits === null) return { title: "Everything gets through", more: "Nothing limits what a reader learns about a text." };
  const shown = Math.ceil(noise.bits * 10 - 1e-9) / 10;
  const more = noise.bits < 1
    ? "That is less than the answer to one yes-or-no question about the text."
    : `That is enough to tell ${noise.bits > 60 ? "a whole sentence, word for word" : `apart ${LARGE.format(2 ** noise.bits)} texts`}.`;
  return { title: `At most ${shown} ${shown === 1 ? "bit" : "bits"} of a text get through`, more };
}

export function keptWords(noise) {
  if (noise.kept_of_100 === null) {
    return noise.guarantee.private
      ? { title: "Every text gets noise", more: "No count says how many come through as meant. Look at the examples." }
      : { title: "No text is changed by noise", more: "What the model writes from a text comes out." };
  }
  const kept = Math.round(noise.kept_of_100);
  return {
    title: noise.kept_of_100 > 99.9 ? "Practically all texts come through as meant" : `About ${kept} of 100 texts come through as meant`,
    more: kept === 100 ? "Hardly any come out as unrelated texts." : "The others come out as unrelated texts. Nobody can tell which.",
  };
}

// The sentence of the scale, without the name of its level, and the guarantee itself.
export function promiseWords(noise) {
  if (!noise.guarantee.private) return "Texts come out without any guarantee at this setting.";
  const said = noise.words.find((line) => line.name === "Promise").words;
  return `${said.slice(noise.guarantee.level.length + 2)} ${noise.guarantee.words} for one text.`;
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
