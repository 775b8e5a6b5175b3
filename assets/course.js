/* What CSS cannot see. Pages read well without this file. */

// A blockquote that opens with a bold word is a note: `> **Pitfall.** ...`
for (const quote of document.querySelectorAll(".bd-article blockquote")) {
  const bold = quote.querySelector("p")?.firstChild;
  if (bold?.nodeName === "STRONG") {
    const words = bold.textContent.toLowerCase().match(/[a-z]+/g) ?? [];
    quote.classList.add("note-" + words.join("-"));
  }
}

// Names for screen readers that the themes leave out or contradict.
const names = ".search-button-field[aria-label], details.hide > summary[aria-label]";
document.querySelectorAll(names).forEach((e) => e.removeAttribute("aria-label"));
for (const fold of document.querySelectorAll(".bd-sidebar-primary li > details")) {
  const page = fold.parentElement.querySelector("a, p").textContent.trim();
  fold.querySelector("summary").setAttribute("aria-label", `Pages below ${page}`);
}
const sidebar = document.querySelector(".sidebar-primary-items__start");
sidebar?.setAttribute("role", "complementary");
sidebar?.setAttribute("aria-label", "Course");

// A formula that is wider than the screen scrolls, so the keyboard must reach it.
window.addEventListener("load", () => window.MathJax?.startup?.promise?.then(() => {
  for (const formula of document.querySelectorAll("mjx-container[display]")) {
    if (formula.scrollWidth > formula.clientWidth) formula.tabIndex = 0;
  }
}));
