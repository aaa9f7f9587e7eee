const HEADING = /^#{1,6} +(.*)$/m;

// The documents: quotes from them with what is cited marked, their list, and each as a whole.
class Documents extends Part {
  // What is in the panel while no sentence is chosen: what to look at, and the documents.
  overview() {
    const { judged, documents, summary } = this.receipts;
    const attention = Object.keys(STATES).flatMap((state) => judged.filter((sentence) => sentence.state === state && (STATES[state].mind || sentence.absent.length)));
    const rank = ({ state }) => (state === "check" ? 0 : state === "document" ? 2 : 1);
    attention.sort((one, other) => rank(one) - rank(other));
    return [
      attention.length > 0 && h("h2", {}, "Look at these"),
      h("ul", { class: "worklist" }, attention.map((sentence) => h("li", {}, button({ class: sentence.state, click: () => this.answer.pin(sentence, { focus: true }) },
        h("span", { dir: "auto" }, brief(sentence.shown)), h("span", { class: `chip ${sentence.absent.length ? "absent " : ""}${sentence.state}` }, this.receipts.chip(sentence)), h("small", {}, this.receipts.told(sentence)))))),
      h("p", {}, h("b", {}, "Choose a sentence"), " to see what made the model write it."),
      this.answer.card.compared(),
      h("details", { open: this.answer.clientWidth >= COLUMN }, h("summary", { class: "heading" }, plural(documents.size, "document")),
        [...documents.values()].map((listed) => this.entry(listed)),
        summary.omitted?.documents > 0 && h("p", {}, `${plural(summary.omitted.documents, "more document")}.`))];
  }

  // A document in the list, which opens where its text is known.
  entry({ index, number, located }) {
    const behind = this.receipts.sentences.filter((sentence) => sentence.documents.includes(index));
    const [counted, checked] = ["document", "check"].map((state) => behind.filter((sentence) => sentence.state === state).length);
    const caused = [counted && `behind ${plural(counted, "sentence")}`, checked && `${checked} to check`].filter(Boolean).join(", ");
    const told = located === false ? "not found in what the model read" : caused || "behind no sentence";
    const title = [number && pill(number), " ", h("span", { dir: "auto" }, this.receipts.name(index)), " ", h("small", {}, told)];
    if (this.receipts.texts[index] == null) return h("p", { class: "entry" }, title);
    const places = new Map(this.receipts.cited([...new Set(behind.flatMap(({ sources }) => sources))])).get(index) || [];
    return button({ class: "entry", click: (event) => this.answer.show(this.whole(index, places), event.currentTarget) }, title);
  }

  // A whole document with some places marked, those that a sentence cites, if there is one.
  whole(index, places, sentence) {
    const { number, metadata } = this.receipts.documents.get(index) || {};
    const name = this.receipts.name(index);
    const known = Object.entries(metadata || {}).map(([key, value]) => [key, brief(String(value), 200)]).filter(([, value]) => value !== name);
    return [
      h("div", { class: "controls" }, button({ click: () => this.answer.back() }, `← Back to the ${sentence ? "passages" : "documents"}`), sentence && this.closer()),
      h("h2", {}, number && pill(number), " ", h("span", { dir: "auto" }, name)),
      known.length > 0 && h("p", { class: "metadata" }, known.map(([key, value]) => `${brief(key)}: ${value}`).join(" · ")),
      h("div", { class: `whole text ${colour(number)}${sentence ? " cited" : ""}`, dir: "auto", tabindex: "0", role: "region", "aria-label": name }, this.marked(index, places, 0, Infinity, sentence))];
  }

  // Quotes with their neighbours, most effect first as `places` are; near ones are joined.
  quoted(index, places, sentence) {
    const groups = [];
    for (const place of places.filter(({ text }) => text == null).sort((a, b) => a.start - b.start)) {
      const last = groups.at(-1);
      if (last && place.start - last.at(-1).end < AROUND) last.push(place);
      else groups.push([place]);
    }
    const rank = (group) => Math.min(...group.map((place) => places.indexOf(place)));
    const quote = (...parts) => h("blockquote", { class: "text", dir: "auto" }, parts);
    return [
      ...groups.sort((a, b) => rank(a) - rank(b)).map((group) => quote(this.marked(index, group, group[0].start - AROUND, group.at(-1).end + AROUND, sentence))),
      ...places.filter(({ text }) => text != null).map(({ id, text }) => quote(h("mark", { "data-source": id }, this.shared(text, sentence))))];
  }

  // Characters of a document with what is cited marked; cut between words, and at empty lines.
  marked(index, places, from, to, sentence) {
    const points = Array.from(this.receipts.texts[index] || "");
    const between = (start, end) => points.slice(Math.max(0, start), end).join("");
    const parts = [];
    let end = Math.max(0, from);
    for (const place of [...places].sort((a, b) => a.start - b.start)) {
      if (place.end <= end) continue;
      const quote = (to !== Infinity && place.start >= end && place.plain) || between(Math.max(end, place.start), place.end);
      parts.push(between(end, place.start), h("mark", { "data-source": place.id }, this.headed(quote, index, sentence)));
      end = place.end;
    }
    parts.push(between(end, to));
    if (to !== Infinity) {
      const before = parts[0].split(/\n\s*\n/).at(-1);
      const after = parts.at(-1).split(/\n\s*\n/)[0];
      parts[0] = before === parts[0] && from > 0 ? `… ${before.replace(/^\S*\s+/, "")}` : before.trimStart();
      parts[parts.length - 1] = after === parts.at(-1) && to < points.length ? `${after.replace(/\s+\S*$/, "")} …` : after.trimEnd();
    }
    return parts.map((part) => (typeof part === "string" ? this.headed(part, index) : part));
  }

  isMarkdown(index) {
    const { title, id, url, metadata } = this.receipts.documents.get(index) || {};
    return [title, id, url, metadata?.source].some((name) => /\.(md|markdown)$/i.test(name || ""));
  }

  // A quote in which the headings of a Markdown file are headings.
  headed(text, index, sentence) {
    const parts = this.isMarkdown(index) ? text.split(HEADING) : [text];
    return parts.map((part, at) => (at % 2 ? h("b", {}, visible(part)) : this.shared(part, sentence)));
  }

  // A quote in which words of the sentence are bold, and a value that differs is underlined.
  shared(text, sentence) {
    if (!sentence) return visible(text);
    const content = new Set(contentOf(sentence.words).map(({ key }) => key));
    const bold = (part) => {
      const kept = wordsOf(part).filter(({ key }) => content.has(key));
      return [...kept.flatMap(({ start, end, text: word }, at) => [visible(part.slice(kept[at - 1]?.end ?? 0, start)), h("b", {}, visible(word))]), visible(part.slice(kept.at(-1)?.end ?? 0))];
    };
    const differing = sentence.checks.map((check) => check.source_value).find((value) => value && text.includes(value));
    if (!differing) return bold(text);
    const at = text.indexOf(differing);
    return [bold(text.slice(0, at)), h("span", { class: "value" }, visible(differing)), bold(text.slice(at + differing.length))];
  }
}
