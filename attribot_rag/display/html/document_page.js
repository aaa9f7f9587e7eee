// A document's page: a bar that leads through the citations, and the way back.
const bar = document.querySelector("header");
const told = bar.querySelector("[role=status]");
const marks = [...document.querySelectorAll("[data-citation]")];
const citations = [...new Set(marks.map((mark) => mark.dataset.citation))];
let at = 0;
const show = (by) => {
  at = (at + by + citations.length) % citations.length;
  const those = marks.filter((mark) => mark.dataset.citation === citations[at]);
  for (const mark of marks) mark.classList.toggle("current", citations.length > 1 && those.includes(mark));
  bar.querySelector(".page").textContent = those[0].closest("svg")?.getAttribute("aria-label") ?? "";
  told.textContent = told.dataset.text.replace("{n}", at + 1).replace("{all}", citations.length);
  those[0].scrollIntoView({ block: "center" });
};
const [back, previous, next] = bar.querySelectorAll("button");
back.hidden = false;
back.addEventListener("click", () => (history.length > 1 ? history.back() : close())); // a tab of its own, or the answer's
bar.querySelector("nav").hidden = citations.length < 2;
previous.addEventListener("click", () => show(-1));
next.addEventListener("click", () => show(1));
if (citations.length) {
  show(0);
  addEventListener("load", () => requestAnimationFrame(() => show(0))); // after the browser went to the address's fragment
}
