// Texts as they are shown, their words, and the nodes that hold them. Nodes are made of text, never of HTML.

// Text from documents and answers with control characters shown, as in Python's `visible`.
const visible = (text) =>
  text
    .replace(/[\u00ad\u200b\u2060\ufeff]/g, "")
    .replace(/\r\n?|[\x0b\x0c\x85\u2028\u2029]/g, "\n")
    .replace(/[\x00-\x08\x0e-\x1f]/g, (character) => String.fromCharCode(0x2400 + character.charCodeAt(0)))
    .replace(/[\x7f-\x9f\u061c\u200e\u200f\u202a-\u202e\u2066-\u2069\ufff9-\ufffb]|[\u{e0000}-\u{e007f}]|\p{Surrogate}/gu,
      (character) => `<U+${character.codePointAt(0).toString(16).toUpperCase().padStart(4, "0")}>`);
const codePoints = (text) => Array.from(text).length;
const brief = (text, length = 80) => {
  const line = visible(text).trim().replace(/\s+/g, " ");
  return line.length > length ? `${line.slice(0, length).replace(/(?<=\S)(\s+\S*|.)$/su, "")}…` : line; // between words
};

// Words of four letters or more that say nothing on their own.
const FUNCTION_WORDS = new Set(("about also anyone anything been does everyone everything from have into someone something such than that their " +
  "them then there these they this those very were what when where which while will with would your yours").split(" "));
// The words of a text with their places; `key` is what is compared.
const segmenter = new Intl.Segmenter(undefined, { granularity: "word" });
const wordsOf = (text) =>
  [...segmenter.segment(text)].filter(({ isWordLike }) => isWordLike).map(({ segment, index }) => ({
    text: segment, start: index, end: index + segment.length, key: segment.toLowerCase().replace(/['’]s$/, ""),
    isName: index > 0 && /^\p{Lu}/u.test(segment), isNumber: /\p{N}/u.test(segment) }));
// Those that say something: numbers, names, and words of four letters (two where there are no spaces).
const contentOf = (text) =>
  wordsOf(text).filter(({ key, isNumber, isName }) => !FUNCTION_WORDS.has(key) &&
    (isNumber || key.length > 3 || (key.length > 1 && (isName || /[\p{Script=Han}\p{Script=Hangul}]/u.test(key)))));
// Those of some texts, in short pieces: each segment has a copy of what it was cut from.
const keysOf = (texts) => new Set([...new Set(texts.join("\n").match(/\S{1,400}/gu))].flatMap((piece) => wordsOf(piece).map(({ key }) => key)));
// Those of some words that are not among `keys`, in the singular or the plural, nor, from five letters on, the beginning of one.
const lacking = (keys, words) =>
  words.filter(({ key }) => ![key, `${key}s`, key.replace(/s$/, "")].some((form) => keys.has(form)) &&
    (key.length < 5 || ![...keys].some((other) => other.startsWith(key))));

const filled = (element, children) => {
  element.replaceChildren(...children.flat(Infinity).filter((child) => child || child === 0));
  return element;
};

const h = (tag, attributes = {}, ...children) => {
  const element = document.createElement(tag);
  for (const [name, value] of Object.entries(attributes))
    if (typeof value === "function") element.addEventListener(name, value);
    else if (value !== false && value != null) element.setAttribute(name, value === true ? "" : value);
  return filled(element, children);
};
const button = (attributes, ...children) => h("button", { type: "button", ...attributes }, ...children);
// A text in which the words of these keys are marked.
const marked = (text, keys, tag = "b") => {
  const those = wordsOf(text).filter(({ key }) => keys.has(key));
  return [...those.flatMap(({ start, end, text: word }, at) => [visible(text.slice(those[at - 1]?.end ?? 0, start)), h(tag, {}, visible(word))]), visible(text.slice(those.at(-1)?.end ?? 0))];
};
