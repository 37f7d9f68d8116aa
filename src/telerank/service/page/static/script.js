// The page works without this: a thumb is then a form, and "why this rank" a page of its own.
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

// a page that comes back from the browser's memory waits for nothing
window.addEventListener("pageshow", () => {
  for (const form of document.querySelectorAll("form[aria-busy]")) form.removeAttribute("aria-busy");
});

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
  for (const other of form.querySelectorAll("button")) {
    other.setAttribute("aria-pressed", String(other === button));
  }
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
    const reply = await fetch(link.href);
    const page = new DOMParser().parseFromString(await reply.text(), "text/html");
    const explanation = page.getElementById("explanation");
    if (!reply.ok || !explanation) throw new Error(String(reply.status));
    explanation.removeAttribute("id");
    for (const heading of explanation.querySelectorAll("h2")) {
      const smaller = document.createElement("h4");
      smaller.append(...heading.childNodes);
      heading.replaceWith(smaller);
    }
    panel.replaceChildren(document.importNode(explanation, true));
    panel.dataset.filled = "true";
  } catch {
    panel.textContent = link.dataset.failed;
  }
  panel.removeAttribute("aria-busy");
}
