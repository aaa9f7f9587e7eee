"use strict";
(() => {
  const STRENGTHS = 5;

  // The sum of a source's scores over some tokens of the answer; null if it was not scored.
  const score = (row, tokens) => row && tokens.reduce((sum, token) => sum + row[token], 0);

  // 0 to 5 by the root of its share of the largest score; less than a hundredth of it is nothing.
  const strength = (value, largest) =>
    largest > 0 && value > largest / 100 ? Math.ceil(STRENGTHS * Math.sqrt(value / largest)) : 0;

  const paint = (element, level) => {
    for (let each = 0; each <= STRENGTHS; each++)
      element.classList.toggle(`attribot-strength-${each}`, each === level && level > 0);
  };

  const start = (root) => {
    root.dataset.ready = "";
    const data = JSON.parse(root.querySelector(".attribot-data").textContent);
    const sentences = [...root.querySelectorAll(".attribot-sentence")];
    const sources = [...root.querySelectorAll(".attribot-source")];
    const bars = root.querySelector(".attribot-bars");
    const asked = root.querySelector(".attribot-asked");
    const told = root.querySelector("[aria-live]");
    const whole = data.scores.map((_, index) => data.whole[index]);
    const wholeAsked = asked && asked.textContent;
    const row = bars && bars.querySelector("li").cloneNode(true);
    let kept = null; // what the reader chose to keep: a sentence or a source

    const shown = (values, largest) => {
      const found = values
        .map((value, id) => ({ id, value }))
        .filter((one) => one.value !== null)
        .sort((a, b) => b.value - a.value || a.id - b.id)
        .slice(0, data.top);
      bars.replaceChildren(
        ...found.map(({ id, value }) => {
          const item = row.cloneNode(true);
          const rounded = value.toFixed(2).replace(/^-(0\.00)$/, "$1");
          const bar = item.querySelector(".attribot-bar");
          item.dataset.source = id;
          item.querySelector(".attribot-score").textContent = data.precisions[id] + rounded;
          bar.classList.toggle("attribot-negative", value < 0);
          const width = largest ? Math.min(100, (100 * Math.abs(value)) / largest) : 0;
          bar.querySelector("rect").setAttribute("width", width.toFixed(1));
          const [what, where] = item.querySelector(".attribot-what").children;
          what.textContent = data.texts[id];
          where.textContent = data.labels[id];
          if (data.places[id]) where.setAttribute("href", `#${data.places[id]}`);
          else where.removeAttribute("href");
          return item;
        }),
      );
    };

    // The sources of some tokens of the answer, or of all of it.
    const ask = (tokens, words) => {
      const values = tokens ? data.scores.map((scores) => score(scores, tokens)) : whole;
      const largest = Math.max(0, ...values.map((value) => Math.abs(value || 0)));
      for (const source of sources)
        paint(source, strength(values[source.dataset.source], largest));
      for (const sentence of sentences) paint(sentence, 0);
      if (bars) {
        shown(values, largest);
        asked.textContent = tokens ? `What caused “${words}”` : wholeAsked;
      }
    };

    const tokensOf = (sentence) =>
      data.sentences[sentence.dataset.sentence].map(([token]) => token);
    const brief = (text) => {
      const words = text.trim().replace(/\s+/g, " ");
      return words.length > 60 ? `${words.slice(0, 59)}…` : words;
    };

    // What a sentence of a source caused in the answer.
    const trace = (source) => {
      const scores = data.scores[source.dataset.source];
      const values = sentences.map((sentence) => score(scores, tokensOf(sentence)) || 0);
      const largest = Math.max(...values);
      sentences.forEach((sentence, index) =>
        paint(sentence, values[index] > 0.5 || data.unit !== "nats" ? strength(values[index], largest) : 0));
      for (const other of sources)
        paint(other, other.dataset.source === source.dataset.source ? STRENGTHS : 0);
    };

    const light = (element) => {
      if (!element) ask(null);
      else if (element.classList.contains("attribot-sentence"))
        ask(tokensOf(element), brief(element.textContent));
      else trace(element);
    };

    const keep = (element) => {
      const same = kept === element;
      if (kept) kept.setAttribute("aria-pressed", "false");
      kept = same ? null : element;
      if (kept && kept.hasAttribute("aria-pressed")) kept.setAttribute("aria-pressed", "true");
      light(kept);
      if (told && kept && kept.classList.contains("attribot-sentence"))
        told.textContent = bars.innerText;
    };

    // The tokens of the answer that a selection touches.
    const selected = () => {
      const selection = document.getSelection();
      if (!selection || selection.isCollapsed || !selection.rangeCount) return [];
      const range = selection.getRangeAt(0);
      return sentences.flatMap((sentence, index) => {
        const text = sentence.firstChild;
        if (!text || !range.intersectsNode(text)) return [];
        const from = range.startContainer === text ? range.startOffset : 0;
        const to = range.endContainer === text ? range.endOffset : text.length;
        return data.sentences[index].filter(([, a, b]) => a < to && b > from).map(([token]) => token);
      });
    };

    for (const element of [...sentences, ...sources]) {
      element.addEventListener("pointerenter", () => light(element));
      element.addEventListener("pointerleave", () => light(kept));
      element.addEventListener("focus", () => light(element));
      element.addEventListener("blur", () => light(kept));
      element.addEventListener("click", () => document.getSelection().isCollapsed && keep(element));
      element.addEventListener("keydown", (event) => {
        if (event.key !== "Enter" && event.key !== " ") return;
        event.preventDefault();
        keep(element);
      });
    }
    root.addEventListener("keydown", (event) => {
      if (event.key === "Escape" && kept) keep(kept);
    });
    root.addEventListener("click", (event) => {
      const link = event.target.closest("a[href^='#']");
      const card = link && root.querySelector(`[id="${link.hash.slice(1)}"]`);
      if (!card) return;
      event.preventDefault();
      const item = link.closest("li");
      const source = item && card.querySelector(`[data-source="${item.dataset.source}"]`);
      card.focus({ preventScroll: true });
      (source || card).scrollIntoView({ block: source ? "center" : "start" });
    });
    let selecting = false;
    document.addEventListener("selectionchange", () => {
      const tokens = selected();
      if (tokens.length) ask(tokens, brief(document.getSelection().toString()));
      else if (selecting) light(kept);
      selecting = tokens.length > 0;
    });
  };

  document.querySelectorAll(".attribot:not([data-ready])").forEach(start);
})();
