/* Quick questions as buttons, 'Mark as finished', and ticks in the sidebar.

   A page reads well without this file: a question is then a list, and its answer
   a second list that unfolds. What is answered goes to the store of progress.js,
   which is loaded before. */

(() => {
  const make = courseElement, store = courseProgress;
  const names = new Set();   // of the questions on this page
  const isRight = (why) => why.querySelector("strong")?.textContent === "Right.";

  /** 'chapters/02_jit' for the address of that page, below any root. */
  function pageName(address) {
    const root = document.documentElement.dataset.content_root ?? "./";
    const base = new URL(root, location.href).pathname;
    const path = new URL(address, location.href).pathname;
    return path.startsWith(base) ? path.slice(base.length).replace(/\.html$/, "") : "";
  }

  const thisPage = document.querySelector('meta[name="course-page"]')?.content
    || pageName(location.href);

  /** A name for a question that outlives its moving about: its first words. */
  function slug(paragraph, taken) {
    const text = paragraph.cloneNode(true);
    text.querySelectorAll(".math, strong:first-child").forEach((part) => part.remove());
    const words = text.textContent.toLowerCase().match(/[a-z0-9]+/g) ?? ["question"];
    let name = words.join("-").slice(0, 60);
    for (let i = 2; taken.has(name); i++) name = `${words.join("-").slice(0, 56)}-${i}`;
    taken.add(name);
    return name;
  }

  /** Put a question, from its bold opening to its folded answer, into one box. */
  function gather(opening) {
    const parts = [opening];
    for (let next = opening; next.nodeName !== "DETAILS"; parts.push(next)) {
      next = next.nextElementSibling;
      if (!next || next.nodeName === "SECTION") return null;
    }
    const box = make("div", "quiz");
    opening.before(box);
    box.append(...parts);
    return box;
  }

  /** One choice: a button made of the option, and its explanation below it. */
  function choice(item, explanation, id) {
    const button = make("button", "quiz-option", "", { type: "button" });
    const text = make("span", "quiz-text");
    const mark = make("span", "quiz-mark");
    const why = make("div", "quiz-why", "", { id });
    text.append(...(item.querySelector("p") ?? item).childNodes);
    why.append(...explanation.childNodes);
    why.hidden = true;
    button.append(text, mark);
    item.replaceChildren(button, why);
    return { button, mark, why, right: isRight(why) };
  }

  /** Show one choice: untouched, or with its verdict in words and a sign. */
  function paintChoice({ button, mark, why, right }, tried, shown) {
    button.dataset.verdict = tried ? (right ? "right" : "wrong") : "";
    const sign = make("span", "quiz-sign", right ? "✓" : "✗", { "aria-hidden": "true" });
    mark.replaceChildren(...(tried ? [sign, right ? " Right" : " Not right"] : []));
    why.hidden = !shown;
    if (shown) button.setAttribute("aria-describedby", why.id);
    else button.removeAttribute("aria-describedby");
  }

  /** The tries of a question that are on record, as places from 0. */
  const triesOf = ({ name, choices }) => (store.record(thisPage).questions[name]?.tries ?? [])
    .filter((i) => i < choices.length);

  const isDone = ({ choices }, tried) => tried.some((i) => choices[i].right);

  function paint(quiz) {
    const { box, choices, opened, tools, every } = quiz;
    const tried = triesOf(quiz), done = isDone(quiz, tried);
    box.dataset.state = done ? "right" : tried.length ? "tried" : "open";
    choices.forEach((c, i) => paintChoice(c, tried.includes(i), tried.includes(i) || opened.has(i)));
    tools.hidden = !done;
    every.setAttribute("aria-expanded", choices.every((c) => !c.why.hidden));
  }

  /** A try; after the right answer, a press only shows an explanation. */
  function press(quiz, i) {
    const tried = triesOf(quiz);
    if (isDone(quiz, tried)) {
      quiz.opened.add(i);
      return paint(quiz);
    }
    const tries = [...new Set([...tried, i])];
    store.change(thisPage, (record) => {
      record.questions[quiz.name] = { tries, right: isDone(quiz, tries) };
      record.of = names.size;
      if (quiz.choices[i].right && store.all(record)) delete record.marked;
    });
    quiz.status.textContent = verdict(quiz.choices[i], i + 1);
  }

  function verdict({ right }, number) {
    if (!right) return `Option ${number} is not right; below it is why. Try another.`;
    const last = store.all(store.record(thisPage));
    return `Option ${number} is right.` + (last ? " It was the last: this page is finished." : "");
  }

  function toggleAll(quiz) {
    const show = quiz.every.getAttribute("aria-expanded") === "false";
    quiz.opened.clear();
    if (show) quiz.choices.forEach((_, i) => quiz.opened.add(i));
    paint(quiz);
  }

  function askAgain(quiz) {
    quiz.opened.clear();
    store.change(thisPage, (record) => delete record.questions[quiz.name]);
    quiz.status.textContent = "The question is open again.";
    quiz.choices[0].button.focus();
  }

  /** The options of a question and their explanations, or null if they don't match. */
  function read(box) {
    const options = [...box.querySelectorAll(":scope > ol > li")];
    const whys = [...box.querySelectorAll(":scope > details > ol > li")];
    const sound = options.length > 1 && options.length === whys.length && whys.some(isRight);
    return sound ? { options, whys } : null;
  }

  /** Make a question work. One of another form stays a list with a folded answer. */
  function upgrade(box, number) {
    const found = read(box);
    if (!found) return;
    const opening = box.querySelector("p");
    const button = (name, text) => make("button", `quiz-tool ${name}`, text, { type: "button" });
    const quiz = {
      box, name: slug(opening, names), opened: new Set(),   // opened: shown without a try
      choices: found.options.map((li, i) => choice(li, found.whys[i], `quiz-${number}-why-${i + 1}`)),
      status: make("p", "quiz-status", "", { role: "status" }),
      tools: make("div", "quiz-tools"),
      every: button("quiz-all", "Every explanation"),
    };
    const again = button("quiz-again", "Ask me again");
    quiz.tools.append(quiz.every, again);
    box.querySelector("details").replaceWith(quiz.status, quiz.tools);
    const list = box.querySelector(":scope > ol");
    list.classList.add("quiz-options");
    list.setAttribute("role", "list");   // Safari drops it with the markers
    opening.id = opening.id || `quiz-${number}`;
    box.setAttribute("role", "group");
    box.setAttribute("aria-labelledby", opening.id);
    box.dataset.quiz = quiz.name;
    quiz.choices.forEach((c, i) => c.button.addEventListener("click", () => press(quiz, i)));
    quiz.every.addEventListener("click", () => toggleAll(quiz));
    again.addEventListener("click", () => askAgain(quiz));
    store.watch(() => paint(quiz));
  }

  /** Forget questions that the page no longer asks; note how many it has. */
  function forgetOld() {
    const known = store.record(thisPage);
    const old = Object.keys(known.questions).filter((name) => !names.has(name));
    if (!Object.keys(known.questions).length || (!old.length && known.of === names.size)) return;
    store.change(thisPage, (record) => {
      old.forEach((name) => delete record.questions[name]);
      record.of = names.size;
    });
  }

  /** 'Mark as finished', at the end of chapters and exercises. */
  function finishButton(article, questions) {
    const box = make("div", "course-finish");
    const button = make("button", "course-finish-button", "Mark as finished", { type: "button" });
    const count = make("p", "course-finish-count");
    box.append(button, ...(questions ? [count] : []));
    article.append(box);
    button.addEventListener("click", () => store.change(thisPage, (record) => {
      const finished = !store.isFinished(record, questions);
      if (finished === store.all(record, questions)) delete record.marked;
      else record.marked = finished;
    }));
    store.watch(() => {
      const record = store.record(thisPage);
      button.setAttribute("aria-pressed", store.isFinished(record, questions));
      count.textContent = `${store.right(record)} of ${questions} questions answered right.`;
    });
  }

  /** A tick behind every finished page in the table of contents. */
  function tickSidebar() {
    const { pages } = store.read();
    for (const link of document.querySelectorAll(".bd-sidebar-primary a.reference.internal")) {
      const done = store.isFinished(pages[pageName(link.href)] ?? store.blank());
      if (done === link.classList.contains("course-done")) continue;
      link.classList.toggle("course-done", done);
      if (!done) link.querySelector(".course-tick").remove();
      else {
        const tick = make("span", "course-tick");
        tick.append(make("span", "", "✓", { "aria-hidden": "true" }),
          make("span", "course-unseen", ", finished"));
        link.append(tick);
      }
    }
  }

  const article = document.querySelector("article.bd-article");
  for (const bold of article?.querySelectorAll("p > strong:first-child") ?? []) {
    if (bold.textContent !== "Quick question.") continue;
    const box = gather(bold.parentElement);
    if (box) upgrade(box, names.size + 1);
  }
  if (names.size) forgetOld();
  if (article && /^(chapters|exercises)\//.test(thisPage)) finishButton(article, names.size);
  store.watch(tickSidebar);
})();
