/* A field that filters the rows of the dictionary. The tables read well without it. */

(() => {
  const rows = [...document.querySelectorAll('tr:has(a[id^="row-"])')].map((row) => ({
    row, section: row.closest("section"), text: row.textContent.toLowerCase(),
  }));
  if (!rows.length) return;
  const groups = new Set(rows.map(({ section }) => section));

  // CSS makes grids of the tables, and browsers then forget that they are tables.
  const roles = { table: "table", thead: "rowgroup", tbody: "rowgroup", tr: "row", th: "columnheader", td: "cell" };
  for (const table of new Set(rows.map(({ row }) => row.closest("table")))) {
    for (const [tag, role] of Object.entries(roles)) {
      const parts = tag === "table" ? [table] : table.querySelectorAll(tag);
      parts.forEach((part) => part.setAttribute("role", role));
    }
  }

  // Sphinx protects indentation by no-break spaces, which Python refuses when pasted.
  for (const { row } of rows) {
    const texts = document.createTreeWalker(row, NodeFilter.SHOW_TEXT);
    while (texts.nextNode()) {
      texts.currentNode.data = texts.currentNode.data.replaceAll("\u00a0", " ");
    }
  }

  const field = courseElement("input", "rosetta-field", "", {
    type: "search", id: "rosetta-field", autocomplete: "off", spellcheck: "false",
    placeholder: "torch.std, scatter, NaN …",
  });
  const label = courseElement("label", "rosetta-label", "Filter the rows",
    { for: "rosetta-field" });
  const status = courseElement("span", "rosetta-status", "", { role: "status" });
  const box = courseElement("div", "rosetta-filter");
  box.append(label, field, status);
  rows[0].section.before(box);

  /** Show the rows that hold every word, and the groups that still have a row. */
  function filter() {
    const words = field.value.toLowerCase().split(/\s+/).filter(Boolean);
    const kept = rows.filter((r) => words.every((word) => r.text.includes(word)));
    const shown = new Set(kept.map((r) => r.row));
    const open = new Set(kept.map((r) => r.section));
    rows.forEach(({ row }) => { row.hidden = !shown.has(row); });
    groups.forEach((section) => {
      section.hidden = !open.has(section);
      section.classList.toggle("rosetta-filtered", words.length > 0);
    });
    status.textContent = words.length ? `${kept.length} of ${rows.length} rows` : `${rows.length} rows`;
  }

  /** A link to a row shows it, whatever the filter says. */
  function reveal() {
    const target = document.getElementById(decodeURIComponent(location.hash.slice(1)));
    if (target?.closest("tr")?.hidden) {
      field.value = "";
      filter();
      target.scrollIntoView();
    }
  }

  field.addEventListener("input", filter);
  window.addEventListener("hashchange", reveal);
  filter();
})();
