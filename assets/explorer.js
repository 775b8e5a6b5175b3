/* Steps through a trace: the code, the record growing beside it, and the calls.

   A page reads well without this file: tables hold the same. The data comes from
   the cell that made them (tracecheck.explore), in a block of JSON beside them. */

(() => {
  let count = 0;   // of explorers, for ids

  function make(tag, name = "", text = "", attributes = {}) {
    const element = document.createElement(tag);
    if (name) element.className = name;
    if (text) element.textContent = text;
    for (const [key, value] of Object.entries(attributes)) element.setAttribute(key, value);
    return element;
  }

  const button = (name, text) => make("button", name, text, { type: "button" });
  const amount = (n, noun) => `${n || "no"} ${noun}${n === 1 ? "" : "s"}`;

  /** Text with its `names` set as code. */
  function fill(element, text) {
    const parts = text.split("`").map((part, i) => (i % 2 ? make("code", "", part) : part));
    element.replaceChildren(...parts);
  }

  /** What a call does to the cache, in words. */
  const verdict = ({ traced, entry }) => traced
    ? `traced, makes entry ${entry}` : `reuses entry ${entry}`;

  /** One call as a button; its verdict stays open until it is chosen. */
  function choice(call, choose) {
    const item = make("li"), press = button("trace-call", "");
    const args = make("span", "trace-args");
    for (const [name, text] of call.arguments) {
      const part = make("span", "", `${name}: ${text}`);
      args.append(part, " ");
    }
    press.append(make("span", "trace-label", call.label), args, make("span", "trace-verdict"));
    press.addEventListener("click", choose);
    item.append(press);
    return item;
  }

  /** A column with a heading that names it. */
  function column(title, list) {
    const box = make("div", "trace-column"), id = `trace-heading-${++count}`;
    box.append(make("p", "trace-heading", title, { id }), list);
    list.setAttribute("aria-labelledby", id);
    return box;
  }

  function build(root, data) {
    const list = (name) => make("ol", name, "", { role: "list" });   // Safari drops it with the markers
    const ui = {
      data, at: 0, call: 0, seen: new Set(),
      app: make("div", "trace-app", "", { role: "group", "aria-label": `Trace of ${data.name}` }),
      choices: list("trace-choices"), code: list("trace-code"), eqns: list("trace-eqns"),
      inputs: make("p", "trace-inputs"), results: make("p", "trace-inputs"),
      names: make("p", "trace-names"), why: make("p", "trace-why"),
      status: make("p", "trace-status", "", { role: "status" }),
      tools: make("div", "trace-tools", "", { role: "group", "aria-label": "Steps" }),
      next: button("trace-tool", "Next"), previous: button("trace-tool", "Previous"),
      reset: button("trace-tool", "Reset"),
    };
    for (const name of ["previous", "next", "reset"]) {
      ui[name].dataset.do = name;
      ui.tools.append(ui[name]);
    }
    data.calls.forEach((call, i) => ui.choices.append(choice(call, () => choose(ui, i))));
    data.code.forEach((line) => {
      const item = make("li");
      item.append(make("code", "", line || " "));
      ui.code.append(item);
    });
    const record = column("The record (jaxpr)", ui.eqns);
    ui.eqns.before(ui.inputs);
    record.append(ui.results);
    const panels = make("div", "trace-panels"), steps = make("div", "trace-steps");
    panels.append(column("Python", ui.code), record);
    steps.append(ui.tools, ui.status, panels, ui.names);
    ui.app.append(column("Calls, in this order", ui.choices), ui.why, steps);
    fold(root, ui.app);
    listen(ui);
    choose(ui, 0);
    root.dataset.ready = "";
  }

  /** The tables stay within reach, folded, below the stepper. */
  function fold(root, app) {
    const tables = make("details", "trace-tables");
    tables.append(make("summary", "", "The same as tables"), root.querySelector(".trace-static"));
    root.prepend(app, tables);
  }

  const entryOf = ({ data, call }) => data.entries[data.calls[call].entry - 1];
  const last = (ui) => entryOf(ui).steps.length;

  function choose(ui, i) {
    ui.call = i;
    ui.seen.add(i);
    go(ui, ui.data.calls[i].traced ? 0 : last(ui));
  }

  /** Go to a step; a call that reuses an entry has none to go to. */
  function go(ui, step) {
    ui.at = Math.max(0, Math.min(step, last(ui)));
    paint(ui);
  }

  function act(ui, what) {
    const goals = { previous: ui.at - 1, next: ui.at + 1, reset: 0, end: last(ui) };
    if (ui.data.calls[ui.call].traced && goals[what] !== undefined) go(ui, goals[what]);
  }

  function listen(ui) {
    const keys = { ArrowLeft: "previous", ArrowRight: "next", Home: "reset", End: "end" };
    ui.tools.addEventListener("click", (event) => act(ui, event.target.dataset.do));
    ui.tools.addEventListener("keydown", (event) => {
      if (!keys[event.key] || event.altKey || event.ctrlKey || event.metaKey) return;
      event.preventDefault();
      event.stopPropagation();   // the theme turns pages with arrows
      act(ui, keys[event.key]);
    });
  }

  function paint(ui) {
    const call = ui.data.calls[ui.call], entry = entryOf(ui), { traced } = call;
    const done = entry.steps.slice(0, ui.at), step = traced ? done.at(-1) : null;
    paintCalls(ui);
    [...ui.code.children].forEach((item, i) => {
      item.toggleAttribute("data-visited", traced && done.some(({ line }) => line === i));
      if (step?.line === i) item.setAttribute("aria-current", "step");
      else item.removeAttribute("aria-current");
    });
    const fresh = (at) => traced && at === done.length - 1;
    ui.eqns.replaceChildren(...done.flatMap(({ eqns }, at) => eqns.map((text) => {
      const item = make("li", fresh(at) ? "is-new" : "");
      item.append(make("code", "", text));
      return item;
    })));
    const ended = ui.at === last(ui);
    ui.inputs.textContent = `inputs ${entry.inputs.join(" ")}`;
    ui.results.textContent = ended ? `result ${entry.results.join(" ")}` : "…";
    const names = Object.entries(step?.names ?? {});
    ui.names.textContent = names.length
      ? `What Python's names hold: ${names.map(([n, v]) => `${n} = ${v}`).join(", ")}` : "";
    ui.previous.setAttribute("aria-disabled", !traced || ui.at === 0);
    ui.reset.setAttribute("aria-disabled", !traced || ui.at === 0);
    ui.next.setAttribute("aria-disabled", !traced || ended);
    ui.status.textContent = said(ui, call, entry, step);
  }

  function paintCalls(ui) {
    ui.data.calls.forEach((call, i) => {
      const press = ui.choices.children[i].firstChild, known = ui.seen.has(i);
      press.setAttribute("aria-pressed", i === ui.call);
      press.dataset.verdict = known ? (call.traced ? "traced" : "reused") : "";
      press.querySelector(".trace-verdict").textContent = known ? verdict(call) : "?";
    });
    const { label, why } = ui.data.calls[ui.call];
    fill(ui.why, why.length ? `Why ‘${label}’ traces: ${why.join(", ")}.` : "");
  }

  /** The current step in words. */
  function said(ui, call, entry, step) {
    const size = amount(entry.steps.flatMap(({ eqns }) => eqns).length, "equation");
    if (!call.traced) return `Entry ${call.entry} runs, with its ${size}. No line of Python does.`;
    if (!step) return `No entry fits, so JAX traces. ${amount(last(ui), "step")}: press Next.`;
    const parts = [`Step ${ui.at} of ${last(ui)}, line ${step.line + 1}: leaves ${amount(step.eqns.length, "equation")}.`];
    if (step.printed) parts.push(`Python prints: ${step.printed}`);
    if (ui.at === last(ui)) parts.push(`The trace ends; its ${size} are entry ${call.entry}.`);
    return parts.join(" ");
  }

  for (const root of document.querySelectorAll(".trace-explorer")) {
    const block = root.querySelector("script.trace-explorer-data");
    if (block && root.querySelector(".trace-static")) build(root, JSON.parse(block.textContent));
  }
})();
