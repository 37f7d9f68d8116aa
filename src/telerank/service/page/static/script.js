// The page works without this: a thumb is then a form, "why this rank" and the answer are pages of their own.
"use strict";

const json = { Accept: "application/json" };

document.addEventListener("submit", (event) => {
  const form = event.target;
  if (form.matches(".judge")) {
    event.preventDefault();
    judge(form, event.submitter);
  } else if (form.dataset.wait) {
    wait(form);
  }
});

// a page that comes back from the browser's memory waits for nothing, but for an answer that it does not have
window.addEventListener("pageshow", () => {
  for (const form of document.querySelectorAll("form[aria-busy]")) form.removeAttribute("aria-busy");
  const link = document.querySelector("a.look");
  if (link) readAnswer(link);
});

// the element of an id on another page of this service
async function fetchPart(address, id) {
  const reply = await fetch(address);
  const page = new DOMParser().parseFromString(await reply.text(), "text/html");
  const part = page.getElementById(id);
  if (!reply.ok || !part) throw new Error(String(reply.status));
  return document.importNode(part, true);
}

async function readAnswer(link) {
  const card = document.getElementById("answer-card");
  const status = document.querySelector(".reading");
  status.textContent = status.dataset.reading;
  card.hidden = true;
  try {
    const answer = await fetchPart(link.href, card.id);
    card.replaceWith(answer);
    // what a screen reader says; the card itself is read when its user goes there
    const text = answer.querySelector(":scope > .answer-text");
    status.classList.add("hidden");
    status.textContent = [answer.querySelector("h2"), text].map((each) => each?.textContent ?? "").join(" ");
  } catch {
    link.textContent = link.dataset.retry;
    status.textContent = link.dataset.failed;
    card.hidden = false;
  }
}

function wait(form) {
  form.setAttribute("aria-busy", "true");
  const text = form.querySelector(".button-text");
  if (text) {
    const usual = text.textContent;
    text.textContent = form.dataset.wait;
    window.addEventListener("pageshow", () => (text.textContent = usual), { once: true });
  }
}

async function judge(form, button) {
  const status = form.querySelector(".thanks");
  const body = new URLSearchParams(new FormData(form));
  body.set("grade", button.value);
  let saved = false;
  try {
    const reply = await fetch(form.action, { method: "POST", body, headers: json });
    saved = reply.ok;
  } catch {
    saved = false;
  }
  status.classList.toggle("failed", !saved);
  status.textContent = saved ? status.dataset.thanks : status.dataset.failed;
  if (!saved) return;
  press(form, button.value);
  const grades = judgedHere();
  grades[nameOf(form)] = button.value;
  try {
    sessionStorage.setItem("judged", JSON.stringify(grades));
  } catch {
    // without storage the thumb is forgotten when its page is left
  }
}

function press(form, grade) {
  for (const button of form.querySelectorAll("button")) {
    button.setAttribute("aria-pressed", String(button.value === grade));
  }
  const again = form.querySelector(".again");
  if (again) again.hidden = Number(grade) <= 0;
}

// what was judged in this tab: grades by index, query and document
function judgedHere() {
  try {
    return JSON.parse(sessionStorage.getItem("judged")) ?? {};
  } catch {
    return {};
  }
}

// queries that differ in case or blanks alone are judged as one
function nameOf(form) {
  const fields = new FormData(form);
  const words = fields.get("query").normalize("NFKC").toLowerCase().trim().split(/\s+/);
  return JSON.stringify([fields.get("index"), words.join(" "), fields.get("docno")]);
}

const judged = judgedHere();
for (const form of document.querySelectorAll(".judge")) {
  const grade = judged[nameOf(form)];
  if (grade !== undefined) press(form, grade);
}

for (const link of document.querySelectorAll("a.why")) {
  const button = document.createElement("button");
  button.type = "button";
  button.className = "why";
  button.textContent = link.textContent;
  button.setAttribute("aria-expanded", "false");
  button.setAttribute("aria-controls", link.dataset.panel);
  button.addEventListener("click", () => explain(button, link));
  link.replaceWith(button);
}

async function explain(button, link) {
  const panel = document.getElementById(link.dataset.panel);
  const opens = panel.hidden;
  panel.hidden = !opens;
  button.setAttribute("aria-expanded", String(opens));
  if (!opens || panel.dataset.filled) return;
  panel.textContent = link.dataset.loading;
  panel.setAttribute("aria-busy", "true");
  try {
    const explanation = await fetchPart(link.href, "explanation");
    explanation.removeAttribute("id");
    for (const heading of explanation.querySelectorAll("h2")) {
      const smaller = document.createElement("h4");
      smaller.append(...heading.childNodes);
      heading.replaceWith(smaller);
    }
    panel.replaceChildren(explanation);
    panel.dataset.filled = "true";
  } catch {
    panel.textContent = link.dataset.failed;
  }
  panel.removeAttribute("aria-busy");
}

// suggestions while typing: a combobox with a list box (ARIA Authoring Practices, list autocomplete)
const box = document.querySelector("input[data-suggest]");
if (box) completeQueries(box);

function completeQueries(input) {
  const list = document.createElement("ul");
  list.id = "suggestions";
  list.className = "suggestions";
  list.hidden = true;
  list.setAttribute("role", "listbox");
  list.setAttribute("aria-label", input.dataset.suggestions);
  input.after(list);
  input.setAttribute("role", "combobox");
  input.setAttribute("aria-autocomplete", "list");
  input.setAttribute("aria-controls", list.id);
  let typed = input.value;
  let chosen = -1;
  let timer = 0;
  let reading = new AbortController();

  const close = () => show([]);
  function show(texts) {
    chosen = -1;
    list.replaceChildren(...texts.map(makeOption));
    list.hidden = texts.length === 0;
    input.setAttribute("aria-expanded", String(texts.length > 0));
    input.removeAttribute("aria-activedescendant");
  }
  function makeOption(text, number) {
    const option = document.createElement("li");
    option.id = `suggestion${number}`;
    option.setAttribute("role", "option");
    option.setAttribute("aria-selected", "false");
    option.dir = "auto";
    option.textContent = text;
    // before the box loses the focus
    option.addEventListener("mousedown", (event) => {
      event.preventDefault();
      input.value = text;
      close();
      input.form.requestSubmit();
    });
    return option;
  }
  function choose(number) {
    const options = list.children;
    options[chosen]?.setAttribute("aria-selected", "false");
    // behind the last one, and before the first, is what was typed
    chosen = ((number + 1 + options.length + 1) % (options.length + 1)) - 1;
    const option = options[chosen];
    option?.setAttribute("aria-selected", "true");
    option?.scrollIntoView({ block: "nearest" });
    input.value = option ? option.textContent : typed;
    if (option) input.setAttribute("aria-activedescendant", option.id);
    else input.removeAttribute("aria-activedescendant");
  }
  async function read() {
    reading.abort();
    reading = new AbortController();
    const values = { query: typed, index: input.form.elements.namedItem("index")?.value };
    const address = new URL(input.dataset.suggest, location.href);
    for (const [name, value] of Object.entries(values)) if (value) address.searchParams.set(name, value);
    try {
      const reply = await fetch(address, { headers: json, signal: reading.signal });
      const texts = reply.ok ? (await reply.json()).suggestions.map((each) => each.text) : [];
      if (document.activeElement === input) show(texts);
    } catch {
      // of what is typed meanwhile another call asks; without suggestions the box works as it is
    }
  }
  input.addEventListener("input", () => {
    typed = input.value;
    clearTimeout(timer);
    if (typed.trim()) timer = setTimeout(read, 120);
    else close();
  });
  input.addEventListener("keydown", (event) => {
    if (event.isComposing || list.hidden) return;
    if (event.key === "ArrowDown" || event.key === "ArrowUp") {
      event.preventDefault();
      choose(chosen + (event.key === "ArrowDown" ? 1 : -1));
    } else if (event.key === "Escape") {
      event.preventDefault();
      input.value = typed;
      close();
    }
  });
  input.addEventListener("blur", () => {
    clearTimeout(timer);
    reading.abort();
    close();
  });
  input.form.addEventListener("submit", close);
  close();
}
