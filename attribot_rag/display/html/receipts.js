// What the data of an answer says of its sentences.
const LEVELS = ["very strong", "strong", "weak"];
const DOUBTS = ["disputed", "contradicted", "partial", "none", "open", "elsewhere"]; // as in remarks.py; amber up to 'none'
const AMBER = DOUBTS.slice(1, 4);
const SAID = ["full", "disputed"];
const LOOKS = ["warn", "part", "note"];
const NUMBERED = /^(prompted|closest|say)/; // remarks that the numbers of passages have
const DASHED = /^(prompted|closest)/;

class Receipts {
  constructor(data, { stopped, language }) {
    const fields = data.summary ? data : { summary: data };
    const { summary } = fields;
    Object.assign(this, { summary, blocks: fields.blocks, texts: fields.documents || {}, rendered: fields.rendered || {}, lines: fields.first_lines || {}, headings: fields.headings || {}, cited: fields.cited || {}, quotes: fields.quotes || {}, evidence: fields.evidence || [], influence: fields.influence || [], compared: fields.compared || [] });
    Object.assign(this, { stage: fields.stage, others: fields.without || {}, spoken: fields.language, searched: fields.searched });
    this.language = [language, fields.language, document.documentElement.lang].map((name) => name?.toLowerCase().split("-")[0]).find((name) => name in STRINGS) || "en";
    this.reads = summary.basis === "reader";
    this.say = sayer(this.language, this.reads);
    this.question = fields.question || summary.question || "";
    this.answer = fields.answer ?? summary.answer ?? null;
    this.points = Array.from(this.answer ?? "");
    this.sources = new Map((summary.sources || []).map((source) => [source.id, source]));
    this.inNats = (summary.unit || "nats") === "nats";
    this.passages = new Map();
    for (const document of summary.documents || []) this.add(document);
    const all = (summary.sentences || []).map((sentence, index) => this.sentence(sentence, index));
    const last = all.at(-1);
    if (stopped && last && last.state !== "plain" && !/[.!?。！？।؟]["'”’)\]]*\s*$/u.test(last.text)) Object.assign(last, { state: "cut", stopped, remarks: [], documents: [] });
    this.sentences = all;
    this.judged = all.filter(({ state }) => state !== "plain");
    this.judged.forEach((sentence, at) => Object.assign(sentence, { number: at + 1, place: this.say("place", { n: at + 1, all: this.judged.length }) })); // as readers count
    for (const sentence of this.judged) Object.assign(sentence, this.chips(sentence), { values: this.values(sentence) });
    let before = []; // what the sentence before says is not said again in words
    for (const sentence of this.judged) {
      const said = sentence.chips.map(({ text }) => text);
      for (const chip of sentence.chips) if (chip.text.length > 6 && before.includes(chip.text)) chip.text = this.say("again");
      before = said;
    }
    this.used = new Set(this.judged.flatMap(({ documents, also }) => [...documents, ...also]));
    this.disputing = new Set(this.judged.flatMap(({ remarks }) => remarks.filter(({ key }) => key === "contradicted").flatMap(({ documents }) => documents)));
  }

  // A passage with its number, its name, and the `key` of its file.
  add({ index, number, title, id, url, located, metadata = {} }) {
    const base = (name) => (/^(\/|[A-Za-z]:\\)/.test(name) ? name.split(/[\\/]/).pop() || name : name);
    const named = (title || (!/^[\da-f-]{16,}$/i.test(id || "") && id) || "").trim();
    const name = named ? brief(base(named)) : brief(this.lines[index] || this.texts[index] || "", 28) || this.say("document", { n: index + 1 });
    const key = title ? [title, metadata.source ?? metadata.file_path ?? metadata.file_name].join("\n") : `${index}`;
    this.passages.set(index, { index, number, name, key, url, isLost: located === false, page: metadata.page_label != null ? this.say("page", { page: brief(String(metadata.page_label)) }) : brief(String((metadata.section && this.headings[index]) || metadata.section || "")) });
  }

  passage(index) {
    if (!this.passages.has(index)) this.add({ index });
    return this.passages.get(index);
  }

  // All passages of the files of some.
  whole(indices) {
    const keys = new Set(indices.map((index) => this.passage(index).key));
    return [...this.passages.values()].filter(({ key }) => keys.has(key)).map(({ index }) => index).sort((a, b) => a - b);
  }

  sentence(sentence, index) {
    const text = this.answer !== null && this.summary.offsets !== "answer" && this.points.length >= sentence.end ? this.points.slice(sentence.start, sentence.end).join("") : sentence.text;
    const measured = this.summary.status !== "composite"; // else on the earlier answers, not on what these cite
    const { remarks = [], support, standing = null } = sentence;
    const also = remarks.some(({ key }) => key === "also") ? remarks.flatMap(({ documents }) => documents) : [];
    const documents = sentence.documents.length ? sentence.documents : remarks.filter(({ key }) => key.startsWith("closest")).flatMap(({ documents }) => documents);
    const state = also.length ? "also" : this.state(sentence);
    const wrong = ((measured && sentence.markers) || []).filter(({ document, supported }) => document == null || supported === false);
    return {
      ...sentence, index, text, words: text.trimEnd(), state, also, documents, remarks, standing, checks: sentence.checks || [], rivals: support?.rivals ?? [], evidence: this.evidence[index] || [], influence: this.influence[index] || {}, compared: this.compared[index] ?? { same: [], sources: {} },
      effect: measured ? sentence.effect : null, prompted: remarks.some(({ key }) => DASHED.test(key)), wrong: [...new Set(wrong.map(({ label }) => `[${brief(label, 30)}]`))],
    };
  }

  state({ verdict, reason, documents, origin }) {
    if (verdict === "trivial" || verdict === "reasoning") return "plain";
    if (verdict === "open") return { cut: "cut", pending: "checking" }[reason] || "open";
    if (verdict === "unsupported") return "own";
    if (verdict === "conversation") return { instructions: "instructions", question: "asked" }[origin] ?? verdict;
    return verdict === "follows" ? verdict : documents.length ? "document" : "open";
  }

  // The words of a remark; passages by their numbers, or `named`.
  remark(remark, named, say = this.say) {
    const { key, values, documents, text } = remark;
    if (!(key in STRINGS[this.language])) return brief(text, 300);
    const alone = named && key === "say_but" && this.count(documents) === 1 && "says_but";
    return say(alone || key, { mark: this.names(documents, "and", !named), value: brief(values.join(", "), 120) });
  }

  // The same as a line of its own.
  line(remark, say = this.say) {
    const { key, values, documents } = remark;
    if (DASHED.test(key)) return say(key.startsWith("closest") ? "near" : "took", { mark: this.names(documents) }) + say(key.endsWith("in_doubt") ? "doubts" : "misses", { value: brief(values.join(", "), 120), n: this.count(documents) });
    const words = this.remark(remark, true, say);
    return remark.key.startsWith("say") ? words : capital(words); // the name of a file stays as it is
  }

  names(indices, word = "and", byNumber) {
    const [last, ...first] = [...new Set(indices.map((index) => (byNumber ? this.passage(index).number : null) ?? this.passage(index).name))].reverse();
    return first.length ? `${first.reverse().join(", ")} ${this.say(word)} ${last}` : last ?? "";
  }

  // How many files some passages are of, by their names.
  count(indices) {
    return new Set(indices.map((index) => this.passage(index).name)).size;
  }

  // What stands after a sentence: numbers of passages (dashed where these do not say it), and one thing to look at (amber) or to know. The card has the `rest`.
  chips(sentence) {
    const { state, standing, documents, remarks } = sentence;
    const { say } = this;
    const [notes, shared] = [this.notes(sentence), this.shared(sentence)];
    const [note, ...rest] = notes;
    const prompt = remarks.find(({ key }) => NUMBERED.test(key));
    const label = (index) => [this.passage(index).name, this.passage(index).page].filter(Boolean).join(", ");
    const disputes = (index) => notes.find(({ remark }) => remark?.key === "contradicted" && remark.documents.includes(index));
    const shown = documents.filter((index, at) => !note?.documents.includes(index) && documents.findIndex((other) => this.passage(other).number === this.passage(index).number) === at);
    const chips = ["cut", "checking"].includes(state) ? [] : shown.map((index, at) => {
      const look = disputes(index) ? "warn" : SAID.includes(standing ?? "full") ? "" : "part";
      const sign = look === "part" ? " ?" : !look && standing ? " ✓" : "";
      return { key: `${index}`, document: index, look, joint: at > 0 && shared && say(shared === "together" ? "and" : "or"),
        text: `${this.passage(index).number ?? brief(this.passage(index).name, 20)}${sign}`,
        label: disputes(index)?.label ?? (prompt ? this.line(prompt) : say(look ? "from" : "sourceOf", { name: label(index), names: label(index) })) };
    });
    return { rest: rest.map((one) => one.label), chips: note ? [...chips, { ...note, key: "note", document: note.documents[0] ?? null }] : chips };
  }

  // What else there is to look at or to know of a sentence, the gravest first.
  notes(sentence) {
    const { state, remarks, stopped } = sentence;
    const { say } = this;
    const told = remarks.filter(({ key }) => !NUMBERED.test(key));
    const note = (text, look = "note") => ({ documents: [], look, text, label: capital(text) });
    const notes = told.map((remark) => ({
      remark, documents: remark.key === "contradicted" ? remark.documents : [], look: { also: "note", follows_in_doubt: "part" }[remark.key] ?? "warn", label: this.line(remark),
      text: remark.key === "follows_in_doubt" ? `${say("follows", { value: brief(remark.values[0], 24) })} ?` : brief(this.remark(remark), 120) }));
    for (const { key, values, ...remark } of remarks) if (key.startsWith("say")) notes.push({ ...note(say("lacks", { value: values.join(", ") })), label: this.line({ key, values, ...remark }) });
    if (state === "own" && !remarks.length) notes.push(note(say("unjudged"), "warn"));
    if (["open", "cut", "conversation", "instructions", "asked"].includes(state)) notes.push(note(say(stopped ? "stopped" : state)));
    if (state === "follows" && !told.some(({ key }) => key === "follows_in_doubt")) notes.push(note(this.earlier(sentence) ? say("follows", { value: brief(this.plain(this.earlier(sentence)), 24) }) : say("itself")));
    return notes.sort((a, b) => LOOKS.indexOf(a.look) - LOOKS.indexOf(b.look));
  }

  // A sentence without the signs of Markdown at its ends.
  plain({ words }) {
    return words.replace(/^[\s*#>|-]+|[\s*|]+$/g, "").replace(/\*\*/g, "");
  }

  // The places of the words to look at, each once however many passages say otherwise.
  values({ checks, rivals, prompted, support }) {
    const places = [...checks, ...rivals, ...(prompted ? support.missing : [])].map(({ start, end }) => ({ from: start, to: end })).sort((a, b) => a.from - b.from || b.to - a.to);
    return places.filter(({ from, to }, at) => from < to && !places.slice(0, at).some(({ to }) => from < to));
  }

  // The places of a source: in a document's text, or its own text as far as the summary has it.
  places(id) {
    if (this.quotes[id]) return this.quotes[id].map(([document, start, end, plain]) => ({ id, document, start, end, plain }));
    const source = this.sources.get(id);
    return (source?.documents || []).map((document) => ({ id, document, text: source.text }));
  }

  // The sources of a sentence, most effect first, each with a place in one of some passages.
  quoted(sentence, indices) {
    const score = (id) => sentence.evidence.find((row) => row.source === id)?.score ?? this.sources.get(id)?.score ?? 0;
    const cited = [...sentence.source_ids].sort((a, b) => score(b) - score(a));
    const others = [...(sentence.state === "also" || sentence.state === "own" ? sentence.support?.source_ids ?? [] : []), ...sentence.rivals.map(({ source }) => source)];
    const places = [...new Set([...cited, ...others])].flatMap((id) => this.places(id)).filter(({ document }) => indices.includes(document));
    return places.filter((place, at) => places.findIndex((other) => other.id === place.id && other.document === place.document) === at);
  }

  // Whether one sentence is in several passages, or any of several sources is enough.
  shared({ source_ids: sources, relation, documents }) {
    if (documents.length < 2) return null;
    const same = sources.some((id) => documents.every((index) => this.places(id).some(({ document }) => document === index)));
    return same && (relation === "either" || sources.length === 1) ? "same" : ["either", "together"].includes(relation) ? relation : null;
  }

  // The earlier sentence that one rests on.
  earlier({ follows }) {
    return this.judged.find(({ index }) => index === follows);
  }

  // What a sentence is worth, in a plain sentence that says what its chips say.
  told(sentence) {
    const { state, documents, standing, remarks, chips, also } = sentence;
    if (["checking", "cut"].includes(state)) return this.say(state === "cut" ? "ended" : "waiting");
    if (state === "also") return `${this.say("says", { names: this.names(also), n: this.count(also) })}.`;
    const other = remarks.find(({ key }) => key === "contradicted");
    const joint = [null, "together"].includes(this.shared(sentence)) ? "and" : "or";
    const told = this.say(standing === "full" || standing === "disputed" ? "says" : "from", { names: this.names(documents, joint), n: joint === "or" ? 1 : this.count(documents) });
    if (other) {
      const values = { told, name: this.names(other.documents), n: this.count(other.documents), values: brief(other.values.join(", "), 120) };
      return `${this.say(standing === "disputed" ? "instead" : "only", values)}.`;
    }
    if (remarks.length) return `${this.line(remarks[0])}.`;
    return `${state === "document" ? told : chips[0]?.label ?? ""}.`;
  }

  // What else there is to say of it.
  meaning(sentence) {
    const [{ state, influence, reason, documents }, shared] = [sentence, this.shared(sentence)];
    if (state === "also") return this.say("own", { at: 3 });
    if (state === "follows") return this.say("rests");
    if (state === "own" && documents.length && influence.of_all === 1) return ""; // which would stand over one
    if (state === "own") return influence.of_all == null ? "" : this.say("own", { at: influence.of_all });
    if (state === "open") return this.say({ budget: "budget", limit: "budget", not_located: "not_located" }[reason] ?? "scattered");
    if (["conversation", "instructions", "asked"].includes(state)) return this.reads ? "" : this.say("origin");
    return shared ? this.say(shared, { n: documents.length, most: 2 }) : "";
  }

  // One line for the whole answer, in parts; `warn` where a reader should look.
  trust() {
    const { trust } = this.summary;
    if (!trust) return [];
    const { sentences: all, passages, standings } = trust;
    const n = (standings.full ?? 0) + (standings.disputed ?? 0);
    const stands = (n > 0 || all > 1) && { text: this.say("stands", { n, all, at: Number(all > 1) }), stands: n > 0 };
    const parts = DOUBTS.filter((name) => standings[name]).map((name) => [name, standings[name]]).map(([name, count]) => ({
      name, warn: !["open", "elsewhere"].includes(name),
      text: replaced(STRINGS[this.language].trust[name === "none" && passages === 1 ? "none_of_one" : name][all === 1 ? 0 : count === 1 ? 1 : 2], { n: count, passages, texts: this.say("texts") }) }));
    return [stands, ...parts].filter(Boolean).map((part, at) => (at ? part : { ...part, text: capital(part.text) }));
  }
}
