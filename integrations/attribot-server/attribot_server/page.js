"use strict";
(() => {
  const form = document.querySelector("form");
  const status = document.getElementById("status");
  const answer = document.querySelector("attribot-answer");
  const stop = document.getElementById("stop");
  const send = form.querySelector("button");
  const access = form.querySelector("details");
  const STOPPED = "Stopped. What was begun is finished first: the next answer waits for it.";
  let running = null;

  // The objects of a response's lines, as they come.
  async function* lines(response) {
    const reader = response.body.pipeThrough(new TextDecoderStream()).getReader();
    let rest = "";
    for (;;) {
      const { value, done } = await reader.read();
      const parts = (rest + (value || "")).split("\n");
      rest = parts.pop();
      for (const part of parts) yield JSON.parse(part);
      if (done) return;
    }
  }

  const ask = async (signal) => {
    const given = new FormData(form);
    const documents = given.get("documents").split(/\n\s*\n/).filter((text) => text.trim());
    const headers = { "Content-Type": "application/json" };
    if (given.get("token")) headers.Authorization = `Bearer ${given.get("token")}`;
    const question = given.get("question");
    const body = { question, stream: true, data: true };
    if (documents.length) body.documents = documents;
    const response = await fetch("ask", { method: "POST", headers, body: JSON.stringify(body), signal });
    if (response.status === 401) access.open = true;
    if (!response.ok) throw new Error((await response.json()).detail);
    for await (const line of lines(response)) {
      if (line.detail) throw new Error(line.detail);
      answer.hidden = false;
      if (line.data) answer.data = { ...line.data, question };
      status.textContent = "";
    }
  };

  form.addEventListener("submit", async (event) => {
    event.preventDefault();
    if (running) return;
    running = new AbortController();
    send.disabled = true;
    stop.disabled = false;
    answer.hidden = true;
    status.textContent = "The model reads the documents …";
    try {
      await ask(running.signal);
    } catch (error) {
      status.textContent = error.name === "AbortError" ? STOPPED : error.message;
      if (!answer.hidden) answer.data = { ...answer.data, summary: {} }; // what was said stays
    }
    running = null;
    send.disabled = false;
    stop.disabled = true;
  });
  stop.addEventListener("click", () => running && running.abort());
})();
