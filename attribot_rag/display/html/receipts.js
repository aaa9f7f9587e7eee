// What the data of an answer says of its sentences, in words.
// The scale of scores in nats is absolute: the same in every answer.
const NOISE = 1; // nothing below is shown or drawn
// A level needs as many nats, and, where it was measured, as large a share of what all documents
// are worth to the sentence, kept with the cited ones alone.
const LEVELS = [
  { name: "decisive", nats: 8, kept: 0.8, said: "the model would almost certainly not have said this" },
  { name: "strong", nats: 4, kept: 0.5, said: "the model would probably not have said this" },
  { name: "weak", nats: 0, kept: 0, said: "the model might have said this all the same" },
];
const [SOME_RELIANCE, MUCH_RELIANCE] = [2, 6];
const AROUND = 140; // characters on each side of a quote
const MOST_WORDS = 8; // of a sentence that are named as missing
const COMPARED = "this shows where a sentence comes from, not whether it says the same.";

// How sentences are shown: the header's words, the legend's, and whether they want attention.
const STATES = {
  document: { counted: "from the documents", means: "What made the model say this stands in the documents with these numbers, or some of it where it says “in part”." },
  check: { counted: "to check", means: "A value differs from the cited text, or is missing there.", mind: true },
  own: { counted: "the model’s own", means: "Nothing in the documents made the model say this. It may still be true.", mind: true },
  open: { counted: "undecided", means: "The documents may matter, but which of them is not known.", mind: true },
  follows: { counted: "from earlier sentences", means: "The model drew it from an earlier sentence of its answer, not from a document.", mind: true },
  conversation: { counted: "from the conversation", means: "It rests on what was said before." },
  instructions: { counted: "from the instructions", means: "It rests on what the model was told before it saw the documents: its instructions, a summary, or examples." },
  question: { counted: "from the question", means: "It repeats what was said together with the question." },
  checking: { counted: "being checked", means: "This is still being checked." },
  cut: { counted: "unfinished", means: "The answer ends in the middle of this sentence." },
};
const REASONS = {
  scattered: "The documents matter here, but no part of them stands out.",
  not_located: "Some documents were not found in what the model read, so this could not be decided.",
  budget: "There was not enough time to decide this.",
  limit: "Deciding this would have taken too long.",
};

const isWrong = ({ document, supported }) => document == null || supported === false; // of the model's own markers
// A text without some places in it, with as much of `filler` for each of their code points.
const without = (text, places, filler) =>
  Array.from(text, (point, at) => (places.some(({ from, to }) => from <= at && at < to) ? filler.repeat(point.length) : point)).join("");
// What stands in the prompt besides documents, as the states of sentences that rest on it.
const ORIGINS = { conversation: "what was said before", instructions: "what its instructions say", question: "what was said together with the question" };

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
    const texts = [...this.documents.keys()].map((index) => this.texts[index]);
    const whole = texts.length > 0 && !this.summary.omitted?.documents && texts.every((text) => text != null);
    this.vocabulary = whole && keysOf([this.question, ...texts]);
    this.judged.forEach((sentence, index) => Object.assign(sentence, { number: index + 1, absent: this.absent(sentence) })); // as readers count
  }

  sentence(sentence, index) {
    // Positions are those of the shown text only if the summary says so.
    const placed = this.answer !== null && this.summary.offsets !== "answer" && this.points.length >= sentence.end;
    const whole = placed ? this.points.slice(sentence.start, sentence.end).join("") : sentence.text;
    const words = whole.trimEnd();
    const markers = this.markers(sentence, Array.from(words));
    const checks = (sentence.checks || []).filter((check) => check.end >= check.start);
    const told = checks.map(({ value }) => value || "").join(" ");
    const measured = this.summary.status !== "composite"; // else on the earlier answers, not on what these cite
    return {
      ...sentence, effect: measured ? sentence.effect : null, kept: measured ? sentence.kept : null, index, words, text: whole, space: whole.slice(words.length), placed,
      state: this.state(sentence), evidence: this.evidence[index] || [], checks, markers,
      content: contentOf(without(words, markers, " ")).filter(({ text }) => !told.includes(text)), shown: without(words, markers.filter(({ hidden }) => hidden), ""),
      wrong: [...new Set(((measured && sentence.markers) || []).filter(isWrong).map(({ label }) => `[${brief(label, 30)}]`))],
      numbers: [...new Set(sentence.documents.map((document) => this.documents.get(document)?.number).filter(Boolean))].sort((a, b) => a - b),
    };
  }

  // The places of the model's own markers in a sentence's code points, each with the spaces before it. One is hidden
  // where pills stand for all that is right in it.
  markers({ start, documents, markers }, points) {
    const composite = this.summary.status === "composite"; // whose markers speak of other documents
    const places = new Map();
    for (const marker of markers || []) places.set(marker.start, [...(places.get(marker.start) || []), marker]);
    return [...places.values()].flatMap((labels) => {
      let [from, to] = [labels[0].start - start, labels[0].end - start];
      if (from < 0 || to > points.length) return [];
      const line = points.slice(0, from).join("").split("\n").at(-1);
      const entry = !line.trim() && points[to] !== "\n" && to < points.length; // of a list
      while (from > 0 && " \t".includes(points[from - 1])) from -= 1;
      return [{ from, to, hidden: !entry && (composite || labels.every((marker) => isWrong(marker) || documents.includes(marker.document))) }];
    });
  }

  state({ verdict, checks, reason, documents, origin }) {
    if (verdict === "trivial" || verdict === "reasoning") return "plain";
    if (verdict === "open") return { cut: "cut", pending: "checking" }[reason] || "open";
    if ((checks || []).length) return "check";
    if (verdict === "unsupported") return "own";
    if (verdict === "conversation") return origin in ORIGINS ? origin : verdict;
    if (verdict === "follows") return verdict;
    return documents.length ? "document" : "open";
  }

  // Documents' names for readers: title or id, without the folders of an absolute path. Passages of
  // the same file are counted.
  named() {
    const files = [...this.documents.values()].sort((a, b) => a.index - b.index).map(({ index, title, id }) => {
      const name = title || id || `document ${index + 1}`;
      return [index, brief(/^(\/|[A-Za-z]:\\)/.test(name) ? name.split(/[\\/]/).pop() || name : name)];
    });
    const passages = (name) => files.filter((file) => file[1] === name).map(([index]) => index);
    return new Map(files.map(([index, name]) => [index, passages(name)[1] == null ? name : `${name}, passage ${passages(name).indexOf(index) + 1}`]));
  }

  name(index) {
    return this.names.get(index) ?? `document ${index + 1}`;
  }

  // The places of a source: in a document's text, or its own text as far as the summary has it.
  places(id) {
    if (this.quotes[id]) return this.quotes[id].map(([document, start, end, plain]) => ({ document, start, end, plain }));
    const source = this.sources.get(id);
    return (source?.documents || []).map((document) => {
      const text = this.texts[document] ?? "";
      const at = text.indexOf(source.text);
      if (at < 0) return { document, text: source.text };
      const start = Array.from(text.slice(0, at)).length;
      return { document, start, end: start + Array.from(source.text).length };
    });
  }

  // By document what of it is cited, in the order of the sources.
  cited(sources) {
    const groups = new Map();
    for (const id of sources)
      for (const place of this.places(id)) groups.set(place.document, [...(groups.get(place.document) || []), { ...place, id }]);
    return [...groups];
  }

  level({ effect: measured, kept, sources, evidence }) {
    const effect = measured ?? evidence.filter((row) => sources.includes(row.source)).reduce((sum, row) => sum + row.score, 0);
    if (!this.inNats || effect < NOISE) return -1;
    return LEVELS.findIndex((level) => effect >= level.nats && (kept ?? 1) >= level.kept);
  }

  // The text of a place, or that with its neighbours.
  text({ document, start, end, plain, text }, around = 0) {
    return (around ? null : (plain ?? text)) ?? Array.from(this.texts[document] || "").slice(Math.max(0, start - around), end + around).join("");
  }

  // A document's page, or the heading before the first of some places.
  where(index, places) {
    const { page_label: page, section } = this.documents.get(index)?.metadata || {};
    if (page != null) return `page ${brief(String(page))}`;
    if (section) return brief(String(section));
    const first = Math.min(...places.map((place) => place.start ?? 0));
    const headings = Array.from(this.texts[index] || "").slice(0, first + 1).join("").match(/^#{1,6} .+$/gm);
    return headings ? brief(headings.at(-1).replace(/^#+ /, "")) : "";
  }

  // The sources of a sentence, most effect first.
  ranked({ sources, evidence }) {
    const score = (id) => evidence.find((row) => row.source === id)?.score ?? this.sources.get(id)?.score ?? 0;
    return [...sources].sort((a, b) => score(b) - score(a));
  }

  // The sources of some sentences' tokens above the noise, most effect on them first.
  behind(parts) {
    const sums = new Map();
    for (const { sentence, tokens } of parts)
      for (const row of sentence.evidence)
        sums.set(row.source, { ...row, score: tokens.reduce((sum, token) => sum + row.tokens[token], sums.get(row.source)?.score ?? 0) });
    return [...sums.values()].filter((row) => row.score >= NOISE).sort((a, b) => b.score - a.score);
  }

  // Words of a sentence that stand in no document, if they are many for it.
  absent({ state, content }) {
    if (!this.vocabulary || !["document", "check", "follows"].includes(state)) return [];
    const words = [...new Map(content.map((word) => [word.key, word])).values()];
    const absent = lacking(this.vocabulary, words);
    const isMuch = absent.length > 1 || (state !== "follows" && (3 * absent.length >= words.length || absent[0]?.isName)); // a sum is new
    return isMuch ? absent : [];
  }

  // Other words of a sentence that stand in nothing that its card marks: those that do not stand
  // beside it either, and those that do. Empty where that text is not known.
  missing(sentence) {
    const places = sentence.sources.map((id) => this.places(id));
    const quotes = places.map((those) => those.map((place) => this.text(place)).join(" "));
    if (this.earlier(sentence)) quotes.push(this.earlier(sentence).words);
    if (!quotes.length || quotes.some((quote) => !quote || quote.endsWith("…"))) return ["", ""];
    const [marked, around] = [keysOf([this.question, ...quotes]), keysOf(places.flat().map((place) => this.text(place, AROUND)))];
    const words = lacking(marked, sentence.content).filter(({ key }) => !sentence.absent.some((word) => word.key === key));
    const phrases = (some) => some.slice(0, MOST_WORDS).map(({ text, start }, at) =>
      (at ? (sentence.words.slice(some[at - 1].end, start).trim() ? ", " : " ") : "") + text).join("") + (some.length > MOST_WORDS ? " …" : "");
    return [false, true].map((beside) => phrases(words.filter((word) => (lacking(around, [word]).length === 0) === beside)));
  }

  // The earlier sentence that one rests on.
  earlier({ follows }) {
    const sentence = follows == null ? null : this.sentences[follows];
    return sentence?.number ? sentence : null;
  }

  // The verdict on a sentence, in one sentence: a cause, not whether it is right.
  verdict(sentence) {
    const count = sentence.documents.length;
    const causes = count > 1 ? `${count} documents` : this.name(sentence.documents[0]);
    const because = `The model wrote this ${sentence.in_part ? "only in part " : ""}because of`;
    if (sentence.state === "cut") return "The answer ends here, so this was not judged.";
    if (sentence.state === "checking") return STATES.checking.means;
    if (sentence.state === "own") {
      if ((sentence.reliance || 0) >= MUCH_RELIANCE) return "The documents do not account for all of this.";
      return (sentence.reliance || 0) >= SOME_RELIANCE ? "The documents hardly made the model write this." : "No document made the model write this.";
    }
    if (sentence.state === "open") return REASONS[sentence.reason] || "No part of the documents stands out.";
    if (sentence.state in ORIGINS) return `${because} ${ORIGINS[sentence.state]}.`;
    if (sentence.state === "plain") return "This was not judged.";
    const end = sentence.state === "check" ? (sentence.checks.some(({ message }) => message) ? ", but see the remark." : ", but a value differs.") : ".";
    if (sentence.verdict === "follows") return `${because} ${this.earlier(sentence) ? `sentence ${this.earlier(sentence).number} of this answer` : "its own answer before this"}${end}`;
    if (!count) return "No document made the model write this. A value in it is to be checked.";
    if (sentence.relation === "either") return `${because} ${causes}; each of ${count > 1 ? "them" : "several places"} alone would have led the model to it${end}`;
    if (sentence.relation === "together") return `${because} ${count > 1 ? causes : `several places in ${causes}`} together${end}`;
    return `${because} ${causes}${end}`;
  }

  // What follows from the verdict, if that is not the strength.
  meaning(sentence) {
    if (sentence.state === "own" && (sentence.reliance || 0) >= MUCH_RELIANCE)
      return "They matter here, but part of it, such as a number, is the model’s own. Nothing here shows that part.";
    if (sentence.state === "own") return "The model would have written this without them. It may still be true, but nothing here shows it.";
    const compared = "had at least as much influence on this as all the documents together.";
    if (sentence.state in ORIGINS) return `That ${compared}`;
    if (sentence.in_part) return "This explains the sentence only in part: the rest comes from other documents, or from the model itself.";
    if (sentence.verdict === "follows") return `That${this.earlier(sentence) ? " sentence" : ""} ${compared}`;
    return "";
  }

  comparison(check) {
    if (check.message) return [brief(check.message, 300)];
    const value = check.value ? `“${brief(check.value)}”` : "something";
    return check.source_value == null
      ? ["The answer says ", h("b", {}, value), ". The cited text does not."]
      : ["The answer says ", h("b", {}, value), ". The cited text says ", h("b", {}, `“${brief(check.source_value)}”`), "."];
  }

  // What a screen reader is told of a sentence, and a glance and the list of what to look at show.
  told(sentence) {
    const compared = sentence.state === "check" ? sentence.checks.map((check) => h("p", {}, this.comparison(check)).textContent) : [];
    const [missing] = this.missing(sentence);
    return [this.verdict(sentence), ...compared, this.miscited(sentence), this.absence(sentence), missing && `Not in the marked text: ${visible(missing)}.`].filter(Boolean).join(" ");
  }

  absence({ absent }) {
    return absent.length > 0 && `No document has the word${absent.length > 1 ? "s" : ""}: ${listed(absent, MOST_WORDS)}.`;
  }

  // What the model itself cites, and should not.
  miscited({ wrong }) {
    return wrong.length > 0 && `The model itself cites ${wrong.join(", ")}, which ${wrong.length > 1 ? "have" : "has"} no effect on this, or ${wrong.length > 1 ? "are" : "is"} missing.`;
  }

  chip(sentence) {
    if (sentence.state === "check") {
      const [check] = sentence.checks;
      if (sentence.checks.length > 1) return `check: ${sentence.checks.length} ${sentence.checks.some(({ message }) => message) ? "remarks" : "values"}`;
      if (check.message) return `check: ${brief(check.message, 60)}`;
      const value = brief(check.value || check.kind, 30);
      return `check: ${value}${check.source_value == null ? "" : ` ≠ ${brief(check.source_value, 30)}`}`;
    }
    if (sentence.absent.length) return `in no document: ${listed(sentence.absent, 3)}`;
    if (sentence.state === "follows") return this.earlier(sentence) ? `from sentence ${this.earlier(sentence).number}` : "from the answer";
    if (sentence.state === "document" && sentence.in_part) return "in part";
    if (sentence.state === "document" && sentence.wrong.length) return `model cites ${sentence.wrong.join(", ")}`;
    if (sentence.state in ORIGINS) return STATES[sentence.state].counted;
    return { own: "model’s own", open: "undecided", checking: "checking…", cut: "stopped here" }[sentence.state];
  }
}
