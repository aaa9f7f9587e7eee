// Names and keys for what the theme adds to a page: buttons on code, and tables that scroll.
const label = () => {
  document.querySelectorAll(".md-code__nav").forEach((nav, index) => {
    nav.setAttribute("aria-label", `Code block ${index + 1}`);
  });
  document.querySelectorAll(".md-typeset__scrollwrap").forEach((table) => {
    table.tabIndex = 0;
  });
};
new MutationObserver(label).observe(document.documentElement, { childList: true, subtree: true });
label();
