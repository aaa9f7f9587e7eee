// What the data of an answer says of its sentences, in words. Joined with answer.js.
// The scale of scores in nats is absolute: the same in every answer.
const NOISE = 1; // nothing below is shown or drawn
const FULL = 20; // the length of a whole bar
// A level needs as many nats, and, where it was measured, as large a share of what all documents
// are worth to the sentence, kept with the cited ones alone.
const LEVELS = [
  { name: "Decisive", nats: 8, kept: 0.8, said: "the model would almost certainly not have said this" },
  { name: "Strong", nats: 4, kept: 0.5, said: "the model would probably not have said this" },
  { name: "Weak", nats: 0, kept: 0, said: "the model might have said this all the same" },
];
const [SOME_RELIANCE, MUCH_RELIANCE] = [2, 6];
const [COLUMN, PHONE] = [720, 760]; // pixels: an element with a column, a window with a sheet
const AROUND = 140; // characters on each side of a quote
const COLOURS = 6;

// How sentences are shown: the header's words, the legend's, and whether they want attention.
const STATES = {
  document: { counted: "from your documents", means: "What made the model say this stands in the documents with these numbers. That is no proof that it is right." },
  check: { counted: "to check", means: "A value differs from the cited text, or is missing there.", mind: true },
  own: { counted: "the model’s own", means: "Nothing in the documents made the model say this. It may still be true.", mind: true },
  open: { counted: "undecided", means: "The documents may matter, but which of them is not known.", mind: true },
  follows: { counted: "from earlier sentences", means: "It rests on an earlier sentence of the answer." },
  conversation: { counted: "from the conversation", means: "It rests on what was said before." },
  cut: { counted: "unfinished", means: "The answer ends in the middle of this sentence." },
  plain: {},
};
const REASONS = {
  scattered: "The documents matter here, but no part of them stands out.",
  not_located: "Some documents were not found in what the model read, so this could not be decided.",
  budget: "There was not enough time to decide this.",
  limit: "Deciding this would have taken too long.",
};

// Text from documents and answers with control characters shown, as in Python's `visible`.
const visible = (text) =>
  text
    .replace(/[\u00ad\u200b\u2060\ufeff]/g, "")
    .replace(/\r\n?|[\x0b\x0c\x85\u2028\u2029]/g, "\n")
    .replace(/[\x00-\x08\x0e-\x1f]/g, (character) => String.fromCharCode(0x2400 + character.charCodeAt(0)))
    .replace(/[\x7f-\x9f\u061c\u200e\u200f\u202a-\u202e\u2066-\u2069\ufff9-\ufffb]|[\u{e0000}-\u{e007f}]|\p{Surrogate}/gu,
      (character) => `<U+${character.codePointAt(0).toString(16).toUpperCase().padStart(4, "0")}>`);
const brief = (text, length = 80) => {
  const line = visible(text).trim().replace(/\s+/g, " ");
  return line.length > length ? `${line.slice(0, length - 1).trimEnd()}…` : line;
};
const plural = (count, noun) => `${count} ${noun}${count === 1 ? "" : "s"}`;
const nats = (score, exact = true) => `${exact ? "" : "~"}${score.toFixed(1)} nats`;

const times = (score) => (score < 14 ? `about ${Number(Math.exp(score).toPrecision(2)).toLocaleString("en")} times less likely` : "more than a million times less likely");

// What an answer's data says, with what is missing in a summary alone left empty.
class Receipts {
  constructor(data, stopped) {
    const fields = data.summary ? data : { summary: data };
    this.summary = fields.summary;
    this.question = fields.question || this.summary.query || "";
    this.answer = fields.answer ?? this.summary.answer ?? null;
    this.points = Array.from(this.answer ?? "");
    this.texts = fields.documents || {};
    this.quotes = fields.quotes || {};
    this.evidence = fields.evidence || [];
    this.tokens = fields.tokens || [];
    this.documents = new Map((this.summary.documents || []).map((document) => [document.index, document]));
    this.names = this.named();
    this.sources = new Map((this.summary.sources || []).map((source) => [source.id, source]));
    this.inNats = (this.summary.unit || "nats") === "nats";
    this.sentences = (this.summary.sentences || []).map((sentence, index) => this.sentence(sentence, index));
    const last = this.sentences.at(-1);
    if (stopped && last && last.state !== "plain" && !/[.!?。！？।؟]["'”’)\]]*\s*$/u.test(last.text)) last.state = "cut";
    this.judged = this.sentences.filter((sentence) => sentence.state !== "plain");
  }

  sentence(sentence, index) {
    // Positions are those of the shown text only if the summary says so.
    const placed = this.answer !== null && this.summary.offsets !== "answer" && this.points.length >= sentence.end;
    const whole = placed ? this.points.slice(sentence.start, sentence.end).join("") : sentence.text;
    const words = whole.trimEnd();
    return {
      ...sentence, index, words, text: whole, space: whole.slice(words.length), placed,
      checks: (sentence.checks || []).filter((check) => check.end >= check.start),
      state: this.state(sentence), evidence: this.evidence[index] || [],
      numbers: sentence.documents.map((document) => this.documents.get(document)?.number).filter(Boolean).sort((a, b) => a - b),
    };
  }

  state({ verdict, checks, reason, documents }) {
    if (verdict === "trivial" || verdict === "reasoning") return "plain";
    if (verdict === "open") return reason === "cut" ? "cut" : "open";
    if ((checks || []).length) return "check";
    if (verdict === "unsupported") return "own";
    if (verdict === "follows" || verdict === "conversation") return verdict;
    return documents.length ? "document" : "open";
  }

  // Documents' names for readers: title or id, without the folders of an absolute path. Passages of
  // the same file are counted.
  named() {
    const files = [...this.documents.values()].sort((a, b) => a.index - b.index).map(({ index, title, id }) => {
      const name = title || id || `document ${index + 1}`;
      return [index, brief(/^(\/|[A-Za-z]:\\)/.test(name) ? name.split(/[\\/]/).pop() || name : name)];
    });
    const counts = new Map();
    const count = (name) => counts.set(name, (counts.get(name) || 0) + 1).get(name);
    const numbered = files.map(([index, name]) => [index, name, count(name)]);
    return new Map(numbered.map(([index, name, number]) => [index, counts.get(name) > 1 ? `${name}, passage ${number}` : name]));
  }

  name(index) {
    return this.names.get(index) ?? `document ${index + 1}`;
  }

  // The places of a source: in a document's text, or its own text as far as the summary has it.
  places(id) {
    if (this.quotes[id]) return this.quotes[id].map(([document, start, end]) => ({ document, start, end }));
    const source = this.sources.get(id);
    return (source?.documents || []).map((document) => {
      const points = this.texts[document] == null ? "" : this.texts[document];
      const at = points.indexOf(source.text);
      if (at < 0) return { document, text: source.text };
      const start = Array.from(points.slice(0, at)).length;
      return { document, start, end: start + Array.from(source.text).length };
    });
  }

  // By document, in the order of their numbers: what of it is cited.
  cited(sources) {
    const groups = new Map();
    for (const id of sources)
      for (const place of this.places(id))
        groups.set(place.document, [...(groups.get(place.document) || []), { ...place, id }]);
    const number = (index) => this.documents.get(index)?.number ?? Infinity;
    return [...groups].sort(([a], [b]) => number(a) - number(b));
  }

  level(effect, kept) {
    if (effect == null || !this.inNats || effect < NOISE) return -1;
    return LEVELS.findIndex((level) => effect >= level.nats && (kept ?? 1) >= level.kept);
  }

  // The verdict on a sentence, in one sentence.
  verdict(sentence) {
    const count = sentence.documents.length;
    const name = count ? this.name(sentence.documents[0]) : "";
    const several = `${count} documents`;
    if (sentence.state === "cut") return "The answer ends here, so this was not judged.";
    if (sentence.state === "own") {
      if ((sentence.reliance || 0) >= MUCH_RELIANCE) return "Your documents do not account for all of this.";
      return (sentence.reliance || 0) >= SOME_RELIANCE ? "Your documents hardly made the model say this." : "Nothing in your documents made the model say this.";
    }
    if (sentence.state === "open") return REASONS[sentence.reason] || "No part of your documents stands out.";
    if (sentence.state === "conversation") return "This comes from what was said before.";
    if (sentence.state === "plain") return "This was not judged.";
    const differs = sentence.state === "check";
    if (sentence.verdict === "follows") return `This follows from ${sentence.follows == null ? "the answer" : `sentence ${sentence.follows + 1}`}${differs ? ", but a value differs." : "."}`;
    if (differs) return count ? `The model read ${count === 1 ? name : several}, but says something else.` : "A value in this stands nowhere in your documents.";
    if (sentence.relation === "either") return count > 1 ? `Either of ${several} was enough to make the model say this.` : `Several places in ${name} say this; one was enough.`;
    if (sentence.relation === "together") return count > 1 ? `Only together did ${several} make the model say this.` : `Several sentences of ${name} together made the model say this.`;
    return `This comes from ${count > 1 ? several : name}.`;
  }

  // What follows from the verdict, if that is not the strength.
  meaning(sentence) {
    if (sentence.state === "own" && (sentence.reliance || 0) >= MUCH_RELIANCE)
      return "They matter here, but part of it, such as a number, is the model’s own. Nothing here shows that part.";
    if (sentence.state === "own") return "The model would have said this without them. It may still be true, but nothing here shows it.";
    if (sentence.state === "conversation") return "It does not come from your documents directly.";
    if (sentence.verdict === "follows") return "It does not come from your documents directly. Look at the earlier sentence.";
    return "";
  }

  comparison(check) {
    const value = check.value ? `“${brief(check.value)}”` : "something";
    return check.source_value == null
      ? ["The answer says ", h("b", {}, value), ". The cited text does not."]
      : ["The answer says ", h("b", {}, value), ". The cited text says ", h("b", {}, `“${brief(check.source_value)}”`), "."];
  }

  chip(sentence) {
    if (sentence.state === "check") {
      const [check] = sentence.checks;
      if (sentence.checks.length > 1) return `check: ${sentence.checks.length} values`;
      const value = brief(check.value || check.kind, 30);
      return `check: ${value}${check.source_value == null ? "" : ` ≠ ${brief(check.source_value, 30)}`}`;
    }
    if (sentence.state === "follows") return sentence.follows == null ? "from the answer" : `from sentence ${sentence.follows + 1}`;
    return { own: "model’s own", open: "undecided", conversation: "from the conversation", cut: "stopped here" }[sentence.state];
  }
}
