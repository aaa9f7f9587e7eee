const AROUND = 140; // characters on each side of a quote
const HEADING = /^#{1,6} +(.*)$/m;
const ROW = /^[ \t]*\|.*\|[ \t]*$/;
const RULE = /^[ \t|:-]+$/;
const cellsOf = (row) => row.trim().replace(/^\||\|$/g, "").split(/(?<!\\)\|/).map((cell) => cell.trim());

// Texts of documents with places marked; Markdown as readers see it. Places count code points, all else here characters.
class Quotes {
  constructor(receipts) {
    this.receipts = receipts;
  }

  // Quotes with their neighbours, most effect first as `places` are; near ones are joined.
  of(places, sentence) {
    const groups = [];
    for (const place of places.filter(({ text }) => text == null).sort((a, b) => a.document - b.document || a.start - b.start)) {
      const last = groups.at(-1);
      if (last?.[0].document === place.document && place.start - last.at(-1).end < AROUND) last.push(place);
      else groups.push([place]);
    }
    const rank = (group) => Math.min(...group.map((place) => places.indexOf(place)));
    const quote = (...parts) => h("blockquote", { part: "quote", dir: "auto" }, parts);
    return [
      ...groups.sort((a, b) => rank(a) - rank(b)).map((group) => quote(this.excerpt(group, sentence))),
      ...places.filter(({ text }) => text != null).map(({ id, text }) => quote(h("mark", { "data-source": id }, this.bold(text, sentence))))];
  }

  // Some places of a document with what stands around them, cut between words, and at empty lines.
  excerpt(places, sentence) {
    const [index, text] = [places[0].document, this.receipts.texts[places[0].document]];
    const [start, end] = [this.at(index, places[0].start), this.at(index, Math.max(...places.map((place) => place.end)))];
    const [before, after] = [text.slice(Math.max(0, start - AROUND), start), text.slice(end, end + AROUND)];
    let [from, to] = [before.split(/\n\s*\n/).at(-1), after.split(/\n\s*\n/)[0]];
    const [cut, goesOn] = [from === before && start > AROUND, to === after && end + AROUND < text.length];
    if (cut) from = from.replace(/^\S*\s*/, "");
    if (goesOn) to = to.replace(/\s*\S*$/, "");
    return [cut && "… ", this.marked(index, places, sentence, start - from.trimStart().length, end + to.trimEnd().length), goesOn && " …"];
  }

  // A part of a document, or all of it, with places marked; of a table in a part, the marked rows under its header.
  marked(index, places, sentence, from = 0, to = Infinity) {
    const text = this.receipts.texts[index];
    const spans = places.map((place) => ({ ...place, start: this.at(index, place.start), end: this.at(index, place.end) })).sort((a, b) => a.start - b.start);
    const parts = [];
    let at = from;
    const upTo = (end) => {
      for (const { id, start, end: stop, plain } of spans) {
        if (start >= end || stop <= at) continue;
        if (start > at) parts.push(this.read(index, text.slice(at, start)));
        const whole = plain && start >= at && stop <= end && to !== Infinity;
        parts.push(h("mark", { "data-source": id }, this.read(index, whole ? plain : text.slice(Math.max(at, start), Math.min(stop, end)), sentence)));
        at = Math.min(stop, end);
      }
      if (end > at) parts.push(this.read(index, text.slice(at, end)));
      at = Math.max(at, end);
    };
    for (const table of this.tables(index)) {
      if (table.end <= from || table.start >= to) continue;
      upTo(table.start);
      const lit = (row) => spans.find(({ start, end }) => start < row.end && end > row.start);
      const cells = (tag, row, mark) => h("tr", {}, row.cells.map((cell) => h(tag, { scope: tag === "th" && "col" }, mark ? h("mark", { "data-source": mark.id }, this.bold(cell, sentence)) : visible(cell))));
      const rows = table.rows.filter((row) => to === Infinity || lit(row));
      if (rows.length) parts.push(h("table", {}, table.header && cells("th", table.header), rows.map((row) => cells("td", row, lit(row)))));
      at = Math.max(at, table.end);
    }
    upTo(Math.min(to, text.length));
    return parts;
  }

  // A place in code points as a place in characters.
  at(index, place) {
    const text = this.receipts.texts[index];
    return /[\ud800-\udbff]/.test(text) ? Array.from(text).slice(0, place).join("").length : place;
  }

  tables(index) {
    const tables = [];
    let start = 0;
    for (const line of this.isMarkdown(index) ? this.receipts.texts[index].split("\n") : []) {
      const row = { start, end: start + line.length, cells: cellsOf(line), line };
      start = row.end + 1;
      if (!ROW.test(line)) continue;
      if (tables.at(-1)?.end === row.start) Object.assign(tables.at(-1), { end: start }).rows.push(row);
      else tables.push({ start: row.start, end: start, rows: [row] });
    }
    for (const table of tables) if (RULE.test(table.rows[1]?.line)) [table.header] = table.rows.splice(0, 2);
    return tables;
  }

  isMarkdown(index) {
    const { title, id, url, metadata } = this.receipts.documents.get(index) || {};
    return [title, id, url, metadata?.source].some((name) => /\.(md|markdown)(#|$)/i.test(name || "")) || /^(#{1,6} .+|\|[ :|-]+\|)$/m.test(this.receipts.texts[index] ?? "");
  }

  // Text as a reader of Markdown sees it: headings, and no other mark-up.
  read(index, text, sentence) {
    if (!this.isMarkdown(index)) return this.bold(text, sentence);
    const plain = text.replace(/\*\*|`|(?<![\w*])\*(?=\S)|(?<=[^\s*])\*(?![\w*])/g, "").replace(/!?\[([^\]\n]*)\]\([^)\n]*\)/g, "$1")
      .replace(/(?<=\S)[ \t]*\n(?=[^\s#>|*+\d-])/g, (line, at, all) => (HEADING.test(all.slice(0, at).split("\n").at(-1)) ? "\n" : " ")).replace(/^[ \t]*[*+-] +/gm, "• ").replace(/^> ?/gm, "");
    return plain.split(HEADING).map((part, at) => (at % 2 ? h("span", { class: "heading" }, this.bold(part, sentence)) : this.bold(part, sentence)));
  }

  // A quote in which words of the sentence are bold, and a value that differs is underlined.
  bold(text, sentence) {
    if (!sentence) return visible(text);
    const keys = new Set(sentence.content.map(({ key }) => key));
    const values = [...sentence.checks.map((check) => check.source_value), ...sentence.rivals.map((rival) => rival.value)];
    const differing = values.find((value) => value && text.includes(value));
    const at = differing ? text.indexOf(differing) : -1;
    return at < 0 ? marked(text, keys) : [marked(text.slice(0, at), keys), h("span", { class: "value" }, visible(differing)), marked(text.slice(at + differing.length), keys)];
  }
}
