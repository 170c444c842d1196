// What figures mean, in words. A bound on an attacker is rounded up, never down.

const ALWAYS = 0.999; // beyond this a bound says nothing useful
const LONG = new Intl.NumberFormat("en", { maximumSignificantDigits: 10 });
const LARGE = new Intl.NumberFormat("en", { maximumSignificantDigits: 2 });

// A share as so many of 100, rounded up.
export function atMostOf100(share) {
  if (share > ALWAYS) return "practically always";
  const times = 100 * share;
  if (times > 99) return `at most ${Math.ceil(times * 10 - 1e-9) / 10} of 100 times`;
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

// An epsilon with three digits, rounded up.
export function epsilonUp(epsilon) {
  const unit = 10 ** (Math.floor(Math.log10(epsilon)) - 2);
  return LONG.format(Math.ceil(epsilon / unit - 1e-9) * unit);
}

// What several texts of one person have together.
export function personWords({ guarantee, person }) {
  if (!guarantee.private) return "There is no promise for one text at this setting, so there is none for a person.";
  const sum = guarantee.epsilon * person.texts, together = person.guarantee;
  const each = `epsilon ${LONG.format(guarantee.epsilon)}`;
  if (person.texts === 1) return `A person with one text has the budget of that text: ${each}. The promise is ${together.level}.`;
  const less = together.epsilon < sum * (1 - 1e-6);
  const how = less ? `less than ${person.texts.toLocaleString("en")} times ${each}, because they are counted together` : `${person.texts.toLocaleString("en")} times ${each}`;
  return `A person with ${person.texts.toLocaleString("en")} texts has epsilon ${epsilonUp(together.epsilon)}, delta ${together.delta} for all of them: ${how}. The promise to this person is ${together.level}.`;
}

// What a shuffled file promises, and to whom.
export function shuffledWords({ guarantee, shuffled }) {
  const local = `epsilon ${LONG.format(guarantee.epsilon)}`;
  if (shuffled.rule === "local") return `${shuffled.people.toLocaleString("en")} people are too few to hide anybody at this budget: ${local} stays as it is.`;
  const central = shuffled.guarantee;
  const known = shuffled.known === 0 ? "" : ` To those who also know ${shuffled.known.toLocaleString("en")} of the rows: epsilon ${epsilonUp(shuffled.known_guarantee.epsilon)}.`;
  return `To those who see only the shuffled file: epsilon ${epsilonUp(central.epsilon)}, delta ${central.delta} for each person. The promise is ${central.level}.${known
  } To you, and to anybody who learns the order of the rows: ${local}. This counts the other people as honest and unknown to the reader.`;
}
