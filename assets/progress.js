/* What a reader has finished: the store, and the first page, which shows it.

   One entry of localStorage holds it; nothing leaves the browser. practice.js
   writes to the same store. */

/** An element with a class, a text and attributes. */
const courseElement = (tag, className, text = "", attributes = {}) => {
  const made = Object.assign(document.createElement(tag), { className });
  made.append(text);
  for (const [name, value] of Object.entries(attributes)) made.setAttribute(name, value);
  return made;
};

/** What is kept between visits: one entry of localStorage, for all pages. */
const courseProgress = (() => {
  const KEY = "jax-course-progress";
  const VERSION = 1;
  const empty = () => ({ format: KEY, version: VERSION, pages: {} });
  let memory = empty();   // stands in where the browser refuses to store
  let stored = true;

  const blank = () => ({ questions: {} });

  const isObject = (x) => typeof x === "object" && x !== null && !Array.isArray(x);
  const isCount = (x) => Number.isInteger(x) && x >= 0 && x < 100;
  const quote = (x) => `'${String(x).slice(0, 40)}'`;

  // Only known fields are copied, so a file can't bring in anything else.
  function question(name, { tries, right } = {}) {
    const sound = /^[a-z0-9-]{1,64}$/.test(name) && typeof right === "boolean"
      && Array.isArray(tries) && tries.length < 100 && tries.every(isCount);
    if (!sound) throw Error();
    return [name, { tries: [...new Set(tries)], right }];
  }

  function page(name, raw) {
    try {
      const { of, marked, questions = {} } = raw;
      const sound = /^[a-z]+\/\w{1,60}$/.test(name) && isObject(questions)
        && (of === undefined || isCount(of))
        && (marked === undefined || typeof marked === "boolean");
      if (!sound) throw Error();
      const made = { questions: Object.fromEntries(
        Object.entries(questions).map(([key, value]) => question(key, value))) };
      return [name, Object.assign(made, of !== undefined && { of },
        marked !== undefined && { marked })];
    } catch {
      throw Error(`This file is damaged where it speaks of ${quote(name)}`);
    }
  }

  /** Progress from the text of a file. Throws an Error that says what is wrong. */
  function parse(text) {
    let file;
    try {
      file = JSON.parse(text);
    } catch {
      throw Error("This file is not JSON");
    }
    if (file?.format !== KEY || !isObject(file.pages)) {
      throw Error("This file was not exported by this course");
    }
    if (file.version !== VERSION) {
      throw Error(`This file has version ${quote(file.version)}, and this page reads ${VERSION}`);
    }
    const pages = Object.entries(file.pages).map(([name, raw]) => page(name, raw));
    return { ...empty(), pages: Object.fromEntries(pages) };
  }

  function read() {
    try {
      const text = stored ? localStorage.getItem(KEY) : null;
      if (text === null) return stored ? empty() : memory;
      try {
        return parse(text);
      } catch {   // of another version, perhaps: put it aside, lose nothing
        localStorage.setItem(`${KEY}.unreadable`, text);
        return empty();
      }
    } catch {
      stored = false;
      return memory;
    }
  }

  function write(data) {
    memory = data;
    try {
      localStorage.setItem(KEY, JSON.stringify(data));
      stored = true;
    } catch {
      stored = false;
    }
    document.dispatchEvent(new Event("course-progress"));
  }

  /** Change the record of one page. Reads first: another tab may have written. */
  function change(name, edit) {
    const data = read();
    const record = data.pages[name] ?? blank();
    edit(record);
    const untouched = record.marked === undefined && !Object.keys(record.questions).length;
    if (untouched) delete data.pages[name];
    else data.pages[name] = record;
    write(data);
  }

  const right = (record) => Object.values(record.questions).filter((q) => q.right).length;
  const all = (record, of = record.of) => of > 0 && right(record) >= of;

  return {
    empty, blank, parse, read, write, change, right, all,
    isKept: () => (read(), stored),
    record: (name) => read().pages[name] ?? blank(),
    /** What the reader pressed counts; else whether all questions are right. */
    isFinished: (record, of) => record.marked ?? all(record, of),
    /** Call `paint` now, after every change, and when another tab changed something. */
    watch(paint) {
      paint();
      document.addEventListener("course-progress", paint);
      window.addEventListener("storage", paint);
      window.addEventListener("pageshow", (event) => event.persisted && paint());
    },
  };
})();

/** Ask in a dialog. Resolves to the value of the button, 'cancel' for Escape. */
const courseAsk = (question, choices) => new Promise((resolve) => {
  const dialog = courseElement("dialog", "course-ask", "", { "aria-labelledby": "course-ask" });
  const form = courseElement("form", "", "", { method: "dialog" });
  form.append(courseElement("p", "", question, { id: "course-ask" }));
  for (const [value, text] of Object.entries(choices)) {
    form.append(courseElement("button", "course-button", text, { value }));
  }
  dialog.append(form);
  document.body.append(dialog);
  dialog.addEventListener("close", () => {
    dialog.remove();
    resolve(dialog.returnValue || "cancel");
  });
  dialog.showModal();
});

// The first page: marks on the course map, and Export, Import, Reset below it.
(() => {
  const store = courseProgress, make = courseElement;
  const items = [...document.querySelectorAll("ol.course-map > li[data-page]")];
  const place = document.querySelector(".course-progress");
  const MOST_BYTES = 1_000_000;

  /** Where a reader stands with a chapter and its exercises. */
  function standing({ page, exercisePage, quizzes }, pages) {
    const of = Number(quizzes) || 0;
    const record = pages[page] ?? store.blank();
    const right = Math.min(store.right(record), of);
    const chapter = store.isFinished(record, of);
    const hasSet = Boolean(exercisePage);
    const exercises = hasSet && store.isFinished(pages[exercisePage] ?? store.blank());
    const begun = chapter || exercises || Object.keys(record.questions).length > 0;
    return { of, right, chapter, exercises, hasSet, begun, whole: chapter && (exercises || !hasSet) };
  }

  function words({ of, right, chapter, exercises, begun, whole }) {
    if (!begun) return "";
    const parts = [`${right} of ${of} questions`];
    if (whole || chapter) parts.unshift(whole ? "Finished" : "Chapter finished");
    if (exercises && !whole) parts.push("exercises finished");
    return parts.join(", ");
  }

  function paintItem(item, found) {
    const mark = item.querySelector(".course-mark") ?? item.appendChild(make("span", "course-mark"));
    item.dataset.progress = found.whole ? "finished" : found.begun ? "begun" : "none";
    mark.textContent = words(found);
    mark.hidden = !found.begun;
  }

  function paint(sum, bar) {
    const { pages } = store.read();
    const found = items.map((item) => standing(item.dataset, pages));
    items.forEach((item, i) => paintItem(item, found[i]));
    const total = (count) => found.reduce((n, f) => n + count(f), 0);
    const done = total((f) => f.chapter + f.exercises), all = total((f) => 1 + f.hasSet);
    sum.textContent = `${done} of ${all} pages finished, ${total((f) => f.right)} of `
      + `${total((f) => f.of)} questions answered right.`;
    Object.assign(bar, { max: all, value: done });
  }

  /** Hand the store over as a file. */
  function exportFile() {
    const blob = new Blob([JSON.stringify(store.read(), null, 2)], { type: "application/json" });
    const href = URL.createObjectURL(blob);
    const day = new Date().toISOString().slice(0, 10);
    make("a", "", "", { href, download: `jax-course-progress-${day}.json` }).click();
    setTimeout(() => URL.revokeObjectURL(href), 10_000);
    return "Your progress was handed over as a file.";
  }

  /** Both records of a page in one: whatever was answered or finished in either. */
  function mergePage(mine = store.blank(), theirs = store.blank()) {
    const questions = { ...mine.questions };
    for (const [name, { tries, right }] of Object.entries(theirs.questions)) {
      const known = questions[name] ?? { tries: [], right: false };
      questions[name] = { tries: [...new Set([...known.tries, ...tries])], right: known.right || right };
    }
    const marked = mine.marked || theirs.marked || (mine.marked ?? theirs.marked);
    return { ...theirs, ...mine, ...(marked !== undefined && { marked }), questions };
  }

  function merge(mine, theirs) {
    const names = Object.keys({ ...mine.pages, ...theirs.pages });
    const pages = names.map((name) => [name, mergePage(mine.pages[name], theirs.pages[name])]);
    return { ...mine, pages: Object.fromEntries(pages) };
  }

  /** Take in a file. Returns the sentence to show; a bad file changes nothing. */
  async function importFile(file) {
    let theirs;
    try {
      if (file.size > MOST_BYTES) throw Error("This file is too large for an export");
      theirs = store.parse(await file.text());
    } catch (error) {
      return `${error.message}, so nothing was changed.`;
    }
    const count = Object.keys(theirs.pages).length;
    const how = await courseAsk(
      `The file knows ${count} ${count === 1 ? "page" : "pages"}. Merge it with what is here, or replace it?`,
      { merge: "Merge", replace: "Replace", cancel: "Cancel" });
    if (how === "cancel") return "Nothing was changed.";
    store.write(how === "merge" ? merge(store.read(), theirs) : theirs);
    return how === "merge" ? "The file was merged with what was here." : "The file replaced what was here.";
  }

  async function reset() {
    const how = await courseAsk("Forget all answers and all finished pages? An export would keep them.",
      { cancel: "Keep them", reset: "Forget them" });
    if (how !== "reset") return "Nothing was changed.";
    store.write(store.empty());
    return "Your progress was forgotten.";
  }

  function tools(say) {
    const box = make("div", "course-tools");
    const input = make("input", "", "", { type: "file", accept: ".json,application/json" });
    const actions = { export: exportFile, import: () => input.click(), reset };
    input.hidden = true;
    input.addEventListener("change", async () => {
      if (input.files.length) say(await importFile(input.files[0]));
      input.value = "";   // so that the same file can be chosen again
    });
    for (const [name, act] of Object.entries(actions)) {
      const text = name[0].toUpperCase() + name.slice(1);
      const button = make("button", "course-button", text, { type: "button", "data-do": name });
      button.addEventListener("click", async () => say((await act()) ?? ""));
      box.append(button);
    }
    box.append(input);
    return box;
  }

  if (!place || !items.length) return;
  const sum = make("p", "course-sum"), said = make("p", "course-said", "", { role: "status" });
  const bar = make("progress", "", "", { "aria-label": "Pages finished" });
  const where = store.isKept()
    ? "This is kept in your browser and nowhere else. Export it to take it along."
    : "Your browser stores nothing for this site: what you finish is forgotten when you leave a page.";
  place.append(sum, bar, make("p", "course-where", where),
    tools((text) => { said.textContent = text; }), said);
  store.watch(() => paint(sum, bar));
})();
