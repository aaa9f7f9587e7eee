// What the data of an answer says of its sentences. The scale of scores in nats is the same in every answer.
const NOISE = 1; // nats: nothing below is shown
// A level needs as many nats, and, where it was measured, as large a share kept with the cited sources alone.
const LEVELS = [{ nats: 8, kept: 0.8 }, { nats: 4, kept: 0.5 }, { nats: NOISE, kept: 0 }];
const much = (reliance) => [2, 6].filter((nats) => reliance >= nats).length; // of all files together: hardly any influence, weak, strong
const NOUNS = 0.22; // the share of capitals amid sentences from which on they tell nouns, as in German, and no names
const ORIGINS = ["conversation", "instructions", "question"];

const isWrong = ({ document, supported }) => document == null || supported === false; // of the model's own markers
// A text without some places in it, with as much of `filler` for each of their code points.
const without = (text, places, filler) =>
  Array.from(text, (point, at) => (places.some(({ from, to }) => from <= at && at < to) ? filler.repeat(point.length) : point)).join("");
// Whether a value stands in a text, not as a part of another.
const stands = (value, text) => new RegExp(`(?<![\\p{L}\\p{N}])${value.replace(/[.*+?^${}()|[\]\\/]/g, "\\$&")}(?![\\p{L}\\p{N}])`, "u").test(text);
const quoted = (values) => values.slice(0, 3).map((value) => `“${brief(value, 30)}”`).join(", ");
const some = (words) => brief([...new Set(words.map(({ text }) => text))].join(", "), 120);

class Receipts {
  constructor(data, { stopped, language }) {
    const fields = data.summary ? data : { summary: data };
    Object.assign(this, { summary: fields.summary, texts: fields.documents || {}, quotes: fields.quotes || {}, evidence: fields.evidence || [], tokens: fields.tokens || [], stage: fields.stage, others: fields.without || {}, spoken: fields.language });
    this.language = [language, fields.language, document.documentElement.lang].map((name) => name?.toLowerCase().split("-")[0]).find((name) => name in STRINGS) || "en";
    this.reads = this.summary.basis === "reader";
    this.say = sayer(this.language, this.reads);
    this.question = fields.question || this.summary.query || "";
    this.answer = fields.answer ?? this.summary.answer ?? null;
    this.points = Array.from(this.answer ?? "");
    this.documents = new Map((this.summary.documents || []).map((document) => [document.index, document]));
    this.sources = new Map((this.summary.sources || []).map((source) => [source.id, source]));
    this.inNats = (this.summary.unit || "nats") === "nats";
    const cited = (this.summary.sentences || []).flatMap(({ documents }) => documents);
    this.files = [];
    for (const index of new Set([...cited, ...this.documents.keys()])) this.join(index);
    const texts = [...this.documents.keys()].map((index) => this.texts[index]);
    this.whole = texts.length > 0 && !this.summary.omitted?.documents && texts.every((text) => text != null) && texts.join("\n");
    const [capitals, all] = [/(?<=\p{Ll} )\p{Lu}\p{Ll}/gu, /(?<=\p{Ll} )\p{L}/gu].map((pattern) => (this.whole || "").match(pattern)?.length ?? 0);
    this.vocabulary = this.whole && capitals < NOUNS * all && keysOf([this.question, this.whole, ...this.files.map(({ name }) => name)]);
    this.sentences = (this.summary.sentences || []).map((sentence, index) => this.sentence(sentence, index));
    const last = this.sentences.at(-1);
    if (stopped && last && last.state !== "plain" && !/[.!?。！？।؟]["'”’)\]]*\s*$/u.test(last.text)) Object.assign(last, { state: "cut", stopped, also: null });
    this.judged = this.sentences.filter((sentence) => sentence.state !== "plain");
    this.judged.forEach((sentence, index) => Object.assign(sentence, { number: index + 1, place: this.say("place", { n: index + 1, all: this.judged.length }) })); // as readers count
    for (const sentence of this.judged) Object.assign(sentence, { values: this.values(sentence), notes: this.notes(sentence) });
    this.named = this.files.filter((file) => this.judged.some(({ files, also, rivals }) => [also, ...rivals].some((piece) => piece?.file === file) || files.includes(file)));
  }

  // The file that a document is of; passages of one file are one.
  file(index) {
    return this.files.find(({ indices }) => indices.includes(index)) ?? this.join(index);
  }

  join(index) {
    const { title, id, metadata = {} } = this.documents.get(index) || {};
    const key = title ? [title, metadata.source ?? metadata.file_path ?? metadata.file_name].join("\n") : `${index}`;
    let file = this.files.find((other) => other.key === key);
    if (!file) {
      const base = (name) => (/^(\/|[A-Za-z]:\\)/.test(name) ? name.split(/[\\/]/).pop() || name : name);
      const named = (title || (!/^[\da-f-]{16,}$/i.test(id || "") && id) || "").trim();
      const words = brief(this.texts[index]?.replace(/^[#\s>*-]+/, "") || "", 28);
      const name = named ? brief(base(named)) : words || this.say("document", { n: index + 1 });
      const same = this.files.filter((other) => other.name === name || other.name.startsWith(`${name} (`)).length;
      this.files.push((file = { key, indices: [], name: same ? `${name} (${same + 1})` : name, colour: `c${this.files.length % 5}` }));
    }
    file.indices.push(index);
    return file;
  }

  sentence(sentence, index) {
    // Positions are those of the shown text only if the summary says so.
    const placed = this.answer !== null && this.summary.offsets !== "answer" && this.points.length >= sentence.end;
    const text = placed ? this.points.slice(sentence.start, sentence.end).join("") : sentence.text;
    const words = text.trimEnd();
    const markers = this.markers(sentence, Array.from(words));
    const measured = this.summary.status !== "composite"; // else on the earlier answers, not on what these cite
    const content = contentOf(without(words, markers, " "));
    const verdict = this.state(sentence);
    const also = verdict === "own" ? this.also(content) : null;
    const state = also ? "also" : verdict;
    const files = [...new Set(sentence.documents.map((document) => this.file(document)))];
    const checks = (sentence.checks || []).filter((check) => check.end >= check.start).map((check) => ({ ...check, source_value: check.source_value ?? (check.message ? null : this.alike(check, sentence, text)) }));
    return {
      ...sentence, index, text, words, placed, state, also, markers, content, files, checks, evidence: this.evidence[index] || [], space: text.slice(words.length), effect: measured ? sentence.effect : null,
      kept: measured ? sentence.kept : null, shown: without(words, markers.filter(({ hidden }) => hidden), ""), rivals: ["document", "own"].includes(state) ? this.rivals(content) : [],
      wrong: [...new Set(((measured && sentence.markers) || []).filter(isWrong).map(({ label }) => `[${brief(label, 30)}]`))],
      strange: this.vocabulary && ["document", "follows"].includes(state) ? lacking(this.vocabulary, content.filter(({ isName, isNumber }) => isName && !isNumber)) : [],
    };
  }

  // The places of the model's own markers in a sentence's code points, each with the spaces before it. One is hidden
  // where pills stand for all that is right in it, and the text can do without it.
  markers({ start, documents, markers, verdict }, points) {
    const composite = this.summary.status === "composite"; // whose markers speak of other documents
    const places = new Map();
    for (const marker of markers || []) places.set(marker.start, [...(places.get(marker.start) || []), marker]);
    return [...places.values()].flatMap((labels) => {
      let [from, to] = [labels[0].start - start, labels[0].end - start];
      if (from < 0 || to > points.length) return [];
      const line = points.slice(0, from).join("").split("\n").at(-1);
      const part = (!line.trim() && points[to] !== "\n" && to < points.length) || "](</".includes(points[from] + points[from + 1]); // of a list, a link or an element
      while (from > 0 && " \t".includes(points[from - 1])) from -= 1;
      return [{ from, to, hidden: !(part || verdict === "trivial") && (composite || labels.every((marker) => isWrong(marker) || documents.includes(marker.document))) }];
    });
  }

  state({ verdict, reason, documents, origin }) {
    if (verdict === "trivial" || verdict === "reasoning") return "plain";
    if (verdict === "open") return { cut: "cut", pending: "checking" }[reason] || "open";
    if (verdict === "unsupported") return "own";
    if (verdict === "conversation") return ORIGINS.includes(origin) ? origin : verdict;
    return verdict === "follows" ? verdict : documents.length ? "document" : "open";
  }

  // The places of the values to look at in a sentence's code points, each once however many files say otherwise.
  values({ words, start, markers, checks, strange, rivals }) {
    const point = (place) => codePoints(without(words, markers, " ").slice(0, place));
    const found = [...strange, ...rivals.flatMap(({ differs }) => differs)].map((word) => ({ from: point(word.start), to: point(word.end) }));
    const places = [...checks.map((check) => ({ from: check.start - start, to: check.end - start })), ...found].sort((a, b) => a.from - b.from || b.to - a.to);
    return places.filter(({ from }, at) => !places.slice(0, at).some(({ to }) => from < to));
  }

  // What stands after a sentence beside its files; `warn` where a reader should look.
  notes(sentence) {
    const { state, also, stopped, checks, strange, files, rivals } = sentence;
    const notes = [];
    if (["own", "open", "cut", ...ORIGINS].includes(state)) notes.push({ kind: { own: "owns", open: "opens" }[state], warn: state === "own", text: this.say(stopped ? "stopped" : state) });
    if (state === "also") notes.push({ text: this.say("also", { name: also.file.name }) });
    if (state === "follows") notes.push({ text: this.say(this.earlier(sentence) ? "follows" : "answer", { n: this.earlier(sentence)?.number }) });
    const told = checks.filter(({ message, source_value: other, value }) => message || other != null || (value && this.whole && stands(value, this.whole)));
    const remark = (text, file) => notes.push({ kind: "remarks", warn: true, text, file });
    const says = new Map(rivals.map(({ file, values }) => [file, new Set(values.map(({ text }) => text))]));
    for (const { message, value, source_value: other } of told) {
      const file = !message && other != null && (files.find((one) => this.cited(one, [sentence]).some((place) => this.text(place).includes(other))) ?? files[0]);
      if (file) says.set(file, (says.get(file) ?? new Set()).add(other));
      else remark(message ? brief(message, 300) : this.say("uncited", { values: quoted([value]) }));
    }
    const both = (file) => files.includes(file) && rivals.some((rival) => rival.file === file && !lacking(keysOf([this.texts[rival.document]]), rival.differs).length);
    for (const [file, values] of says) remark(this.say(both(file) ? "both" : "says", { name: file.name, values: brief([...values].join(", "), 60) }), file);
    const missing = [...checks.filter((check) => !told.includes(check)).map(({ value, kind }) => value || kind), ...strange.map(({ text }) => text)];
    if (missing.length) remark(this.say("missing", { values: quoted(missing), n: missing.length }));
    return notes;
  }

  // The places of a source: in a document's text, or its own text as far as the summary has it.
  places(id) {
    if (this.quotes[id]) return this.quotes[id].map(([document, start, end, plain]) => ({ id, document, start, end, plain }));
    const source = this.sources.get(id);
    return (source?.documents || []).map((document) => {
      const text = this.texts[document] ?? "";
      const at = text.indexOf(source.text);
      if (at < 0) return { id, document, text: source.text };
      const start = codePoints(text.slice(0, at));
      return { id, document, start, end: start + codePoints(source.text) };
    });
  }

  filesOf(places) {
    return [...new Set(places.map(({ document }) => this.file(document)))];
  }

  // The text of a place.
  text({ document, start, end, plain, text }) {
    return plain ?? text ?? Array.from(this.texts[document] || "").slice(start, end).join("");
  }

  // A file's page, or the heading before the first of some places.
  where(places) {
    const { document: index, start = 0 } = places[0] ?? {};
    const { page_label: page, section } = this.documents.get(index)?.metadata || {};
    if (page != null) return this.say("page", { page: brief(String(page)) });
    if (section) return brief(String(section));
    const headings = Array.from(this.texts[index] || "").slice(0, start + 1).join("").match(/^#{1,6} .+$/gm);
    return headings ? brief(headings.at(-1).replace(/^#+ /, "")) : "";
  }

  // The sources of a sentence, most effect first.
  ranked({ sources, evidence }) {
    const score = (id) => evidence.find((row) => row.source === id)?.score ?? this.sources.get(id)?.score ?? 0;
    return [...sources].sort((a, b) => score(b) - score(a));
  }

  // Where a file is cited by some sentences, most effect first, or says what they say.
  cited(file, sentences) {
    const places = [...sentences.flatMap((sentence) => this.ranked(sentence)).flatMap((id) => this.places(id)), ...sentences.flatMap(({ also, rivals }) => [...rivals, also ?? []].flat())];
    return [...new Map(places.filter(({ document }) => file.indices.includes(document)).map((place) => [`${place.id} ${place.document} ${place.start}`, place])).values()];
  }

  level({ effect: measured, kept, sources, evidence }) {
    const effect = measured ?? evidence.filter((row) => sources.includes(row.source)).reduce((sum, row) => sum + row.score, 0);
    return LEVELS.findIndex((level) => this.inNats && effect >= level.nats && (kept ?? 1) >= level.kept);
  }

  // Whether one sentence stands in several files, or any of several sources is enough.
  shared({ sources, relation, files }) {
    if (files.length < 2) return null;
    const same = sources.map((id) => this.filesOf(this.places(id))).some((those) => files.every((file) => those.includes(file)));
    return same && (relation === "either" || sources.length === 1) ? "same" : ["either", "together"].includes(relation) ? relation : null;
  }

  // Words of a sentence that stand in nothing that its card marks. None where that text is not known.
  missing(sentence) {
    const quotes = sentence.sources.map((id) => this.places(id).map((place) => this.text(place)).join(" "));
    if (this.earlier(sentence)) quotes.push(this.earlier(sentence).words);
    if (!quotes.length || quotes.some((quote) => !quote || quote.endsWith("…"))) return [];
    const told = sentence.checks.map(({ value }) => value || "").join(" ");
    return lacking(keysOf([this.question, ...quotes]), sentence.content.filter(({ text }) => !told.includes(text)));
  }

  // The sentences and lines of what the model received, with their places and words.
  get pieces() {
    return (this.cut ??= Object.entries(this.texts).filter(([index]) => this.documents.get(+index)?.located !== false).flatMap(([index, text]) =>
      [...text.matchAll(/\S[^\n]*?(?:[.!?。！？](?=\s|$)|(?=\n|$))/g)].map(({ 0: words, index: at }) => {
        const start = codePoints(text.slice(0, at));
        return { document: +index, file: this.file(+index), start, end: start + codePoints(words), words: contentOf(words), keys: keysOf([words]) };
      })));
  }

  // Where a text that the model read has the names and the numbers among some words: the place with most of these.
  also(content) {
    const [numbers, facts] = [content.filter(({ isNumber }) => isNumber), content.filter(({ isName, isNumber }) => isName || isNumber)];
    const shared = ({ keys }) => content.length - lacking(keys, content).length;
    const enough = (piece) => !lacking(piece.keys, numbers).length && (numbers.length ? shared(piece) > numbers.length : 2 * shared(piece) >= content.length);
    const has = ({ document, file }) => !lacking(keysOf([this.texts[document], file.name]), facts).length;
    return (facts.length > 0 && this.pieces.filter((piece) => enough(piece) && has(piece)).sort((a, b) => shared(b) - shared(a))[0]) || null;
  }

  // Where files say the same with other numbers, a place in each; `differs` are the numbers that have others there.
  rivals(content) {
    const [numbers, words] = [true, false].map((are) => content.filter(({ isNumber }) => isNumber === are));
    const own = new Set(content.map(({ key }) => key));
    const rivals = this.pieces.map((piece) => ({ ...piece, values: lacking(own, piece.words), differs: lacking(piece.keys, numbers) })).filter(({ keys, values, differs }) =>
      !lacking(keys, words).length && differs.length > 0 && values.length > 0 && values.every(({ isNumber }) => isNumber));
    return words.length < 3 ? [] : [...new Map(rivals.reverse().map((rival) => [rival.file, rival])).values()];
  }

  // The number that the cited text has before the same word as a check's, if there is one.
  alike({ value, end }, { sources, start }, text) {
    const [unit] = wordsOf(Array.from(text).slice(end - start).join(""));
    const words = wordsOf(sources.flatMap((id) => this.places(id)).map((place) => this.text(place)).join("\n"));
    const numbers = new Set(words.filter(({ isNumber }, at) => isNumber && words[at + 1]?.key === unit?.key).map((word) => word.text));
    return /\p{N}/u.test(value ?? "") && contentOf(unit?.text ?? "").length && numbers.size === 1 ? [...numbers][0] : null;
  }

  // The earlier sentence that one rests on.
  earlier({ follows }) {
    return this.judged.find(({ index }) => index === follows);
  }

  names(files, word = "and") {
    return files.map(({ name }) => name).reduce((all, name, at) => all + (at === files.length - 1 ? ` ${this.say(word)} ` : ", ") + name);
  }

  // What a sentence comes from, in a line.
  told(sentence) {
    const { state, files, in_part: part, checks, strange } = sentence;
    if (["checking", "cut"].includes(state)) return this.say(state === "cut" ? "ended" : "waiting");
    if (!files.length || state !== "document") return (sentence.notes[0]?.text ?? "").replace(/^./u, (first) => first.toUpperCase());
    const told = this.say(part ? "mostly" : "from", { names: this.names(files, [null, "together"].includes(this.shared(sentence)) ? "and" : "or") });
    const values = [...checks.map(({ value }) => value), ...strange.map((word) => word.text)].filter(Boolean);
    return values.length ? this.say("except", { told, values: quoted(values) }) : told;
  }

  // What else there is to say of it.
  meaning(sentence) {
    const [{ state, also, reliance, reason, files }, shared] = [sentence, this.shared(sentence)];
    if (state === "own" || also) return this.say("owned", { at: also ? 3 : much(reliance) });
    if (state === "open") return this.say({ budget: "budget", limit: "budget", not_located: "not_located" }[reason] ?? "scattered");
    if (ORIGINS.includes(state) || state === "follows") return this.reads ? "" : this.say("origin");
    return shared ? this.say(shared, { names: this.names(files), n: files.length, most: 2 }) : "";
  }
}
