// Sizes, numbers, times and names as people read them.

const UNITS = ["B", "KiB", "MiB", "GiB", "TiB", "PiB"];

/** Return a size with three digits or more, as `readable_size` of the Python package does. */
export function readableSize(bytes) {
  const last = UNITS.length - 1;
  let unit = 0;
  while (unit < last && Math.round(bytes / 1024 ** unit) >= 1024) {
    unit += 1;
  }
  const amount = bytes / 1024 ** unit;
  const digits = unit === 0 ? 0 : ([2, 1].find((each) => Math.round(amount * 10 ** each) < 1000) ?? 0);
  return `${amount.toFixed(digits)} ${UNITS[unit]}`;
}

export const readableNumber = (number) => number.toLocaleString();

/** Return a number with its noun, such as "1 pin" or "1,200 pins". */
export const counted = (number, noun) => `${readableNumber(number)} ${noun}${number === 1 ? "" : "s"}`;

/** Return the properties of an element that shows a size; its tooltip has the exact bytes. */
export const sizeShown = (bytes) => ({ title: counted(bytes, "byte"), textContent: readableSize(bytes) });

export function readableDate(text) {
  return new Date(text).toLocaleString(undefined, { dateStyle: "medium", timeStyle: "short" });
}

const STEPS = [
  ["second", 60], ["minute", 60], ["hour", 24], ["day", 7], ["week", 4.35], ["month", 12], ["year", Infinity],
];
const RELATIVE = new Intl.RelativeTimeFormat(undefined, { numeric: "auto", style: "short" });
const JUST_NOW = 10; // seconds; clocks of two machines differ too

/** Return how long ago a time was, such as "5 min. ago". */
export function relativeTime(text, now = Date.now()) {
  let amount = (now - Date.parse(text)) / 1000;
  if (Math.abs(amount) < JUST_NOW) {
    return "just now";
  }
  for (const [unit, size] of STEPS) {
    if (Math.abs(amount) < size) {
      return RELATIVE.format(-Math.round(amount), unit);
    }
    amount /= size;
  }
  return "";
}

/** Return a name to show: characters that reorder or hide text are replaced, and a blank name by `otherwise`. */
export function readableName(name, otherwise = "(no name)") {
  const isBlank = !/[^\s\p{C}]/u.test(name);
  return isBlank ? otherwise : name.replaceAll(/[\p{Cc}\u200e\u200f\u202a-\u202e\u2066-\u2069]/gu, "\ufffd");
}
