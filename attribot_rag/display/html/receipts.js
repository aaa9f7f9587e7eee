// What the data of an answer says of its sentences. The scale of scores in nats is the same in every answer.
const NOISE = 1; // nats: nothing below is shown
// A level needs as many nats, and, where it was measured, as large a share kept with the cited sources alone.
const LEVELS = [{ nats: 8, kept: 0.8 }, { nats: 4, kept: 0.5 }, { nats: NOISE, kept: 0 }];
const much = (reliance) => [2, 6].filter((nats) => reliance >= nats).length; // of all files together: hardly any influence, weak, strong
const ORIGINS = ["conversation", "instructions", "question"];

const isWrong = ({ document, supported }) => document == null || supported === false; // of the model's own markers
// A text without some places in it, with as much of `filler` for each of their code points.
const without = (text, places, filler) =>
  Array.from(text, (point, at) => (places.some(({ from, to }) => from <= at && at < to) ? filler.repeat(point.length) : point)).join("");
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
    this.sentences = (this.summary.sentences || []).map((sentence, index) => this.sentence(sentence, index));
    const last = this.sentences.at(-1);
    if (stopped && last && last.state !== "plain" && !/[.!?。！？।؟]["'”’)\]]*\s*$/u.test(last.text)) Object.assign(last, { state: "cut", stopped, also: [] });
    this.judged = this.sentences.filter((sentence) => sentence.state !== "plain");
    this.judged.forEach((sentence, index) => Object.assign(sentence, { number: index + 1, place: this.say("place", { n: index + 1, all: this.judged.length }) })); // as readers count
    for (const sentence of this.judged) Object.assign(sentence, { values: this.values(sentence), notes: this.notes(sentence) });
    this.named = this.files.filter((file) => this.judged.some((sentence) => this.filesAbout(sentence).includes(file)));
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
    const { checks = [], remarks = [], support } = sentence;
    const also = remarks.some(({ key }) => key === "also") ? this.placesOf(support.sources) : [];
    const state = also.length ? "also" : this.state(sentence);
    const files = [...new Set(sentence.documents.map((document) => this.file(document)))];
    const rivals = (support?.rivals ?? []).map((rival) => ({ ...rival, file: this.file(rival.document), place: { document: rival.document, start: rival.document_start, end: rival.document_end } }));
    return {
      ...sentence, index, text, words, placed, state, also, markers, content, files, checks, remarks, rivals, evidence: this.evidence[index] || [], space: text.slice(words.length), effect: measured ? sentence.effect : null,
      kept: measured ? sentence.kept : null, shown: without(words, markers.filter(({ hidden }) => hidden), ""), prompted: remarks.some(({ key }) => key.startsWith("prompted")),
      wrong: [...new Set(((measured && sentence.markers) || []).filter(isWrong).map(({ label }) => `[${brief(label, 30)}]`))],
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

  // The places of the words to look at in a sentence's code points, each once however many files say otherwise.
  values({ start, checks, rivals, prompted, support }) {
    const places = [...checks, ...rivals, ...(prompted ? support.missing : [])].map((place) => ({ from: place.start - start, to: place.end - start })).sort((a, b) => a.from - b.from || b.to - a.to);
    return places.filter(({ from, to }, at) => from < to && !places.slice(0, at).some(({ to }) => from < to));
  }

  // What stands after a sentence beside its files; `warn` where a reader should look.
  notes(sentence) {
    const { state, stopped, remarks } = sentence;
    const notes = remarks.map((remark) => {
      const files = [...new Set(remark.documents.map((document) => this.file(document)))];
      const text = !(remark.key in STRINGS[this.language]) ? brief(remark.text, 300) : this.say(remark.key, { mark: this.names(files, "or"), value: brief(remark.values.join(", "), 120), texts: this.say("texts") });
      const owns = /^(none|led)/.test(remark.key);
      return { kind: owns ? "owns" : remark.key === "also" ? undefined : "remarks", warn: remark.key !== "also", text, file: files.length === 1 && !owns && remark.key !== "also" ? files[0] : undefined };
    });
    const told = state === "own" && notes.length > 0;
    if (["own", "open", "cut", ...ORIGINS].includes(state) && !told) notes.unshift({ kind: { own: "owns", open: "opens" }[state], warn: state === "own", text: this.say(stopped ? "stopped" : state) });
    if (state === "follows") notes.unshift({ text: this.say(this.earlier(sentence) ? "follows" : "answer", { n: this.earlier(sentence)?.number }) });
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

  placesOf(sources) {
    return sources.flatMap((id) => this.places(id));
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
    const places = [...sentences.flatMap((sentence) => this.ranked(sentence)).flatMap((id) => this.places(id)), ...sentences.flatMap(({ also, rivals }) => [...rivals.map(({ place }) => place), ...also])];
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

  // The earlier sentence that one rests on.
  earlier({ follows }) {
    return this.judged.find(({ index }) => index === follows);
  }

  // The files that a sentence cites, and those that say it, or say it otherwise.
  filesAbout({ files, also, rivals }) {
    return [...new Set([...files, ...this.filesOf(also), ...rivals.map(({ file }) => file)])];
  }

  names(files, word = "and") {
    const [last, ...first] = files.map(({ name }) => name).reverse();
    return first.length ? `${first.reverse().join(", ")} ${this.say(word)} ${last}` : last ?? "";
  }

  // What a sentence comes from, in a line.
  told(sentence) {
    const { state, files, in_part: part, checks, prompted } = sentence;
    if (["checking", "cut"].includes(state)) return this.say(state === "cut" ? "ended" : "waiting");
    if (!files.length || state !== "document" || prompted) return (sentence.notes[0]?.text ?? "").replace(/^./u, (first) => first.toUpperCase());
    const told = this.say(part ? "mostly" : "from", { names: this.names(files, [null, "together"].includes(this.shared(sentence)) ? "and" : "or") });
    const values = checks.map(({ value }) => value).filter(Boolean);
    return values.length ? this.say("except", { told, values: quoted(values) }) : told;
  }

  // What else there is to say of it.
  meaning(sentence) {
    const [{ state, reliance, reason, files }, shared] = [sentence, this.shared(sentence)];
    if (state === "own" || state === "also") return this.say("owned", { at: state === "also" ? 3 : much(reliance) });
    if (state === "open") return this.say({ budget: "budget", limit: "budget", not_located: "not_located" }[reason] ?? "scattered");
    if (ORIGINS.includes(state) || state === "follows") return this.reads ? "" : this.say("origin");
    return shared ? this.say(shared, { names: this.names(files), n: files.length, most: 2 }) : "";
  }
}
