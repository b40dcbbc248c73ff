// Keeps a page of a running application up to date: asks for it again when the server says that something changed. What the
// reader is doing (a selection, an open list, a field) is never taken away. Without this script a page is as it was when it was loaded.
(() => {
  const url = document.body.dataset.events;
  const state = document.getElementById("live");
  const button = document.getElementById("pause");
  if (!url || !state || !button || !window.EventSource) return;
  // A page that takes long to make is asked for less often.
  let known = document.body.dataset.state;
  const EVERY_MS = 2000, PATIENCE = 30;
  let every = EVERY_MS, paused = false, wanted = false, busy = false, over = false, last = Date.now(), source = null, shown = new Date();

  const clock = () => shown.toISOString().slice(11, 19);
  const say = () => {
    state.textContent = over ? "Over, as of " + clock() : paused ? "Paused at " + clock()
      : source && source.readyState === 1 ? "Live, as of " + clock() : "Not connected, as of " + clock();
  };
  const isUsed = () => {
    const active = document.activeElement;
    return active && active.closest("main") && /^(INPUT|SELECT|TEXTAREA)$/.test(active.tagName) || String(document.getSelection()) !== "";
  };
  const key = (element) => element.querySelector("summary") ? element.querySelector("summary").textContent : "";

  const replace = (text) => {
    const fresh = new DOMParser().parseFromString(text, "text/html");
    const next = fresh.getElementById("main"), old = document.getElementById("main");
    if (!next) return;
    const open = new Map([...old.querySelectorAll("details")].map((it) => [key(it), it.open]));
    next.querySelectorAll("details").forEach((it) => { if (open.has(key(it))) it.open = open.get(key(it)); });
    const active = document.activeElement, href = active && active.closest("main") && active.getAttribute("href");
    old.replaceChildren(...next.childNodes);
    if (href) {
      const again = [...old.querySelectorAll("a")].find((it) => it.getAttribute("href") === href);
      if (again) again.focus({ preventScroll: true });
    }
    shown = new Date();
  };

  const refresh = async () => {
    if (busy || paused || document.hidden || !wanted || isUsed() || Date.now() - last < every) return;
    busy = true; wanted = false; last = Date.now();
    try {
      const answer = await fetch(location.href, { headers: { accept: "text/html" } });
      const text = answer.ok ? await answer.text() : null;
      every = Math.max(EVERY_MS, PATIENCE * (Date.now() - last));
      if (text !== null) replace(text);
    } catch (error) {
      wanted = true;
    }
    busy = false;
    say();
  };

  const connect = () => {
    source = new EventSource(url);
    source.onopen = source.onerror = say;
    const told = (event) => { if (event.data !== known) { wanted = true; known = event.data; refresh(); } say(); };
    source.addEventListener("hello", told);
    source.addEventListener("changed", told);
    source.addEventListener("over", () => { over = true; source.close(); say(); });
  };

  button.hidden = false;
  button.addEventListener("click", () => {
    paused = !paused;
    button.textContent = paused ? "Go on" : "Pause";
    if (!paused) { wanted = true; refresh(); }
    say();
  });
  document.addEventListener("visibilitychange", () => {
    if (over) return;
    if (document.hidden) { source.close(); } else { wanted = true; connect(); refresh(); }
  });
  setInterval(refresh, 500);
  connect();
  say();
})();
