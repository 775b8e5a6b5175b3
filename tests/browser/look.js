/* Findings about the page that is open; each function returns a list of texts. */
globalThis.look = (() => {
  const article = document.querySelector("article") ?? document.body;

  /* Ready to be looked at: maths typeset, fonts there, everything unfolded. */
  const settle = async () => {
    await window.MathJax?.startup?.promise;
    await document.fonts.ready;
    article.querySelectorAll("details").forEach((fold) => { fold.open = true; });
    // The theme's own handlers (what scrolls gets focus) wait for a frame or two.
    await new Promise((done) => requestAnimationFrame(() => setTimeout(done, 60)));
  };

  const name = (element) => {
    const classes = [...element.classList].slice(0, 2).map((c) => `.${c}`).join("");
    return element.tagName.toLowerCase() + (element.id ? `#${element.id}` : classes);
  };

  /* Formulas that were not typeset, and TeX that a reader would see. */
  const maths = () => {
    const found = [...article.querySelectorAll(".math")]
      .filter((place) => !place.querySelector("mjx-container"))
      .map((place) => `maths not rendered: ${place.textContent.slice(0, 60)}`);
    for (const error of article.querySelectorAll("mjx-merror")) {
      found.push(`maths in error: ${error.textContent.slice(0, 60)}`);
    }
    const texts = document.createTreeWalker(article, NodeFilter.SHOW_TEXT);
    for (let node; (node = texts.nextNode());) {
      const raw = /\\[([]|\$\$|\\(?:frac|sum|partial|mathbb|begin|left)\b/.exec(node.data);
      if (raw && !node.parentElement.closest("pre, code, script, style, mjx-container")) {
        found.push(`raw TeX: ${node.data.trim().slice(0, 60)}`);
      }
    }
    return found;
  };

  /* `alt=""` is for what is only decoration; none on the course's pages is. */
  const images = () => [...document.images]
    .filter((image) => !image.alt.trim() || image.alt === image.getAttribute("src")
      || !image.naturalWidth)
    .map((image) => `image without text or not loaded: ${image.getAttribute("src")}`);

  const overflow = () => {
    const width = document.documentElement.clientWidth;
    if (document.documentElement.scrollWidth <= width) return [];
    const wide = [...document.body.querySelectorAll("*")]
      .filter((e) => e.getBoundingClientRect().right > width + 1).slice(0, 3).map(name);
    return [`scrolls sideways by ${document.documentElement.scrollWidth - width}: ${wide}`];
  };

  /* Asked for less motion, nothing may move by itself or glide. */
  const motion = () => {
    const seconds = (list) => Math.max(...list.split(",").map(parseFloat));
    const moving = (e) => {
      const style = getComputedStyle(e);
      return (seconds(style.transitionDuration) > 0.01 && style.transitionProperty !== "none")
        || (style.animationName !== "none" && seconds(style.animationDuration) > 0.01)
        || style.scrollBehavior === "smooth";
    };
    return [...new Set([...document.querySelectorAll("*")].filter(moving).map(name))]
      .slice(0, 5).map((e) => `moves in spite of prefers-reduced-motion: ${e}`);
  };

  const links = () => [...document.querySelectorAll("a[href]")].map((a) => a.href);

  /* Elements with text of their own, one of each look: the colours, grounds, size and
     weight that contrast depends on. */
  const looks = () => {
    const grounds = new Map();
    const ground = (e) => {
      if (!e) return "";
      if (!grounds.has(e)) {
        const { backgroundColor, backgroundImage, opacity } = getComputedStyle(e);
        const own = [backgroundColor, backgroundImage, opacity].join(" ");
        const clear = own === "rgba(0, 0, 0, 0) none 1" ? "" : `${own};`;
        grounds.set(e, clear + ground(e.parentElement));
      }
      return grounds.get(e);
    };
    const found = new Map();
    for (const e of article.querySelectorAll("pre span")) {
      const { color, fontSize, fontWeight } = getComputedStyle(e);
      const look = [color, fontSize, fontWeight, ground(e)].join("|");
      if (!found.has(look) && e.textContent.trim()) found.set(look, e);
    }
    return [...found.values()];
  };

  const theme = (name) => { document.documentElement.dataset.theme = name; };

  /* Coloured code is most of a page, and the same few colours again and again. One
     span of each look stays, the others become plain text; axe sees all the rest. */
  const thin = () => {
    const kept = new Set(["light", "dark"].flatMap((name) => (theme(name), looks())));
    const plain = (e) => [...e.attributes].every((a) => a.name === "class");
    for (const span of article.querySelectorAll("pre span")) {
      if (!kept.has(span) && plain(span)) span.replaceWith(...span.childNodes);
    }
    article.querySelectorAll("pre").forEach((block) => block.normalize());
  };

  /* What axe-core finds in light, and of colours in dark. */
  const axe = async () => {
    thin();
    const found = [];
    for (const [name, rules] of [["light", {}], ["dark", { runOnly: ["color-contrast"] }]]) {
      theme(name);
      const { violations } = await globalThis.axe.run(document,
        { resultTypes: ["violations"], preload: false, ...rules });
      found.push(...violations.map((v) => `axe, ${name}: ${v.id} `
        + `(${v.nodes.length}): ${v.nodes[0].html.slice(0, 120)}`));
    }
    return found;
  };

  return { settle, maths, images, overflow, motion, links, axe };
})();
