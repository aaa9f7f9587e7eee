"use strict";
(() => {
  const form = document.querySelector("form");
  const status = document.getElementById("status");
  const answer = document.getElementById("answer");
  const stop = document.getElementById("stop");
  const send = form.querySelector("button");
  const access = form.querySelector("details");
  const STOPPED = "Stopped. What was begun is finished first: the next answer waits for it.";
  let running = null;

  const ask = async (signal) => {
    const given = new FormData(form);
    const documents = given.get("documents").split(/\n\s*\n/).filter((text) => text.trim());
    const headers = { "Content-Type": "application/json" };
    if (given.get("token")) headers.Authorization = `Bearer ${given.get("token")}`;
    const body = { question: given.get("question"), html: true };
    if (documents.length) body.documents = documents;
    const response = await fetch("ask", { method: "POST", headers, body: JSON.stringify(body), signal });
    const found = await response.json();
    if (response.ok) return found.html;
    if (response.status === 401) access.open = true;
    throw new Error(found.detail);
  };

  form.addEventListener("submit", async (event) => {
    event.preventDefault();
    if (running) return;
    running = new AbortController();
    send.disabled = true;
    stop.disabled = false;
    answer.hidden = true;
    status.textContent = "The model answers, and its answer is attributed …";
    try {
      answer.srcdoc = await ask(running.signal);
      answer.hidden = false;
      status.textContent = "";
    } catch (error) {
      status.textContent = error.name === "AbortError" ? STOPPED : error.message;
    }
    running = null;
    send.disabled = false;
    stop.disabled = true;
  });
  stop.addEventListener("click", () => running && running.abort());
})();
