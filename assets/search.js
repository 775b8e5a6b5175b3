/* Search: ranks the sections of search-index.js, shows them page by page.
   MiniSearch counts and scores; words are cut to their stem by Sphinx's stemmer. */

(() => {

const WEIGHT = { chapter: 1.4, reference: 1.2, course: 1, exercises: 0.7, solutions: 0.5 };
const PAGES = 10;
const SECTIONS = 3;      // a page
const EXCERPT = 220;     // characters
const NAME = /[\p{L}\p{N}_]+(?:\.[\p{L}_][\p{L}\p{N}_]*)*/gu;
const FLOOR = 0.1;       // of the best score; below it is noise, but for literal finds
const stemmer = new Stemmer();
// Words of questions. Sphinx's own list would drop if, for, not and with: keywords.
const dropped = new Set(
  ("a an the this that these i my me you it its is are was be do does did can could " +
   "should would have has how what when where which why of to").split(" "));

/* A name counts whole and in parts: jax.random.split is also jax, random and split;
   value_and_grad also value and grad; UnexpectedTracerError also unexpected, tracer. */
const tokens = (text) => (text.match(NAME) ?? []).flatMap((name) => {
  const parts = name.split(/[._]+|(?<=\p{Ll})(?=\p{Lu})/u).filter(Boolean);
  const called = name.includes(".") ? name.split(".").slice(-1) : [];
  return parts.length > 1 ? [name, ...new Set([...called, ...parts])] : [name];
});

const stemmed = (token) => {
  const word = token.toLowerCase();
  if (dropped.has(word)) return null;
  return /^[a-z]+$/.test(word) ? stemmer.stemWord(word) : word;
};

const spaced = (text) => text.toLowerCase().split(/\s+/).filter(Boolean).join(" ");

/* Every section as a document. */
const sectionsOf = (pages) => pages.flatMap(([url, kind, page, sections]) =>
  sections.map(([anchor, title, prose, code], i) => ({
    id: `${url}#${anchor}`, url, kind, page, title, prose, code, first: i === 0,
  })));

const indexOf = (sections) => {
  const index = new MiniSearch({
    fields: ["title", "page", "prose", "code"],
    storeFields: ["kind"],
    tokenize: tokens,
    processTerm: stemmed,
    searchOptions: {
      boost: { title: 3, page: 1.5, prose: 1, code: 0.8 },
      boostDocument: (id, term, stored) => WEIGHT[stored.kind],
      fuzzy: (term) => (/^[a-z]{5,}$/.test(term) ? 0.2 : false),
      prefix: (term, i, terms) => i === terms.length - 1 && term.length > 2,
      weights: { fuzzy: 0.15, prefix: 0.3 },
    },
  });
  index.addAll(sections);
  return index;
};

/* Sections that answer, best first: what holds the query word for word leads. */
const ranked = (index, byId, query) => {
  const phrase = spaced(query);
  const bonus = phrase.includes(" ") ? 4 : 2;   // several words in order are no accident
  const found = index.search(query).map(({ id, score, terms }) => {
    const section = byId.get(id);
    const text = spaced(`${section.title} ${section.prose} ${section.code}`);
    const literal = phrase.length > 2 && text.includes(phrase);
    return { ...section, terms, literal, score: literal ? bonus * score : score };
  }).sort((a, b) => b.score - a.score);
  return found.filter((s) => s.literal || s.score > FLOOR * found[0].score);
};

const byPage = (sections) => {
  const pages = new Map(sections.map(({ url }) => [url, []]));
  sections.forEach((section) => pages.get(section.url).push(section));
  return [...pages.values()].slice(0, PAGES);
};

/* The part of a text where most of the terms stand together, with them marked. */
const excerpt = ({ prose, code }, query, terms) => {
  const text = `${prose} ${code}`.trim();
  const words = [...new Set([...terms, ...tokens(query).map(stemmed).filter(Boolean)])];
  const escaped = words.filter((w) => w.length > 1)
    .map((w) => w.replace(/[.*+?^${}()|[\]\\]/g, "\\$&"))
    .sort((a, b) => b.length - a.length);
  if (!escaped.length) return [text.slice(0, EXCERPT)];
  const starts = new RegExp(`(?<![\\p{L}\\p{N}])(?:${escaped.join("|")})`, "giu");
  const found = [...text.matchAll(starts)];
  const start = Math.max(bestStart(text, found, query) - 40, 0);
  const from = start ? text.indexOf(" ", start) + 1 : 0;
  const parts = [from ? "… " : ""];
  let at = from;
  for (const hit of found) {
    if (hit.index < at || hit.index + hit[0].length > from + EXCERPT) continue;
    const mark = document.createElement("mark");
    mark.textContent = hit[0];
    parts.push(text.slice(at, hit.index), mark);
    at = hit.index + hit[0].length;
  }
  const more = from + EXCERPT < text.length;
  return [...parts, text.slice(at, Math.max(at, from + EXCERPT)), more ? " …" : ""];
};

const bestStart = (text, found, query) => {
  const literal = text.toLowerCase().indexOf(spaced(query));
  if (literal >= 0) return literal;
  const covers = ({ index }) => new Set(found
    .filter((h) => h.index >= index && h.index < index + EXCERPT - 60)
    .map((h) => h[0].toLowerCase())).size;
  return found.reduce((best, hit) => {
    const many = covers(hit);
    return many > best.many ? { many, index: hit.index } : best;
  }, { many: 0, index: 0 }).index;
};

const make = (tag, properties = {}, ...children) => {
  const element = Object.assign(document.createElement(tag), properties);
  element.append(...children);
  return element;
};

const shownPage = (sections, query) => {
  const { url, page, kind } = sections[0];
  const items = sections.slice(0, SECTIONS).map((section) => make("li", {},
    make("a", { href: section.id }, section.first ? "Introduction" : section.title),
    make("p", {}, ...excerpt(section, query, section.terms))));
  return make("li", {},
    make("h2", {}, make("a", { href: url }, page),
      " ", make("span", { className: "search-kind" }, kind)),
    make("ul", {}, ...items));
};

const said = (count, query) => {
  if (!query) return "";
  if (!count) return `Nothing found for “${query}”. Try the name of a function or an error.`;
  return count === 1 ? "1 page" : `The ${count} pages that fit best`;
};

/* Called by search-index.js. */
globalThis.courseSearch = (data) => {
  const sections = sectionsOf(data);
  const byId = new Map(sections.map((s) => [s.id, s]));
  const index = indexOf(sections);
  const field = document.querySelector("main input[name=q]");
  const status = make("p", { className: "search-status", role: "status" });
  const list = make("ol", { className: "search-pages" });
  document.getElementById("search-results").append(status, list);

  const show = () => {
    const query = field.value.trim();
    const pages = query ? byPage(ranked(index, byId, query)) : [];
    status.textContent = said(pages.length, query);
    list.replaceChildren(...pages.map((found) => shownPage(found, query)));
  };
  let waiting;
  field.addEventListener("input", () => {
    clearTimeout(waiting);
    waiting = setTimeout(show, 150);
  });
  field.value = new URLSearchParams(location.search).get("q") ?? "";
  show();
};

})();
