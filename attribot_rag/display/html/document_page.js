"use strict";
(() => {
  const bar = document.querySelector(".bar");
  const marks = [...document.querySelectorAll("[data-citation]")];
  const citations = [...new Set(marks.map((mark) => mark.dataset.citation))];
  let at = 0;

  const show = (index) => {
    at = (index + citations.length) % citations.length;
    for (const mark of marks) mark.classList.toggle("current", mark.dataset.citation === citations[at]);
    const [mark] = marks.filter((one) => one.dataset.citation === citations[at]);
    const page = mark.closest("[data-page]");
    bar.querySelector(".page").textContent = page ? `page ${page.dataset.page}` : "";
    bar.querySelector(".count").textContent = `${at + 1} of ${citations.length}`;
    return mark;
  };

  if (!citations.length) return;
  show(0);
  const [previous, next] = bar.querySelectorAll("button");
  for (const [button, by] of [[previous, -1], [next, 1]])
    button.addEventListener("click", () => show(at + by).scrollIntoView({ block: "center" }));
  bar.querySelector("nav").hidden = false;
})();
